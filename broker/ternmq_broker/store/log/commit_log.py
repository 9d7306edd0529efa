"""The commit log: every message of one broker, in arrival order, in segments.

Segments    Files named by the log offset of their first byte, 20 digits. A segment ends where the next one begins; only
            the last one grows. A batch may be split between two records to go into two segments. A segment that grows
            reserves room ahead; its zeros are no record.
Append      gives every record its log offset and writes it; it is durable after the next `sync_segments`, not before.
Undo        A batch that could not be written whole is cut off again. While that fails, the log ends before the batch,
            and nothing is appended: each append tries the cut first.
Repair      Damaged bytes are overwritten with what they were (`overwriting`); nothing else ever changes.
Copies      A replica's log has the bytes of its leader's, in segments that begin where the leader's do.
Recovery    `log_recovery` tells a torn tail from damage.
Threads     One thread appends and rolls; `sync_segments` may run in another, and a lock keeps files open during it;
            readers need
            no lock.
"""

import bisect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.disk.detached_files import DetachedFiles
from ternmq_broker.store.disk.files import DiskFolder, StoreFile, WriteNotUndone
from ternmq_broker.store.log.record import BadRecord, Record, RecordHead, RecordPieces, record_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.log.record import UnplacedRecord
    from ternmq_broker.store.log.record_layouts import RecordLayouts

NO_LIMIT: Final = 1 << 62
"""Above every log offset."""
_NAME_DIGITS: Final = 20
_RESERVE_BYTES: Final = 16 << 20


@dataclass(slots=True)
class _Segment:
    """One segment: the log offset of its first byte, and its file."""

    base: int
    file: StoreFile

    @property
    def end(self) -> int:
        return self.base + self.file.size


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record with its log offset and its size in the log."""

    log_offset: int
    size: int
    record: Record


class CommitLog:
    """Appends records and says which of them are safe.

    Invariants: `start <= synced <= end`; bytes below `synced` survive a power cut, bytes above it may not; every
    log offset that is returned is the start of a whole record. Nothing may be appended before the recovery.
    """

    def __init__(self, folder: "Folder", layouts: "RecordLayouts", *, segment_bytes: int) -> None:
        self._folder = folder
        self.layouts = layouts
        self._segment_bytes = segment_bytes
        self._reserve_bytes = min(_RESERVE_BYTES, segment_bytes)
        self._segments = [
            _Segment(int(name), folder.open(name, reserve_bytes=self._reserve_bytes))
            for name in sorted(folder.names())
            if name.isdigit()
        ]
        if not self._segments:
            self._segments.append(self._create_segment(0))
            folder.sync_names()
        self._bases = [segment.base for segment in self._segments]
        self._undo_to: int | None = None  # what lies behind it must be cut off before anything is appended
        self._unsealed_from = self._bases[-1]
        self._names_unsynced = False
        self._files_lock = threading.Lock()
        self._detached = DetachedFiles(folder)
        self.synced = self.log_start
        self.vouch_limit = NO_LIMIT
        """The log offset up to which records vouch for the log: what is above may be missing on another replica."""
        self.on_append: Callable[[], None] | None = None
        """A callback after each `append_records`, in its thread."""
        self.appended_records = 0
        """How many records were appended since the log was opened."""

    @property
    def log_start(self) -> int:
        return self._segments[0].base

    @property
    def log_end(self) -> int:
        return self._segments[-1].end if self._undo_to is None else self._undo_to

    @property
    def segment_count(self) -> int:
        return len(self.segment_bases)

    def segment_end(self, count: int) -> int:
        """Return where the log would begin without its oldest `count` segments."""
        return self.segment_bases[count]

    @property
    def segment_bases(self) -> list[int]:
        if self._undo_to is None:
            return list(self._bases)
        first, *others = self._bases
        return [first, *(base for base in others if base < self._undo_to)]

    def append_records(self, records: "Sequence[UnplacedRecord]") -> list[int]:
        """Write the records and return their log offsets. After an error, such as OSError of a full disk, none is in
        the log.

        WriteNotUndone: a restart may or may not find them; nothing is appended until they are removed.
        """
        self._undo_append()
        began = self.log_end
        offsets: list[int] = []
        pieces = RecordPieces(min(self.synced, self.vouch_limit), self.layouts.key)
        position = began
        room = self._segments[-1].base + self._segment_bytes
        try:
            for record in records:
                size = record_size(record)
                if position + size > room and position > self._segments[-1].base:
                    self._segments[-1].file.append(pieces.take_pieces())
                    self._begin_segment()
                    room = position + self._segment_bytes
                offsets.append(position)
                pieces.add_record(record, position)
                position += size
            self._segments[-1].file.append(pieces.take_pieces())
        except Exception as error:
            self._undo_after(error, began)
            raise
        self.appended_records += len(offsets)
        if self.on_append is not None:
            self.on_append()
        return offsets

    def append_copied(self, base: int, data: bytes) -> None:
        """Append bytes of the leader's log unchanged. `base` is where their segment begins there: it is the last one
        here, or one that begins with them.

        BadRecord if it is neither; OSError. Then nothing is written, with the same exception as in `append_records`.
        """
        self._undo_append()
        began = self.log_end
        if base != self._bases[-1] and not self._segments[-1].file.size:
            self.cut_from(began)  # an empty segment that the present leader never began
        # A log may begin in the middle of the leader's segment, if its owner led once and has removed what is before.
        is_first = len(self._bases) == 1 and base < self._bases[0]
        if base != self._bases[-1] and not is_first:
            if base != began:
                raise BadRecord(f"is of a segment that begins at {base}; here it would be at {began}")
            self._begin_segment()
        try:
            self._segments[-1].file.append([data])
        except Exception as error:
            self._undo_after(error, began)
            raise

    def _undo_after(self, error: Exception, began: int) -> None:
        """Cut off what the failed append may have written; WriteNotUndone if that fails too."""
        self._undo_to = began
        try:
            self._undo_append()
        except OSError as undoing:
            raise WriteNotUndone(error, undoing) from error
        if isinstance(error, WriteNotUndone):
            raise error

    def _undo_append(self) -> None:
        """Cut off what an earlier append may have left; OSError."""
        if self._undo_to is not None:
            self.cut_from(self._undo_to)
            self._undo_to = None

    def roll_segment(self) -> None:
        """Begin a new segment, so that the last one can be removed when it is old."""
        self._undo_append()
        if self._segments[-1].file.size:
            self._begin_segment()

    def _begin_segment(self) -> None:
        self._segments.append(self._create_segment(self.log_end))
        self._bases.append(self._segments[-1].base)
        self._names_unsynced = True

    def _create_segment(self, base: int) -> _Segment:
        return _Segment(base, self._folder.create(name_of_segment(base), reserve_bytes=self._reserve_bytes))

    def sync_segments(self) -> int:
        """Make durable what was appended before this call, and return up to where. For the flusher's thread."""
        with self._files_lock:
            target = self.log_end
            *ended, growing = list(self._segments)
            for segment in ended:
                if segment.base >= self._unsealed_from:
                    segment.file.seal()
            self._unsealed_from = growing.base
            for segment in (*ended, growing):
                if segment.end > self.synced and segment.base < target:
                    segment.file.sync()
            if self._names_unsynced:
                self._names_unsynced = False
                self._folder.sync_names()
            self.synced = max(self.synced, target)
            return self.synced

    # --- reading

    def read_bytes(self, log_offset: int, size: int, *, may_block: bool = True) -> bytes:
        """Return up to `size` bytes from there on, within one segment; WouldBlock as in `StoreFile.read_bytes`."""
        segment = self._segment_of(log_offset)
        return segment.file.read(log_offset - segment.base, size, may_block=may_block)

    def read_from_disk(self, log_offset: int, size: int) -> bytes:
        """Read what the disk has, not the kernel's cache. For a thread."""
        segment = self._segment_of(log_offset)
        return segment.file.read_from_disk(log_offset - segment.base, size)

    def bytes_at(self, log_offset: int, size_max: int, *, may_block: bool = True) -> tuple[int, bytes]:
        """Return, for a copy, where the segment with that log offset begins, and up to `size_max` of its bytes from
        there on.

        There are none at the end of the log. Bytes that damage has removed from a segment's end are zeros. BadRecord if
        retention has removed them; WouldBlock.
        """
        segment = self._segment_of(log_offset)
        size = min(size_max, self.following_segment(log_offset) - log_offset)
        there = max(0, min(size, segment.end - log_offset))
        data = segment.file.read(log_offset - segment.base, there, may_block=may_block) if there else b""
        return segment.base, data if len(data) == size else data + bytes(size - len(data))

    def head_at(self, log_offset: int) -> RecordHead:
        """Return the header of the record that begins there; BadRecord if none does."""
        return self.layouts.decode_head(self.read_bytes(log_offset, self.layouts.header_bytes(log_offset)), log_offset)

    def placed_at(self, log_offset: int) -> PlacedRecord:
        """Return the record that begins there, with its size; BadRecord if none does."""
        size = self.head_at(log_offset).size
        if log_offset + size > self.end_of_segment(log_offset):
            raise BadRecord(f"is {size} bytes by its header and passes the end of its segment")
        return PlacedRecord(log_offset, size, self.layouts.decode_record(self.read_bytes(log_offset, size), log_offset))

    def record_at(self, log_offset: int) -> Record:
        """Return the record that begins there; BadRecord if none does."""
        return self.placed_at(log_offset).record

    def _segment_of(self, log_offset: int) -> _Segment:
        index = bisect.bisect_right(self._bases, log_offset) - 1
        if index < 0:
            raise BadRecord(f"log offset {log_offset} was removed; the log begins at {self.log_start}")
        return self._segments[index]

    def end_of_segment(self, log_offset: int) -> int:
        """Return where the bytes that the segment's file has end; its records end where the next segment begins."""
        index = bisect.bisect_right(self._bases, log_offset)
        assert index > 0
        end = self._segments[index - 1].end
        return min(end, self._bases[index]) if index < len(self._bases) else end

    def base_of(self, log_offset: int) -> int:
        """Return where the segment with that log offset begins; BadRecord if retention has removed it."""
        return self._segment_of(log_offset).base

    def path_of(self, base: int) -> "Path | None":
        """Return the path of the segment that begins there; None if the log is not in a folder of the disk."""
        return self._folder.path / name_of_segment(base) if isinstance(self._folder, DiskFolder) else None

    def following_segment(self, log_offset: int) -> int:
        """Return where the next segment begins; the end of the log in the last one."""
        index = bisect.bisect_right(self._bases, log_offset)
        return self._bases[index] if index < len(self._bases) else self.log_end

    # --- repairing

    def overwrite_bytes(self, log_offset: int, data: bytes) -> None:
        """Overwrite bytes within one segment, durably. For a thread. OSError; BadRecord if the log has no such place
        any more.
        """
        with self._files_lock:
            segment = self._segment_of(log_offset)
            if log_offset + len(data) > self.following_segment(log_offset):
                raise BadRecord(f"is {len(data)} bytes at {log_offset}, and its segment ends before")
            segment.file.overwrite(log_offset - segment.base, data)
            segment.file.sync()

    # --- removing

    def cut_from(self, end: int) -> None:
        """Drop everything from log offset `end` on. OSError: the log is whole up to where it was dropped so far."""
        with self._files_lock:
            while len(self._segments) > 1 and self._segments[-1].base >= end:
                self._folder.remove(name_of_segment(self._bases[-1]))
                self._bases.pop()
                self._segments.pop().file.close()
            last = self._segments[-1]
            if last.end > end:
                last.file.truncate(max(0, end - last.base))
            self._unsealed_from = min(self._unsealed_from, last.base)
            self.synced = min(self.synced, end)

    def sync_below(self, log_offset: int) -> None:
        """Make durable what lies below, during recovery."""
        for segment in self._segments:
            if self.synced < segment.end and segment.base < log_offset:
                segment.file.sync()

    def finish_recovery(self, end: int, since: int) -> None:
        """Finish the recovery: cut off what lies behind `end`, release room that a crash left reserved, and sync
        what lies behind `since`.
        """
        self.cut_from(end)
        for segment, following in zip(self._segments, self._bases[1:], strict=False):
            if segment.end > following:
                segment.file.truncate(following - segment.base)
        self.synced = min(since, end)
        self.sync_segments()

    def detach_segments(self, count: int) -> None:
        """Drop the oldest segments, never the last; their files wait for `delete_detached`."""
        assert count < len(self._segments)
        for segment in self._segments[:count]:
            self._detached.add_file(name_of_segment(segment.base), segment.file)
        self._segments = self._segments[count:]
        self._bases = [segment.base for segment in self._segments]

    def delete_detached(self) -> None:
        """Delete the files of detached segments, the oldest first. For a thread. OSError: those that are left are
        deleted the next time.

        Files that are left must be adjacent, since a start would find a gap in the log.
        """
        with self._files_lock:  # a sync that began before they were detached may have been about to seal them
            if self._names_unsynced and self._detached:
                self._names_unsynced = False
                self._folder.sync_names()  # nothing may have been written yet to the segment that is left
        while self._detached:
            with self._files_lock:  # no thread may write to a file that is deleted
                self._detached.delete_first()

    def close(self) -> None:
        """Release reserved room, and close the files without a sync."""
        with self._files_lock:
            for segment in self._segments:
                segment.file.seal()
                segment.file.close()
            self._detached.close()


def name_of_segment(base: int) -> str:
    """Return the file name of the segment that begins there."""
    return f"{base:0{_NAME_DIGITS}d}"
