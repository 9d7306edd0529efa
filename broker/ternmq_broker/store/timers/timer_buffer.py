"""The changes of the timer index since its last spill: timers that were added and timers that were settled."""

from array import array
from bisect import bisect_left
from contextlib import suppress
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ternmq_broker.store.timers.timer_run import TimerEntry


class SettledTimer(NamedTuple):
    """The record at `settled_at` settles the timer at `log_offset`."""

    settled_at: int
    due_ms: int
    log_offset: int


class TimerBuffer:
    """Added and settled timers, both in the order of the log, since a spill takes what lies below a log offset."""

    def __init__(self) -> None:
        self._added: list[TimerEntry] = []
        self._hashes = array("I")
        self._settled: list[SettledTimer] = []
        self._settled_offsets: set[int] = set()

    def __len__(self) -> int:
        return len(self._added) + len(self._settled)

    def add_timer(self, entry: "TimerEntry") -> None:
        assert entry[2], "a size of 0 would be a tombstone"
        assert not self._added or entry[1] > self._added[-1][1]
        self._added.append(entry)
        self._hashes.append(entry[3])

    def settle_timer(self, settled: SettledTimer) -> None:
        assert not self._settled or settled.settled_at >= self._settled[-1].settled_at
        self._settled.append(settled)
        self._settled_offsets.add(settled.log_offset)

    def added_timers(self) -> "list[TimerEntry]":
        return self._added.copy()

    def settled_offsets(self) -> set[int]:
        return self._settled_offsets.copy()

    def find_timers(self, due_ms: int, id_hash: int) -> "list[TimerEntry]":
        """Return the timers with that due time and id hash that are not settled."""
        found: list[TimerEntry] = []
        at = -1
        with suppress(ValueError):
            while True:
                at = self._hashes.index(id_hash, at + 1)
                entry = self._added[at]
                if entry.due_ms == due_ms and entry.log_offset not in self._settled_offsets:
                    found.append(entry)
        return found

    def added_below(self, log_offset: int) -> "list[TimerEntry]":
        return self._added[: bisect_left(self._added, log_offset, key=itemgetter(1))]

    def split_settled(self, log_offset: int) -> tuple[list[SettledTimer], list[SettledTimer]]:
        """Return what was settled by records below that log offset, and by others."""
        at = bisect_left(self._settled, log_offset, key=attrgetter("settled_at"))
        return self._settled[:at], self._settled[at:]

    def drop_written(self, added: int, settled: int) -> None:
        """Drop the first ones of each, which a spill has written."""
        del self._added[:added], self._hashes[:added]
        self._settled_offsets.difference_update(one.log_offset for one in self._settled[:settled])
        del self._settled[:settled]
