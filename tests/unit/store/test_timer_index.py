"""What the timer index does case by case; `test_timer_index_machine` has it meet any history."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.timers.timer_jobs import MergeInterrupted
from ternmq_broker.store.timers.timer_run import BadRun
from tests.support.timer_log import GhostFolder, TimerLog, drained, load, merge, opened, small_index, spill, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.timers.timer_run import TimerEntry
    from tests.support.memory_disk import MemoryFile

START_MS = 1_000_000_000
FAR_MS = 10_000_000_000


class Broker:
    """What owns an index: a log, the time, and the last checkpoint."""

    def __init__(self, folder: GhostFolder | None = None) -> None:
        self.folder = folder or GhostFolder()
        self.log = TimerLog()
        self.now_ms = START_MS
        self.checkpoint: dict[str, object] | None = None
        self.index = opened(small_index(self.folder), self.log)

    def add(self, *delays_ms: int) -> "list[TimerEntry]":
        return [self._timer(delay_ms) for delay_ms in delays_ms]

    def _timer(self, delay_ms: int) -> "TimerEntry":
        record = self.log.append(1, due_ms=self.now_ms + delay_ms, id_hash=1)
        tell(self.index, record)
        assert record.timer
        return record.timer

    def settle(self, *entries: "TimerEntry") -> None:
        for entry in entries:
            tell(self.index, self.log.append(1, settles=entry))

    def deliver(self) -> "list[TimerEntry]":
        """What is due, taken and settled."""
        delivered: list[TimerEntry] = []
        while True:
            load(self.index, self.now_ms)
            taken = self.index.take_due(self.now_ms, 5)
            if not taken:
                return delivered
            self.settle(*taken)
            delivered += taken

    def spill(self, log_to: int | None = None) -> None:
        self.log.safe = self.log.end if log_to is None else log_to
        spill(self.index, self.log.safe)
        self.checkpoint = self.index.checkpoint_content()

    def lose_power(self, log_end: int) -> None:
        self.folder = self.folder.crash(lambda _: 0, b"")
        self.log.cut(log_end)
        self.index = opened(small_index(self.folder), self.log, self.checkpoint)

    def restart(self) -> None:
        self.index.close()
        self.index = opened(small_index(self.folder), self.log, self.checkpoint)


def test_many_timers_of_the_same_millisecond_come_in_chunks_and_in_the_order_of_the_log() -> None:
    broker = Broker()
    added = broker.add(*[1000] * 50)
    broker.spill()
    broker.now_ms += 1000
    taken: list[TimerEntry] = []
    while broker.index.wants_load(broker.now_ms):
        job = broker.index.prepare_load(broker.now_ms)
        job.run_job()
        broker.index.finish_load(job)
        some = broker.index.take_due(broker.now_ms, 100)
        assert len(some) <= 8
        taken += some
    assert taken == added


def test_where_nothing_is_due_nothing_is_loaded_again_and_again() -> None:
    broker = Broker()
    broker.add(3_600_000)
    broker.spill()
    load(broker.index, broker.now_ms)
    assert broker.index.next_due_ms() is None
    assert not broker.index.wants_load(broker.now_ms + 29_999)
    assert broker.index.wants_load(broker.now_ms + 30_000)


def test_timers_in_memory_have_a_limit() -> None:
    broker = Broker()
    load(broker.index, broker.now_ms)
    broker.add(*range(1000, 1100), *range(1100, 1000, -1))
    assert len(broker.index._near) <= 9
    broker.now_ms += 2000
    assert len(broker.deliver()) == 200


def test_a_heap_that_was_held_and_given_back_often_stays_small() -> None:
    broker = Broker()
    load(broker.index, broker.now_ms)
    added = broker.add(1000)
    for _ in range(100):
        broker.index.return_timers(broker.index.hold_timers(added))
    assert len(broker.index._near._heap) <= 9
    broker.now_ms += 2000
    assert broker.deliver() == added


def test_a_timer_whose_delivery_was_not_durable_fires_again_and_one_whose_was_does_not() -> None:
    broker = Broker()
    added = broker.add(0, 0, 0)
    broker.deliver()
    broker.spill(log_to=5)  # of the three deliveries two
    broker.lose_power(log_end=5)
    assert broker.deliver() == added[2:]


def test_a_delivery_that_was_durable_after_the_spill_is_found_in_the_log() -> None:
    broker = Broker()
    broker.add(0, 0, 0)
    broker.deliver()
    broker.spill(log_to=5)
    broker.lose_power(log_end=6)
    assert broker.deliver() == []


def test_a_timer_that_was_given_back_is_pending_after_later_ones_were_delivered() -> None:
    broker = Broker()
    first, second = broker.add(0, 1)
    broker.now_ms += 1
    load(broker.index, broker.now_ms)
    assert broker.index.take_due(broker.now_ms, 2) == [first, second]
    broker.settle(second)
    broker.index.return_timers([first])
    broker.spill()
    broker.restart()
    assert broker.deliver() == [first]


def test_timers_that_push_others_out_while_more_are_loaded_do_not_leave_a_gap() -> None:
    broker = Broker()
    added = broker.add(*range(1000, 1020))
    load(broker.index, broker.now_ms)
    broker.now_ms += 1002
    broker.settle(*broker.index.take_due(broker.now_ms, 9))
    job = broker.index.prepare_load(broker.now_ms)
    early = broker.add(*range(-20, 0))
    job.run_job()
    broker.index.finish_load(job)
    broker.now_ms += 1000
    assert broker.deliver() == [*early, *added[3:]]


def test_what_was_left_out_of_the_runs_stays_settled_without_a_checkpoint() -> None:
    broker = Broker()
    broker.add(0, 1, 2)
    broker.spill()
    broker.now_ms += 5
    broker.deliver()
    far = broker.add(3_600_000)
    broker.spill()  # with no tombstone: all that was due by then is settled
    broker.now_ms -= 100_000
    far += broker.add(3_600_000, 0)[:1]
    broker.deliver()
    broker.spill()  # here less is known to be settled
    broker.checkpoint = None
    broker.restart()
    assert broker.index.covered_offset == broker.log.end
    assert sorted(drained(broker.index, FAR_MS)) == sorted(far)


def test_an_old_checkpoint_does_not_speak_of_runs_that_were_made_anew() -> None:
    broker = Broker()
    broker.add(0)
    broker.deliver()
    broker.spill()  # nothing to write: the checkpoint alone covers the log
    assert broker.folder.names() == []
    opened(small_index(broker.folder), broker.log, None, spill_after=[1])
    broker.restart()  # the timer is in a run now, and what settled it comes behind
    assert broker.deliver() == []


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_what_was_forgotten_stays_so_when_the_beginning_of_the_log_is_back(with_checkpoint: bool) -> None:
    broker = Broker()
    old, other = broker.add(1000, 3_600_000)
    broker.spill()
    broker.settle(old)
    broker.index.forget_below(other.log_offset)
    if not with_checkpoint:
        broker.add(3_600_000)
    broker.spill()  # writes no tombstone for a timer below the start of the log
    if not with_checkpoint:
        broker.checkpoint = None
    broker.restart()  # by a log that begins at 0
    broker.now_ms += 1000
    assert broker.deliver() == []


def test_what_was_left_out_of_merged_runs_stays_settled_without_a_checkpoint() -> None:
    broker = Broker()
    broker.add(0, 1000)
    broker.spill()
    broker.add(0, 1000)
    broker.spill()
    assert merge(broker.index)
    broker.now_ms += 2000
    assert len(broker.deliver()) == 4
    far = []
    for _ in range(2):
        far += broker.add(3_600_000)
        broker.spill()
    assert merge(broker.index)
    assert [run.tier for run in broker.index._disk.runs.run_chain] == [1, 1]
    broker.checkpoint = None
    broker.restart()
    assert broker.index.covered_offset == broker.log.end
    assert drained(broker.index, FAR_MS) == far


def test_what_was_forgotten_stays_so_after_a_merge_without_a_checkpoint() -> None:
    broker = Broker()
    far = broker.add(3_600_000, 3_600_000)
    broker.spill()
    far += broker.add(3_600_000)
    broker.spill()
    assert merge(broker.index)
    broker.settle(far.pop(0))
    broker.index.forget_below(1)
    for _ in range(2):
        far += broker.add(3_600_000)
        broker.spill()
    assert merge(broker.index)
    broker.checkpoint = None
    broker.restart()  # by a log that begins at 0
    assert drained(broker.index, FAR_MS) == far


def test_runs_that_speak_of_more_than_the_log_has_are_left_out_and_do_not_come_back() -> None:
    broker = Broker()
    before = broker.add(0, 0, 0)
    broker.spill()
    broker.log.records = broker.log.records[:1]  # an accepted corruption
    broker.folder = broker.folder.copy()
    broker.index = opened(small_index(broker.folder), broker.log, broker.checkpoint)
    assert broker.index.covered_offset == 0
    after = [before[0], *broker.add(1, 2, 3)]
    broker.folder = broker.folder.crash(lambda count: count, b"")
    broker.index = opened(small_index(broker.folder), broker.log)
    assert drained(broker.index, FAR_MS) == after


def test_nothing_fires_twice_when_the_clock_is_set_back() -> None:
    broker = Broker()
    broker.add(*range(40))
    broker.spill()
    broker.now_ms += 1000
    assert len(broker.deliver()) == 40
    broker.spill()
    for _ in range(3):
        broker.now_ms -= 100_000
        earlier = broker.add(0)
        broker.spill()
        assert broker.deliver() == earlier
        broker.spill()
        broker.restart()
        assert broker.deliver() == []
    broker.now_ms += 1_000_000
    assert broker.deliver() == []


def test_what_is_remembered_of_settled_times_stays_small_while_the_clock_runs() -> None:
    broker = Broker()
    for _ in range(60):
        broker.add(*range(0, 2000, 100))
        broker.now_ms += 1000
        broker.deliver()
        broker.spill()
        merge(broker.index)
        assert broker.checkpoint
        watermarks = broker.checkpoint["zones"]
        assert isinstance(watermarks, list)
        assert len(watermarks) <= 1


def test_a_recall_of_the_last_timer_that_was_spilled_is_remembered() -> None:
    broker = Broker()
    last = broker.add(3_600_000)
    broker.spill()
    broker.settle(*last)
    broker.spill()
    broker.restart()
    assert drained(broker.index, FAR_MS) == []


def test_a_recall_is_remembered_through_merges_and_then_leaves_the_disk() -> None:
    broker = Broker()
    recalled = [broker.add(3_600_000)]
    broker.spill()
    recalled.append(broker.add(3_600_000))
    broker.spill()
    merge(broker.index)
    for entries in recalled:
        broker.settle(*entries)
        broker.spill()
    merging = broker.index.prepare_merge()
    assert merging
    assert [run.tombstones for run in merging.runs] == [1, 1]
    merging.run_job()
    broker.index.finish_merge(merging)
    broker.restart()
    load(broker.index, FAR_MS)
    assert broker.index.take_due(FAR_MS, 10) == []
    assert merge(broker.index)
    assert [run.entries for run in broker.index._disk.runs.run_chain] == [0]


def test_delivered_timers_leave_the_disk() -> None:
    broker = Broker()
    for _ in range(20):
        broker.add(*range(50_000, 51_000, 10))
        broker.spill()
        while merge(broker.index):
            pass
    broker.now_ms += 60_000
    assert len(broker.deliver()) == 2000
    broker.add(1)
    broker.spill()
    while merge(broker.index):
        pass
    broker.add(1)
    broker.spill()
    assert sum(file.size for file in broker.folder.files.values()) < 2000


def test_a_run_with_nothing_pending_is_emptied_and_the_newer_file_of_a_stretch_counts() -> None:
    broker = Broker()
    for _ in range(2):
        broker.add(0, 1000)
        broker.spill()
    assert merge(broker.index)
    broker.now_ms += 2000
    broker.deliver()
    broker.spill()
    assert merge(broker.index)
    assert len(broker.folder.names()) == 2
    broker.restart()
    assert len(broker.folder.names()) == 1
    assert [run.entries for run in broker.index._disk.runs.run_chain] == [0]


def test_files_that_a_job_reads_are_closed_and_removed_when_it_is_finished() -> None:
    broker = Broker()
    added = broker.add(1000)
    broker.spill()
    added += broker.add(1000)
    broker.spill()
    job = broker.index.prepare_load(broker.now_ms)
    assert merge(broker.index)
    broker.add(3_600_000)
    broker.spill()
    job.run_job()
    broker.index.finish_load(job)
    broker.now_ms += 1000
    assert broker.deliver() == added
    assert len(broker.folder.names()) == 4
    broker.spill()
    assert len(broker.folder.names()) == 2


@given(cut_at=st.integers(0, 4), data=st.data())
def test_a_power_cut_at_any_point_of_a_merge_leaves_all_timers(cut_at: int, data: st.DataObject) -> None:
    broker = Broker()
    added = broker.add(1000, 2000)
    broker.spill()
    added += broker.add(1000, 2000)
    broker.spill()
    job = broker.index.prepare_merge()
    assert job
    if cut_at == 0:
        job.folder.create(str(job.name)).append([b"what a merge writes first"])
    if cut_at > 0:
        job.run_job()
    if cut_at > 1:
        broker.index.finish_merge(job)
    if cut_at > 2:
        added += broker.add(1000)
        broker.spill()
    broker.folder = broker.folder.crash(lambda count: data.draw(st.integers(0, count)), b"noise")
    broker.index = opened(small_index(broker.folder), broker.log, broker.checkpoint)
    assert broker.index.covered_offset == broker.log.end  # without reading the log again
    assert sorted(drained(broker.index, FAR_MS)) == sorted(added)


def test_a_job_that_reads_a_damaged_block_says_so_and_a_restart_makes_the_run_anew() -> None:
    broker = Broker()
    added = broker.add(1000, 2000)
    broker.spill()
    (file,) = broker.folder.files.values()
    file.content[0] ^= 1
    job = broker.index.prepare_load(broker.now_ms)
    with pytest.raises(BadRun):
        job.run_job()
    broker.index.release_job(job)
    assert broker.index.wants_load(broker.now_ms)
    again = small_index(broker.folder)
    assert [str(bad) for bad in again.load_runs(broker.checkpoint, log_start=0, log_end=broker.log.end)]
    assert again.covered_offset == 0
    for record in broker.log.records:
        tell(again, record)
    assert drained(again, FAR_MS) == added


class FullFolder(GhostFolder):
    full = False

    def create(self, name: str, *, reserve_bytes: int = 0) -> "MemoryFile":
        file = super().create(name, reserve_bytes=reserve_bytes)
        file.full_after = 50 if self.full else None
        return file


def test_a_spill_or_a_merge_on_a_full_disk_can_be_tried_again() -> None:
    folder = FullFolder()
    broker = Broker(folder)
    added = broker.add(1000, 2000)
    broker.spill()
    added += broker.add(1000, 2000)
    folder.full = True
    broker.log.safe = broker.log.end
    spilling = broker.index.prepare_spill(broker.log.end)
    assert spilling
    with pytest.raises(OSError, match="No space"):
        spilling.write_run()
    broker.index.release_job(spilling)
    folder.full = False
    broker.spill()
    folder.full = True
    merging = broker.index.prepare_merge()
    assert merging
    with pytest.raises(OSError, match="No space"):
        merging.run_job()
    broker.index.release_job(merging)
    folder.full = False
    assert merge(broker.index)
    broker.restart()
    assert sorted(drained(broker.index, FAR_MS)) == sorted(added)


def test_after_a_spill_nothing_of_it_is_in_memory() -> None:
    broker = Broker()
    broker.add(0, 1000)
    broker.deliver()
    assert broker.index.entries_in_memory == 3
    broker.spill()
    assert broker.index.entries_in_memory == 0
    assert broker.index._buffer.settled_offsets() == set()


def test_a_merge_that_is_interrupted_leaves_nothing_behind() -> None:
    broker = Broker()
    added = broker.add(1000)
    broker.spill()
    added += broker.add(2000)
    broker.spill()
    names = broker.folder.names()
    job = broker.index.prepare_merge()
    assert job
    job.interrupt_merge()
    with pytest.raises(MergeInterrupted):
        job.run_job()
    broker.index.release_job(job)
    assert broker.folder.names() == names
    assert merge(broker.index)
    assert drained(broker.index, FAR_MS) == added


def test_a_spill_of_nothing_writes_no_file_and_still_covers_the_log() -> None:
    broker = Broker()
    broker.log.append(100)
    broker.spill()
    assert broker.folder.names() == []
    assert broker.index.prepare_spill(100) is None
    broker.restart()
    assert broker.index.covered_offset == 100


@pytest.mark.parametrize("checkpoint", [None, {}, {"covered": 5}, {"covered": "5", "runs_to": 5, "zones": {}}])
def test_a_checkpoint_that_is_missing_or_strange_costs_time_only(checkpoint: "Mapping[str, object] | None") -> None:
    broker = Broker()
    added = broker.add(0, 0, 1000)
    broker.deliver()
    broker.spill()
    broker.checkpoint = None
    broker.index = opened(small_index(broker.folder), broker.log, checkpoint)
    assert broker.deliver() == []
    broker.now_ms += 1000
    assert broker.deliver() == added[2:]


def test_a_recall_finds_a_timer_in_memory_and_on_disk_until_it_is_taken() -> None:
    broker = Broker()
    (entry,) = broker.add(1000)

    def found_in_memory(id_hash: int) -> "list[TimerEntry]":
        return broker.index.finish_find(broker.index.prepare_find(entry.due_ms, id_hash))  # no file is read

    assert found_in_memory(entry.id_hash) == [entry]
    assert found_in_memory(entry.id_hash + 1) == []
    broker.spill()
    assert found_in_memory(entry.id_hash) == []
    load(broker.index, broker.now_ms)
    broker.now_ms += 1000
    job = broker.index.prepare_find(entry.due_ms, entry.id_hash)
    assert broker.index.take_due(broker.now_ms, 1) == [entry]
    job.run_job()
    assert broker.index.finish_find(job) == []
    broker.index.return_timers([entry])
    job = broker.index.prepare_find(entry.due_ms, entry.id_hash)
    job.run_job()
    assert broker.index.hold_timers(broker.index.finish_find(job)) == [entry]
    assert broker.index.take_due(broker.now_ms, 1) == []
    broker.settle(entry)
    assert broker.deliver() == []


def test_a_timer_that_is_held_while_the_log_is_scanned_comes_at_the_end_if_it_is_given_back() -> None:
    broker = Broker()
    held, other = broker.add(0, 1000)
    load(broker.index, broker.now_ms)
    assert broker.index.take_due(broker.now_ms, 1) == [held]
    job = broker.index.prepare_scan(broker.log.end, limit=10)
    job.run_job()
    found, key = broker.index.finish_scan(job)
    assert found == [other]
    assert key
    broker.index.return_timers([held])
    job = broker.index.prepare_scan(broker.log.end, start=key, limit=10)
    job.run_job()
    assert broker.index.finish_scan(job) == ([held], None)


def test_a_timer_that_is_settled_while_it_is_passed_over_is_not_found_by_a_scan() -> None:
    broker = Broker()
    broker.add(0)
    load(broker.index, broker.now_ms)
    held = broker.index.take_due(broker.now_ms, 1)
    job = broker.index.prepare_scan(broker.log.end, limit=10)
    job.run_job()
    assert broker.index.finish_scan(job)[0] == []
    broker.settle(*held)
    job = broker.index.prepare_scan(broker.log.end, start=(1 << 64, 0), limit=10)
    job.run_job()
    assert broker.index.finish_scan(job) == ([], None)
