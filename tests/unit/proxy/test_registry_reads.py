"""What isn't known here is read from the registry: by each question anew, and not too often."""

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_proxy.catalog.registry_reads import OUT_S, READS_AT_ONCE, READS_PER_S, RegistryReads
from ternmq_registry.errors import RegistryUnavailable
from tests.support.hand_clock import Clock
from tests.support.until import until

if TYPE_CHECKING:
    from ternmq_registry.directory import RegistryDirectory


class Reads:
    """A directory whose reads end when they may."""

    def __init__(self) -> None:
        self.begun = 0
        self.problem: str | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def refresh_snapshot(self) -> None:
        self.begun += 1
        await self.may_end.wait()
        if self.problem is not None:
            raise RegistryUnavailable(self.problem)


class Pace:
    """RegistryReads of it, on a clock that goes on when they sleep."""

    def __init__(self) -> None:
        self.seconds, self.reads = Clock(), Reads()
        self.registry_reads = RegistryReads(cast("RegistryDirectory", self.reads), self.seconds, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.seconds.now_s += seconds


async def test_each_question_is_answered_by_a_read_that_begins_after_it() -> None:
    pace = Pace()
    pace.reads.may_end.clear()
    first = asyncio.create_task(pace.registry_reads.refresh_directory())
    await until(lambda: pace.reads.begun == 1)
    later = [asyncio.create_task(pace.registry_reads.refresh_directory()) for _ in range(100)]
    await until(lambda: pace.reads.begun == 2)
    assert not first.done()
    pace.reads.may_end.set()
    await asyncio.gather(first, *later)
    assert pace.reads.begun == 2


async def test_a_second_has_no_more_reads_than_it_may() -> None:
    pace = Pace()
    began_s, number = pace.seconds.now_s, 100
    for _ in range(number):
        await pace.registry_reads.refresh_directory()
    assert pace.reads.begun == number
    assert pace.seconds.now_s - began_s == pytest.approx((number - READS_AT_ONCE) / READS_PER_S)


async def test_who_gives_up_leaves_the_read_to_the_others() -> None:
    pace = Pace()
    pace.reads.may_end.clear()
    impatient, patient = (
        asyncio.create_task(pace.registry_reads.refresh_directory()),
        asyncio.create_task(pace.registry_reads.refresh_directory()),
    )
    await until(lambda: pace.reads.begun == 1)
    impatient.cancel()
    pace.reads.may_end.set()
    await patient
    assert impatient.cancelled()
    assert pace.reads.begun == 1


async def test_a_registry_that_is_out_is_asked_once_a_second() -> None:
    pace = Pace()
    pace.reads.problem = "it is away"
    for _ in range(3):
        with pytest.raises(RegistryUnavailable, match="it is away"):
            await pace.registry_reads.refresh_directory()
    assert pace.reads.begun == 1
    pace.seconds.now_s += OUT_S
    with pytest.raises(RegistryUnavailable):
        await pace.registry_reads.refresh_directory()
    pace.reads.problem = None
    await pace.registry_reads.refresh_directory()
    assert pace.reads.begun == 3
