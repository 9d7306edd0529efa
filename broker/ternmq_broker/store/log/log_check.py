"""Checks records by their checksums: the log's, piece by piece, and those that another replica gave for a repair."""

import errno
from typing import TYPE_CHECKING, NamedTuple

from ternmq_broker.store.log.head_search import HeadSearch
from ternmq_broker.store.log.record import HEADER_BYTES, BadContent, BadRecord, decode_head
from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from ternmq_broker.store.copying.log_copy import AcceptedRanges
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.record_layouts import RecordLayouts

_UNREADABLE = "can't be read: the disk reports an error"
_MISFIT = "has bytes that do not fit its checksum"


class DamagedRange(NamedTuple):
    """Log offsets between which there is no whole record, and why. A record begins at `begin`; at `end` another record
    begins, or the segment ends.
    """

    begin: int
    end: int
    reason: str


class CheckedPiece(NamedTuple):
    """The damage in a piece of the log, and where the next piece begins."""

    following: int
    damaged: list[DamagedRange]


def check_piece(
    log: "CommitLog", begin: int, bytes_max: int, accepted: "AcceptedRanges", end: int, *, from_disk: bool = False
) -> CheckedPiece:
    """Check about `bytes_max` bytes from `begin` on, where a record begins, in its segment and below `end`. For a
    thread.

    With `from_disk` it reads what the disk has, not the kernel's cache. Unreadable parts count as damaged.
    BadRecord if retention has removed them; OSError.
    """
    following = log.following_segment(begin)
    end = min(end, following)
    stop = min(end, begin + bytes_max)
    read = log.read_from_disk if from_disk else log.read_bytes
    try:
        window = read(begin, stop - begin)
    except OSError as error:
        window = b""
        if error.errno != errno.EIO:
            raise
    damaged: list[DamagedRange] = []
    position = begin
    while position < stop:
        skipped_to = accepted.find_end(position)
        if skipped_to is not None:
            position = min(skipped_to, end)
            continue
        try:
            size = _check_record_at(log, position, window, position - begin, following)
            if position + size > end:
                break  # it may still change
            position += size
        except BadRecord as bad:
            after = min(_end_of_damage(log, position, bad), end)
            damaged.append(DamagedRange(position, after, str(bad)))
            position = after
    return CheckedPiece(position, damaged)


def _check_record_at(log: "CommitLog", position: int, window: bytes, at: int, end: int) -> int:
    """Return the size of the record there, which is whole; BadRecord."""
    layouts = log.layouts
    head_bytes = layouts.header_bytes(position)
    if len(window) - at < head_bytes:
        window, at = _read_or_empty(log, position, head_bytes), 0
    size = layouts.decode_head(window[at : at + head_bytes], position).size
    if position + size > end:
        raise BadRecord(f"is {size} bytes by its header and passes the end of its segment")
    if len(window) - at < size:
        window, at = _read_or_empty(log, position, size), 0
    _check_record(window, at, size, position, layouts)
    return size


def _read_or_empty(log: "CommitLog", position: int, size: int) -> bytes:
    """Return the bytes that the disk can read; none if it fails."""
    try:
        return log.read_bytes(position, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def _check_record(data: bytes, at: int, size: int, log_offset: int, layouts: "RecordLayouts") -> None:
    if log_offset < layouts.layout_1_below:
        layouts.decode_record(data[at : at + size], log_offset)
        return
    if not data:
        raise BadContent(_UNREADABLE, size)
    head = decode_head(data, log_offset, layouts.key, at)
    content = memoryview(data)[at + HEADER_BYTES : at + size]
    if len(content) != size - HEADER_BYTES or crc32(content) != head.content_check:
        raise BadContent(_MISFIT, size)


def _end_of_damage(log: "CommitLog", position: int, bad: BadRecord) -> int:
    """Return the end of the record whose header is whole; else where the next whole header is."""
    if isinstance(bad, BadContent):
        return position + bad.size
    try:
        return HeadSearch(log).next_in_segment(position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return log.following_segment(position)


def count_whole_bytes(data: bytes, log_offset: int, layouts: "RecordLayouts") -> int:
    """Return how many of these bytes, which begin at `log_offset`, are whole records, one after the other."""
    at = 0
    while at < len(data):
        place = log_offset + at
        try:
            size = layouts.decode_head(data[at : at + layouts.header_bytes(place)], place).size
            if size < layouts.header_bytes(place) or at + size > len(data):
                break
            _check_record(data, at, size, place, layouts)
        except BadRecord:
            break
        at += size
    return at
