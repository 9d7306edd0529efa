"""Rows in the order of their time, cut into slices that are sent one after the other; pure.

Times are microseconds since 1970, as Spark has them. A slice has its start and not its end. Rows of one microsecond
are never parted, so a slice may have more rows than it should only if that many have the same time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

Counts = Iterable[tuple[int, int]]
"""Numbers of buckets of one width, counted from a start, and how many rows each has; empty ones may be absent."""

BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The rows with a time from `start_us` up to, not including, `end_us`."""

    start_us: int
    end_us: int
    rows: int


def by_rows(whole: TimeSlice, rows_max: int, count: Callable[[int, int, int], Counts]) -> list[TimeSlice]:
    """Slices of at most `rows_max` rows. `count(start_us, end_us, width_us)` counts the rows of buckets."""
    if whole.rows <= rows_max or whole.end_us - whole.start_us <= 1:
        return [whole] if whole.rows else []
    width_us = max(1, -(-(whole.end_us - whole.start_us) // BUCKETS))
    slices = list[TimeSlice]()
    for bucket in _cut_buckets(whole, width_us, count(whole.start_us, whole.end_us, width_us)):
        if bucket.rows > rows_max:
            slices.extend(by_rows(bucket, rows_max, count))
        elif slices and slices[-1].rows + bucket.rows <= rows_max:
            slices[-1] = TimeSlice(slices[-1].start_us, bucket.end_us, slices[-1].rows + bucket.rows)
        else:
            slices.append(bucket)
    return slices


def by_time(whole: TimeSlice, width_us: int, count: Callable[[int, int, int], Counts]) -> list[TimeSlice]:
    """Slices of one width; those without rows are left out."""
    return list(_cut_buckets(whole, width_us, count(whole.start_us, whole.end_us, width_us))) if whole.rows else []


def _cut_buckets(whole: TimeSlice, width_us: int, counts: Counts) -> Iterator[TimeSlice]:
    for number, rows in sorted(counts):
        start_us = whole.start_us + number * width_us
        yield TimeSlice(start_us, min(start_us + width_us, whole.end_us), rows)


def join_slices(slices: Sequence[TimeSlice], rows_max: int) -> list[list[TimeSlice]]:
    """Neighbours that have at most `rows_max` rows together, so that they may be read at once."""
    groups = list[list[TimeSlice]]()
    rows = 0
    for one in slices:
        if groups and rows + one.rows <= rows_max:
            groups[-1].append(one)
            rows += one.rows
        else:
            groups.append([one])
            rows = one.rows
    return groups


@dataclass(frozen=True, slots=True)
class SlicePace:
    """When a slice may be sent: no row before its time, counted from the start and divided by `speed`.

    So a slice waits for its end, and its first rows come later than their time by its width at most, and the time that
    sending takes.
    """

    speed: float
    first_us: int
    started_s: float

    def due_s(self, one: TimeSlice) -> float:
        return self.started_s + (one.end_us - self.first_us) / 1_000_000 / self.speed
