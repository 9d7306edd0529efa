"""The timer index's part on disk: its runs, their watermarks, and how far they cover the log.

Checkpoint  `covered_offset`, where the runs end, where the log began, and the watermarks. A run's footer has the last
            two as
            well, so the checkpoint is only needed for a spill that had nothing to write. It counts only if the runs end
            where they did then: it may be older than they are, or from before some were damaged and rebuilt.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.timers.settled_watermarks import SettledWatermarks
from ternmq_broker.store.timers.timer_runs import FAN_IN, TimerRuns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.timers.settled_watermarks import Watermark
    from ternmq_broker.store.timers.timer_run import BadRun, RunName, TimerRun


class TimerDiskState:
    """The runs and watermarks: they have what is pending of the log below `covered_offset`; nothing below `log_start`
    is pending.
    """

    def __init__(self, folder: "Folder", *, fan_in: int = FAN_IN) -> None:
        self.runs = TimerRuns(folder, fan_in=fan_in)
        self._watermarks = SettledWatermarks()
        self.log_start = 0
        self.covered_offset = 0

    def load_runs(self, checkpoint: "Mapping[str, object]", *, log_start: int, log_end: int) -> "list[BadRun]":
        """Open the runs; return the errors of files that were left out."""
        covered, runs_to, began, watermarks = _parse_checkpoint(checkpoint)
        log_start = max(log_start, began if began <= log_end else 0)
        bad = self.runs.load_chain(log_start=log_start, log_end=log_end)
        for run in self.runs.run_chain:
            watermarks += run.watermarks
        self._watermarks = SettledWatermarks(watermark for watermark in watermarks if watermark[0] <= log_end)
        self.log_start = max(log_start, *(run.log_start for run in self.runs.run_chain), 0)
        self.covered_offset = max(self.runs.log_to, self.log_start)
        has_same_runs = runs_to == self.runs.log_to or (runs_to <= self.log_start and not self.runs.run_chain)
        if has_same_runs and covered <= log_end:
            self.covered_offset = max(self.covered_offset, covered)
        self._drop_watermarks()
        return bad

    def checkpoint_content(self) -> dict[str, object]:
        return {
            "covered": self.covered_offset,
            "runs_to": self.runs.log_to,
            "log_start": self.log_start,
            "zones": list(map(list, self._watermarks)),
        }

    @property
    def watermarks(self) -> "list[Watermark]":
        return list(self._watermarks)

    def watermarks_with(self, watermark: "Watermark") -> "list[Watermark]":
        """Return the watermarks with one more."""
        return list(SettledWatermarks([*self._watermarks, watermark]))

    def with_settled_ms(self, runs: "Iterable[TimerRun]") -> "list[tuple[TimerRun, int]]":
        """Return the runs, each with the due time before which everything in it is settled."""
        return [(run, self._watermarks.settled_before_ms(run.log_to)) for run in runs]

    def name_of_spill(self, log_to: int) -> "RunName":
        # It begins where the runs end, though perhaps more is covered, so that they follow each other without a gap.
        return self.runs.name_for(self.runs.log_to, log_to)

    def add_spill(self, watermark: "Watermark", written: "TimerRun | None") -> None:
        """Take over a durable spill."""
        if written is not None:
            self.runs.append_run(written)
        self._watermarks.add_watermark(watermark)
        self.covered_offset = watermark[0]
        self._drop_watermarks()

    def runs_to_merge(self) -> "list[TimerRun]":
        return self.runs.runs_to_merge(self._watermarks)

    def replace_runs(self, old: "Sequence[TimerRun]", merged: "TimerRun") -> None:
        """Take over a durable merge."""
        self.runs.replace_runs(old, merged)
        self._drop_watermarks()

    def forget_below(self, log_start: int) -> None:
        # After a power cut the log may begin below what was forgotten already.
        self.log_start = max(self.log_start, log_start)
        self.runs.forget_below(self.log_start)
        self._drop_watermarks()

    def _drop_watermarks(self) -> None:
        """Drop watermarks that were known when the oldest run was written: they are applied in it, and nothing is
        older.
        """
        self._watermarks.forget_below(self.runs.run_chain[0].log_to if self.runs.run_chain else self.covered_offset + 1)


def _parse_checkpoint(checkpoint: "Mapping[str, object]") -> "tuple[int, int, int, list[Watermark]]":
    """Return what `checkpoint_content()` returned, parsed; empty values if it is anything else."""
    match checkpoint:
        case {"covered": int(covered), "runs_to": int(runs_to), "log_start": int(log_start), "zones": list(watermarks)}:
            return covered, runs_to, log_start, [(log_to, due_ms) for log_to, due_ms in watermarks]
    return 0, 0, 0, []
