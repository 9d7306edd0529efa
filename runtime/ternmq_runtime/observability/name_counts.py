"""Counts for each topic or consumer group, which each message passes. See `figures` for threads."""

from typing import Final

# The largest value of the setting metric_series_max.
NAMES_MAX: Final = 20_000
OTHER: Final = "other"


class NameCounts:
    """A count for each topic or group. Once there are 20,000 names, the others are counted together, as `other`."""

    __slots__ = ("_counts", "_rest", "_total")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._rest = self._total = 0

    def add_count(self, name: str, count: int = 1) -> None:
        """Add to the count of a name. With 0, a name without a count gets none: it may be one that was forgotten."""
        if not count:
            return
        counts = self._counts
        if name in counts:
            counts[name] += count
        elif len(counts) < NAMES_MAX:
            counts[name] = count
        else:
            self._rest += count
        self._total += count

    def forget_name(self, name: str) -> None:
        """Forget a deleted topic or group; a new one of the same name begins with 0."""
        self._counts.pop(name, None)

    def copy_counts(self) -> dict[str, int]:
        """Return a copy of the counts; for any thread."""
        counts = self._counts.copy()
        if self._rest:
            counts[OTHER] = counts.get(OTHER, 0) + self._rest
        return counts

    def total_count(self) -> int:
        """Return the sum of all names, including forgotten ones: it never falls."""
        return self._total
