"""The timer index against any history, any power cut, any damage: nothing is lost and nothing settled comes again."""

import json
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.timer_log import GhostFolder, TimerLog, drained, load, merge, opened, small_index, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.timers.timer_jobs import FindJob, LoadJob, MergeJob, ScanJob, TimerSpill
    from ternmq_broker.store.timers.timer_run import TimerEntry
    from tests.support.timer_log import LogRecord

START_MS = 1_000_000_000
FAR_MS = 10_000_000_000
DELAYS = st.sampled_from([-5000, 0, 1, 2, 2, 2, 1000, 29_000, 61_000, 3_600_000, 3_600_000, 90_000_000])
NOISE = st.binary(max_size=64) | st.integers(0, 600).map(bytes)


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
        self.index.return_timers(back)
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
            self.loading.run_job()
            self.index.finish_load(self.loading)
            self.loading = None

    @precondition(lambda self: self.loading)
    @rule()
    def finish_load(self) -> None:
        assert self.loading
        self.loading.run_job()
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
        job.run_job()
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
            assert self.index.hold_timers(found) == found
            assert self.index.hold_timers(found) == []
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
            self.merging.run_job()

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
        self.spilling.write_run()
        self.index.finish_spill(self.spilling)
        self.spilling = None
        if save:
            self.checkpoints.append(json.loads(json.dumps(self.index.checkpoint_content())))

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
            self.scanning.run_job()
            found, key = self.index.finish_scan(self.scanning)
            assert all(entry.log_offset < below and entry.log_offset in self.pending for entry in found)
            for entry in self.index.hold_timers(found):
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
TestIndexMachine.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=60)
