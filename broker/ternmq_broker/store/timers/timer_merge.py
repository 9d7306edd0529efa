"""Merges sorted timers from many sources in small slices, so that other threads can run in between.

A source is an iterator of pieces, each a sorted, non-empty list of rows; no key is twice in one source. Nothing here
processes more than a few thousand rows between two slices: about two milliseconds.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ternmq_broker.store.timers.timer_run import RunRow

SLICE_ROWS = 4096
_SORT_ROWS = 2048
_BEHIND_ALL_SIZES = 1 << 32


class _MergeSource:
    """The current piece of a source, and the position in it."""

    __slots__ = ("_pieces", "at", "piece")

    def __init__(self, pieces: "Iterator[list[RunRow]]") -> None:
        self._pieces = pieces
        self.piece = next(pieces, [])
        self.at = 0

    def next_rows(self, bound: "RunRow", rows: "list[RunRow]") -> None:
        """Move the rows up to `bound` to `rows`; no later piece has any of them."""
        end = bisect_right(self.piece, bound, self.at)
        rows += self.piece[self.at : end]
        self.at = end
        if end == len(self.piece):
            self.piece = next(self._pieces, [])
            self.at = 0


def merge_sources(
    sources: "Iterable[Iterator[list[RunRow]]]", *, slice_rows: int = SLICE_ROWS
) -> "Iterator[list[RunRow]]":
    """Yield all rows in order, in slices of about `slice_rows`; equal keys are in the same slice."""
    open_sources = [source for source in map(_MergeSource, sources) if source.piece]
    # A caller that pauses after each slice waits for the interpreter lock each time, so small ones are combined.
    enough = max(1, slice_rows // 2)
    ready: list[RunRow] = []
    while open_sources:
        quota = max(1, enough // len(open_sources))
        due_ms, log_offset, _, _ = min(
            source.piece[min(source.at + quota, len(source.piece)) - 1] for source in open_sources
        )
        bound = (due_ms, log_offset, _BEHIND_ALL_SIZES, 0)
        rows: list[RunRow] = []
        for source in open_sources:
            source.next_rows(bound, rows)
        rows.sort()
        ready += rows
        if len(ready) >= enough:
            yield ready
            ready = []
        open_sources = [source for source in open_sources if source.piece]
    if ready:
        yield ready


def sort_into_sources(rows: "Sequence[RunRow]", pause: "Callable[[], None]") -> "list[Iterator[list[RunRow]]]":
    """Return rows in any order as sources for `merge_sources`."""
    pieces = []
    for at in range(0, len(rows), _SORT_ROWS):
        pieces.append(iter([sorted(rows[at : at + _SORT_ROWS])]))
        pause()
    return pieces


def drop_settled(rows: "list[RunRow]", *, log_start: int = 0, keep_tombstones_below: int = 0) -> "list[RunRow]":
    """Return the timers of a slice that no tombstone in it settles, and the tombstones of timers below a log offset.

    Rows below `log_start`, where the log begins, are left out.
    """
    settled = {log_offset for _, log_offset, size, _ in rows if not size}
    if settled:
        rows = [row for row in rows if row[1] not in settled or (not row[2] and row[1] < keep_tombstones_below)]
    return [row for row in rows if row[1] >= log_start] if log_start else rows
