"""Watermarks that settle many timers at once: those of old parts of the log that were due long ago.

Mark        A watermark, (log offset, due time in ms): every timer whose record lies below that log offset and that was
            due before that time is settled, and the record that settled it lies below that log offset too. That is a
            fact about the log, so it stays true.

The index writes neither entries nor tombstones for what a watermark covers. When the clock is set back, timers come
that are due before others that were settled long ago: then a new watermark, of more of the log, ends earlier in time
than the ones before it, and those must be kept for the runs that were written until then.
"""

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Watermark = tuple[int, int]
"""Log offset, due time in ms."""


class SettledWatermarks:
    """The few watermarks that are needed; others follow from them.

    Invariant: from one to the next the log offset rises and the due time falls. While the clock runs forward there is
    one; each time that it was set back may add one, until it has caught up.
    """

    def __init__(self, watermarks: "Iterable[Watermark]" = ()) -> None:
        self._watermarks: list[Watermark] = []
        for watermark in watermarks:
            self.add_watermark(watermark)

    def __iter__(self) -> "Iterator[Watermark]":
        return iter(self._watermarks)

    def add_watermark(self, watermark: Watermark) -> None:
        log_to, due_ms = watermark
        if due_ms > self.settled_before_ms(log_to):
            self._watermarks = [known for known in self._watermarks if known[0] > log_to or known[1] > due_ms]
            insort(self._watermarks, watermark)

    def settled_before_ms(self, log_to: int) -> int:
        """Return the time before which every timer below that log offset is settled; 0 if that is not known."""
        at = bisect_left(self._watermarks, (log_to, 0))
        return self._watermarks[at][1] if at < len(self._watermarks) else 0

    def forget_below(self, log_offset: int) -> None:
        """Drop watermarks below that log offset: no run is left that ends there."""
        self._watermarks = [watermark for watermark in self._watermarks if watermark[0] >= log_offset]
