"""The index of half messages that wait for their producers' decision. Derived from the commit log and rebuilt from it.

No other code keeps such a list: each appended record updates this one. The schedule of transaction checks has only the
times (`delivery/check_schedule.py`).

A half message is settled by the first record that has it as its origin and is no `checked N`. A second such record
comes only after it was discarded: an operator has resolved it late. That is remembered for as long as the second record
is in the log, which is longer than the copy in the discard topic.

Operations  What an operation's rest says: `rollback`, or `checked N` for the N-th transaction check.
Checkpoint  has the half messages that wait as of log offset `covered_offset`, and is part of the store's checkpoint:
            after a
            restart only what lies behind is read again. Those that later records settled still wait in it.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

ROLLBACK: Final = b"rollback"
_CHECKED: Final = b"checked "


def encode_checks(count: int) -> bytes:
    """Return the rest of an operation that records the `count`-th transaction check."""
    return _CHECKED + str(count).encode()


def decode_checks(rest: bytes) -> int | None:
    """Return the number of checks in the rest of an operation; None if it is another operation."""
    return int(rest.removeprefix(_CHECKED)) if rest.startswith(_CHECKED) else None


@dataclass(slots=True, init=False, eq=False)
class WaitingHalf:
    """A waiting half message. `log_offset` and `size` are those of its record, `checks` counts transaction checks.

    The other fields are empty until `HalfIndex.describe_half`: an index that comes from a checkpoint has not read the
    records. `next_check_ms` is for the schedule of the checks.
    """

    log_offset: int
    size: int
    checks: int
    topic: str
    message_id: str
    sender: str
    stored_ms: int
    next_check_ms: int

    # Written out, since the one that a dataclass generates is not compiled.
    def __init__(self, *, log_offset: int, size: int, checks: int = 0) -> None:
        self.log_offset = log_offset
        self.size = size
        self.checks = checks
        self.topic = self.message_id = self.sender = ""
        self.stored_ms = self.next_check_ms = 0


class HalfIndex:
    """The half messages of one store, by the log offsets of their records.

    Invariants: everything in `waiting` and `_unreadable` was added and not settled; `_settled` has, in the log's
    order, what was settled by records from `covered_offset` on. `uncovered` counts records since the last checkpoint,
    about. `durable_offset` is up to where the log was durable, by the checkpoint that was loaded. `_by_message` has the
    described half messages in `waiting`: the first of each topic, message id and sender.
    """

    def __init__(self) -> None:
        self.covered_offset = self.durable_offset = 0
        self.waiting: dict[int, WaitingHalf] = {}
        self.uncovered = 0
        self._unreadable: dict[int, WaitingHalf] = {}
        self._by_message: dict[tuple[str, str, str], WaitingHalf] = {}
        self._settled: deque[tuple[int, WaitingHalf]] = deque()
        self._resolved_late: dict[int, int] = {}
        """Log offsets of discarded half messages, and of the records by which an operator resolved them."""

    def load_checkpoint(self, checkpoint: dict[str, Any], *, log_start: int, log_end: int) -> None:
        """Begin with the checkpoint's content; without one, or with one of another log, at the log's beginning.

        Its entries below `log_start` are out of date: retention removes no half message that waits.
        """
        covered = checkpoint.get("covered", 0)
        self.durable_offset = covered
        if covered <= log_end:
            self.covered_offset = covered
            for log_offset, size, checks in checkpoint.get("waiting", ()):
                if log_offset >= log_start:
                    self.waiting[log_offset] = WaitingHalf(log_offset=log_offset, size=size, checks=checks)
            late = checkpoint.get("late", ())
            self._resolved_late = {log_offset: settled_at for log_offset, settled_at in late if settled_at >= log_start}

    def add_half(self, log_offset: int, size: int) -> None:
        self.waiting[log_offset] = WaitingHalf(log_offset=log_offset, size=size)
        self.uncovered += 1

    def describe_half(self, half: WaitingHalf, *, topic: str, message_id: str, sender: str, stored_ms: int) -> None:
        """Fill in the fields that the half message's record has."""
        half.topic, half.message_id = topic, message_id
        half.sender, half.stored_ms = sender, stored_ms
        self._by_message.setdefault((topic, message_id, sender), half)

    def find_by_message(self, topic: str, message_id: str, sender: str) -> WaitingHalf | None:
        """Return the first waiting half message with that id and sender."""
        return self._by_message.get((topic, message_id, sender))

    def set_checks(self, log_offset: int, checks: int) -> None:
        """Set how many transaction checks were sent."""
        half = self.waiting.get(log_offset)
        if half is not None:
            half.checks = checks
        self.uncovered += 1

    def settle_half(self, log_offset: int, settled_at: int, *, discards: bool) -> None:
        """Settle a half message by the record at `settled_at`, which discards it or not."""
        self.uncovered += 1
        half = self.waiting.pop(log_offset, None)
        if half is not None:
            self._forget_message(half)
            self._settled.append((settled_at, half))
        elif not discards:
            self._resolved_late[log_offset] = settled_at

    def give_up_half(self, half: WaitingHalf) -> None:
        """Give up a half message whose record can't be read, so that it can't be resolved. The next start tries again,
        unless retention was faster.
        """
        self._unreadable[half.log_offset] = self.waiting.pop(half.log_offset)
        self._forget_message(half)

    def _forget_message(self, half: WaitingHalf) -> None:
        message = (half.topic, half.message_id, half.sender)
        if self._by_message.get(message) is half:
            del self._by_message[message]

    def waiting_in_order(self) -> list[WaitingHalf]:
        """Return all that wait, in the order in which they were stored."""
        return sorted(self.waiting.values(), key=lambda half: half.log_offset)

    def waiting_below(self, log_offset: int) -> list[WaitingHalf]:
        """Return those whose records lie below that log offset."""
        return [half for half in self.waiting.values() if half.log_offset < log_offset]

    def waiting_of_topic(self, topic: str) -> list[WaitingHalf]:
        """Return those of that topic, in an index whose half messages are described."""
        return [half for half in self.waiting.values() if half.topic == topic]

    def is_resolved_late(self, log_offset: int) -> bool:
        """Tell whether it was resolved after it was discarded."""
        return log_offset in self._resolved_late

    def cover_to(self, log_to: int) -> None:
        """Note that everything below `log_to` is durable: the next checkpoint is as of there."""
        self.covered_offset = log_to
        self.uncovered = 0
        while self._settled and self._settled[0][0] < log_to:
            self._settled.popleft()

    def checkpoint_content(self) -> dict[str, Any]:
        """Return what waited at `covered_offset`, for `load_checkpoint`."""
        as_of = [*self.waiting.values(), *self._unreadable.values(), *(half for _, half in self._settled)]
        return {
            "covered": self.covered_offset,
            "waiting": [
                (half.log_offset, half.size, half.checks) for half in as_of if half.log_offset < self.covered_offset
            ],
            "late": [late for late in self._resolved_late.items() if late[1] < self.covered_offset],
        }

    def forget_below(self, log_start: int) -> None:
        """Drop what lies below the log's new start: half messages that still wait there have lost their records."""
        for half in self.waiting_below(log_start):
            self._forget_message(self.waiting.pop(half.log_offset))
        self._unreadable = {at: half for at, half in self._unreadable.items() if at >= log_start}
        self._resolved_late = {half: at for half, at in self._resolved_late.items() if at >= log_start}
