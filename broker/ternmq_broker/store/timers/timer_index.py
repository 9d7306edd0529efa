"""The timer index: which timer messages are pending, in order of their due time. Derived from the commit log.

Ten million pending timers must take disk, not memory. So the index is a log-structured merge tree: new entries are in a
buffer; a spill writes it as a sorted run (`timer_run`); when there are many runs, some are merged into one; timers that
are due soon are loaded into memory (`near_timers`).

Settled     A timer is settled when a later record of the log says so: of its delivery, its recall, or its copy further
            on. Only durable records may count in a run: a settled timer whose record lies at or above the log offset
            of a spill is written as pending, since a power cut may take that record and then the timer must fire.
Spill       covers the log up to an offset below which it is durable. It writes every timer of its part of the log that
            no record below the offset settles, and a tombstone for every earlier timer that a record of that part
            settles; but nothing that a watermark covers (`settled_watermarks`). Each run's footer has the watermarks
            that were known, so a run with its watermarks says all that its part of the log has to say.
Pending     is every entry of a run that no tombstone in a later run and no watermark settles, and that is not below the
            start of the log; and what came since the last spill.
Start       of the log: after `forget_below` nothing below it is pending. Runs and checkpoint remember that, since
            tombstones are left out for it, while a power cut may bring the log's first bytes back.
Clock       When timers come that are due before what a watermark settles, the next watermark ends earlier. The older
            ones stay for what is below their log offsets; what is settled above gets tombstones. So nothing fires
            twice.
Restart     `load_runs` opens the runs that follow each other without a gap, up to the first that is damaged or missing.
            `covered_offset` is where they end, or what the checkpoint says, if it was written when there were the same
            runs. The owner walks the log from there and repeats `add_timer` and `settle_timer`. An old or missing
            checkpoint costs time only.
Threads     One thread owns the index; `run` and `write` of a job may be called in others. At a time there may be one
            load, one merge, one spill, and any number of finds and scans. Each job is finished, or released after an
            error. `take_due` and `hold_timers` take ownership of a timer; `settle_timer` and `return_timers` end it.
"""

from typing import TYPE_CHECKING, TypeVar

from ternmq_broker.store.interpreter_yield import yield_interpreter
from ternmq_broker.store.timers.near_timers import NearTimers
from ternmq_broker.store.timers.timer_buffer import SettledTimer, TimerBuffer
from ternmq_broker.store.timers.timer_disk import TimerDiskState
from ternmq_broker.store.timers.timer_jobs import (
    BEHIND_ALL,
    FindJob,
    LoadJob,
    MergeJob,
    ScanJob,
    TimerReadJob,
    TimerSnapshot,
    TimerSpill,
)
from ternmq_broker.store.timers.timer_merge import SLICE_ROWS
from ternmq_broker.store.timers.timer_run import BLOCK_ENTRIES, BadRun, Key, TimerEntry, TimerRun
from ternmq_broker.store.timers.timer_runs import FAN_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ternmq_broker.store.disk.files import Folder

LOOK_AHEAD_MS = 60_000
NEAR_MAX = 32_768
CHUNK = 16_384
Job = TimerReadJob | MergeJob | TimerSpill
JobT = TypeVar("JobT", bound=Job)


class TimerIndex:
    """Every pending timer of one broker.

    Invariants: runs cover the log below `covered_offset`, the buffer what lies behind; every pending timer is in a run
    or in the buffer; every one whose key is below `loaded_to` is near or held too.
    """

    def __init__(
        self,
        folder: "Folder",
        *,
        near_max: int = NEAR_MAX,
        chunk: int = CHUNK,
        block_entries: int = BLOCK_ENTRIES,
        fan_in: int = FAN_IN,
        pause: "Callable[[], None]" = yield_interpreter,
    ) -> None:
        """`near_max` limits the timers in memory, `chunk` is how many are loaded at once; `pause` lets other threads
        run.
        """
        assert chunk < near_max
        self._folder = folder
        self._chunk = chunk
        self._block_entries = block_entries
        self._slice_rows = min(SLICE_ROWS, chunk)
        self._pause = pause
        self._disk = TimerDiskState(folder, fan_in=fan_in)
        self._near = NearTimers(near_max)
        self._buffer = TimerBuffer()
        self._passed_over: dict[int, TimerEntry] = {}
        self._jobs: list[Job] = []
        self._latest_ms = -1

    @property
    def covered_offset(self) -> int:
        """The log offset up to which nothing of the log has to be repeated after a restart."""
        return self._disk.covered_offset

    @property
    def durable_offset(self) -> int:
        """Up to where the log was durable once, by runs that cover more than it has."""
        return self._disk.runs.durable_offset

    # --- opening

    def load_runs(self, checkpoint: "Mapping[str, object] | None", *, log_start: int, log_end: int) -> list[BadRun]:
        """Open the runs; then the owner replays the log from `covered_offset` on.

        `checkpoint` is what `checkpoint_content()` once returned, if it is left. Returns the errors of files
        that were left out; after a power cut one may be a merge that was not finished.
        """
        return self._disk.load_runs(checkpoint or {}, log_start=log_start, log_end=log_end)

    def checkpoint_content(self) -> dict[str, object]:
        """Return what is durable, for JSON: to be stored after a spill is finished, and passed to `load_runs`."""
        return self._disk.checkpoint_content()

    # --- adding and settling timers, in the order of the log

    def add_timer(self, entry: TimerEntry) -> None:
        """Add a timer whose record is in the log."""
        self._buffer.add_timer(entry)
        if entry < self._near.loaded_to:
            self._near.add_timer(entry)
        else:
            for job in self._jobs:
                if isinstance(job, LoadJob):
                    job.added_meanwhile.append(entry)

    def settle_timer(self, due_ms: int, log_offset: int, settled_at: int) -> None:
        """Settle a timer by the record at `settled_at`."""
        self._near.settle_timer(log_offset)
        self._passed_over.pop(log_offset, None)
        self._buffer.settle_timer(SettledTimer(settled_at, due_ms, log_offset))
        for job in self._jobs:
            if isinstance(job, TimerReadJob):
                job.settled_offsets.add(log_offset)

    # --- time

    def next_due_ms(self) -> int | None:
        """Return when the first of the near timers is due; None if there is none."""
        return self._near.first_due_ms()

    def take_due(self, now_ms: int, limit: int) -> list[TimerEntry]:
        """Return up to `limit` timers that are due, the earliest first. They are held: settle each or give it back."""
        self._latest_ms = max(self._latest_ms, now_ms)
        return self._near.take_due(now_ms, limit)

    def hold_timers(self, entries: "Iterable[TimerEntry]") -> list[TimerEntry]:
        """Hold timers that were just found, so that no one else takes them; return those that were not held already."""
        return self._near.hold_timers(entries)

    def return_timers(self, entries: "Iterable[TimerEntry]") -> None:
        """Make held timers that could not be settled pending again."""
        self._near.return_timers(entries)

    def wants_load(self, now_ms: int) -> bool:
        """Tell whether to call `prepare_load`: few timers are near, and more may be due soon."""
        if any(isinstance(job, LoadJob) for job in self._jobs):
            return False
        return len(self._near) <= self._chunk // 4 and self._near.loaded_to[0] <= now_ms + LOOK_AHEAD_MS // 2

    def prepare_load(self, now_ms: int) -> LoadJob:
        """Return a job that finds the timers that are due next, up to a minute ahead; its `run` reads files."""
        start = self._near.loaded_to
        end = max(start, (now_ms + LOOK_AHEAD_MS, 0))
        return self._begin_job(LoadJob(self._take_snapshot(), self._buffer.settled_offsets(), start, end, self._chunk))

    def finish_load(self, job: LoadJob) -> None:
        """Add the timers that the job found to the near ones."""
        self.release_job(job)
        if self._near.loaded_to != job.start:
            return  # the later half of the near timers was dropped meanwhile: there is a gap now
        found = job.found
        if job.added_meanwhile:
            found.update((entry[1], entry) for entry in job.added_meanwhile if entry < job.end)
            job.found = {entry[1]: entry for entry in sorted(found.values())}
        self._near.add_timers(self._free_timers(job), job.end)

    # --- queries

    def prepare_find(self, due_ms: int, id_hash: int) -> FindJob:
        """Return a job that finds all pending timers with that due time and id hash; `run` reads files, unless the job
        has no `runs`.
        """
        runs = [run for run in self._disk.runs.run_chain if run.may_hold(due_ms)]
        job = FindJob(self._take_snapshot(runs), self._buffer.settled_offsets(), due_ms, id_hash)
        job.keep_rows(self._buffer.find_timers(due_ms, id_hash))
        return self._begin_job(job)

    def finish_find(self, job: FindJob) -> list[TimerEntry]:
        """Return those that are still pending and not held; `hold_timers` them before anything else can take or settle
        them.
        """
        self.release_job(job)
        return list(self._free_timers(job).values())

    def prepare_scan(self, log_offset: int, *, start: Key | None = None, limit: int) -> ScanJob:
        """Return a job that finds about `limit` pending timers whose record lies below `log_offset`, from a key on or
        from the first.
        """
        if start is None:
            self._passed_over.clear()
        return self._begin_job(
            ScanJob(self._take_snapshot(), self._buffer.settled_offsets(), start or (0, 0), log_offset, limit)
        )

    def finish_scan(self, job: ScanJob) -> tuple[list[TimerEntry], Key | None]:
        """Return those found that are still pending, for `hold_timers`, and the key to continue from; None when there
        are no more.

        Held timers are left out, since they may be settled; those that are given back come at the end. Until each is
        either, there is a key to continue from, and nothing is found: the owner should wait a little.
        """
        self.release_job(job)
        held = self._near.held
        for log_offset in job.found.keys() & held.keys() - job.settled_offsets:
            self._passed_over[log_offset] = job.found[log_offset]
        free = list(self._free_timers(job).values())
        if job.following:
            return free, job.following
        given_back = [entry for entry in self._passed_over.values() if entry[1] not in held]
        for entry in given_back:
            del self._passed_over[entry[1]]
        return [*free, *given_back], BEHIND_ALL if self._passed_over else None

    def finish_count(self, job: ScanJob) -> tuple[int, Key | None]:
        """Return how many were found that are still pending and not held, and the key to continue from."""
        self.release_job(job)
        return len(self._free_timers(job)), job.following

    def finish_list(self, job: ScanJob) -> tuple[list[TimerEntry], Key | None]:
        """Return those found that are still pending, also if held, by due time, and the key to continue from."""
        self.release_job(job)
        log_start = self._disk.log_start
        found = [
            entry for offset, entry in job.found.items() if offset not in job.settled_offsets and offset >= log_start
        ]
        return found, job.following

    def _free_timers(self, job: TimerReadJob) -> dict[int, TimerEntry]:
        """Return what was found and is neither settled nor held now."""
        found = job.found
        for taken in (job.settled_offsets, self._near.held.keys()):
            for log_offset in found.keys() & taken:
                del found[log_offset]
        log_start = self._disk.log_start
        if log_start > job.snapshot.log_start:
            found = {log_offset: entry for log_offset, entry in found.items() if log_offset >= log_start}
        return found

    # --- disk

    @property
    def entries_in_memory(self) -> int:
        """How many entries a spill would process."""
        return len(self._buffer)

    def prepare_spill(self, log_to: int) -> TimerSpill | None:
        """Return a job that writes the log's timers below `log_to`, where it must be durable; None if that is covered
        already.

        The job's `write` must be called even if there is nothing to write: it removes files too.
        """
        assert not any(isinstance(job, TimerSpill) for job in self._jobs)
        if log_to <= self.covered_offset:
            return None
        settled, not_durable = self._buffer.split_settled(log_to)
        watermark = (log_to, self._all_settled_before_ms(not_durable))
        return self._begin_job(
            TimerSpill(
                self._folder,
                self._disk.name_of_spill(log_to),
                self._block_entries,
                self.covered_offset,
                self._buffer.added_below(log_to),
                settled,
                watermark,
                self._disk.watermarks_with(watermark),
                self._disk.log_start,
                self._disk.runs.take_obsolete(self._runs_in_use()),
                self._pause,
            )
        )

    def _all_settled_before_ms(self, not_durable: list[SettledTimer]) -> int:
        """Return the time before which no timer is due that is pending, or would be if the log ended where the spill
        does.

        It is never later than the time up to which timers were delivered: so it does not fall when a timer is added
        that is due before all others.
        """
        bounds = [self._latest_ms + 1, self._near.loaded_to[0]]
        first = self._near.first_due_ms()
        if first is not None:
            bounds.append(first)
        bounds += (entry.due_ms for entry in self._near.held.values())
        bounds += (settled.due_ms for settled in not_durable)
        return min(bounds)

    def finish_spill(self, job: TimerSpill) -> None:
        self.release_job(job)
        self._buffer.drop_written(len(job.added), len(job.settled))
        self._disk.add_spill(job.watermark, job.written)

    def prepare_merge(self) -> MergeJob | None:
        """Return a job that merges runs, when there are enough of one tier, or when one has only settled timers; else
        None.
        """
        runs = self._disk.runs_to_merge()
        if not runs or any(isinstance(job, MergeJob) for job in self._jobs):
            return None
        return self._begin_job(
            MergeJob(
                self._folder,
                self._disk.runs.name_for(runs[0].log_from, runs[-1].log_to),
                runs[0].tier + (len(runs) > 1),
                self._block_entries,
                self._take_snapshot(runs),
                self._disk.watermarks,
            )
        )

    def finish_merge(self, job: MergeJob) -> None:
        """Replace the merged runs; the next spill removes their files."""
        self.release_job(job)
        assert job.merged
        self._disk.replace_runs(job.runs, job.merged)

    def forget_below(self, log_start: int) -> None:
        """Drop everything below `log_start`, where the log will begin: it is settled, durably, or given up."""
        self._disk.forget_below(log_start)
        self._near.forget_below(log_start)

    # --- jobs

    def _take_snapshot(self, runs: "Iterable[TimerRun] | None" = None) -> TimerSnapshot:
        """Return a snapshot of everything, or of those runs only."""
        added = self._buffer.added_timers() if runs is None else []
        chosen = self._disk.runs.run_chain if runs is None else runs
        return TimerSnapshot(
            self._disk.with_settled_ms(chosen), added, self._disk.log_start, self._slice_rows, self._pause
        )

    def _begin_job(self, job: JobT) -> JobT:
        self._jobs.append(job)
        return job

    def release_job(self, job: Job) -> None:
        """Release what the job reads, after it failed or when its result is not wanted."""
        self._jobs.remove(job)

    def _runs_in_use(self) -> "Iterable[TimerRun]":
        return [run for job in self._jobs if not isinstance(job, TimerSpill) for run in job.runs]

    def close(self) -> None:
        """Close the files as they are; no job may be running."""
        self._disk.runs.close()
