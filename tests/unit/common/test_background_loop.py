"""A loop repeats its step after a pause, or when it is woken."""

import asyncio

from ternmq_common.event_loop.background_loop import BackgroundLoop
from tests.support.until import until

A_DAY_S = 86_400.0


async def test_a_loop_that_is_woken_takes_its_next_step_at_once() -> None:
    steps: list[int] = []
    loop = BackgroundLoop(lambda: steps.append(len(steps)), name="steps", what="a step failed", every_s=A_DAY_S)
    loop.wake()  # before it begins
    loop.start()
    await asyncio.sleep(0)
    for count in (1, 2, 3):
        loop.wake()
        loop.wake()
        await until(lambda count=count: len(steps) == count)  # type: ignore[misc]
    await loop.stop()
    loop.wake()
    assert steps == [0, 1, 2]


async def test_a_step_may_change_the_pause_after_it() -> None:
    steps: list[float] = []

    def take_step() -> None:
        steps.append(loop.every_s)
        loop.every_s = A_DAY_S if len(steps) == 3 else 0.001

    loop = BackgroundLoop(take_step, name="steps", what="a step failed", every_s=0.002)
    loop.start()
    await until(lambda: len(steps) == 3)
    await loop.stop()
    assert steps == [0.002, 0.001, 0.001]
