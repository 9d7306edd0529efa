"""Reads one segment of the commit log record by record, a large piece of the file at a time."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ternmq_broker.store.log.commit_log import PlacedRecord
from ternmq_broker.store.log.record import BadRecord

if TYPE_CHECKING:
    from ternmq_broker.store.log.commit_log import CommitLog

READ_BYTES = 1 << 20

TakePlain = Callable[[bytes, int, int], int]
"""Processes records of a window of the log: gets the window, the position in it to begin at, and the log offset there;
returns the position in the window where it ended."""


class LogWalk:
    """Yields the records from `log_offset` up to the end of the segment, except those that `take_plain` processes; at
    least `read_bytes` are read at a time.

    Invariant: all before `log_offset` was whole, and yielded or processed; the next record begins there, or the bad one
    for which BadRecord was raised. While the caller has a record, it is that one.
    """

    def __init__(
        self, log: "CommitLog", log_offset: int, take_plain: TakePlain | None = None, read_bytes: int = READ_BYTES
    ) -> None:
        self._read_bytes = read_bytes
        self.log_offset = log_offset
        self._log = log
        self._end = log.end_of_segment(log_offset)
        self._take_plain = take_plain
        self._window = b""
        self._window_begin = log_offset

    def __iter__(self) -> Iterator[PlacedRecord]:
        layouts = self._log.layouts
        while self.log_offset < self._end:
            at = self._fill_window(layouts.header_bytes(self.log_offset))
            if self._take_plain is not None:
                taken = self._take_plain(self._window, at, self.log_offset) - at
                if taken:
                    self.log_offset += taken
                    continue
            head_end = at + layouts.header_bytes(self.log_offset)
            size = layouts.decode_head(self._window[at:head_end], self.log_offset).size
            if size > self._end - self.log_offset:
                raise BadRecord(f"is {size} bytes by its header and passes the end of its segment")
            at = self._fill_window(size)
            record = layouts.decode_record(self._window[at : at + size], self.log_offset)
            yield PlacedRecord(self.log_offset, size, record)
            self.log_offset += size

    def _fill_window(self, size: int) -> int:
        """Have `size` bytes from `log_offset` on in the window, if the segment has them; return where in it they
        begin.
        """
        at = self.log_offset - self._window_begin
        if len(self._window) - at < size:
            wanted = min(max(size, self._read_bytes), self._end - self.log_offset)
            self._window, self._window_begin, at = self._log.read_bytes(self.log_offset, wanted), self.log_offset, 0
        return at
