"""Half messages that wait for their producers' word: their possible outcomes, and when a transaction check is due.

First check  when a half message has waited for its recovery duration, or else for the broker's default
Then         every interval; only checks that reached a producer count
Discarded    an interval after the last check that is allowed, or when it has become too old
"""

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.model import Resolution, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator

NEXT = {
    (TransactionState.PENDING, Resolution.COMMIT): TransactionState.COMMITTED,
    (TransactionState.PENDING, Resolution.ROLLBACK): TransactionState.ROLLED_BACK,
    (TransactionState.COMMITTED, Resolution.COMMIT): TransactionState.COMMITTED,  # a repeated call
    (TransactionState.ROLLED_BACK, Resolution.ROLLBACK): TransactionState.ROLLED_BACK,
}
NEXT_BY_OPERATOR = NEXT | {
    (TransactionState.DISCARDED, Resolution.COMMIT): TransactionState.COMMITTED,
    (TransactionState.DISCARDED, Resolution.ROLLBACK): TransactionState.ROLLED_BACK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """Times in milliseconds."""

    first_check_ms: int
    interval_ms: int
    checks_max: int
    age_max_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class PendingHalf:
    """One half message; `log_offset` and `size` are those of its record."""

    log_offset: int
    size: int
    topic: str
    message_id: str
    sender: str
    stored_ms: int
    next_check_ms: int = 0
    checks: int = 0


class PendingHalves:
    """All half messages that wait, by log offset.

    Invariant: the heap has, for each of them, an entry of its `next_check_ms`; other entries are out of date.
    """

    def __init__(self, rules: CheckRules) -> None:
        self._rules = rules
        self._halves: dict[int, PendingHalf] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._halves)

    def __iter__(self) -> "Iterator[PendingHalf]":
        """In the order in which they were stored."""
        return iter(sorted(self._halves.values(), key=lambda half: half.log_offset))

    def get(self, log_offset: int) -> PendingHalf | None:
        return self._halves.get(log_offset)

    def add(self, half: PendingHalf, recovery_ms: int | None) -> None:
        """A half message that was just stored; `recovery_ms` is its own time without checks, if it has one."""
        self._halves[half.log_offset] = half
        patience_ms = self._rules.first_check_ms if recovery_ms is None else recovery_ms
        self._schedule(half, half.stored_ms + patience_ms)

    def restore(self, half: PendingHalf, recovery_ms: int | None, now_ms: int) -> None:
        """One that was found after a restart: producers get an interval to come back before the next check."""
        self.add(half, recovery_ms)
        if half.checks:
            self._schedule(half, now_ms + self._rules.interval_ms)

    def remove(self, half: PendingHalf) -> None:
        """Its producer, or somebody in its place, has decided."""
        del self._halves[half.log_offset]

    def next_due_ms(self) -> int | None:
        """When there is something to do."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int, limit: int) -> list[PendingHalf]:
        """Those about which a producer is to be asked now, or that are to be discarded. Unless they are, they are due
        again after an interval."""
        due: list[PendingHalf] = []
        while len(due) < limit and (next_ms := self.next_due_ms()) is not None and next_ms <= now_ms:
            half = self._halves[heapq.heappop(self._heap)[1]]
            due.append(half)
            self._schedule(half, now_ms + self._rules.interval_ms)
        return due

    def is_exhausted(self, half: PendingHalf, now_ms: int) -> bool:
        """Whether there is nobody left to ask."""
        return half.checks >= self._rules.checks_max or now_ms - half.stored_ms >= self._rules.age_max_ms

    def below(self, log_offset: int) -> list[PendingHalf]:
        """Those whose records lie below that log offset."""
        return [half for half in self._halves.values() if half.log_offset < log_offset]

    def of_topic(self, topic: str) -> list[PendingHalf]:
        return [half for half in self._halves.values() if half.topic == topic]

    def _schedule(self, half: PendingHalf, next_check_ms: int) -> None:
        half.next_check_ms = next_check_ms
        heapq.heappush(self._heap, (next_check_ms, half.log_offset))

    def _is_current(self, entry: tuple[int, int]) -> bool:
        half = self._halves.get(entry[1])
        return half is not None and half.next_check_ms == entry[0]
