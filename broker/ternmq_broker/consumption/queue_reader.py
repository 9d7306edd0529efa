"""Reads the messages of queues that consumers may see, and never waits for the disk.

A message that can't be read any more, lost or damaged, is logged once and counted once, however many groups read it. A
whole record that differs from the index is damage too: no consumer gets a message in place of another.
"""

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from ternmq_broker.consumption.losses import LostMessages
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.log.record import RecordKind
from ternmq_common.limits import DELIVERY_BYTES, PULL_BYTES_MAX
from ternmq_common.shard.model import PulledMessages, QueueRef, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.filters.message_filter import MessageFilter

_log = logging.getLogger(__name__)
_MESSAGE: Final = RecordKind.MESSAGE
_LOST_MAX: Final = 100_000
_LOGGED_MAX: Final = 1000


class QueueReader:
    """Reads messages of queues up to the readable end of the log.

    A read that would wait for the disk raises WouldBlock; a damaged record that another replica may have whole raises
    AwaitsRepair. `lost_count` counts messages that were there once and can't be read any more, up to 100,000.
    """

    def __init__(
        self, store: "MessageStore", readable_end: "Callable[[], int]", losses: "LostMessages | None" = None
    ) -> None:
        self._log = store.log
        self._queues = store.indexes.queues
        self._records = store.reader
        self.losses = losses or LostMessages(store, ())
        self._readable_end = readable_end
        self._lost: dict[tuple[str, int, int], MessageLocation] = {}

    @property
    def lost_count(self) -> int:
        return len(self._lost)

    @property
    def degraded(self) -> str | None:
        """The problem for an operator, although messages can be stored and received."""
        if not self._lost:
            return None
        count = "1 message" if self.lost_count == 1 else f"{self.lost_count} messages"
        return f"{count} can't be read any more; the log names them"

    def forget_repaired(self, begin: int, end: int) -> list[tuple[str, int, int]]:
        """Forget lost messages between these log offsets, which are whole now. Returns their topics, queues and
        offsets."""
        places = [
            place for place, location in self._lost.items() if location.size and begin <= location.log_offset < end
        ]
        for place in places:
            del self._lost[place]
        return places

    def locate_messages(self, topic: str, queue_id: int, offset: int, count: int) -> "list[MessageLocation]":
        """Up to `count` messages from `offset` on, as far as they may be read; WouldBlock."""
        locations = self._queues.locate_messages(topic, queue_id, offset, count, may_block=False)
        end = self._readable_end()
        if locations and locations[-1].log_offset + locations[-1].size > end:
            return self._limit_to_readable(locations, end)
        return locations

    def _limit_to_readable(self, locations: "list[MessageLocation]", end: int) -> "list[MessageLocation]":
        """The locations before the first that is readable only later; a location beyond the log's end never is."""
        log_end = self._log.log_end
        readable: list[MessageLocation] = []
        for location in locations:
            location_end = location.log_offset + location.size
            if location_end > log_end:
                readable.append(MessageLocation(location.log_offset, 0, 0))
            elif location_end > end:
                break
            else:
                readable.append(location)
        return readable

    def read_located(
        self, topic: str, queue_id: int, located: "Mapping[int, MessageLocation]", passing: "MessageFilter"
    ) -> "list[Record]":
        """Read the located messages, keyed by offset, that are there and pass the filter; WouldBlock."""
        return self._read_passing(topic, queue_id, list(located), list(located.values()), passing)

    def _read_passing(
        self,
        topic: str,
        queue_id: int,
        offsets: "list[int]",
        locations: "list[MessageLocation]",
        passing: "MessageFilter",
    ) -> "list[Record]":
        found = self._read_records(topic, queue_id, offsets, locations)
        records = [record for record in found if record is not None]
        if passing.takes_all:
            return records
        return [record for record in records if passing.passes_message(record.system, record.rest)]

    def pull_messages(self, queue: QueueRef, offset: int, passing: "MessageFilter", limit: int) -> PulledMessages:
        """Read up to `limit` messages from `offset` on, without a consumer group; WouldBlock."""
        locations = within_bytes(self._locate_all(queue.topic, queue.queue_id, offset, limit), PULL_BYTES_MAX)
        following = offset + len(locations)
        offsets = list(range(offset, following))
        if not passing.takes_all:
            chosen = [number for number, each in enumerate(locations) if passing.may_pass(each.tag_hash)]
            offsets = [offsets[number] for number in chosen]
            locations = [locations[number] for number in chosen]
        records = self._read_passing(queue.topic, queue.queue_id, offsets, locations, passing)
        total = 0
        for number, record in enumerate(records):
            total += delivered_bytes(record)
            if total > PULL_BYTES_MAX and number:  # of a retry topic, where bodies may be elsewhere
                following, records = record.queue_offset, records[:number]
                break
        return PulledMessages([stored_message(queue, record) for record in records], following)

    def lost_offsets(self, topic: str, queue_id: int, offsets: "Iterable[int]") -> list[int]:
        """The offsets among these whose messages can't be read any more, ascending."""
        return [offset for offset in sorted(offsets) if (topic, queue_id, offset) in self._lost] if self._lost else []

    def _read_records(
        self, topic: str, queue_id: int, offsets: "list[int]", locations: "list[MessageLocation]"
    ) -> "list[Record | None]":
        if _are_ascending(locations, self._log.log_end):
            records = self._records.read_records(locations, may_block=False)
        else:
            # Rows of the index are damaged: each by itself leads to no record, or to another one.
            records = [self._read_alone(location) for location in locations]
        for number, record in enumerate(records):
            offset = offsets[number]
            if (
                record is None
                or record.queue_offset != offset
                or record.queue_id != queue_id
                or record.topic != topic
                or record.kind is not _MESSAGE
            ):
                records[number] = None
                location = locations[number]
                if record is not None or not self._records.has_expired(location):
                    what = "is damaged" if record is None else "is another"
                    self._count_lost(topic, queue_id, offset, location, what)
        return records

    def _read_alone(self, location: MessageLocation) -> "Record | None":
        is_in_log = location.log_offset + location.size <= self._log.log_end
        return self._records.read_records([location], may_block=False)[0] if is_in_log else None

    def _count_lost(self, topic: str, queue_id: int, offset: int, location: "MessageLocation", what: str) -> None:
        place = (topic, queue_id, offset)
        if place in self._lost or len(self._lost) >= _LOST_MAX:
            return
        self._lost[place] = location
        if len(self._lost) > _LOGGED_MAX:
            return
        _log.error(
            "the message at offset %d of queue %d of topic %s (log offset %d, %d bytes) can't be read any more: its "
            "record %s; `ternmq store verify` looks at the whole store",
            *(offset, queue_id, topic, location.log_offset, location.size),
            what if location.size else "was lost before the store was opened",
        )
        if len(self._lost) == _LOGGED_MAX:
            _log.error("%d messages can't be read any more; further ones are counted only", _LOGGED_MAX)

    def read_offsets(
        self, topic: str, queue_id: int, offsets: "Sequence[int]", passing: "MessageFilter"
    ) -> "dict[int, Record]":
        """Read the messages at these ascending offsets that are there and pass the filter; WouldBlock."""
        located = self.locate_offsets(topic, queue_id, offsets)
        return {record.queue_offset: record for record in self.read_located(topic, queue_id, located, passing)}

    def locate_offsets(self, topic: str, queue_id: int, offsets: "Sequence[int]") -> "dict[int, MessageLocation]":
        """Locate the messages at these ascending offsets that are there; WouldBlock."""
        located: dict[int, MessageLocation] = {}
        start = 0
        for end in range(1, len(offsets) + 1):
            if end == len(offsets) or offsets[end] != offsets[end - 1] + 1:
                located.update(
                    enumerate(self._locate_all(topic, queue_id, offsets[start], end - start), offsets[start])
                )
                start = end
        return located

    def _locate_all(self, topic: str, queue_id: int, offset: int, count: int) -> "list[MessageLocation]":
        """Locate up to `count` messages from `offset` on; `locate_messages` may stop where one index file ends."""
        found: list[MessageLocation] = []
        while len(found) < count:
            more = self.locate_messages(topic, queue_id, offset + len(found), count - len(found))
            if not more:
                break
            found += more
        return found

    def readable_offsets(self, topic: str, queue_id: int, offsets: "Sequence[int]") -> "Sequence[int]":
        """Return which of these ascending offsets are readable or gone, not readable later. Raises WouldBlock.

        A leader that has just taken over may know of the group's claims before it knows that their messages are
        acknowledged: these are not readable yet, and must not count as gone.
        """
        if not offsets or not self.readable_from(topic, queue_id, offsets[-1]):
            return offsets
        count = bisect_left(offsets, True, key=lambda offset: self.readable_from(topic, queue_id, offset) > 0)
        return offsets[:count]

    def readable_from(self, topic: str, queue_id: int, offset: int) -> int:
        """The readable end of the log from which on the message at that offset is readable, if it is not yet;
        WouldBlock.

        0 if it is readable now, or is gone.
        """
        end, log_end = self._readable_end(), self._log.log_end
        if end >= log_end:
            return 0
        for location in self._queues.locate_messages(topic, queue_id, offset, 1, may_block=False):
            location_end = location.log_offset + location.size
            return location_end if end < location_end <= log_end else 0
        return 0

    def first_offset(self, topic: str, queue_id: int) -> int:
        """The first offset of the queue."""
        return self._queues.queue_bounds(topic, queue_id)[0]


def _are_ascending(locations: "list[MessageLocation]", log_end: int) -> bool:
    """Whether the locations follow each other, as those of one queue do."""
    end = 0
    for location in locations:
        if location.log_offset < end:
            return False
        end = location.log_offset + location.size
    return end <= log_end


def stored_message(queue: QueueRef, record: "Record") -> StoredMessage:
    origin = record.origin
    half_offset = origin.log_offset if origin is not None and not origin.due_ms else -1
    return StoredMessage(
        queue, record.queue_offset, record.stored_ms, record.system, record.rest, record.log_offset, half_offset
    )


def delivered_bytes(record: "Record") -> int:
    """The size of a message in an answer, at most.

    A message larger than clients accept (for many gRPC's default) is larger than an answer may be, so it is in an
    answer by itself: an answer that a client can't read fails the whole call.
    """
    return len(record.rest) + len(record.system) + DELIVERY_BYTES


def within_bytes(locations: "list[MessageLocation]", bytes_max: int) -> "list[MessageLocation]":
    """The first locations that have at most that size together; at least one, if there is one."""
    total = 0
    for index, location in enumerate(locations):
        total += location.size
        if total > bytes_max and index:
            return locations[:index]
    return locations
