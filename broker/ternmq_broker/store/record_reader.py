"""Reads records of the commit log: by location, by log offset, by time and by key.

Damage that a read finds is reported, and read past or waited for until another replica has repaired it.
"""

import contextlib
import errno
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.index.key_search import KeySearch
from ternmq_broker.store.index.key_table import do_not_pause
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.log.record import BadRecord, Record, RecordKind, RecordOrigin
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.names import lite_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_broker.store.index.log_index import LogIndex
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.repairing.damage import LogDamage

_MESSAGE: Final = RecordKind.MESSAGE.value
# A batch's records are read as one piece while the gaps between them cost less than reading each by itself. A read of
# its own takes as long as 8 KiB more in one piece.
_SPAN_FACTOR: Final = 4
_BYTES_FOR_A_READ: Final = 4096


class RecordReader:
    """Reads whole records, and reports damage. Methods that may block are for threads."""

    def __init__(self, log: "CommitLog", queues: "LogIndex", damage: "LogDamage") -> None:
        self._log = log
        self._queues = queues
        self._damage = damage

    def read_records(self, locations: "Sequence[MessageLocation]", *, may_block: bool) -> list[Record | None]:
        """Return the records in order; None where one was lost or can't be read.

        With `may_block` false it raises WouldBlock as `locate_messages` does, and AwaitsRepair where a record is
        damaged that another replica may have whole.
        """
        start, end, count, total = -1, 0, 0, 0
        for location in locations:
            if location.size:
                if start < 0:
                    start = location.log_offset
                end = location.log_offset + location.size
                count += 1
                total += location.size
        if not count:
            return [None] * len(locations)
        span, window = end - start, b""
        if span <= max(_SPAN_FACTOR * total, _BYTES_FOR_A_READ * count):
            # Not `suppress`, which is not compiled.
            try:
                window = self._log.read_bytes(start, span, may_block=may_block)
            except (BadRecord, OSError):
                window = b""  # each record is read by itself, and reports what is wrong
        return [self._read_record(location, start, window, may_block=may_block) for location in locations]

    def _read_record(self, location: MessageLocation, start: int, window: bytes, *, may_block: bool) -> Record | None:
        if not location.size:
            return None
        at = location.log_offset - start
        data = window[at : at + location.size]
        try:
            if len(data) < location.size:
                data = self._log.read_bytes(location.log_offset, location.size, may_block=may_block)
            record = self._log.layouts.decode_record(data, location.log_offset)
        except (BadRecord, OSError) as error:
            self._report_unreadable(location.log_offset, location.size, error, may_block=may_block)
            return None
        if record.reference is None:
            return record
        with contextlib.suppress(BadRecord):
            return self._resolve_reference(record, may_block=may_block)
        return None

    def _resolve_reference(self, record: Record, *, may_block: bool) -> Record:
        """Return the record with the rest that it shares with an earlier one; BadRecord if that is gone."""
        reference = record.reference
        if reference is not None:
            try:
                data = self._log.read_bytes(reference.log_offset, reference.size, may_block=may_block)
                referred = self._log.layouts.decode_record(data, reference.log_offset)
            except (BadRecord, OSError) as error:
                self._report_unreadable(reference.log_offset, reference.size, error, may_block=may_block)
                raise BadRecord(str(error)) from error
            record.rest, record.rest_stored_ms = referred.rest, referred.stored_ms
        return record

    def _report_unreadable(self, log_offset: int, size: int, error: Exception, *, may_block: bool) -> None:
        """Report damage. Raises AwaitsRepair if the reader is to wait for a repair, and the OSError of a disk that may
        yet return the bytes.
        """
        if self._log.log_start <= log_offset < self._log.log_end:
            is_of_disk = isinstance(error, OSError)
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise error
            if self._damage.report_damage(log_offset, size):
                if not may_block:
                    raise AwaitsRepair
            elif is_of_disk:
                raise error

    def has_expired(self, location: MessageLocation) -> bool:
        """Tell whether the record there is whole, but shares its rest with a removed record."""
        try:
            reference = self._log.record_at(location.log_offset).reference
        except BadRecord:
            return False
        return reference is not None and reference.log_offset < self._log.log_start

    def find_offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the first offset that was stored at or after that time; the queue's end if there is none. Reads, so
        for a thread.
        """
        low, high = self._queues.queue_bounds(topic, queue_id)
        while low < high:
            middle = (low + high) // 2
            readable, stored_ms = self._first_stored_from(topic, queue_id, middle, high)
            if stored_ms is not None and stored_ms < time_ms:
                low = readable + 1
            else:
                high = middle
        return low

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return when the message at that offset, or the first remaining one after it, was stored. Reads, so for a
        thread.
        """
        first, end = self._queues.queue_bounds(topic, queue_id)
        return self._first_stored_from(topic, queue_id, max(first, offset), end)[1]

    def _first_stored_from(self, topic: str, queue_id: int, offset: int, end: int) -> tuple[int, int | None]:
        """Return the first offset from there on whose record can be read, and when it was stored; None as time if there
        is none.
        """
        while offset < end:
            for location in self._queues.locate_messages(topic, queue_id, offset, end - offset, may_block=True):
                if location.size:
                    with contextlib.suppress(BadRecord):  # a read of the message will report the damage
                        return offset, self._log.head_at(location.log_offset).stored_ms
                offset += 1
        return end, None

    def lite_sent_ms(self, topic: str) -> int:
        """Return when the lite topic last received a message; 0: not since the start, see `read_lite_sent_ms`."""
        queue = self._queues.lite_queue(topic)
        return 0 if queue is None else queue.last_ms

    def read_lite_sent_ms(self, topics: "Sequence[str]") -> None:
        """Read from the log when these lite topics last received a message, where that is not known. For a thread."""
        for topic in topics:
            queue = self._queues.lite_queue(topic)
            if queue is not None and not queue.last_ms:
                sent_ms = self._first_stored_from(topic, 0, max(queue.first, queue.end - 1), queue.end)[1]
                queue.last_ms = queue.last_ms or sent_ms or 1

    def find_by_key(self, topic: str, key: str, limit: int, pause: "Callable[[], None]" = do_not_pause) -> list[Record]:
        """Return the newest messages of the topic and its lite topics with that key or message id. Reads, so for a
        thread.

        `pause` is called between steps of less than a millisecond; what it raises ends the search. BadRecord: neither
        the keys of a part of the log nor that part itself can be read.
        """
        found: list[Record] = []
        for log_offset in self._queues.find_candidates(
            KeySearch(topic, key, lambda: self._lite_topics_of(topic), pause)
        ):
            with contextlib.suppress(BadRecord):
                record = self._resolve_reference(self._log.record_at(log_offset), may_block=True)
                is_held = record.queue_offset >= self._queues.queue_bounds(record.topic, record.queue_id)[0]
                if lite_parent(record.topic) == topic and is_held and key in keys_of(record.system):
                    found.append(record)
            if len(found) == limit:
                break
            pause()
        return found

    def _lite_topics_of(self, topic: str) -> list[str]:
        return (
            [each for each in self._queues.lite_topics() if lite_parent(each) == topic]
            if self._queues.lite_queues
            else []
        )

    def read_record_at(self, log_offset: int) -> Record | None:
        """Return the record of any kind that begins there, None if none does. Reads, so for a thread."""
        try:
            if not 0 <= log_offset < self._log.log_end:
                return None
            return self._resolve_reference(self._log.record_at(log_offset), may_block=True)
        except BadRecord:
            return None

    def find_descendant(self, topic: str, key: str, origin: int) -> Record | None:
        """Return the message of the topic with that key or id that was created from the record at log offset
        `origin`. Reads, so for a thread.
        """
        for log_offset in self._queues.find_candidates(KeySearch(topic, key)):
            record = self.read_record_at(log_offset)
            if record is not None and record.topic == topic and record.origin == RecordOrigin(origin):
                return record
        return None


def list_records_between(log: "CommitLog", begin: int, end: int, pause: "Callable[[], None]") -> "Iterable[int]":
    """Return the log offsets of the messages in that range, the last first. BadRecord."""
    log_offsets: list[int] = []
    while begin < end:
        head = log.head_at(begin)
        if head.kind == _MESSAGE:  # what waits for its time can't be found by key
            log_offsets.append(begin)
        begin += head.size
        pause()
    return reversed(log_offsets)
