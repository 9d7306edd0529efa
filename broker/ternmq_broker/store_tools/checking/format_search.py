"""Recovers the content of the file `format` from the commit log, for a store that lost that file and its copy.

Key         A header of a record ends in the crc32 of its bytes before, xor the key. So each header yields a key, and
            the one of nearly all headers is the log's. Only headers count that are reached from the beginning of a
            segment, one record after the other: bytes within a body that look like one do not.
Layout 1    Its records come first; their end is found in the same way.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ternmq_broker.store.log import record, record_layout_1
from ternmq_broker.store.log.record import LOG_OFFSET_AT, BadRecord
from ternmq_broker.store.store_format import StoreFormat
from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.store.disk.files import Folder, StoreFile

_SIZE_AT = 4
_RECORDS_MAX = 10_000
"""How many records of each segment are read; enough to be sure."""


def find_format(commit_log: "Folder") -> StoreFormat | None:
    """Return the content that `format` must have had; None if no record tells."""
    keys: Counter[int] = Counter()
    layout_1_below = 0
    for name in sorted(name for name in commit_log.names() if name.isdigit()):
        base, file = int(name), commit_log.open(name)
        behind = _behind_layout_1(file)
        if behind:
            layout_1_below = base + behind
        keys.update(key for _, key in zip(range(_RECORDS_MAX), _header_keys(file, base, behind), strict=False))
        file.close()
    if not keys:
        return None
    [(key, _)] = keys.most_common(1)
    return StoreFormat(key, layout_1_below)


def _header_keys(file: "StoreFile", base: int, position: int) -> "Iterator[int]":
    """Yield the keys of the headers, from that position of the segment on, up to the first that is none."""
    while True:
        head = file.read(position, record.HEADER_BYTES)
        place = int.from_bytes(head[LOG_OFFSET_AT : LOG_OFFSET_AT + 8], "little")
        if len(head) < record.HEADER_BYTES or head[:3] != record.MAGIC_BYTES or place != base + position:
            return
        yield crc32(head[:-4]) ^ int.from_bytes(head[-4:], "little")
        position += max(record.HEADER_BYTES, int.from_bytes(head[_SIZE_AT : _SIZE_AT + 4], "little"))


def _behind_layout_1(file: "StoreFile") -> int:
    """Return how far the segment has records of layout 1."""
    position = 0
    while True:
        try:
            position += record_layout_1.decode_head(file.read(position, record_layout_1.HEADER_BYTES)).size
        except BadRecord:
            return position
