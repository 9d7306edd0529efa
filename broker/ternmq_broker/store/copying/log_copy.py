"""Copies a leader's log into a follower's store: the same bytes at the same log offsets, and updated indexes.

Whole       Only whole records are taken. `count_whole_bytes` says how many bytes of a buffer are whole records.
Fast        Most records are plain, and cost a follower a few microseconds each (`plain_records`); others are replayed
            as when a store is opened.
Checked     Every checksum, that each message is the next one of its queue, and that epochs rise. Wrong bytes do not
            stay in the log; but the indexes may know some of them.
Damage      that the leader has stepped over is copied as it is, if the copy knows where it is.
"""

import bisect
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.log.commit_log import PlacedRecord
from ternmq_broker.store.log.record import HEADER_BYTES, MAGIC_BYTES, BadRecord, RecordKind
from ternmq_broker.store.replaying.plain_records import PlainRecords
from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store.log.record_layouts import RecordLayouts
    from ternmq_broker.store.operations.applied_operations import AppliedOperations
    from ternmq_common.catalog.cluster import RegistryDeletion

_RECORD_BYTES_MIN: Final = 44
_BEGIN: Final = struct.Struct("<3sBIQ")
_CHECK_AT: Final = HEADER_BYTES - 4
_CHECK: Final = struct.Struct("<I")


class BadCopy(Exception):
    """The bytes that came can't be in the leader's log there. None of them is in the log, but the indexes may know
    some: the store must be closed (`abandon`) and opened again.
    """


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of a copy: where the log ends, how many records came, and deletions.

    The caller durably notes the `deletions` before it copies more. Only acknowledged deletions are among them, so they
    come some time after their bytes.
    """

    log_end: int
    records: int
    deletions: "list[RegistryDeletion]" = field(default_factory=list)


class AcceptedRanges:
    """The ranges of damage in the log that readers step over, by log offset."""

    def __init__(self, ranges: "Iterable[Range]" = ()) -> None:
        self._ends: dict[int, int] = {}
        self._begins: list[int] = []
        self.add_ranges(ranges)

    def add_ranges(self, ranges: "Iterable[Range]") -> bool:
        """Add ranges; return whether some are new."""
        new = {begin: end for begin, end in ranges if self._ends.get(begin, 0) < end}
        self._ends |= new
        self._begins = sorted(self._ends)
        return bool(new)

    def find_end(self, log_offset: int) -> int | None:
        """Return where the range ends that contains that log offset; None if none does."""
        at = bisect.bisect_right(self._begins, log_offset) - 1
        if at < 0:
            return None
        end = self._ends[self._begins[at]]
        return end if log_offset < end else None

    def sorted_ranges(self) -> "list[Range]":
        return sorted(self._ends.items())


def count_whole_bytes(data: bytes, log_offset: int, layouts: "RecordLayouts", accepted: AcceptedRanges) -> int:
    """Return how many of these bytes, which begin at `log_offset`, are whole records, by their headers. The records'
    bodies are not checked.

    BadRecord if a record can't begin where one would.
    """
    at, end, key = 0, len(data), layouts.key
    view = memoryview(data)
    while at < end:
        place = log_offset + at
        stepped_over = accepted.find_end(place)
        if stepped_over is not None:
            at = min(end, stepped_over - log_offset)
            continue
        if end - at < layouts.header_bytes(place):
            break
        magic, _, size, named = _BEGIN.unpack_from(data, at)
        (check,) = _CHECK.unpack_from(data, at + _CHECK_AT) if end - at >= HEADER_BYTES else (0,)
        if (
            place < layouts.layout_1_below
            or magic != MAGIC_BYTES
            or named != place
            or crc32(view[at : at + _CHECK_AT]) ^ key != check
        ):
            size = layouts.decode_head(data[at : at + HEADER_BYTES], place).size
        if size < layouts.header_bytes(place):
            raise BadRecord(f"is {size} bytes by its header, which are less than a header")
        if at + size > end:
            break
        at += size
    return at


class LogCopy:
    """Copies bytes of the leader's log into one store. `stored_ms` is when the newest copied record was stored."""

    def __init__(
        self,
        log: "CommitLog",
        derived: "DerivedIndexes",
        operations: "AppliedOperations",
        accepted: AcceptedRanges,
        skipped_bytes: int,
    ) -> None:
        """`skipped_bytes` is what recovery has stepped over: missing messages had room there."""
        self._log = log
        self._derived = derived
        self._operations = operations
        self._accepted = accepted
        self._skipped_bytes = skipped_bytes
        self._plain = PlainRecords(derived.queues, log.layouts.key)
        self.stored_ms = 0

    def append_copied(self, base: int, data: bytes) -> int:
        """Append the bytes, and return how many records they are; see `ReplicaLog.append_copied`."""
        began = self._log.log_end
        try:
            self._log.append_copied(base, data)
        except BadRecord as bad:
            raise BadCopy(f"what came for log offset {began} {bad}") from bad
        self._plain.forget_queues()  # others change the index too
        try:
            return self._replay_records(data, began)
        except Exception as error:
            self._log.cut_from(began)
            raise BadCopy(f"of {len(data)} bytes that came for log offset {began} a record {error}") from error

    def _replay_records(self, data: bytes, began: int) -> int:
        at = count = 0
        while at < len(data):
            log_offset = began + at
            stepped_over = self._accepted.find_end(log_offset)
            if stepped_over is not None:
                following = min(len(data), stepped_over - began)
                self._skipped_bytes += following - at
                at = following
                continue
            end, taken = self._plain.add_plain(data, at, log_offset)
            if taken:
                self.stored_ms = max(self.stored_ms, self._plain.stored_ms)
            else:
                end = at + self._replay_record(data, at, log_offset)
                taken = 1
            at, count = end, count + taken
        return count

    def _replay_record(self, data: bytes, at: int, log_offset: int) -> int:
        """Replay a record of any kind, and return its size. BadRecord."""
        layouts = self._log.layouts
        size = layouts.decode_head(data[at : at + layouts.header_bytes(log_offset)], log_offset).size
        record = layouts.decode_record(data[at : at + size], log_offset)
        placed = PlacedRecord(log_offset, size, record)
        problem = self._derived.find_contradiction(placed, self._skipped_bytes // _RECORD_BYTES_MIN)
        problem = problem or self._operations.find_contradiction(record)
        if problem is not None:
            raise BadRecord(problem)
        self._derived.replay_record(placed)
        if record.kind is RecordKind.OPERATION:
            self._operations.replay_record(placed, self._derived.queues)
        self.stored_ms = max(self.stored_ms, record.stored_ms)
        return size
