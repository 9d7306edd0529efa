"""The known damage of one log, and which part of it may still be repaired.

Reported    A read found no whole record where the index says one. Whether the log or the index is damaged is checked
            before anything else happens.
Damaged     A range of the log without a whole record. A reader waits for its repair while another replica may have it
            whole: it does not step over a message that can still be had.
Given up    Every other replica was queried, and none has it whole: readers go on as without replicas. The replicas are
            queried again now and then.
Misled      Log offsets where no record begins: the index is wrong there, and no repair helps.
Threads     All of it, in any thread.
"""

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass

RANGES_MAX = 10_000
_REPORTS_MAX = 10_000
Range = tuple[int, int]
"""Log offsets where damaged bytes begin and end."""


class AwaitsRepair(Exception):
    """A record is damaged here, and another replica may have it whole: read again after the repair."""


@dataclass(slots=True)
class _DamagedRange:
    """A damaged range, by its begin: since when it is known, and when to request it again."""

    end: int
    since_s: float
    retry_s: float = 0.0
    is_given_up: bool = False


class LogDamage:
    """The damage of one log. Invariant: the ranges do not overlap."""

    def __init__(self, ranges: Iterable[Range] = (), *, now_s: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._ranges = {begin: _DamagedRange(end, now_s) for begin, end in ranges}
        self._begins = sorted(self._ranges)
        self._reports: dict[int, int] = {}
        self._misleading_offsets: set[int] = set()
        self.may_be_repaired = False
        """Whether there are other replicas of the log."""
        self.version = 0
        """Changes with the ranges."""
        self.repaired_bytes = 0
        self.on_damage: Callable[[], object] = ignore_damage
        """Called in any thread when there is a report, or more damage."""

    # --- readers

    def report_damage(self, log_offset: int, size: int) -> bool:
        """Note that a read found no whole record of that size there; return whether to read it again after a repair.

        Size 0: another replica could not use what it got of the log from there on.
        """
        with self._lock:
            damaged = self._range_covering(log_offset)
            if damaged is not None:
                return self.may_be_repaired and not damaged.is_given_up
            if log_offset in self._misleading_offsets:
                return False
            if len(self._reports) < _REPORTS_MAX:
                self._reports.setdefault(log_offset, size)
        self.on_damage()
        return self.may_be_repaired

    def awaits_repair(self, log_offset: int) -> bool:
        """Tell whether a reader at that log offset must wait."""
        with self._lock:
            damaged = self._range_covering(log_offset)
            return damaged is not None and self.may_be_repaired and not damaged.is_given_up

    # --- the upkeep

    def open_reports(self) -> list[tuple[int, int]]:
        """Return the reported log offsets that are not checked yet, and the size of the record that should be there."""
        with self._lock:
            return list(self._reports.items())

    def close_report(self, log_offset: int, *, ends_there: bool) -> None:
        """Close a report after its check, which has added all damage around it (`add_range`). `ends_there`: the log is
        whole there.
        """
        with self._lock:
            self._reports.pop(log_offset, None)
            if ends_there and self._range_covering(log_offset) is None and len(self._misleading_offsets) < _REPORTS_MAX:
                self._misleading_offsets.add(log_offset)

    def add_range(self, begin: int, end: int, now_s: float) -> bool:
        """Add a range of damage; return whether it is new."""
        with self._lock:
            at = bisect_right(self._begins, begin) - 1
            if at >= 0 and self._ranges[self._begins[at]].end > begin:
                return False  # known, or a part of what is
            if at + 1 < len(self._begins):
                end = min(end, self._begins[at + 1])
            if begin >= end or len(self._ranges) >= RANGES_MAX:
                return False
            self._ranges[begin] = _DamagedRange(end, now_s)
            insort(self._begins, begin)
            self.version += 1
        self.on_damage()
        return True

    def ranges_to_repair(self, now_s: float) -> list[Range]:
        """Return the ranges to request from other replicas now."""
        with self._lock:
            return [(begin, each.end) for begin, each in sorted(self._ranges.items()) if now_s >= each.retry_s]

    def postpone_repair(self, begin: int, until_s: float, *, is_given_up: bool) -> bool:
        """Postpone the repair of a range, since no replica had it whole; return whether it is newly given up.

        `is_given_up`: no other replica is left to query.
        """
        with self._lock:
            damaged = self._ranges.get(begin)
            if damaged is None:
                return False
            is_new = is_given_up and not damaged.is_given_up
            # Once every replica has refused, readers do not wait for a replica that is away later.
            damaged.retry_s, damaged.is_given_up = until_s, is_given_up or damaged.is_given_up
            return is_new

    def remove_repaired(self, begin: int, end: int) -> None:
        """Remove a range, or the beginning of one, since the log is whole from `begin` up to `end`."""
        with self._lock:
            damaged = self._ranges.pop(begin)
            self._begins.remove(begin)
            if end < damaged.end:
                self._ranges[end] = damaged
                insort(self._begins, end)
            self.repaired_bytes += end - begin
            self.version += 1

    def drop_outside(self, start: int, end: int) -> None:
        """Drop damage outside the log, whose beginning retention may have removed."""
        if not (self._ranges or self._misleading_offsets):
            return
        with self._lock:
            gone = [begin for begin, each in self._ranges.items() if begin < start or each.end > end]
            for begin in gone:
                del self._ranges[begin]
            if gone:
                self._begins = sorted(self._ranges)
                self.version += 1
            self._misleading_offsets = {place for place in self._misleading_offsets if start <= place < end}

    # --- figures

    def has_damage_within(self, begin: int, end: int) -> bool:
        """Tell whether a part of the range is damaged, as far as is known."""
        return any(first < end and begin < last for first, last in self.damaged_ranges)

    @property
    def damaged_ranges(self) -> list[Range]:
        with self._lock:
            return [(begin, self._ranges[begin].end) for begin in self._begins]

    @property
    def damaged_bytes(self) -> int:
        return sum(end - begin for begin, end in self.damaged_ranges)

    @property
    def is_known(self) -> bool:
        """Whether some of the log is damaged, as far as is known."""
        return bool(self._ranges)

    def waiting_s(self, now_s: float) -> float:
        """Return for how long the oldest damage has waited for a repair that may come; 0 if none waits."""
        with self._lock:
            waiting = (now_s - each.since_s for each in self._ranges.values() if not each.is_given_up)
            return max(waiting, default=0.0)

    @property
    def degraded_reason(self) -> str | None:
        """A text for the operator; None if nothing is damaged."""
        ranges = self.damaged_ranges
        if not ranges:
            return None
        count = "1 place" if len(ranges) == 1 else f"{len(ranges)} places"
        size = sum(end - begin for begin, end in ranges)
        return f"{size} bytes of the commit log are damaged, in {count} from log offset {ranges[0][0]} on"

    def _range_covering(self, log_offset: int) -> _DamagedRange | None:
        at = bisect_right(self._begins, log_offset) - 1
        if at < 0:
            return None
        damaged = self._ranges[self._begins[at]]
        return damaged if log_offset < damaged.end else None


def ignore_damage() -> None:
    """Do nothing: there is no upkeep."""
