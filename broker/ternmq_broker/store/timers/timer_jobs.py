"""The timer index's work in threads: each job has a snapshot, changes nothing else, and is finished by the index.

`run_job`, of a spill `write_run`, may be called in any thread, once. It does a little at a time and pauses in between.
Errors: OSError; BadRun when a run is damaged: then only a restart helps, which rebuilds it from the commit log.
"""

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.store.timers.timer_merge import SLICE_ROWS, drop_settled, merge_sources, sort_into_sources
from ternmq_broker.store.timers.timer_run import TimerEntry, make_tombstone
from ternmq_broker.store.timers.timer_run_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.timers.settled_watermarks import Watermark
    from ternmq_broker.store.timers.timer_buffer import SettledTimer
    from ternmq_broker.store.timers.timer_run import Key, RunName, RunRow, TimerRun

BEHIND_ALL: "Key" = (1 << 64, 0)


@dataclass(frozen=True, slots=True)
class TimerSnapshot:
    """The state of the index for a job: its runs, each with the due time before which all in it is settled, and the
    buffer.
    """

    runs: "Sequence[tuple[TimerRun, int]]"
    added: "Sequence[TimerEntry]"
    log_start: int
    slice_rows: int
    pause: "Callable[[], None]"


@dataclass(eq=False, slots=True)
class TimerReadJob:
    """A job that searches for timers, by log offset, in order of their keys.

    `settled_offsets` has the timers that were settled before it began or since; the index adds to it.
    """

    snapshot: TimerSnapshot
    settled_offsets: set[int]
    found: dict[int, TimerEntry] = field(default_factory=dict, init=False)

    @property
    def runs(self) -> "Sequence[TimerRun]":
        return [run for run, _ in self.snapshot.runs]

    def _read_slices(self, start: "Key", end: "Key") -> "Iterator[tuple[list[RunRow], Key]]":
        """Yield what is pending in the snapshot from `start` on, below `end`, in order, and the key behind each
        slice.
        """
        snapshot = self.snapshot
        sources = [self._read_run(run, max(start, (settled, 0)), end) for run, settled in snapshot.runs]
        added = [entry for entry in snapshot.added if start <= entry < end and self._is_wanted(entry)]
        sources += sort_into_sources(added, snapshot.pause)
        for rows in merge_sources(sources, slice_rows=snapshot.slice_rows):
            due_ms, log_offset, _, _ = rows[-1]
            yield drop_settled(rows), (due_ms, log_offset + 1)
            snapshot.pause()

    def _read_run(self, run: "TimerRun", start: "Key", end: "Key") -> "Iterator[list[RunRow]]":
        return run.read_pieces(start, end)

    def _is_wanted(self, row: "RunRow") -> bool:
        return True

    def keep_rows(self, rows: "Iterable[RunRow]") -> None:
        log_start = self.snapshot.log_start
        self.found.update((row[1], TimerEntry(*row)) for row in rows if row[1] >= log_start)


@dataclass(eq=False, slots=True)
class LoadJob(TimerReadJob):
    """Finds the timers that follow the near ones: at least `wanted` of them, or all that are due before `end`."""

    start: "Key"
    end: "Key"
    wanted: int
    added_meanwhile: list[TimerEntry] = field(default_factory=list, init=False)

    def run_job(self) -> None:
        for rows, following in self._read_slices(self.start, self.end):
            self.keep_rows(rows)
            if len(self.found) >= self.wanted:
                self.end = following
                return


@dataclass(eq=False, slots=True)
class ScanJob(TimerReadJob):
    """Finds pending timers whose record lies below `log_offset`: from `start` on, at least `wanted`, or all."""

    start: "Key"
    log_offset: int
    wanted: int
    following: "Key | None" = field(default=None, init=False)

    def run_job(self) -> None:
        for rows, following in self._read_slices(self.start, BEHIND_ALL):
            self.keep_rows(rows)
            if len(self.found) >= self.wanted:
                self.following = following
                return

    def _read_run(self, run: "TimerRun", start: "Key", end: "Key") -> "Iterator[list[RunRow]]":
        if run.log_to <= self.log_offset:
            yield from run.read_pieces(start, end)
        elif run.log_from < self.log_offset or run.tombstones:
            looked_at = 0
            for rows in run.read_pieces(start, end):
                looked_at += len(rows)
                if looked_at >= SLICE_ROWS:  # few rows may be wanted, so that a slice takes long
                    self.snapshot.pause()
                    looked_at = 0
                if wanted := [row for row in rows if row[1] < self.log_offset]:
                    yield wanted

    def _is_wanted(self, row: "RunRow") -> bool:
        return row[1] < self.log_offset


@dataclass(eq=False, slots=True)
class FindJob(TimerReadJob):
    """Finds the pending timers with that due time and id hash. Those in the buffer are found before it runs."""

    due_ms: int
    id_hash: int

    def run_job(self) -> None:
        settled: set[int] = set()
        for run, settled_before_ms in self.snapshot.runs:
            for rows in run.read_due_at(self.due_ms) if self.due_ms >= settled_before_ms else ():
                settled.update(log_offset for _, log_offset, size, _ in rows if not size)
                self.keep_rows(row for row in rows if row[2] and row[3] == self.id_hash)
                self.snapshot.pause()
        for log_offset in self.found.keys() & settled:
            del self.found[log_offset]


class MergeInterrupted(Exception):
    """A merge was interrupted before it was done; nothing is left of it."""


@dataclass(eq=False, slots=True)
class MergeJob:
    """Merges adjacent runs into one; settled timers and those before the log's start are left out.

    A merge of ten million timers takes minutes: `interrupt_merge` ends `run_job` with Interrupted, for a broker that is
    to stop.
    """

    folder: "Folder"
    name: "RunName"
    tier: int
    block_entries: int
    snapshot: TimerSnapshot
    watermarks: "Sequence[Watermark]"
    merged: "TimerRun | None" = field(default=None, init=False)
    _is_interrupted: bool = field(default=False, init=False)

    @property
    def runs(self) -> "Sequence[TimerRun]":
        return [run for run, _ in self.snapshot.runs]

    def interrupt_merge(self) -> None:
        """Interrupt the merge. Any thread may call it."""
        self._is_interrupted = True

    def run_job(self) -> None:
        snapshot = self.snapshot
        log_from = self.name.log_from
        log_start = snapshot.log_start if log_from < snapshot.log_start else 0
        sources = [run.read_pieces((settled, 0), BEHIND_ALL) for run, settled in snapshot.runs]
        with RunWriter(self.folder, self.name, tier=self.tier, block_entries=self.block_entries) as writer:
            for rows in merge_sources(sources, slice_rows=snapshot.slice_rows):
                # A tombstone of a timer in this run has done its work here; others are about timers in older runs.
                writer.add_rows(drop_settled(rows, log_start=log_start, keep_tombstones_below=log_from))
                snapshot.pause()
                if self._is_interrupted:
                    raise MergeInterrupted
            self.merged = writer.finish_run(self.watermarks, log_start=snapshot.log_start)


@dataclass(eq=False, slots=True)
class TimerSpill:
    """Writes a run of what is in memory and below a log offset, unless there is nothing to write."""

    folder: "Folder"
    name: "RunName"
    block_entries: int
    covered: int
    added: "Sequence[TimerEntry]"
    settled: "Sequence[SettledTimer]"
    watermark: "Watermark"
    watermarks: "Sequence[Watermark]"
    log_start: int
    remove_obsolete: "Callable[[], None]"
    pause: "Callable[[], None]"
    written: "TimerRun | None" = field(default=None, init=False)

    def write_run(self) -> None:
        """Remove obsolete runs, and write the new run if it has any rows."""
        self.remove_obsolete()
        rows = self._rows_to_write()
        if rows:
            with RunWriter(self.folder, self.name, tier=0, block_entries=self.block_entries) as writer:
                for sorted_rows in merge_sources(sort_into_sources(rows, self.pause)):
                    writer.add_rows(sorted_rows)
                    self.pause()
                self.written = writer.finish_run(self.watermarks, log_start=self.log_start)

    def delete_written(self) -> None:
        """Delete the written run, since the rest of the spill could not be written.

        Repeated tries on a full disk would else fill it with runs that the index does not know.
        """
        if self.written is not None:
            self.written.close()
            self.written = None
            with contextlib.suppress(OSError):  # the next start removes it
                self.folder.remove(str(self.name))

    def _rows_to_write(self) -> "list[RunRow]":
        settled = {one.log_offset for one in self.settled}
        rows: list[RunRow] = [entry for entry in self.added if entry[1] not in settled and entry[1] >= self.log_start]
        rows += (
            make_tombstone(one.due_ms, one.log_offset)
            for one in self.settled
            if self.log_start <= one.log_offset < self.covered and one.due_ms >= self.watermark[1]
        )
        return rows
