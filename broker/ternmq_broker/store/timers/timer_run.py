"""One run of the timer index: a file of timers, sorted by due time, for a part of the commit log.

    at  size  field
    0   24 B  an entry: due time u64 (ms) | log offset u64 | size u32 | id hash u32; as many as the footer says
        8 B   for each block of entries the due time of its first one
        8 B   for each block the log offset of its first entry
        4 B   for each block its crc32
        16 B  a watermark: log offset u64 | due time u64 (ms); see `settled_watermarks`
        72 B  the footer: magic 0x52544D54 ("TMTR") | crc32 of the bytes from the tables to the end without the footer's
              first 8 | log offsets u64 where it begins and ends | where the log began u64 | entries u64 |
              tombstones among the entries u64 | due time of the last entry u64 | entries to a block u32 | tier u32 |
              watermarks u32 | 0 u32

All integers are little-endian; entries are sorted by due time and log offset. An entry of size 0 is a tombstone: the
timer of an older run with that due time and log offset is settled. The name of the file has the log offsets between
which it covers the log, and a serial number, of which the higher is the newer: `<from>-<to>-<serial>`.

A run is written once, from its beginning to its end, and is whole when its footer is. Any thread may read it.
"""

import re
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple, Self

from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.store.disk.files import StoreFile
    from ternmq_broker.store.timers.settled_watermarks import Watermark

Key = tuple[int, int]
"""The sort key of entries: due time in ms, log offset."""
RunRow = tuple[int, int, int, int]
"""An entry or a tombstone, as it is in the file; compares with a `Key` as its first two fields do."""

BLOCK_ENTRIES = 512
MAGIC = 0x52544D54
ROW = struct.Struct("<QQII")
WATERMARK = struct.Struct("<QQ")
FOOTER = struct.Struct("<IIQQQQQQIIII")
CHECKED_FROM = 8
_FENCE_BYTES = 20
_NAME = re.compile(r"(\d{20})-(\d{20})-(\d{10})")
_CHECK_BYTES = 1 << 20
assert ROW.size == 24
assert FOOTER.size == 72
assert array("Q").itemsize == 8
assert array("I").itemsize == 4


class BadRun(Exception):
    """The file is no whole run, or a block of it is damaged."""


class TimerEntry(NamedTuple):
    """A pending timed message: when it is due, and its record in the commit log; `size` in bytes, never 0."""

    due_ms: int
    log_offset: int
    size: int
    id_hash: int


def id_hash(message_id: str) -> int:
    """Return the hash by which a recall finds a timer; since hashes collide, the caller compares the record itself."""
    return crc32(message_id.encode())


def make_tombstone(due_ms: int, log_offset: int) -> RunRow:
    return due_ms, log_offset, 0, 0


class RunName(NamedTuple):
    """The name of a run's file: the log offsets between which it covers the log, and its serial number."""

    log_from: int
    log_to: int
    serial: int

    def __str__(self) -> str:
        return f"{self.log_from:020d}-{self.log_to:020d}-{self.serial:010d}"

    @classmethod
    def parse_name(cls, name: str) -> Self | None:
        found = _NAME.fullmatch(name)
        return cls(*map(int, found.groups())) if found else None


class TimerRun:
    """A whole run; only the first key and the checksum of every block are in memory.

    `log_start` is where the log began when the run was written: nothing below is pending. `entries` counts the
    tombstones too. A run of tier 0 was spilled, others were merged.
    """

    log_start: int
    entries: int
    tombstones: int
    last_due_ms: int
    tier: int
    _block_entries: int
    _check: int

    def __init__(self, name: RunName, file: "StoreFile") -> None:
        """Read the tables into memory; BadRun if the file is not whole. The blocks are not checked."""
        self.name = name
        self._file = file
        tables_at = self._read_footer()
        tables = file.read(tables_at, file.size - tables_at)
        if self._check != crc32(tables[-FOOTER.size + CHECKED_FROM :], crc32(tables[: -FOOTER.size])):
            raise BadRun(f"{name}: the check sum of its tables does not fit")
        blocks = self._blocks
        self._first_dues = _parse_u64s(tables[: blocks * 8])
        self._first_offsets = _parse_u64s(tables[blocks * 8 : blocks * 16])
        self._checks = _parse_u32s(tables[blocks * 16 : blocks * _FENCE_BYTES])
        watermarks = tables[blocks * _FENCE_BYTES : -FOOTER.size]
        self.watermarks: list[Watermark] = [(log_to, due_ms) for log_to, due_ms in WATERMARK.iter_unpack(watermarks)]

    def _read_footer(self) -> int:
        footer = self._file.read(max(0, self._file.size - FOOTER.size), FOOTER.size)
        if len(footer) < FOOTER.size:
            raise BadRun(f"{self.name}: cut off")
        magic, self._check, log_from, log_to, self.log_start, *rest = FOOTER.unpack(footer)
        self.entries, self.tombstones, self.last_due_ms, self._block_entries, self.tier, watermarks, _ = rest
        if magic != MAGIC or not self._block_entries or (log_from, log_to) != self.name[:2]:
            raise BadRun(f"{self.name}: no footer at its end")
        self._blocks = -(-self.entries // self._block_entries)
        tables_at = self.entries * ROW.size
        if tables_at + self._blocks * _FENCE_BYTES + watermarks * WATERMARK.size + FOOTER.size != self._file.size:
            raise BadRun(f"{self.name}: its size does not fit its footer")
        return tables_at

    @property
    def log_from(self) -> int:
        return self.name.log_from

    @property
    def log_to(self) -> int:
        return self.name.log_to

    @property
    def relies_on_log_to(self) -> int:
        """The log offset up to which the log was durable when the run was written."""
        return max(self.log_to, *(log_to for log_to, _ in self.watermarks), 0)

    def may_hold(self, due_ms: int) -> bool:
        return bool(self.entries) and self._first_dues[0] <= due_ms <= self.last_due_ms

    def check_blocks(self) -> None:
        """Read the whole file; BadRun if a block is damaged."""
        block_bytes = self._block_entries * ROW.size
        at_once = max(1, _CHECK_BYTES // block_bytes)
        for first in range(0, self._blocks, at_once):
            last = min(first + at_once, self._blocks)
            data = memoryview(self._file.read(first * block_bytes, self._bytes_before(last) - first * block_bytes))
            for number in range(first, last):
                at = (number - first) * block_bytes
                self._check_block(number, data[at : at + block_bytes])

    def _bytes_before(self, block: int) -> int:
        return min(block * self._block_entries, self.entries) * ROW.size

    def _read_block(self, number: int) -> bytes:
        at = self._bytes_before(number)
        data = self._file.read(at, self._bytes_before(number + 1) - at)
        self._check_block(number, data)
        return data

    def _check_block(self, number: int, data: bytes | memoryview) -> None:
        if crc32(data) != self._checks[number]:
            raise BadRun(f"{self.name}: the check sum of block {number} does not fit")

    def read_pieces(self, start: Key, end: Key) -> "Iterator[list[RunRow]]":
        """Yield the entries and tombstones from `start` on, below `end`, in order; each block is read when it is
        needed.
        """
        if not self.entries or start[0] > self.last_due_ms:
            return
        for number in range(max(0, self._blocks_begun(start) - 1), self._blocks):
            if self._first_key(number) >= end:
                return
            rows: list[RunRow] = list(ROW.iter_unpack(self._read_block(number)))
            if rows[0] < start:
                rows = rows[bisect_left(rows, start) :]
            if rows and rows[-1] >= end:
                rows = rows[: bisect_left(rows, end)]
            if rows:
                yield rows

    def _first_key(self, block: int) -> Key:
        return self._first_dues[block], self._first_offsets[block]

    def _blocks_begun(self, key: Key) -> int:
        """Return how many blocks begin at or below the key."""
        low = bisect_left(self._first_dues, key[0])
        high = bisect_right(self._first_dues, key[0], low)
        return bisect_right(self._first_offsets, key[1], low, high)

    def read_due_at(self, due_ms: int) -> "Iterator[list[RunRow]]":
        """Yield the entries and tombstones with that due time, block by block."""
        wanted = due_ms.to_bytes(8, "little")
        first = max(0, bisect_left(self._first_dues, due_ms) - 1)
        for number in range(first, bisect_right(self._first_dues, due_ms)):
            data = self._read_block(number)
            # Most runs have none, and this is much faster than to unpack a block.
            if wanted in data:
                yield [row for row in ROW.iter_unpack(data) if row[0] == due_ms]

    def close(self) -> None:
        self._file.close()


def _parse_u64s(data: bytes) -> "array[int]":
    return in_machine_order(array("Q", data))


def _parse_u32s(data: bytes) -> "array[int]":
    return in_machine_order(array("I", data))


def in_machine_order(values: "array[int]") -> "array[int]":
    """Return the values with their bytes swapped, on a machine that is not little-endian."""
    if sys.byteorder == "big":
        values.byteswap()
    return values
