"""Due times of many things: one for each, the earliest that it was given."""

import heapq

Key = tuple[str, str]
"""Group and topic."""


class DueTimes:
    """The earliest due time of each key, in milliseconds since the epoch. Invariant: each key of `_planned` is in the
    heap with its time.
    """

    def __init__(self) -> None:
        self._planned: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []

    def plan_due(self, key: Key, due_ms: int) -> None:
        """Make the key due at that time, unless it is due before."""
        planned = self._planned.get(key)
        if planned is None or due_ms < planned:
            self._planned[key] = due_ms
            heapq.heappush(self._heap, (due_ms, key))

    @property
    def first_ms(self) -> int | None:
        """When the first key is due; None if there is none."""
        while self._heap:
            due_ms, key = self._heap[0]
            if self._planned.get(key) == due_ms:
                return due_ms
            heapq.heappop(self._heap)  # the key was due earlier, and is not any more
        return None

    def take_due(self, now_ms: int) -> list[Key]:
        """Remove and return the keys that are due."""
        due: list[Key] = []
        while (first_ms := self.first_ms) is not None and first_ms <= now_ms:
            key = heapq.heappop(self._heap)[1]
            del self._planned[key]
            due.append(key)
        return due
