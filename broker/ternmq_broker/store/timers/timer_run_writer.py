"""Writes a run of the timer index, in the format that `timer_run` specifies."""

import contextlib
import struct
from array import array
from itertools import chain
from typing import TYPE_CHECKING, Self

from ternmq_broker.store.timers.timer_run import (
    BLOCK_ENTRIES,
    CHECKED_FROM,
    FOOTER,
    MAGIC,
    WATERMARK,
    RunName,
    RunRow,
    TimerRun,
    in_machine_order,
)
from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.timers.settled_watermarks import Watermark

_WRITE_BYTES = 1 << 20
# A sync of much at once would make those of the commit log wait.
_SYNC_BYTES = 8 << 20


class RunWriter:
    """Writes one run. As a context it leaves no file behind unless `finish_run` returned."""

    def __init__(self, folder: "Folder", name: RunName, *, tier: int, block_entries: int = BLOCK_ENTRIES) -> None:
        self._folder = folder
        self._name = name
        self._tier = tier
        self._block_entries = block_entries
        self._format = struct.Struct("<" + "QQII" * block_entries)
        self._file = folder.create(str(name))
        self._rest: list[RunRow] = []
        self._pieces: list[bytes] = []
        self._piece_bytes = self._unsynced = 0
        self._entries = self._tombstones = self._last_due_ms = 0
        self._first_dues = array("Q")
        self._first_offsets = array("Q")
        self._checks = array("I")
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            self._file.close()
            with contextlib.suppress(OSError):  # the next start removes it
                self._folder.remove(str(self._name))

    def add_rows(self, rows: "Sequence[RunRow]") -> None:
        """Append entries and tombstones, whose keys are above all before them."""
        rows = [*self._rest, *rows]
        whole = len(rows) - len(rows) % self._block_entries
        for at in range(0, whole, self._block_entries):
            self._add_block(rows[at : at + self._block_entries], self._format)
        self._rest = rows[whole:]

    def _add_block(self, rows: list[RunRow], block_format: struct.Struct) -> None:
        data = block_format.pack(*chain.from_iterable(rows))
        self._first_dues.append(rows[0][0])
        self._first_offsets.append(rows[0][1])
        self._checks.append(crc32(data))
        self._entries += len(rows)
        self._tombstones += sum(not size for _, _, size, _ in rows)
        self._last_due_ms = rows[-1][0]
        self._pieces.append(data)
        self._piece_bytes += len(data)
        if self._piece_bytes >= _WRITE_BYTES:
            self._write_pieces()

    def _write_pieces(self) -> None:
        self._file.append(self._pieces)
        self._unsynced += self._piece_bytes
        self._pieces, self._piece_bytes = [], 0
        if self._unsynced >= _SYNC_BYTES:
            self._file.sync()
            self._unsynced = 0

    def finish_run(self, watermarks: "Sequence[Watermark]", *, log_start: int) -> TimerRun:
        """Complete the file, and return the run; it survives a power cut when this returns.

        `watermarks` and `log_start` are those by which timers were left out.
        """
        if self._rest:
            self._add_block(self._rest, struct.Struct("<" + "QQII" * len(self._rest)))
        tables = b"".join(
            (
                _bytes_of(self._first_dues),
                _bytes_of(self._first_offsets),
                _bytes_of(self._checks),
                *(WATERMARK.pack(*watermark) for watermark in watermarks),
            )
        )
        footer = self._encode_footer(log_start, len(watermarks))
        check = crc32(footer[CHECKED_FROM:], crc32(tables))
        footer = footer[:4] + check.to_bytes(4, "little") + footer[CHECKED_FROM:]
        self._pieces += [tables, footer]
        self._write_pieces()
        self._file.sync()
        self._folder.sync_names()
        run = TimerRun(self._name, self._file)
        self._finished = True
        return run

    def _encode_footer(self, log_start: int, watermarks: int) -> bytes:
        """Return the footer without its checksum."""
        log_from, log_to, _ = self._name
        content = self._entries, self._tombstones, self._last_due_ms, self._block_entries
        return FOOTER.pack(MAGIC, 0, log_from, log_to, log_start, *content, self._tier, watermarks, 0)


def _bytes_of(values: "array[int]") -> bytes:
    return in_machine_order(array(values.typecode, values)).tobytes()
