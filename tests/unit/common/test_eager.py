"""A coroutine that is begun at once behaves like one in a task, and needs none while it has nothing to wait for."""

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from ternmq_common.event_loop.eager import ensure_task, start_eagerly

NAME: ContextVar[str] = ContextVar("NAME", default="outside")


async def test_what_waits_for_nothing_is_done_without_a_task() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("all")

    assert start_eagerly(work(), name="work") is None
    assert done == ["all"]


async def test_what_waits_goes_on_in_a_task() -> None:
    asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        first = await asked
        await asyncio.sleep(0)
        return first + await asyncio.to_thread(lambda: 1)

    task = start_eagerly(work(), name="work")
    assert task is not None
    assert task.get_name() == "work"
    asked.set_result(1)
    assert await task == 2


async def test_an_error_before_the_first_wait_is_raised_at_once() -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start_eagerly(work(), name="work")


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancelled_one_hears_it_where_it_waits(turns: int) -> None:
    """Also before its task ran for the first time: what it waits for is cancelled before it hears it."""
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    heard: list[bool] = []

    async def work() -> None:
        try:
            await asked
        except asyncio.CancelledError:
            heard.append(asked.cancelled())
            raise

    task = start_eagerly(work(), name="work")
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == [True]


async def test_one_that_survives_its_cancellation_goes_on() -> None:
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await asked
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    task = start_eagerly(work(), name="work")
    assert task is not None
    task.cancel()
    assert await task == "went on"


async def test_its_context_is_its_own() -> None:
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> tuple[str, str]:
        before = NAME.get()
        NAME.set("inside")
        await asked
        return before, NAME.get()

    task = start_eagerly(work(), name="work")
    assert task is not None
    assert NAME.get() == "outside"
    asked.set_result(None)
    assert await task == ("outside", "inside")


async def test_what_needs_a_task_has_one() -> None:
    async def work() -> bool:
        await ensure_task()
        try:
            async with asyncio.timeout(0):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return True
        return False

    task = start_eagerly(work(), name="work")
    assert task is not None
    assert await task


async def test_what_was_cancelled_is_freed_without_the_garbage_collector() -> None:
    class Held:
        pass

    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(held: Held) -> None:
        await asyncio.sleep(0)
        await asked
        del held

    held = Held()
    freed = weakref.ref(held)
    task = start_eagerly(work(held), name="work")
    del held
    assert task is not None
    await asyncio.sleep(0)
    gc.disable()
    try:
        task.cancel()
        await asyncio.wait({task})
        del task
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()
