"""The timers that are due soon, in memory, and those that were taken for delivery.

All pending timers whose key is below `loaded_to` are here, so the earliest of all is known without a disk read. They
are in the runs or in the buffer of the index too: dropping the later ones loses nothing.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.timers.timer_run import Key, TimerEntry

_SAMPLES = 64


class NearTimers:
    """Pending timers below `loaded_to`, and held ones.

    Invariants: a timer is either here or held, or it is not pending or not below `loaded_to`; a held one may lie
    anywhere. The heap has every timer that is here, and may have others, which are skipped.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 1
        self._limit = limit
        self._pending: dict[int, TimerEntry] = {}
        self._heap: list[TimerEntry] = []
        self.held: dict[int, TimerEntry] = {}
        self.loaded_to: Key = (0, 0)

    def __len__(self) -> int:
        return len(self._pending)

    def add_timer(self, entry: "TimerEntry") -> None:
        """Add a pending timer whose key is below `loaded_to`."""
        self._pending[entry[1]] = entry
        heappush(self._heap, entry)
        if len(self._heap) > self._limit:
            self._make_room()

    def add_timers(self, entries: "dict[int, TimerEntry]", loaded_to: "Key") -> None:
        """Add all pending timers from the old `loaded_to` on, below the new one, by log offset and in order."""
        self._pending.update(entries)
        self._heap += entries.values()  # all are above those in it, and in order, so it stays a heap
        self.loaded_to = loaded_to
        if len(self._heap) > self._limit:
            self._make_room()

    def _make_room(self) -> None:
        if len(self._pending) > self._limit // 2:
            self._drop_later_half()
        else:
            self._heap = list(self._pending.values())
        heapify(self._heap)

    def _drop_later_half(self) -> None:
        """Drop the later half within a few milliseconds: samples estimate the middle, unless the estimate is bad."""
        entries = list(self._pending.values())
        samples = sorted(entries[:: max(1, len(entries) // _SAMPLES)])
        kept = [entry for entry in entries if entry < samples[len(samples) // 2]]
        if not len(entries) // 8 <= len(kept) <= len(entries) * 7 // 8:
            entries.sort()
            kept = entries[: len(entries) // 2]
            self.loaded_to = entries[len(kept)][:2]
        else:
            self.loaded_to = samples[len(samples) // 2][:2]
        self._pending = {entry[1]: entry for entry in kept}
        self._heap = kept

    def first_due_ms(self) -> int | None:
        while self._heap and self._heap[0][1] not in self._pending:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int, limit: int) -> "list[TimerEntry]":
        """Return up to `limit` timers that are due, the earliest first, and hold them."""
        taken: list[TimerEntry] = []
        while len(taken) < limit and self._heap and self._heap[0][0] <= now_ms:
            entry = self._pending.pop(heappop(self._heap)[1], None)
            if entry is not None:
                self.held[entry[1]] = entry
                taken.append(entry)
        return taken

    def hold_timers(self, entries: "Iterable[TimerEntry]") -> "list[TimerEntry]":
        """Hold those timers that are not held yet, and return them."""
        fresh = [entry for entry in entries if entry.log_offset not in self.held]
        for entry in fresh:
            self._pending.pop(entry.log_offset, None)
            self.held[entry.log_offset] = entry
        return fresh

    def return_timers(self, entries: "Iterable[TimerEntry]") -> None:
        """Make those that are still held pending again."""
        for entry in entries:
            if self.held.pop(entry.log_offset, None) and entry < self.loaded_to:
                self.add_timer(entry)

    def settle_timer(self, log_offset: int) -> None:
        self.held.pop(log_offset, None)
        self._pending.pop(log_offset, None)

    def forget_below(self, log_start: int) -> None:
        """Drop timers below the log's new start."""
        for log_offset in [log_offset for log_offset in self._pending if log_offset < log_start]:
            del self._pending[log_offset]
