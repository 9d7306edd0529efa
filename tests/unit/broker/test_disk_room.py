"""When new messages are refused, and who gets room on a full disk."""

import logging

import pytest

from ternmq_broker.store.disk.reserve import DiskReserve
from ternmq_broker.upkeep.disk_room import DiskBytes, DiskSpaceWatch, automatic_mark
from ternmq_common.event_loop.background_loop import FailureLog
from ternmq_common.limits import GIB, MIB
from ternmq_protos.v2 import definition_pb2

TOTAL = 1000 * GIB


class CountedReserve(DiskReserve):
    """Some slices in memory, of which two are left to those who make room."""

    def __init__(self, slices: int) -> None:
        self.slices = slices
        self.size = 100
        self.made = 0

    @property
    def left_bytes(self) -> int:
        return 0

    def fill_reserve(self) -> None:
        self.made += 1

    def give_slice(self, *, may_use_all: bool) -> bool:
        if self.slices <= (0 if may_use_all else 2):
            return False
        self.slices -= 1
        return True


class Disk:
    """A disk of which the test says how much is free."""

    def __init__(self, *, mark: int | None = 1600, slices: int = 4, follows: bool = False) -> None:
        self.free = TOTAL
        self.reserve = CountedReserve(slices)
        self.room = DiskSpaceWatch(
            lambda: DiskBytes(self.free, TOTAL), self.reserve, free_min_bytes=mark, follows=follows
        )

    def has(self, free: int) -> bool:
        """Whether messages are taken when so much is free."""
        self.free = free
        self.room.check_disk()
        return not self.room.refuses


@pytest.mark.parametrize(
    ("total", "mark"),
    [(TOTAL, 50 * GIB), (20 * GIB, GIB), (12 * GIB, GIB), (5 * GIB, GIB // 2), (64 * MIB, 64 * MIB // 10)],
)
def test_the_mark_goes_by_the_size_of_the_disk(total: int, mark: int) -> None:
    assert automatic_mark(total) == mark


def test_messages_are_refused_below_the_mark_and_taken_again_a_little_above() -> None:
    disk = Disk()
    assert [disk.has(free) for free in (1600, 1599, 1600, 1699, 1700, 1600, 0)] == [
        True,
        False,
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_mark_of_nothing_refuses_nothing() -> None:
    disk = Disk(mark=0)
    assert disk.has(0)
    assert not disk.room.is_short


def test_below_twice_the_mark_room_is_short() -> None:
    disk = Disk()
    disk.has(3200)
    assert not disk.room.is_short
    disk.has(3199)
    assert disk.room.is_short


def test_each_change_is_said_once_and_with_figures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    disk = Disk(mark=GIB)
    for free in (3 * GIB, MIB, MIB, MIB, 3 * GIB, 3 * GIB):
        disk.has(free)
    refused, taken = [record.getMessage() for record in caplog.records]
    assert "1.0 MiB free" in refused
    assert "must leave 1.0 GiB (disk_free_min_bytes)" in refused
    assert "3.0 GiB free" in taken


async def test_what_a_replica_says_of_its_disk_is_of_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    disk = Disk(mark=GIB, follows=True)
    for free in (MIB, 3 * GIB, MIB):
        disk.has(free)
    disk.room.start(follows=True)
    await disk.room.stop()
    disk.room.start()  # it leads from here on
    await disk.room.stop()
    disk.has(3 * GIB)
    says = [record.getMessage() for record in caplog.records]
    follows, leads = "would accept no messages if it led", "they are refused until there is room"
    for text, part in zip(says, (follows, "could lead again", follows, leads, "are accepted again"), strict=True):
        assert part in text


def test_a_sender_and_readiness_hear_why() -> None:
    disk = Disk()
    assert disk.room.problem is None
    disk.has(0)
    assert disk.room.problem == disk.room.create_refusal().message
    assert disk.room.create_refusal().code == definition_pb2.INTERNAL_SERVER_ERROR
    assert disk.room.create_refusal().retryable


def test_the_reserve_is_made_again_when_twice_its_size_is_free() -> None:
    disk = Disk()
    for free, made in ((199, 0), (200, 1)):
        disk.has(free)
        disk.room.renew_reserve()
        assert disk.reserve.made == made


class Step:
    """Fails some times, because the disk is full or for another reason."""

    def __init__(self, failures: int, number: int = 28) -> None:
        self.failures = failures
        self.number = number

    async def __call__(self) -> str:
        if self.failures:
            self.failures -= 1
            raise OSError(self.number, "it fails")
        return "done"


@pytest.mark.parametrize(("may_use_all", "slices"), [(True, 4), (False, 2)])
async def test_a_step_gets_slices_until_it_works(*, may_use_all: bool, slices: int) -> None:
    disk = Disk()
    assert await disk.room.with_reserve(Step(slices), may_use_all=may_use_all) == "done"
    assert disk.reserve.slices == 4 - slices
    with pytest.raises(OSError, match="it fails"):
        await disk.room.with_reserve(Step(1), may_use_all=may_use_all)


async def test_a_step_that_fails_otherwise_gets_none() -> None:
    disk = Disk()
    with pytest.raises(OSError, match="it fails"):
        await disk.room.with_reserve(Step(1, number=5), may_use_all=True)
    assert disk.reserve.slices == 4


async def test_whoever_meets_the_end_of_the_disk_has_it_looked_at_at_once() -> None:
    disk = Disk()
    disk.free = 0
    await disk.room.with_reserve(Step(1), may_use_all=True)
    assert disk.room.refuses


def test_a_full_disk_is_said_once_until_it_works_and_a_bug_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failures = FailureLog("work is late")
    for number in (28, 28, 28, 5, 5):
        failures.log_failure(OSError(number, "no", f"file {number}"), 1.0)
    failures.note_success()
    failures.note_success()
    failures.log_failure(OSError(28, "no"), 1.0)
    for _ in range(2):
        failures.log_failure(ValueError("a bug"), 1.0)
    assert [record.exc_info is not None for record in caplog.records] == [False] * 4 + [True] * 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO", "ERROR", "ERROR", "ERROR"]
