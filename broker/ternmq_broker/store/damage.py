"""What is known of one log to be damaged, and what of that may still be repaired.

Reported    a read found no whole record where the index says one. Whether the log is damaged there, or the index, is
            looked up before anything follows from it.
Damaged     a stretch of the log without a whole record. A reader waits for its repair while another replica may have
            it whole: no message is stepped over that can be had.
Given up    every other replica was asked, and none has it whole: readers go on as without replicas. It is asked for
            again now and then.
Misled      places where no record begins: what the index says of them is wrong, and no repair helps.
Threads     all of it, in any thread.
"""

import threading
from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

RANGES_MAX = 10_000
_REPORTS_MAX = 10_000
Range = tuple[int, int]
"""Log offsets where damaged bytes begin and end."""


class AwaitsRepair(Exception):
    """A record is damaged here, and another replica may have it whole: read again when it was repaired."""


@dataclass(slots=True)
class _Damaged:
    end: int
    since_s: float
    retry_s: float = 0.0
    is_given_up: bool = False


class Damage:
    """One log's. Invariant: the ranges are apart from each other."""

    def __init__(self, ranges: Iterable[Range] = (), *, now_s: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._ranges = {begin: _Damaged(end, now_s) for begin, end in ranges}
        self._begins = sorted(self._ranges)
        self._reports: dict[int, int] = {}
        self._misled: set[int] = set()
        self.may_be_repaired = False
        """Whether there are other replicas of the log."""
        self.version = 0
        """Changes with the ranges."""
        self.repaired_bytes = 0

    # --- readers

    def report(self, log_offset: int, size: int) -> bool:
        """A read found no whole record of that size there; whether it is to be read again after a repair. A size of 0:
        another replica could not take what it got of the log from there on."""
        with self._lock:
            damaged = self._covering(log_offset)
            if damaged is not None:
                return self.may_be_repaired and not damaged.is_given_up
            if log_offset in self._misled:
                return False
            if len(self._reports) < _REPORTS_MAX:
                self._reports.setdefault(log_offset, size)
            return self.may_be_repaired

    def awaits_repair(self, log_offset: int) -> bool:
        """Whether a reader there is to wait."""
        with self._lock:
            damaged = self._covering(log_offset)
            return damaged is not None and self.may_be_repaired and not damaged.is_given_up

    # --- the upkeep

    def reports(self) -> list[tuple[int, int]]:
        """Places that are to be looked at, and the size of the record that should be there."""
        with self._lock:
            return list(self._reports.items())

    def looked_at(self, log_offset: int, *, ends_there: bool) -> None:
        """A report was looked at, and all damage around it was `found`. `ends_there`: the log is whole there."""
        with self._lock:
            self._reports.pop(log_offset, None)
            if ends_there and self._covering(log_offset) is None and len(self._misled) < _REPORTS_MAX:
                self._misled.add(log_offset)

    def found(self, begin: int, end: int, now_s: float) -> bool:
        """A stretch of damage; whether it is new."""
        with self._lock:
            at = bisect_right(self._begins, begin) - 1
            if at >= 0 and self._ranges[self._begins[at]].end > begin:
                return False  # known, or a part of what is
            if at + 1 < len(self._begins):
                end = min(end, self._begins[at + 1])
            if begin >= end or len(self._ranges) >= RANGES_MAX:
                return False
            self._ranges[begin] = _Damaged(end, now_s)
            insort(self._begins, begin)
            self.version += 1
            return True

    def to_repair(self, now_s: float) -> list[Range]:
        """What is to be asked for now."""
        with self._lock:
            return [(begin, each.end) for begin, each in sorted(self._ranges.items()) if now_s >= each.retry_s]

    def put_off(self, begin: int, until_s: float, *, is_given_up: bool) -> bool:
        """No replica gave it whole, and with `is_given_up` there is no other one to ask; whether that is new."""
        with self._lock:
            damaged = self._ranges.get(begin)
            if damaged is None:
                return False
            is_new = is_given_up and not damaged.is_given_up
            # Once all have said no, one that is away then is not waited for.
            damaged.retry_s, damaged.is_given_up = until_s, is_given_up or damaged.is_given_up
            return is_new

    def repaired(self, begin: int, end: int) -> None:
        """The log is whole from `begin`, where a stretch of damage began, up to there."""
        with self._lock:
            damaged = self._ranges.pop(begin)
            self._begins.remove(begin)
            if end < damaged.end:
                self._ranges[end] = damaged
                insort(self._begins, end)
            self.repaired_bytes += end - begin
            self.version += 1

    def drop_outside(self, start: int, end: int) -> None:
        """The log is what lies between: retention has removed what was before."""
        if not (self._ranges or self._misled):
            return
        with self._lock:
            gone = [begin for begin, each in self._ranges.items() if begin < start or each.end > end]
            for begin in gone:
                del self._ranges[begin]
            if gone:
                self._begins = sorted(self._ranges)
                self.version += 1
            self._misled = {place for place in self._misled if start <= place < end}

    # --- what there is to see

    def is_within(self, begin: int, end: int) -> bool:
        """Whether some of what lies between is damaged, as far as is known."""
        return any(first < end and begin < last for first, last in self.ranges)

    @property
    def ranges(self) -> list[Range]:
        with self._lock:
            return [(begin, self._ranges[begin].end) for begin in self._begins]

    @property
    def size(self) -> int:
        return sum(end - begin for begin, end in self.ranges)

    @property
    def is_known(self) -> bool:
        """Whether some of the log is damaged, as far as is known."""
        return bool(self._ranges)

    def waiting_s(self, now_s: float) -> float:
        """For how long some of it has waited for a repair that may come; 0 if nothing does."""
        with self._lock:
            waiting = (now_s - each.since_s for each in self._ranges.values() if not each.is_given_up)
            return max(waiting, default=0.0)

    @property
    def degraded(self) -> str | None:
        """What a person should know of it."""
        ranges = self.ranges
        if not ranges:
            return None
        count = "1 place" if len(ranges) == 1 else f"{len(ranges)} places"
        size = sum(end - begin for begin, end in ranges)
        return f"{size} bytes of the commit log are damaged, in {count} from log offset {ranges[0][0]} on"

    def _covering(self, log_offset: int) -> _Damaged | None:
        at = bisect_right(self._begins, log_offset) - 1
        if at < 0:
            return None
        damaged = self._ranges[self._begins[at]]
        return damaged if log_offset < damaged.end else None
