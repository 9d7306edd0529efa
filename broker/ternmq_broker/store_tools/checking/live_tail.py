"""Finds where the records end in a segment to which a broker is writing: behind them is reserved room, zeros.

A walk through such a segment must know the end before, since bytes that come later would look like records behind a bad
one.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import HEADER_BYTES, MAGIC_BYTES, BadRecord, RecordHead

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import StoreFile
    from ternmq_broker.store.log.record_layouts import RecordLayouts

_WINDOW_BYTES = 1 << 20


def count_written(file: "StoreFile", base: int, layouts: "RecordLayouts") -> int:
    """Return how many bytes of the segment are written: up to the end of the last header's record, or of what is behind
    it.
    """
    behind_last = _end_of_content(file)
    found = find_last_head(file, base, layouts, behind_last)
    if found is None:
        return behind_last
    position, head = found
    return min(max(behind_last, position + head.size), file.size)


def find_last_head(file: "StoreFile", base: int, layouts: "RecordLayouts", end: int) -> tuple[int, RecordHead] | None:
    """Return the last whole header that begins in the segment's first `end` bytes, and where; of today's layout
    only.
    """
    while end > 0:
        start = max(0, end - _WINDOW_BYTES)
        window = file.read(start, end - start + HEADER_BYTES)
        at = window.rfind(MAGIC_BYTES, 0, end - start + len(MAGIC_BYTES) - 1)
        while at >= 0:
            try:
                return start + at, layouts.decode_head(window[at : at + HEADER_BYTES], base + start + at)
            except BadRecord:
                at = window.rfind(MAGIC_BYTES, 0, at + len(MAGIC_BYTES) - 1)
        end = start
    return None


def _end_of_content(file: "StoreFile") -> int:
    """Return the end of the last byte that is not zero."""
    end = file.size
    while end > 0:
        start = max(0, end - _WINDOW_BYTES)
        stripped = file.read(start, end - start).rstrip(b"\0")
        if stripped:
            return start + len(stripped)
        end = start
    return 0
