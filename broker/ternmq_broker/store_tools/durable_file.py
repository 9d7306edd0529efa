"""The entries of the file `durable` (`message_store`), which only vouch for more than later records do."""

import struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from ternmq_broker.store_tools.looking import StoreView

NAME = "durable"
_ENTRY = struct.Struct("<QI")


def durable_marks(view: "StoreView") -> tuple[list[int], int]:
    """The log offsets of its whole entries, 0 among them, and how many bytes of it are none."""
    data = view.folders.root.content(NAME) or b""
    whole = len(data) - len(data) % _ENTRY.size
    marks = [0]
    for log_offset, check in _ENTRY.iter_unpack(data[:whole]):
        if check == crc32(log_offset.to_bytes(8, "little")):
            marks.append(log_offset)
    return marks, len(data) - (len(marks) - 1) * _ENTRY.size
