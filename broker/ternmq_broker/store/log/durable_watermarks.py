"""The file `durable`: up to where the log was durable, for the last messages, for which no later record vouches.

Entries of a log offset u64 and the crc32 of its bytes u32; the highest whole one counts. They are written without a
sync, since they are true before they are written.
"""

import struct
from typing import TYPE_CHECKING

from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.disk.files import Folder

NAME = "durable"
_ENTRY = struct.Struct("<QI")
_BYTES_MAX = 4000


def decode_marks(data: bytes) -> tuple[list[int], int]:
    """Return the log offsets of the whole entries, and how many bytes are not part of any."""
    whole = len(data) - len(data) % _ENTRY.size
    marks = [log_offset for log_offset, check in _ENTRY.iter_unpack(data[:whole]) if check == _checksum(log_offset)]
    return marks, len(data) - len(marks) * _ENTRY.size


def encode_marks(marks: "Iterable[int]") -> bytes:
    """Return the bytes of a file of these log offsets."""
    return b"".join(_ENTRY.pack(log_offset, _checksum(log_offset)) for log_offset in marks)


def _checksum(log_offset: int) -> int:
    return crc32(log_offset.to_bytes(8, "little"))


class DurableWatermarks:
    """The open file; `highest` is its highest log offset."""

    def __init__(self, folder: "Folder") -> None:
        self._file = folder.open(NAME) if NAME in folder.names() else folder.create(NAME)
        size = self._file.size
        self.highest = max(decode_marks(self._file.read(0, size))[0], default=0)
        if size % _ENTRY.size:
            self._file.truncate(size - size % _ENTRY.size)

    def add_watermark(self, log_offset: int) -> None:
        """Note that all below that log offset is durable. OSError."""
        if self._file.size > _BYTES_MAX:
            self._file.truncate(0)
        self._file.append([_ENTRY.pack(log_offset, _checksum(log_offset))])
        self.highest = log_offset

    def clear(self) -> None:
        """Remove all entries: nothing is promised any more."""
        self._file.truncate(0)
        self.highest = 0

    def close(self) -> None:
        self._file.close()
