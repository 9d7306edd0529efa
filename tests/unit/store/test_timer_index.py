"""The timer index against any history, any power cut, any damage: nothing is lost and nothing settled comes again."""

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.store.timer_index import TimerIndex
from ternmq_broker.store.timer_run import BadRun
from tests.support.timer_log import GhostFolder, TimerLog, drained, load, merge, opened, spill, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.timer_jobs import FindJob, LoadJob, MergeJob, ScanJob, TimerSpill
    from ternmq_broker.store.timer_run import TimerEntry
    from tests.support.memory_disk import MemoryFile
    from tests.support.timer_log import LogRecord

START_MS = 1_000_000_000
FAR_MS = 10_000_000_000
DELAYS = st.sampled_from([-5000, 0, 1, 2, 2, 2, 1000, 29_000, 61_000, 3_600_000, 3_600_000, 90_000_000])
NOISE = st.binary(max_size=64) | st.integers(0, 600).map(bytes)


def small_index(folder: GhostFolder) -> TimerIndex:
    """One whose limits are so low that a few timers reach all of them."""
    return TimerIndex(folder, near_max=9, chunk=4, block_entries=3, fan_in=2, pause=lambda: None)


class IndexMachine(RuleBasedStateMachine):
    """An owner of the index that adds, takes, settles and recalls, while jobs run, the clock moves and power fails."""

    @initialize()
    def begin(self) -> None:
        self.folder = GhostFolder()
        self.log = TimerLog()
        self.start_before = 0
        self.now_ms = START_MS
        self.checkpoints: list[Mapping[str, object] | None] = [None]
        self.pending: dict[int, TimerEntry] = {}
        self.index = small_index(self.folder)
        self._start()

    def _start(self, checkpoint: "Mapping[str, object] | None" = None, spill_after: list[int] | None = None) -> None:
        self.held: dict[int, TimerEntry] = {}
        self.loading: LoadJob | None = None
        self.finding: FindJob | None = None
        self.scanning: ScanJob | None = None
        self.merging: MergeJob | None = None
        self.spilling: TimerSpill | None = None
        opened(self.index, self.log, checkpoint, spill_after=spill_after or ())
        self.pending = self.log.pending()

    def _tell(self, record: "LogRecord") -> None:
        tell(self.index, record)
        if record.timer:
            self.pending[record.log_offset] = record.timer
        if record.settles:
            del self.pending[record.settles.log_offset]
            self.held.pop(record.settles.log_offset, None)

    # --- timers

    @rule(delay_ms=DELAYS, count=st.integers(1, 6), id_hash=st.integers(1, 2), size=st.integers(1, 9))
    def add(self, delay_ms: int, count: int, id_hash: int, size: int) -> None:
        for _ in range(count):
            self._tell(self.log.append(size, due_ms=self.now_ms + delay_ms, id_hash=id_hash))

    @rule(size=st.integers(1, 9))
    def append_something_else(self, size: int) -> None:
        self.log.append(size)

    @rule(passed_ms=st.sampled_from([1, 2, 1000, 30_000, 70_000, 4_000_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(back_ms=st.sampled_from([1, 5000, 100_000, 5_000_000]))
    def the_clock_is_set_back(self, back_ms: int) -> None:
        self.now_ms -= back_ms

    @rule(limit=st.integers(1, 8))
    def take(self, limit: int) -> None:
        taken = self.index.take_due(self.now_ms, limit)
        assert taken == sorted(taken)
        for entry in taken:
            assert entry.due_ms <= self.now_ms
            assert self.pending[entry.log_offset] == entry
            assert entry.log_offset not in self.held
            self.held[entry.log_offset] = entry

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.held)))
        for entry in list(self.held.values())[:count]:
            self._tell(self.log.append(data.draw(st.integers(1, 9)), settles=entry))

    @rule()
    def deliver_all_that_is_due(self) -> None:
        self.load_all_that_is_near()
        while True:
            known = set(self.held)
            self.take(8)
            if self.held.keys() == known:
                return
            for log_offset in self.held.keys() - known:
                self._tell(self.log.append(1, settles=self.held[log_offset]))
            self.load_all_that_is_near()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        back = data.draw(st.lists(st.sampled_from(list(self.held.values())), unique=True))
        self.index.give_back(back)
        for entry in back:
            del self.held[entry.log_offset]

    @precondition(lambda self: self.pending.keys() - self.held.keys())
    @rule(data=st.data())
    def recall_what_is_known(self, data: st.DataObject) -> None:
        entry = self.pending[data.draw(st.sampled_from(sorted(self.pending.keys() - self.held.keys())))]
        self._tell(self.log.append(1, settles=entry))

    # --- jobs, with anything between their steps

    @precondition(lambda self: self.loading is None and self.index.wants_load(self.now_ms))
    @rule(run=st.booleans())
    def begin_load(self, run: bool) -> None:
        self.loading = self.index.prepare_load(self.now_ms)
        if run:
            self.loading.run()
            self.index.finish_load(self.loading)
            self.loading = None

    @precondition(lambda self: self.loading)
    @rule()
    def finish_load(self) -> None:
        assert self.loading
        self.loading.run()
        self.index.finish_load(self.loading)
        self.loading = None

    @rule()
    def load_all_that_is_near(self) -> None:
        if self.loading:
            self.finish_load()
        load(self.index, self.now_ms)

    @precondition(lambda self: self.finding is None and self.pending)
    @rule(data=st.data())
    def begin_find(self, data: st.DataObject) -> None:
        wanted = data.draw(st.sampled_from(list(self.pending.values())))
        self.finding = self.index.prepare_find(wanted.due_ms, wanted.id_hash)
        self.finding_below = self.log.end

    @precondition(lambda self: self.finding)
    @rule(hold=st.booleans())
    def finish_find(self, hold: bool) -> None:
        assert self.finding
        job, self.finding = self.finding, None
        job.run()
        found = self.index.finish_find(job)
        expected = [
            entry
            for entry in self.pending.values()
            if (entry.due_ms, entry.id_hash) == (job.due_ms, job.id_hash)
            and entry.log_offset not in self.held
            and entry.log_offset < self.finding_below
        ]
        assert sorted(found) == sorted(expected)
        if hold:
            assert self.index.hold(found) == found
            assert self.index.hold(found) == []
            self.held.update((entry.log_offset, entry) for entry in found)

    @precondition(lambda self: self.merging is None)
    @rule()
    def begin_merge(self) -> None:
        self.merging = self.index.prepare_merge()

    @precondition(lambda self: self.merging)
    @rule()
    def run_merge(self) -> None:
        assert self.merging
        if self.merging.merged is None:
            self.merging.run()

    @precondition(lambda self: self.merging)
    @rule()
    def finish_merge(self) -> None:
        assert self.merging
        self.run_merge()
        self.index.finish_merge(self.merging)
        self.merging = None

    @rule()
    def merge_all(self) -> None:
        if self.merging:
            self.finish_merge()
        while merge(self.index):
            pass

    @rule(data=st.data(), rounds=st.integers(2, 5), save=st.booleans())
    def make_runs(self, data: st.DataObject, rounds: int, save: bool) -> None:
        """Timers, recalls and spills, so that there is something to merge and to damage."""
        for _ in range(rounds):
            self.add(data.draw(DELAYS), count=2, id_hash=1, size=2)
            if self.pending.keys() - self.held.keys():
                self.recall_what_is_known(data)
            self.spill_at_once(data, save)

    @precondition(lambda self: self.spilling is None)
    @rule(data=st.data())
    def begin_spill(self, data: st.DataObject) -> None:
        log_to = data.draw(st.sampled_from(self.log.boundaries))
        self.log.safe = log_to
        self.spilling = self.index.prepare_spill(log_to)

    @precondition(lambda self: self.spilling)
    @rule(save=st.booleans())
    def finish_spill(self, save: bool) -> None:
        assert self.spilling
        self.spilling.write()
        self.index.finish_spill(self.spilling)
        self.spilling = None
        if save:
            self.checkpoints.append(json.loads(json.dumps(self.index.checkpoint())))

    @rule(data=st.data(), save=st.booleans())
    def spill_at_once(self, data: st.DataObject, save: bool) -> None:
        if self.spilling is None:
            self.begin_spill(data)
        if self.spilling:
            self.finish_spill(save)

    # --- retention

    @precondition(lambda self: self.log.end > self.log.start)
    @rule(data=st.data())
    def drop_the_beginning_of_the_log(self, data: st.DataObject) -> None:
        start = self.log.start
        below = data.draw(st.sampled_from([record.end for record in self.log.records if record.end > start]))
        key = None
        copied: set[int] = set()
        for _ in range(len(self.pending) + 10):
            self.scanning = self.index.prepare_scan(below, start=key, limit=data.draw(st.integers(1, 5)))
            self._meddle(data)
            self.scanning.run()
            found, key = self.index.finish_scan(self.scanning)
            assert all(entry.log_offset < below and entry.log_offset in self.pending for entry in found)
            for entry in self.index.hold(found):
                copied.add(entry.log_offset)
                self._tell(self.log.append(entry.size, due_ms=entry.due_ms, id_hash=entry.id_hash, settles=entry))
            if key is None:
                break
            if not found and self.held and data.draw(st.booleans()):
                self.give_back(data)
        self.scanning = None
        if key is None:
            assert not [entry for entry in self.pending.values() if entry.log_offset < below]
            self.log.safe = self.log.end
            self.start_before, self.log.start = self.log.start, below
            self.index.forget_below(below)

    def _meddle(self, data: st.DataObject) -> None:
        """Something that may come in between."""
        match data.draw(st.integers(0, 4)):
            case 0:
                self.take(3)
            case 1 if self.held:
                self.settle(data)
            case 2 if self.held:
                self.give_back(data)
            case 3:
                self.spill_at_once(data, save=False)
            case _:
                pass

    # --- ends

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """With everything durable, and any checkpoint that there ever was."""
        self.index.close()
        self.log.safe = self.log.end
        self.index = small_index(self.folder)
        self._start(data.draw(st.sampled_from(self.checkpoints)), self._spills(data))
        self.start_before = self.log.start

    @rule(data=st.data(), noise=NOISE)
    def lose_power(self, data: st.DataObject, noise: bytes) -> None:
        self.folder = self.folder.crash(lambda count: data.draw(st.integers(0, count)), noise)
        self.log.cut(data.draw(st.sampled_from(self.log.boundaries)))
        # The first segments may be back whose removal was not durable.
        self.log.start = self.start_before = data.draw(st.sampled_from([self.log.start, self.start_before]))
        self.index = small_index(self.folder)
        self._start(data.draw(st.sampled_from(self.checkpoints)), self._spills(data))

    def _spills(self, data: st.DataObject) -> list[int]:
        return data.draw(st.lists(st.sampled_from([0, *(record.end for record in self.log.records)]), max_size=3))

    @rule(data=st.data())
    def files_that_are_damaged_are_made_anew(self, data: st.DataObject) -> None:
        """In a copy, so that the machine goes on with whole ones."""
        copy = self.folder.copy()
        for name in data.draw(
            st.lists(st.sampled_from(sorted(copy.files)), unique=True) if copy.files else st.just([])
        ):
            content = copy.files[name].content
            match data.draw(st.integers(0, 2)):
                case 0:
                    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
                case 1:
                    copy.files[name].truncate(data.draw(st.integers(0, len(content) - 1)))
                case _:
                    copy.remove(name)
        self._all_is_found_in(copy, data)

    @rule(data=st.data())
    def a_restart_would_find_all(self, data: st.DataObject) -> None:
        self._all_is_found_in(self.folder.copy(), data)

    def _all_is_found_in(self, folder: GhostFolder, data: st.DataObject) -> None:
        checkpoint = data.draw(st.sampled_from(self.checkpoints))
        index = opened(small_index(folder), self.log, checkpoint, spill_after=self._spills(data))
        if data.draw(st.booleans()):
            while merge(index):
                pass
        found = drained(index, FAR_MS)
        assert sorted(found) == sorted(self.pending.values())

    @invariant()
    def the_near_part_is_complete(self) -> None:
        near = self.index._near
        expected = {
            offset for offset, entry in self.pending.items() if entry < near.loaded_to and offset not in self.held
        }
        assert near._pending.keys() == expected
        assert near.held == self.held
        first = self.index.next_due_ms()
        assert first == min((self.pending[offset].due_ms for offset in expected), default=None)

    def teardown(self) -> None:
        if not hasattr(self, "index"):
            return
        if self.loading:
            self.finish_load()
        found = drained(self.index, FAR_MS)
        assert sorted(found) == sorted(entry for entry in self.pending.values() if entry.log_offset not in self.held)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=200, stateful_step_count=60)


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
        self.checkpoint = self.index.checkpoint()

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
        job.run()
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
        broker.index.give_back(broker.index.hold(added))
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
    broker.index.give_back([first])
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
    job.run()
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
    broker.spill()  # with no mark: all that was due by then is settled
    broker.now_ms -= 100_000
    far += broker.add(3_600_000, 0)[:1]
    broker.deliver()
    broker.spill()  # here less is known to be settled
    broker.checkpoint = None
    broker.restart()
    assert broker.index.covered == broker.log.end
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
    broker.spill()  # writes no mark for a timer below the start of the log
    if not with_checkpoint:
        broker.checkpoint = None
    broker.restart()  # by a log that begins at 0
    broker.now_ms += 1000
    assert broker.deliver() == []


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
        zones = broker.checkpoint["zones"]
        assert isinstance(zones, list)
        assert len(zones) <= 1


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
    assert [run.marks for run in merging.runs] == [1, 1]
    merging.run()
    broker.index.finish_merge(merging)
    broker.restart()
    load(broker.index, FAR_MS)
    assert broker.index.take_due(FAR_MS, 10) == []
    assert merge(broker.index)
    assert [run.entries for run in broker.index._runs.chain] == [0]


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
        job.run()
    if cut_at > 1:
        broker.index.finish_merge(job)
    if cut_at > 2:
        added += broker.add(1000)
        broker.spill()
    broker.folder = broker.folder.crash(lambda count: data.draw(st.integers(0, count)), b"noise")
    broker.index = opened(small_index(broker.folder), broker.log, broker.checkpoint)
    assert broker.index.covered == broker.log.end  # without reading the log again
    assert sorted(drained(broker.index, FAR_MS)) == sorted(added)


def test_a_job_that_reads_a_damaged_block_says_so_and_a_restart_makes_the_run_anew() -> None:
    broker = Broker()
    added = broker.add(1000, 2000)
    broker.spill()
    (file,) = broker.folder.files.values()
    file.content[0] ^= 1
    job = broker.index.prepare_load(broker.now_ms)
    with pytest.raises(BadRun):
        job.run()
    broker.index.release(job)
    assert broker.index.wants_load(broker.now_ms)
    again = small_index(broker.folder)
    assert [str(bad) for bad in again.load(broker.checkpoint, log_start=0, log_end=broker.log.end)]
    assert again.covered == 0
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
        spilling.write()
    broker.index.release(spilling)
    folder.full = False
    broker.spill()
    folder.full = True
    merging = broker.index.prepare_merge()
    assert merging
    with pytest.raises(OSError, match="No space"):
        merging.run()
    broker.index.release(merging)
    folder.full = False
    assert merge(broker.index)
    broker.restart()
    assert sorted(drained(broker.index, FAR_MS)) == sorted(added)


def test_a_spill_of_nothing_writes_no_file_and_still_covers_the_log() -> None:
    broker = Broker()
    broker.log.append(100)
    broker.spill()
    assert broker.folder.names() == []
    assert broker.index.prepare_spill(100) is None
    broker.restart()
    assert broker.index.covered == 100


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
    assert broker.index.find(entry.due_ms, entry.id_hash) == [entry]
    assert broker.index.find(entry.due_ms, entry.id_hash + 1) == []
    broker.spill()
    assert broker.index.find(entry.due_ms, entry.id_hash) == []
    load(broker.index, broker.now_ms)
    broker.now_ms += 1000
    job = broker.index.prepare_find(entry.due_ms, entry.id_hash)
    assert broker.index.take_due(broker.now_ms, 1) == [entry]
    job.run()
    assert broker.index.finish_find(job) == []
    broker.index.give_back([entry])
    job = broker.index.prepare_find(entry.due_ms, entry.id_hash)
    job.run()
    assert broker.index.hold(broker.index.finish_find(job)) == [entry]
    assert broker.index.take_due(broker.now_ms, 1) == []
    broker.settle(entry)
    assert broker.deliver() == []


def test_a_timer_that_is_held_while_the_log_is_scanned_comes_at_the_end_if_it_is_given_back() -> None:
    broker = Broker()
    held, other = broker.add(0, 1000)
    load(broker.index, broker.now_ms)
    assert broker.index.take_due(broker.now_ms, 1) == [held]
    job = broker.index.prepare_scan(broker.log.end, limit=10)
    job.run()
    found, key = broker.index.finish_scan(job)
    assert found == [other]
    assert key
    broker.index.give_back([held])
    job = broker.index.prepare_scan(broker.log.end, start=key, limit=10)
    job.run()
    assert broker.index.finish_scan(job) == ([held], None)


def test_a_timer_that_is_settled_while_it_is_passed_over_is_not_found_by_a_scan() -> None:
    broker = Broker()
    broker.add(0)
    load(broker.index, broker.now_ms)
    held = broker.index.take_due(broker.now_ms, 1)
    job = broker.index.prepare_scan(broker.log.end, limit=10)
    job.run()
    assert broker.index.finish_scan(job)[0] == []
    broker.settle(*held)
    job = broker.index.prepare_scan(broker.log.end, start=(1 << 64, 0), limit=10)
    job.run()
    assert broker.index.finish_scan(job) == ([], None)
