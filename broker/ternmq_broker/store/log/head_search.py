"""Finds where the log continues behind damaged bytes: at the next whole header.

A header of today's layout has its own log offset and a checksum with the log's key, so nothing else is mistaken for
one; a record of layout 1 must be whole.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import LOG_OFFSET_AT, BadRecord, RecordHead

if TYPE_CHECKING:
    from ternmq_broker.store.log.commit_log import CommitLog

_SCAN_BYTES = 1 << 20


class HeadSearch:
    """Searches one log for headers; for any thread that may wait for the disk."""

    def __init__(self, log: "CommitLog") -> None:
        self._log = log

    def next_head(self, position: int, head: RecordHead | None = None) -> int | None:
        """Return where the next record with a whole header begins: behind the one with that `head`, or behind
        `position`.
        """
        log = self._log
        if head is not None:
            position += head.size
            if self._is_head(position):
                return position
        else:
            position += 1
        while position < log.log_end:
            found = self._head_within(position, self._end_of_stretch(position))
            if found is not None:
                return found
            position = self._following_stretch(position)
        return None

    def next_in_segment(self, position: int) -> int:
        """Return where the next record with a whole header begins behind `position`; else where its segment ends."""
        following = self._log.following_segment(position)
        position += 1
        while position < following:
            found = self._head_within(position, self._end_of_stretch(position))
            if found is not None:
                return found
            position = self._following_stretch(position)
        return following

    def _end_of_stretch(self, position: int) -> int:
        """Return where the bytes of that segment and layout end."""
        end, boundary = self._log.end_of_segment(position), self._log.layouts.layout_1_below
        return min(end, boundary) if position < boundary else end

    def _following_stretch(self, position: int) -> int:
        following, boundary = self._log.following_segment(position), self._log.layouts.layout_1_below
        return min(following, boundary) if position < boundary else following

    def _head_within(self, position: int, end: int) -> int | None:
        magic = self._log.layouts.magic_bytes(position)
        while position < end:
            window = self._log.read_bytes(position, min(_SCAN_BYTES, end - position))
            at = window.find(magic)
            while at >= 0:
                if self._may_begin(window, at, position + at) and self._is_head(position + at):
                    return position + at
                at = window.find(magic, at + 1)
            if position + len(window) >= end:
                return None
            position += len(window) - len(magic) + 1  # a magic may lie across two windows
        return None

    def _may_begin(self, window: bytes, at: int, log_offset: int) -> bool:
        """Tell quickly whether the candidate has this log offset, since a body may be full of what looks like
        headers.
        """
        place = window[at + LOG_OFFSET_AT : at + LOG_OFFSET_AT + 8]
        is_elsewhere = len(place) == 8 and int.from_bytes(place, "little") != log_offset
        return not is_elsewhere or log_offset < self._log.layouts.layout_1_below

    def _is_head(self, log_offset: int) -> bool:
        """Tell whether a record begins there: in today's layout by its header, which has a checksum; in layout 1 by a
        whole record.
        """
        log = self._log
        if log_offset >= log.log_end:
            return False
        try:
            if log_offset < log.layouts.layout_1_below:
                log.placed_at(log_offset)
            else:
                return log_offset + log.head_at(log_offset).size <= log.end_of_segment(log_offset)
        except BadRecord:
            return False
        return True
