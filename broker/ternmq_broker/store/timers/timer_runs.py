"""The runs of the timer index as files in a folder: which exist, which replaces which, which to merge.

Chain       The runs that count follow each other without a gap: each begins where the one before ends, in the log.
Merge       replaces adjacent runs by one of the whole range. The new file is durable before an old one is removed, so
            after a crash both may exist: a run within the range of another, or of the same range with a lower serial
            number, is obsolete. A merge that was not finished leaves a file that is not whole.
Removal     The thread that writes the next run closes and removes an obsolete file when no job reads it any more; if
            that does not happen, the next start does.
"""

from itertools import groupby
from typing import TYPE_CHECKING

from ternmq_broker.store.timers.timer_run import BadRun, RunName, TimerRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.timers.settled_watermarks import SettledWatermarks

FAN_IN = 16


class TimerRuns:
    """The chain of runs, the oldest first; tiers do not rise from one to the next."""

    def __init__(self, folder: "Folder", *, fan_in: int = FAN_IN) -> None:
        assert fan_in > 1
        self._folder = folder
        self._fan_in = fan_in
        self._chain: list[TimerRun] = []
        self._obsolete: list[TimerRun] = []
        self._last_serial = 0
        self.durable_offset = 0
        """Up to where the log was durable once, by runs that cover more than it has."""

    @property
    def run_chain(self) -> "Sequence[TimerRun]":
        return self._chain

    @property
    def log_to(self) -> int:
        """Where the chain ends; 0 when there is no run."""
        return self._chain[-1].log_to if self._chain else 0

    def load_chain(self, *, log_start: int, log_end: int) -> list[BadRun]:
        """Find the chain that covers most, and remove all other files; return the errors of bad files."""
        names = [name for name in map(RunName.parse_name, self._folder.names()) if name]
        self._last_serial = max((name.serial for name in names), default=0)
        bad: list[BadRun] = []
        left = sorted((name for name in names if name.log_to > log_start), key=lambda name: (name.log_to, name.serial))
        while run := self._next_whole(left, log_start, log_end, bad):
            self._chain.append(run)
        kept = {run.name for run in self._chain}
        for name in names:
            if name not in kept:
                self._folder.remove(str(name))
        # A file that a power cut brought back might fit into a log that has been rewritten by then.
        self._folder.sync_names()
        return bad

    def _next_whole(self, left: list[RunName], log_start: int, log_end: int, bad: list[BadRun]) -> TimerRun | None:
        """Return the run that continues the chain and covers most."""
        for name in reversed(left):
            if name.log_from == self.log_to if self._chain else name.log_from <= log_start:
                file = self._folder.open(str(name))
                try:
                    run = TimerRun(name, file)
                    run.check_blocks()
                except BadRun as error:
                    bad.append(error)
                else:
                    if run.relies_on_log_to <= log_end:
                        return run
                    self.durable_offset = max(self.durable_offset, run.relies_on_log_to)
                    bad.append(BadRun(f"{name}: the log ends at {log_end}, before {run.relies_on_log_to}"))
                left.remove(name)
                file.close()
        return None

    def name_for(self, log_from: int, log_to: int) -> RunName:
        """Return the name of a run that will be written."""
        self._last_serial += 1
        return RunName(log_from, log_to, self._last_serial)

    def append_run(self, run: TimerRun) -> None:
        assert not self._chain or run.log_from == self.log_to
        self._chain.append(run)

    def runs_to_merge(self, watermarks: "SettledWatermarks") -> list[TimerRun]:
        """Return runs to be merged: as many of one tier as a merge takes, or one with nothing pending in it."""
        for _, same_tier in groupby(reversed(self._chain), key=lambda run: run.tier):
            group = list(same_tier)[-self._fan_in :]
            if len(group) == self._fan_in:
                return group[::-1]
        for run in self._chain:
            # Those of the lowest tier are small, and will soon be merged in any case.
            if run.tier and run.entries and run.last_due_ms < watermarks.settled_before_ms(run.log_to):
                return [run]
        return []

    def replace_runs(self, old: "Sequence[TimerRun]", merged: TimerRun) -> None:
        """Replace `old` by `merged`, which is durable; some of the oldest may have been dropped meanwhile."""
        left = [run for run in old if run in self._chain]
        if left:
            at = self._chain.index(left[0])
            self._chain[at : at + len(left)] = [merged]
            self._obsolete += left
        else:
            self._obsolete.append(merged)

    def forget_below(self, log_start: int) -> None:
        """Drop runs that cover only bytes below the log's new start."""
        self._obsolete += [run for run in self._chain if run.log_to <= log_start]
        self._chain = [run for run in self._chain if run.log_to > log_start]

    def take_obsolete(self, in_use: "Iterable[TimerRun]") -> "Callable[[], None]":
        """Return a function that removes the obsolete files that no job reads, for a thread."""
        busy = {run.name for run in in_use}
        removable = [run for run in self._obsolete if run.name not in busy]
        self._obsolete = [run for run in self._obsolete if run.name in busy]

        def remove() -> None:
            for run in removable:
                run.close()
                self._folder.remove(str(run.name))

        return remove

    def close(self) -> None:
        for run in (*self._chain, *self._obsolete):
            run.close()
