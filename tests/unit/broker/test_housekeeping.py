"""Housekeeping on a disk that is full or refuses to delete: nothing leaks, and what failed works the next time."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.store.disk.reserve import DiskReserve
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.upkeep.disk_room import DiskBytes, DiskSpaceWatch
from ternmq_broker.upkeep.housekeeping import BrokerHousekeeping
from ternmq_common.clock import MovableClock
from ternmq_common.server_settings import FlushMode, StorageSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.faulty_disk import FaultyFolders

SEGMENT_BYTES = 2000
HOUR_MS = 3_600_000
GROUP, TOPIC = "billing", "orders"


class HealingReserve(DiskReserve):
    """A slice of which makes the disk full no more; there is one."""

    def __init__(self, folders: FaultyFolders) -> None:
        self._folders = folders
        self.slices = 0
        self.size = 1

    @property
    def left_bytes(self) -> int:
        return self.slices

    def give_slice(self, *, may_use_all: bool) -> bool:
        del may_use_all
        if not self.slices:
            return False
        self.slices -= 1
        self._folders.faults.full = ()
        return True

    def fill_reserve(self) -> None: ...


def settings() -> BrokerSettings:
    usual = BrokerSettings.from_storage(StorageSettings(data_dir=Path("nowhere"), flush=FlushMode.SYNC))
    return replace(
        usual,
        segment_bytes=SEGMENT_BYTES,
        retention_ms=HOUR_MS,
        retention_check_interval_ms=HOUR_MS,
        consumption_flush_interval_ms=10,
    )


async def nothing_waits(log_start: int) -> None:
    del log_start


class House:
    """A store with ten full segments of old messages, and what keeps it."""

    def __init__(self) -> None:
        self.folders = FaultyFolders()
        self.clock = MovableClock()
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        self.reserve = HealingReserve(self.folders)
        self.room = DiskSpaceWatch(lambda: DiskBytes(10**9, 10**9), self.reserve, free_min_bytes=1)
        self.journal = ProgressJournal(self.folders.consumption)
        self.consumption = Consumption(
            self.store,
            self.journal,
            broker="b",
            readable_end=lambda: self.store.log.log_end,
            rules=lambda name: ConsumerGroup(name=name),
            now_ms=self.clock.now_ms,
        )
        self.keeping = BrokerHousekeeping(
            settings(),
            self.store,
            self.consumption,
            self.journal,
            self.clock,
            self.room,
            before_removal=nothing_waits,
            purge=self.purge,
            short_check_s=0.01,
        )
        while self.store.log.segment_count <= 10:
            self.add()
        self.store.log.sync_segments()

    async def purge(self, topic: str, queue_id: int, below: int) -> None:
        self.store.deletions.purge_queue(topic, queue_id, below)()

    @property
    def segment_files(self) -> list[str]:
        return self.folders.log_folder.names()

    @property
    def index_files(self) -> list[str]:
        return [name for name in self.folders.index_folder.names() if name.isdigit()]

    def add(self) -> None:
        self.store.writer.append_batch(TOPIC, 0, [NewMessage(0, b"", bytes(100), ())], self.clock.now_ms())

    def pass_time(self) -> None:
        """What is there expires."""
        self.clock.advance_by(HOUR_MS + 1)

    def restarted(self) -> MessageStore:
        return MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)

    async def remove_expired(self) -> None:
        await self.room.with_reserve(self.keeping.remove_expired, may_use_all=True)


async def test_a_clock_that_is_off_expires_nothing() -> None:
    house = House()
    before = house.segment_files
    problem: str | None = "it is days ahead"
    house.clock.set_judge(lambda: problem)
    house.pass_time()
    await house.remove_expired()
    assert house.segment_files == before
    problem = None
    await house.remove_expired()
    assert house.store.log.segment_count == 1


async def test_when_floors_can_not_be_written_no_segment_leaks_and_the_next_pass_removes_all() -> None:
    house = House()
    house.pass_time()
    before = house.segment_files
    house.folders.faults.full = ("index/floors",)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            await house.remove_expired()
    assert house.segment_files[:-1] == before
    assert house.store.log.segment_count == len(before) + 1, "what is on the disk is known, so that it is tried again"
    house.folders.faults.full = ()
    await house.remove_expired()
    assert len(house.segment_files) == house.store.log.segment_count == 1
    assert not house.index_files
    assert all(file.closed == 1 for name, file in house.folders.log_folder.opened.items() if name in before)
    end = house.store.indexes.queues.queue_bounds(TOPIC, 0)[1]
    assert (
        house.restarted().indexes.queues.queue_bounds(TOPIC, 0)
        == house.store.indexes.queues.queue_bounds(TOPIC, 0)
        == (end, end)
    )


async def test_a_file_that_can_not_be_deleted_is_deleted_by_a_later_pass() -> None:
    house = House()
    house.pass_time()
    second = house.segment_files[1]
    house.folders.faults.stuck = {second}
    with pytest.raises(OSError, match="Input/output"):
        await house.remove_expired()
    left = house.segment_files
    assert left[0] == second, "those that are left follow on each other"
    assert len(left) == 11, "the first one went, and one was begun"
    with pytest.raises(OSError, match="Input/output"):
        await house.remove_expired()
    house.folders.faults.stuck = set()
    await house.remove_expired()
    assert (len(house.segment_files), len(house.index_files)) == (1, 0)
    assert all(file.closed == 1 for name, file in house.folders.log_folder.opened.items() if name in left[:-1])


async def test_a_start_after_a_removal_that_stopped_in_the_middle_finds_every_message_that_is_kept() -> None:
    house = House()
    house.pass_time()
    house.folders.faults.stuck = {house.segment_files[4]}
    with pytest.raises(OSError, match="Input/output"):
        await house.remove_expired()
    kept = house.store.indexes.queues.queue_bounds(TOPIC, 0)
    again = house.restarted()
    assert again.replayed_records == 0, "the index speaks of all segments that are there"
    assert again.indexes.queues.queue_bounds(TOPIC, 0) == kept


async def test_a_start_after_floors_were_written_and_nothing_was_forgotten_yet_goes_on_at_the_same_offsets() -> None:
    house = House()
    house.store.log.roll_segment()
    await house.keeping._spill_index(entries_min=1)
    house.store.deletions.prepare_removal(house.store.log.segment_count - 1).write()
    again = house.restarted()
    end = house.store.indexes.queues.queue_bounds(TOPIC, 0)[1]
    assert again.indexes.queues.queue_bounds(TOPIC, 0) == (end, end)
    assert again.writer.append_batch(TOPIC, 0, [NewMessage(0, b"", b"", ())], house.clock.now_ms()).first_offset == end


async def test_floors_of_a_topic_that_is_deleted_meanwhile_do_not_undo_those_of_a_removal() -> None:
    """Both are written in threads, in any order."""
    house = House()
    house.store.writer.append_batch("gone", 0, [NewMessage(0, b"", b"x", ())], house.clock.now_ms())
    house.store.log.roll_segment()
    house.store.log.sync_segments()
    await house.keeping._spill_index(entries_min=1)
    forget = house.store.deletions.forget_topic("gone")
    removal = house.store.deletions.prepare_removal(house.store.log.segment_count - 1)
    removal.write()
    forget()
    house.store.deletions.finish_removal(removal)
    house.store.deletions.delete_removed()
    again = house.restarted()
    assert again.indexes.queues.queue_bounds(TOPIC, 0) == house.store.indexes.queues.queue_bounds(TOPIC, 0)
    assert again.indexes.queues.queue_bounds("gone", 0) == (1, 1)


@pytest.mark.parametrize("what", ["index/0", "index/floors", "root/checkpoint", "timers/", ""])
async def test_retention_gets_room_for_whatever_it_writes(what: str) -> None:
    house = House()
    system = definition_pb2.SystemProperties(message_id="later").SerializeToString()
    timer = RecordDraft(
        RecordKind.TIMER, TOPIC, 0, NewMessage(0, system, b"later", ()), due_ms=house.clock.now_ms() + 10 * HOUR_MS
    )
    house.store.writer.append_drafts([timer], house.clock.now_ms())
    house.store.log.sync_segments()
    house.pass_time()
    house.folders.faults.full = (what,)
    house.reserve.slices = 1
    await house.remove_expired()
    assert house.reserve.slices == 0, "the fault was met"
    assert len(house.segment_files) == 1


async def test_a_spill_that_fails_again_and_again_leaves_no_runs_of_timers_behind() -> None:
    house = House()
    system = definition_pb2.SystemProperties(message_id="later").SerializeToString()
    house.store.writer.append_drafts(
        [RecordDraft(RecordKind.TIMER, TOPIC, 0, NewMessage(0, system, b"", ()), due_ms=HOUR_MS)], 1
    )
    house.store.log.sync_segments()
    house.folders.faults.full = ("index/0",)
    for _ in range(5):
        with pytest.raises(OSError, match="No space"):
            await house.keeping._spill_index(entries_min=1)
    assert house.folders.timer_folder.names() == []
    assert all(file.closed == 1 for file in house.folders.timer_folder.opened.values())
    house.folders.faults.full = ()
    await house.keeping._spill_index(entries_min=1)
    assert len(house.folders.timer_folder.names()) == 1


async def test_progress_gets_room_and_what_could_not_be_written_is_written_later() -> None:
    house = House()
    house.consumption.set_committed(GROUP, TOPIC, 0, 3)
    house.folders.faults.full = ("consumption/",)
    with pytest.raises(OSError, match="No space"):
        await house.room.with_reserve(house.keeping.write_journal, may_use_all=False)
    house.reserve.slices = 1
    await house.room.with_reserve(house.keeping.write_journal, may_use_all=False)
    (snapshot,) = ProgressJournal(house.folders.consumption).queue_snapshots().values()
    assert snapshot.cursor == 3


async def test_a_stop_on_a_full_disk_uses_the_reserve_and_without_one_says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for slices in (1, 0):
        house = House()
        house.consumption.set_committed(GROUP, TOPIC, 0, 3)
        house.folders.faults.full = ("",)
        house.reserve.slices = slices
        await house.keeping.stop()
        assert len(ProgressJournal(house.folders.consumption).queue_snapshots()) == slices
    assert "delivered again" in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


async def test_when_room_is_short_what_expired_goes_at_once() -> None:
    """The interval between two looks is an hour here."""
    house = House()
    house.pass_time()
    house.keeping.start()
    house.room._read_disk = lambda: DiskBytes(1, 10**9)
    house.room.check_disk()
    async with asyncio.timeout(20):
        while house.store.log.segment_count > 1:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
    await house.keeping.stop()


@pytest.mark.parametrize("full", ["", "index/", "root/"])
def test_a_store_whose_disk_is_full_can_be_closed_again_or_abandoned(full: str) -> None:
    house = House()
    house.folders.faults.full = (full,)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            house.store.close()
    bounds = house.store.indexes.queues.queue_bounds(TOPIC, 0)
    house.store.abandon_files()
    assert house.restarted().indexes.queues.queue_bounds(TOPIC, 0) == bounds
    other = House()
    other.folders.faults.full = (full,)
    with pytest.raises(OSError, match="No space"):
        other.store.close()
    other.folders.faults.full = ()
    other.store.close()
    assert other.restarted().replayed_records == 0


async def test_a_topic_with_a_retention_of_its_own_holds_nothing_older() -> None:
    house = House()
    house.keeping.retention_of = lambda topic: HOUR_MS // 2 if topic == TOPIC else 0
    before = house.store.indexes.queues.queue_bounds(TOPIC, 0)
    house.clock.advance_by(HOUR_MS // 4)
    house.store.writer.append_batch("other", 0, [NewMessage(0, b"", b"x", ())], house.clock.now_ms())
    house.add()
    await house.remove_expired()
    assert house.store.indexes.queues.queue_bounds(TOPIC, 0) == (before[0], before[1] + 1), "nothing is so old yet"
    house.clock.advance_by(HOUR_MS // 3)
    await house.remove_expired()
    assert house.store.indexes.queues.queue_bounds(TOPIC, 0) == (before[1], before[1] + 1)
    assert house.store.indexes.queues.queue_bounds("other", 0) == (0, 1)
    house.clock.advance_by(HOUR_MS // 3)
    await house.remove_expired()
    assert house.store.indexes.queues.queue_bounds(TOPIC, 0) == (before[1] + 1, before[1] + 1)
    assert house.restarted().indexes.queues.queue_bounds(TOPIC, 0) == house.store.indexes.queues.queue_bounds(TOPIC, 0)


async def test_while_nobody_knows_the_time_no_topic_s_own_retention_counts() -> None:
    house = House()
    house.keeping.retention_of = lambda _: 1
    before = house.store.indexes.queues.queue_bounds(TOPIC, 0)
    house.clock.set_judge(lambda: "it is days ahead")
    house.clock.advance_by(HOUR_MS // 2)
    await house.remove_expired()
    assert house.store.indexes.queues.queue_bounds(TOPIC, 0) == before


async def test_a_retention_of_a_topic_s_own_that_fails_keeps_no_segment_from_going() -> None:
    house = House()

    async def full(_topic: str, _queue_id: int, _below: int) -> None:
        raise OSError(28, "No space left on device")

    house.keeping._purge = full
    house.keeping.retention_of = lambda _: HOUR_MS // 2
    house.clock.advance_by(HOUR_MS * 3 // 4)
    house.add()
    house.clock.advance_by(HOUR_MS // 2)
    house.store.writer.append_batch("other", 0, [NewMessage(0, b"", b"x", ())], house.clock.now_ms())
    with pytest.raises(OSError, match="No space"):
        await house.remove_expired()
    assert house.store.log.segment_count < 10, "old segments went all the same"
