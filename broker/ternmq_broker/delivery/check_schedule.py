"""The schedule of transaction checks of half messages, and the allowed outcomes of a transaction.

First check  when a half message has waited for its recovery duration, or else for the broker's default
Then         every interval; only checks that reached a producer count
Discarded    an interval after the last check that is allowed, or when it has become too old
"""

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_common.shard.model import TransactionResolution, TransactionState

if TYPE_CHECKING:
    from ternmq_broker.store.index.half_index import HalfIndex, WaitingHalf

NEXT: Final = {
    (TransactionState.PENDING, TransactionResolution.COMMIT): TransactionState.COMMITTED,
    (TransactionState.PENDING, TransactionResolution.ROLLBACK): TransactionState.ROLLED_BACK,
    (TransactionState.COMMITTED, TransactionResolution.COMMIT): TransactionState.COMMITTED,  # a repeated call
    (TransactionState.ROLLED_BACK, TransactionResolution.ROLLBACK): TransactionState.ROLLED_BACK,
}
NEXT_BY_OPERATOR: Final = NEXT | {
    (TransactionState.DISCARDED, TransactionResolution.COMMIT): TransactionState.COMMITTED,
    (TransactionState.DISCARDED, TransactionResolution.ROLLBACK): TransactionState.ROLLED_BACK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """The rules of transaction checks. Times in milliseconds."""

    first_check_ms: int
    interval_ms: int
    checks_max: int
    age_max_ms: int


class CheckSchedule:
    """The check times of the half messages in `halves`; an entry of a settled one is out of date.

    Invariant: the heap has, for each half message that waits and was added, an entry of its `next_check_ms`.
    """

    def __init__(self, halves: "HalfIndex", rules: CheckRules) -> None:
        self._halves = halves
        self._rules = rules
        self._heap: list[tuple[int, int]] = []

    def add_half(self, half: "WaitingHalf", recovery_ms: int | None) -> None:
        """Add a half message that was just stored; `recovery_ms` is its own time without checks, if it has one."""
        patience_ms = self._rules.first_check_ms if recovery_ms is None else recovery_ms
        self._schedule_check(half, half.stored_ms + patience_ms)

    def restore_half(self, half: "WaitingHalf", recovery_ms: int | None, now_ms: int) -> None:
        """Add a half message that was found after a restart: producers get an interval to reconnect before the next
        check."""
        if half.checks:
            self._schedule_check(half, now_ms + self._rules.interval_ms)
        else:
            self.add_half(half, recovery_ms)

    def next_due_ms(self) -> int | None:
        """Return when the next half message is due, None if there is none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int, limit: int) -> "list[WaitingHalf]":
        """Return those to check with a producer now, or to discard. Unless they are, they are due again after an
        interval.
        """
        due: list[WaitingHalf] = []
        while len(due) < limit and (next_ms := self.next_due_ms()) is not None and next_ms <= now_ms:
            half = self._halves.waiting[heapq.heappop(self._heap)[1]]
            due.append(half)
            self._schedule_check(half, now_ms + self._rules.interval_ms)
        return due

    def is_exhausted(self, half: "WaitingHalf", now_ms: int) -> bool:
        """Tell whether it has had all its checks, or is too old."""
        return half.checks >= self._rules.checks_max or now_ms - half.stored_ms >= self._rules.age_max_ms

    def _schedule_check(self, half: "WaitingHalf", next_check_ms: int) -> None:
        half.next_check_ms = next_check_ms
        heapq.heappush(self._heap, (next_check_ms, half.log_offset))

    def _is_current(self, entry: tuple[int, int]) -> bool:
        half = self._halves.waiting.get(entry[1])
        return half is not None and half.next_check_ms == entry[0]
