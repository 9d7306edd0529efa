"""The commit log: every message of one broker, in arrival order, in segments.

Segments    files named by the log offset of their first byte, 20 digits. A segment ends where the next one begins;
            only the last one grows. A batch may be cut between two records to go into two segments.
            A segment that grows reserves room ahead; its zeros look like a torn tail to a recovery.
Append      gives every record its place and writes; what it wrote is durable after the next `sync`, not before.
Torn tail   a crash may leave a broken suffix above the last sync: recovery cuts it off.
Corruption  a broken record below that point was acknowledged once: recovery refuses to start, unless it is told to
            accept that; then it skips what is broken and nothing else.
Threads     one thread appends and rolls; `sync` may run in another, and a lock keeps files open under it; readers
            need no lock.
"""

import bisect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.detached_files import DetachedFiles
from ternmq_broker.store.record import HEADER_BYTES, MAGIC_BYTES, BadRecord, Record, announced_size, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ternmq_broker.store.files import Folder, StoreFile

_NAME_DIGITS = 20
_SCAN_BYTES = 1 << 20
_RESERVE_BYTES = 16 << 20


class CommitLogCorrupted(Exception):
    """A record that was durable once can't be read any more."""

    def __init__(self, *, log_offset: int, durable: int, reason: str) -> None:
        self.log_offset = log_offset
        super().__init__(f"log offset {log_offset} (all below {durable} was durable): the record {reason}")


@dataclass(slots=True)
class _Segment:
    base: int
    file: "StoreFile"

    @property
    def end(self) -> int:
        return self.base + self.file.size


@dataclass(frozen=True, slots=True)
class Placed:
    """A record and the bytes that it takes in the log."""

    log_offset: int
    size: int
    record: Record


class CommitLog:
    """Appends records and says which of them are safe.

    Invariants: `start <= synced <= end`; bytes below `synced` survive a power cut, bytes above it may not; every
    log offset handed out is the start of a whole record.
    """

    def __init__(self, folder: "Folder", *, segment_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._reserve_bytes = min(_RESERVE_BYTES, segment_bytes)
        self._segments = [
            _Segment(int(name), folder.open(name, reserve_bytes=self._reserve_bytes))
            for name in sorted(folder.names())
            if name.isdigit()
        ]
        if not self._segments:
            self._segments.append(self._create(0))
            folder.sync_names()
        self._bases = [segment.base for segment in self._segments]
        for segment, following in zip(self._segments, self._bases[1:], strict=False):
            if segment.end > following:  # a crash left room that was reserved
                segment.file.truncate(following - segment.base)
        self._unsealed_from = self._bases[-1]
        self._names_unsynced = False
        self._open_files = threading.Lock()
        self._detached = DetachedFiles(folder)
        self.synced = self.start
        self.records = self.skipped_bytes = 0
        """What was appended, and what recovery stepped over, since the log was opened."""

    @property
    def start(self) -> int:
        return self._segments[0].base

    @property
    def end(self) -> int:
        return self._segments[-1].end

    @property
    def segment_bases(self) -> list[int]:
        return list(self._bases)

    def append(self, records: "Sequence[Record]") -> list[int]:
        """Write the records and return their log offsets. OSError (a full disk): none of them is in the log."""
        began = self.end
        offsets: list[int] = []
        pieces: list[bytes] = []
        position = began
        room = self._segments[-1].base + self._segment_bytes
        try:
            for record in records:
                encoded = encode(record)
                size = sum(map(len, encoded))
                if position + size > room and position > self._segments[-1].base:
                    self._segments[-1].file.append(pieces)
                    pieces = []
                    self._roll()
                    room = position + self._segment_bytes
                offsets.append(position)
                pieces.extend(encoded)
                position += size
            self._segments[-1].file.append(pieces)
        except OSError:
            self.cut(began)
            raise
        self.records += len(offsets)
        return offsets

    def roll(self) -> None:
        """Begin a new segment, so that the last one can be removed when it is old."""
        if self._segments[-1].file.size:
            self._roll()

    def _roll(self) -> None:
        self._segments.append(self._create(self.end))
        self._bases.append(self._segments[-1].base)
        self._names_unsynced = True

    def _create(self, base: int) -> _Segment:
        return _Segment(base, self._folder.create(_name(base), reserve_bytes=self._reserve_bytes))

    def sync(self) -> int:
        """Make durable what was appended before this call, and return up to where. For the flusher's thread."""
        with self._open_files:
            target = self.end
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

    def read(self, log_offset: int, size: int, *, may_block: bool = True) -> bytes:
        """Up to `size` bytes from there, within one segment; WouldBlock as in `StoreFile.read`."""
        segment = self._segment_of(log_offset)
        return segment.file.read(log_offset - segment.base, size, may_block=may_block)

    def record_at(self, log_offset: int) -> Record:
        """The record that begins there; BadRecord if none does."""
        return self._placed_at(log_offset).record

    def _segment_of(self, log_offset: int) -> _Segment:
        index = bisect.bisect_right(self._bases, log_offset) - 1
        if index < 0:
            raise BadRecord(f"log offset {log_offset} was removed; the log begins at {self.start}")
        return self._segments[index]

    def cut(self, end: int) -> None:
        """Drop everything from log offset `end` on."""
        with self._open_files:
            while len(self._segments) > 1 and self._segments[-1].base >= end:
                self._remove(self._segments.pop())
                self._bases.pop()
            last = self._segments[-1]
            if last.end > end:
                last.file.truncate(max(0, end - last.base))
            self._unsealed_from = min(self._unsealed_from, last.base)
            self.synced = min(self.synced, end)

    def detach_segments(self, count: int) -> None:
        """Forget the oldest segments, never the one that grows; their files wait for `delete_detached`."""
        assert count < len(self._segments)
        for segment in self._segments[:count]:
            self._detached.add(_name(segment.base), segment.file)
        self._segments = self._segments[count:]
        self._bases = [segment.base for segment in self._segments]

    def delete_detached(self) -> None:
        """Delete the files of detached segments, the oldest first; OSError: those that are left, the next time. For a
        thread. What is left must follow on each other, since a start would find a gap in the log."""
        with self._open_files:
            pass  # a sync that began before they were detached may have been about to seal them
        while self._detached:
            self._detached.delete_first()

    def _remove(self, segment: _Segment) -> None:
        segment.file.close()
        self._folder.remove(_name(segment.base))

    def close(self) -> None:
        """Give back reserved room, and let go of the files; syncs nothing."""
        with self._open_files:
            for segment in self._segments:
                segment.file.seal()
                segment.file.close()
            self._detached.close()

    def recover(self, *, since: int, durable: int, accept_corruption: bool = False) -> "Iterator[Placed]":
        """Yield every whole record from log offset `since` on, then cut the torn tail and sync.

        `durable` is the end of what was known to be synced. Raises CommitLogCorrupted for a bad record below it, unless
        `accept_corruption`, where the bad bytes are stepped over.
        """
        position = max(since, self.start)
        if self.end < durable and not accept_corruption:
            raise CommitLogCorrupted(log_offset=self.end, durable=durable, reason="is missing at the end of the log")
        while position < self.end:
            try:
                placed = self._placed_at(position)
            except BadRecord as error:
                if position < durable and not accept_corruption:
                    raise CommitLogCorrupted(log_offset=position, durable=durable, reason=str(error)) from error
                found = self._next_whole_record(position) if position < durable else None
                if found is None:
                    break
                self.skipped_bytes += found - position
                position = found
                continue
            yield placed
            position += placed.size
        self.cut(position)
        self.synced = min(max(since, self.start), self.end)
        self.sync()

    def _placed_at(self, log_offset: int) -> Placed:
        segment = self._segment_of(log_offset)
        size = announced_size(segment.file.read(log_offset - segment.base, HEADER_BYTES))
        if log_offset + size > self._end_of(segment):
            raise BadRecord(f"is {size} bytes by its header and passes the end of its segment")
        return Placed(log_offset, size, decode(segment.file.read(log_offset - segment.base, size)))

    def _next_whole_record(self, bad: int) -> int | None:
        """The first log offset after `bad` where a whole record begins; None if there is none."""
        position = bad + 1
        while position < self.end:
            segment = self._segment_of(position)
            window = segment.file.read(position - segment.base, _SCAN_BYTES)
            at = window.find(MAGIC_BYTES)
            while at >= 0:
                if self._is_whole(position + at):
                    return position + at
                at = window.find(MAGIC_BYTES, at + 1)
            if position + len(window) < self._end_of(segment):
                position += len(window) - len(MAGIC_BYTES) + 1  # the magic may lie across two windows
            else:
                position = next((base for base in self._bases if base > segment.base), self.end)
                if self._is_whole(position):
                    return position
        return None

    def _end_of(self, segment: _Segment) -> int:
        """Where its records end at the latest: after a crash zeros may follow, or bytes may be missing."""
        following = bisect.bisect_right(self._bases, segment.base)
        return min(segment.end, self._bases[following]) if following < len(self._bases) else segment.end

    def _is_whole(self, log_offset: int) -> bool:
        try:
            self._placed_at(log_offset)
        except BadRecord:
            return False
        return True


def _name(base: int) -> str:
    return f"{base:0{_NAME_DIGITS}d}"
