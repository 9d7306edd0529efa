"""Replaces damaged records by whole ones, in a log that is in use.

Copy first  The bytes are written to the file `overwriting` and synced, then to the segment, which is synced; then the
            file is removed. A crash in between leaves that file, and the next start finishes the work before it reads
            the log.
Checked     The written bytes are whole records of this log at this place, from any source; and where the header of a
            damaged record is whole, the same record.
"""

import base64
import logging
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import side_files
from ternmq_broker.store.log.log_check import count_whole_bytes
from ternmq_broker.store.log.record import BadRecord

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.disk.side_files import SideFileReader
    from ternmq_broker.store.log.commit_log import CommitLog

NAME = "overwriting"
_log = logging.getLogger(__name__)


class RecordOverwriting:
    """Overwrites damaged records of one log; one thread at a time calls `write`."""

    def __init__(self, root: "Folder", log: "CommitLog") -> None:
        self._root = root
        self._log = log

    def count_fitting(self, log_offset: int, data: bytes) -> int:
        """Return how many of the bytes are whole records that may stand there. For a thread."""
        log = self._log
        whole = count_whole_bytes(data, log_offset, log.layouts)
        head_bytes = log.layouts.header_bytes(log_offset)
        try:
            own = log.read_bytes(log_offset, head_bytes)
            if log_offset >= log.layouts.layout_1_below:
                log.layouts.decode_head(own, log_offset)
                return whole if own == data[:head_bytes] else 0
        except (BadRecord, OSError):
            pass  # the header is damaged too
        return whole

    def write_records(self, log_offset: int, data: bytes) -> None:
        """Write these whole records over what is there, durably. OSError; BadRecord if the log has no such place any
        more.
        """
        content = {"begin": log_offset, "data": base64.b64encode(data).decode()}
        side_files.write_side_file(self._root, NAME, content)
        self._log.overwrite_bytes(log_offset, data)
        self._remove_copy()

    def finish_interrupted(self, files: "SideFileReader") -> None:
        """Finish a repair that a crash interrupted; called at a start."""
        if NAME not in self._root.names():
            return
        content = files.read_derived(self._root, NAME)
        if isinstance(content, dict):
            begin, data = int(content["begin"]), base64.b64decode(content["data"])
            if self._is_damaged(begin, len(data)) and self.count_fitting(begin, data) == len(data):
                self._log.overwrite_bytes(begin, data)
                _log.info("%d bytes at log offset %d were repaired, which a crash had interrupted", len(data), begin)
        self._remove_copy()

    def _is_damaged(self, begin: int, size: int) -> bool:
        log = self._log
        if begin < log.log_start or begin + size > log.following_segment(begin):
            return False
        return count_whole_bytes(log.read_bytes(begin, size), begin, log.layouts) < size

    def _remove_copy(self) -> None:
        self._root.remove(NAME)
        self._root.sync_names()  # bytes of today's log must not be replaced by those of an earlier day
