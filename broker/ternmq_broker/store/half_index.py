"""Which half messages are still waiting for their producers' word. Derived from the commit log and rebuilt from it.

A half message is settled by the first record that has it for its origin and is no `checked N`. A second such record
comes only after it was discarded: an operator has resolved it late. That is remembered for as long as the second
record is in the log, which is longer than the copy in the discard topic.

Operations  what an operation's rest says: `rollback`, or `checked N` for the N-th transaction check.
Checkpoint  what waits, as of log offset `covered`, kept with the store's checkpoint: after a restart only what lies
            behind is read again. It is of that very moment: what was settled by records behind it still waits there.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

ROLLBACK = b"rollback"
_CHECKED = b"checked "


def checked(count: int) -> bytes:
    """The rest of an operation that says: this was the `count`-th transaction check."""
    return _CHECKED + str(count).encode()


def checks_of(rest: bytes) -> int | None:
    """How many checks there were, by the rest of an operation; None if it says something else."""
    return int(rest.removeprefix(_CHECKED)) if rest.startswith(_CHECKED) else None


@dataclass(slots=True)
class Waiting:
    """A half message that waits: the size of its record, and how many transaction checks it had."""

    size: int
    checks: int = 0


class HalfIndex:
    """Half messages by the log offsets of their records.

    Invariants: everything in `waiting` was added and not settled; `_settled` holds, in the log's order, what was
    settled by records from `covered` on. `uncovered` counts records since the last checkpoint, about. `promised` is up
    to where the log was durable, by the checkpoint that was loaded.
    """

    def __init__(self) -> None:
        self.covered = self.promised = 0
        self.waiting: dict[int, Waiting] = {}
        self.uncovered = 0
        self._settled: deque[tuple[int, int, Waiting]] = deque()
        self._resolved_late: dict[int, int] = {}
        """By which record an operator resolved a discarded one."""

    def load(self, checkpoint: dict[str, Any], *, log_start: int, log_end: int) -> None:
        """Begin with what a checkpoint says; without one, or with one of another log, at the log's beginning.

        What it says of the log below `log_start` is out of date: nothing is removed that waits.
        """
        covered = checkpoint.get("covered", 0)
        self.promised = covered
        if covered <= log_end:
            self.covered = covered
            for log_offset, size, checks in checkpoint.get("waiting", ()):
                if log_offset >= log_start:
                    self.waiting[log_offset] = Waiting(size, checks)
            late = checkpoint.get("late", ())
            self._resolved_late = {log_offset: settled_at for log_offset, settled_at in late if settled_at >= log_start}

    def add(self, log_offset: int, size: int) -> None:
        self.waiting[log_offset] = Waiting(size)
        self.uncovered += 1

    def checked(self, log_offset: int, checks: int) -> None:
        """So many transaction checks were sent."""
        half = self.waiting.get(log_offset)
        if half is not None:
            half.checks = checks
        self.uncovered += 1

    def settle(self, log_offset: int, settled_at: int, *, discards: bool) -> None:
        """The record at `settled_at` settles that half message; by discarding it, or otherwise."""
        self.uncovered += 1
        half = self.waiting.pop(log_offset, None)
        if half is not None:
            self._settled.append((settled_at, log_offset, half))
        elif not discards:
            self._resolved_late[log_offset] = settled_at

    def is_resolved_late(self, log_offset: int) -> bool:
        """Whether it was resolved after it was discarded."""
        return log_offset in self._resolved_late

    def cover(self, log_to: int) -> None:
        """All that lies below `log_to` is durable: the next checkpoint is to be of that moment."""
        self.covered = log_to
        self.uncovered = 0
        while self._settled and self._settled[0][0] < log_to:
            self._settled.popleft()

    def checkpoint(self) -> dict[str, Any]:
        """What waited at `covered`, for `load`."""
        as_of = {log_offset: half for log_offset, half in self.waiting.items() if log_offset < self.covered}
        as_of.update((log_offset, half) for _, log_offset, half in self._settled if log_offset < self.covered)
        return {
            "covered": self.covered,
            "waiting": [(log_offset, half.size, half.checks) for log_offset, half in as_of.items()],
            "late": [late for late in self._resolved_late.items() if late[1] < self.covered],
        }

    def forget_below(self, log_start: int) -> None:
        """The log begins there now; what still waits below are half messages whose records were lost."""
        self.waiting = {half: waiting for half, waiting in self.waiting.items() if half >= log_start}
        self._resolved_late = {half: at for half, at in self._resolved_late.items() if at >= log_start}
