"""Which half messages are still waiting for their producers' word. Derived from the commit log and rebuilt from it.

This is the only place that knows: each record that is appended changes it, and nobody else keeps a list. Whoever asks
producers has only the times of that (`delivery/check_schedule.py`).

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


@dataclass(slots=True, kw_only=True, eq=False)
class WaitingHalf:
    """A half message that waits; `log_offset` and `size` are those of its record, `checks` counts transaction checks.

    What it says of itself is empty until `HalfIndex.describe`: an index that comes from a checkpoint has not read the
    records. `next_check_ms` is for the schedule of the checks.
    """

    log_offset: int
    size: int
    checks: int = 0
    topic: str = ""
    message_id: str = ""
    sender: str = ""
    stored_ms: int = 0
    next_check_ms: int = 0


class HalfIndex:
    """Half messages by the log offsets of their records.

    Invariants: everything in `waiting` and `_unreadable` was added and not settled; `_settled` holds, in the log's
    order, what was settled by records from `covered` on. `uncovered` counts records since the last checkpoint, about.
    `promised` is up to where the log was durable, by the checkpoint that was loaded. `_by_message` has, of those in
    `waiting` that were described, the first of each topic, message id and sender.
    """

    def __init__(self) -> None:
        self.covered = self.promised = 0
        self.waiting: dict[int, WaitingHalf] = {}
        self.uncovered = 0
        self._unreadable: dict[int, WaitingHalf] = {}
        self._by_message: dict[tuple[str, str, str], WaitingHalf] = {}
        self._settled: deque[tuple[int, WaitingHalf]] = deque()
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
                    self.waiting[log_offset] = WaitingHalf(log_offset=log_offset, size=size, checks=checks)
            late = checkpoint.get("late", ())
            self._resolved_late = {log_offset: settled_at for log_offset, settled_at in late if settled_at >= log_start}

    def add(self, log_offset: int, size: int) -> None:
        self.waiting[log_offset] = WaitingHalf(log_offset=log_offset, size=size)
        self.uncovered += 1

    def describe(self, half: WaitingHalf, *, topic: str, message_id: str, sender: str, stored_ms: int) -> None:
        """What the record of one that waits says."""
        half.topic, half.message_id = topic, message_id
        half.sender, half.stored_ms = sender, stored_ms
        self._by_message.setdefault((topic, message_id, sender), half)

    def of_message(self, topic: str, message_id: str, sender: str) -> WaitingHalf | None:
        """The first that waits of that message, if its sender is the same."""
        return self._by_message.get((topic, message_id, sender))

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
            self._leave(half)
            self._settled.append((settled_at, half))
        elif not discards:
            self._resolved_late[log_offset] = settled_at

    def give_up(self, half: WaitingHalf) -> None:
        """Its record can't be read: nobody can end it. The next start tries again, unless retention was faster."""
        self._unreadable[half.log_offset] = self.waiting.pop(half.log_offset)
        self._leave(half)

    def _leave(self, half: WaitingHalf) -> None:
        message = (half.topic, half.message_id, half.sender)
        if self._by_message.get(message) is half:
            del self._by_message[message]

    def in_order(self) -> list[WaitingHalf]:
        """All that wait, in the order in which they were stored."""
        return sorted(self.waiting.values(), key=lambda half: half.log_offset)

    def below(self, log_offset: int) -> list[WaitingHalf]:
        """Those whose records lie below that log offset."""
        return [half for half in self.waiting.values() if half.log_offset < log_offset]

    def of_topic(self, topic: str) -> list[WaitingHalf]:
        """Those of that topic; for an index whose half messages are described."""
        return [half for half in self.waiting.values() if half.topic == topic]

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
        as_of = [*self.waiting.values(), *self._unreadable.values(), *(half for _, half in self._settled)]
        return {
            "covered": self.covered,
            "waiting": [(half.log_offset, half.size, half.checks) for half in as_of if half.log_offset < self.covered],
            "late": [late for late in self._resolved_late.items() if late[1] < self.covered],
        }

    def forget_below(self, log_start: int) -> None:
        """The log begins there now; what still waits below are half messages whose records were lost."""
        for half in self.below(log_start):
            self._leave(self.waiting.pop(half.log_offset))
        self._unreadable = {at: half for at, half in self._unreadable.items() if at >= log_start}
        self._resolved_late = {half: at for half, at in self._resolved_late.items() if at >= log_start}
