"""Figures of the last hours, in memory: a ring of values for each series, limited in number and length.

Slots     of `step_ms` each, the same for all series and all processes: a slot is time // step. A slot has the value
          that was recorded in it; a slot without one is UNKNOWN.
Bound     `series_max` series. A new one takes the place of the series that was silent (0 or unknown) for longest, if
          that was for `SILENT_MIN` slots; the largest new values come first, the rest is left out.
Size      4 bytes for a slot: 8.6 KB for a series of six hours in steps of ten seconds.
"""

from array import array
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Final

from ternmq_common.shard.model import FigureHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STEP_MS: Final = 10_000
SLOTS: Final = 6 * 360
SERIES_MAX: Final = 1024
SILENT_MIN: Final = 60
UNKNOWN: Final = -1.0
_WHOLE: Final = float(1 << 24)
"""From here on a four-byte float has no fraction."""
UNITS: Final = {
    "in": "messages/s",
    "out": "messages/s",
    "acknowledged": "messages/s",
    "lag": "messages",
    "oldest": "s",
    "transactions": "transactions",
    "polls": "polls",
    "log_bytes": "bytes",
    "disk_used": "share",
    "sync_p99_ms": "ms",
    "calls": "calls/s",
    "failed_calls": "calls/s",
    "call_p50_ms": "ms",
    "call_p99_ms": "ms",
    "send_p99_ms": "ms",
    "connections": "connections",
    "clients": "clients",
    "memory": "bytes",
    "cpu": "cores",
}
"""The units of all series, for people."""
LARGEST: Final = frozenset({"oldest", "disk_used", "sync_p99_ms"})
"""Series of which the largest value of several processes is that of all."""


class _HistoryRing:
    __slots__ = ("last_active", "last_slot", "values")

    def __init__(self, slots: int) -> None:
        self.values = array("f", [UNKNOWN]) * slots
        self.last_slot = -1
        """The slot that was recorded last."""
        self.last_active = -1
        """The last slot with a value above 0."""


class HistoryRings:
    """The rings of all series; for one thread."""

    def __init__(self, *, step_ms: int = STEP_MS, slots: int = SLOTS, series_max: int = SERIES_MAX) -> None:
        self.step_ms = step_ms
        self._slots = slots
        self._held = slots + 1  # with the slot of now, which is not reported yet
        self._series_max = series_max
        self._rings: dict[str, _HistoryRing] = {}

    def record_values(self, now_ms: int, values: "Mapping[str, float]") -> None:
        """Record the values of these series in the slot of `now_ms`, and 0 for the others. A series begins with its
        first value above 0."""
        slot = now_ms // self.step_ms
        for name, ring in self._rings.items():
            self._put_value(ring, slot, values.get(name, 0.0))
        new = [name for name, value in values.items() if value > 0 and name not in self._rings]
        for name in self._make_room(new, values, slot):
            ring = self._rings[name] = _HistoryRing(self._held)
            self._put_value(ring, slot, values[name])

    def _make_room(self, new: list[str], values: "Mapping[str, float]", slot: int) -> list[str]:
        """Remove silent series if there are too many; return the new ones for which there is room."""
        lacking = len(self._rings) + len(new) - self._series_max
        if lacking <= 0:
            return new
        silent = [name for name, ring in self._rings.items() if ring.last_active <= slot - SILENT_MIN]
        for name in nsmallest(lacking, silent, key=lambda each: self._rings[each].last_active):
            del self._rings[name]
        return nlargest(self._series_max - len(self._rings), new, key=values.__getitem__)

    def _put_value(self, ring: _HistoryRing, slot: int, value: float) -> None:
        if slot < ring.last_slot:  # the clock was set back
            ring.last_slot, ring.last_active = -1, min(ring.last_active, slot)
            ring.values = array("f", [UNKNOWN]) * self._held
        if ring.last_slot >= 0:
            for passed in range(max(ring.last_slot + 1, slot - self._held + 1), slot):
                ring.values[passed % self._held] = UNKNOWN
        ring.values[slot % self._held] = value
        ring.last_slot = slot
        if value > 0:
            ring.last_active = slot

    def read_history(self, names: "Iterable[str]", now_ms: int) -> FigureHistory:
        """Return these series, if anything is known of them, up to the slot before now: that of now is not complete."""
        end = now_ms // self.step_ms
        found = {name: self._read_values(self._rings[name], end) for name in names if name in self._rings}
        known = {name: values for name, values in found.items() if max(values) > UNKNOWN}
        return FigureHistory(step_ms=self.step_ms, end_ms=end * self.step_ms, series=known)

    def _read_values(self, ring: _HistoryRing, end: int) -> list[float]:
        """Return the values of the slots before `end`."""
        begin = end - self._slots
        first, behind = max(begin, ring.last_slot - self._held + 1, 0), min(end, ring.last_slot + 1)
        if first >= behind:
            return [UNKNOWN] * self._slots
        place, count = first % self._held, behind - first
        there = ring.values[place : place + count]
        there += ring.values[: count - len(there)]  # the ring continues at its beginning
        # Rounded to a thousandth, since four bytes have no more: 0.1 is read as 0.1. `round` takes twice as long.
        values = [int(each * 1000 + 0.5) / 1000 if 0.0 < each < _WHOLE else each for each in there]
        return [UNKNOWN] * (first - begin) + values + [UNKNOWN] * (end - behind)


def combine_histories(histories: "Iterable[FigureHistory]") -> FigureHistory | None:
    """Combine the histories of several processes, each of which may know some slots; None if there are none. Values are
    added up, except for the series in LARGEST. A slot that none knows stays unknown."""
    found = list(histories)
    if not found:
        return None
    end_ms = max(each.end_ms for each in found)
    step_ms = found[0].step_ms
    sums: dict[str, list[float]] = {}
    for each in found:
        if each.step_ms != step_ms:
            continue  # of another version, which can't be added up
        behind = (end_ms - each.end_ms) // step_ms
        for name, values in each.series.items():
            shifted = [*values[behind:], *[UNKNOWN] * min(behind, len(values))]
            known = sums.get(name)
            add = max if name in LARGEST else _add_known
            sums[name] = shifted if known is None else [add(*pair) for pair in zip(known, shifted, strict=False)]
    return FigureHistory(step_ms=step_ms, end_ms=end_ms, series=sums)


def _add_known(one: float, other: float) -> float:
    return max(one, other) if UNKNOWN in (one, other) else one + other
