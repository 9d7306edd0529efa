"""One pop: takes messages of a topic's queues for one consumer of a group.

First what is ready for another delivery, then what is new, queue by queue. A queue's state changes only after
everything for that step was read, so a read that would have to wait for the disk (`WouldBlock`) leaves nothing half
done.
"""

from typing import TYPE_CHECKING

from ternmq_common.model import Delivery, PopOrder, QueueRef, StoredMessage
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.tag_filter import TagFilter
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.delivery.queue_consumption import QueueConsumption
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.queue_index import Location
    from ternmq_broker.store.record import Record

# With a filter that lets little pass, so many messages are looked at before others get their turn on the loop.
_SCAN_ROWS = 2048
_SCAN_STEP = 256
# A batch ends with the message that passes this size, so that large bodies don't add up in memory.
_BATCH_BYTES = 8 << 20


class QueueReader:
    """Reads what consumers may see; `lost` counts messages that were there once and can't be read any more."""

    def __init__(self, store: "MessageStore", readable_end: "Callable[[], int]") -> None:
        self._store = store
        self._readable_end = readable_end
        self.lost = 0

    def locate(self, topic: str, queue_id: int, offset: int, count: int) -> "list[Location]":
        """Up to `count` messages from `offset` on, as far as they may be read; WouldBlock."""
        locations = self._store.locate(topic, queue_id, offset, count, may_block=False)
        end = self._readable_end()
        if locations and locations[-1].log_offset + locations[-1].size > end:
            return [location for location in locations if location.log_offset + location.size <= end]
        return locations

    def read(self, locations: "list[Location]", tags: TagFilter) -> "list[Record]":
        """Those of the messages that are there and pass the filter; WouldBlock."""
        records = self._store.read(locations, may_block=False)
        self.lost += sum(record is None for record in records)
        return [record for record in records if record is not None and _passes(tags, record)]

    def first(self, topic: str, queue_id: int) -> int:
        """The first offset that the queue holds."""
        return self._store.bounds(topic, queue_id)[0]


class Pop:
    """What one consumer gets. `more` says that there may be more to take, or to look through."""

    def __init__(self, order: PopOrder, reader: QueueReader, *, broker: str, now_ms: int) -> None:
        self._order = order
        self._reader = reader
        self._broker = broker
        self._now_ms = now_ms
        self._bytes = 0
        self.deliveries: list[Delivery] = []
        self.more = False

    @property
    def is_full(self) -> bool:
        return len(self.deliveries) >= self._order.batch or self._bytes >= _BATCH_BYTES

    def take_ready(self, queue_id: int, state: "QueueConsumption") -> None:
        """Take what is to be delivered again; a message that is gone, or that the filter refuses, is finished."""
        for offset, attempt in state.ready(self._now_ms, self._order.batch - len(self.deliveries)):
            locations = self._reader.locate(self._order.topic, queue_id, offset, 1)
            records = self._reader.read(locations, self._order.filter)
            if records:
                self._hand_out(queue_id, state, records, attempt)
            else:
                state.finish(offset)
            if self.is_full:
                break
        self.more |= self.is_full

    def take_new(self, queue_id: int, state: "QueueConsumption") -> None:
        """Take messages that nobody of the group has had; those that the filter refuses are skipped for good."""
        scanned = 0
        while not self.is_full and scanned < _SCAN_ROWS:
            cursor = max(state.cursor, self._reader.first(self._order.topic, queue_id))
            wanted = self._order.batch - len(self.deliveries)
            count = wanted if self._order.filter.tags is None else max(wanted, _SCAN_STEP)
            locations = self._reader.locate(self._order.topic, queue_id, cursor, count)
            if not locations:
                return
            chosen, end = self._choose(locations, cursor, wanted)
            records = self._reader.read(chosen, self._order.filter)
            if records:
                self._hand_out(queue_id, state, records, 1)
            state.skip_to(end)
            scanned += end - cursor
        self.more = True

    def _choose(self, locations: "list[Location]", cursor: int, wanted: int) -> "tuple[list[Location], int]":
        """The messages to read, and the offset behind the last one that was looked at."""
        chosen: list[Location] = []
        size = self._bytes
        for number, location in enumerate(locations):
            if self._order.filter.may_pass(location.tag_hash):
                chosen.append(location)
                size += location.size
                if len(chosen) == wanted or size >= _BATCH_BYTES:
                    return chosen, cursor + number + 1
        return chosen, cursor + len(locations)

    def _hand_out(self, queue_id: int, state: "QueueConsumption", records: "list[Record]", attempt: int) -> None:
        deadline_ms = self._now_ms + self._order.invisible_ms
        claim = state.hand_out([record.queue_offset for record in records], attempt=attempt, deadline_ms=deadline_ms)
        queue = QueueRef(self._order.topic, self._broker, queue_id)
        for record in records:
            handle = ReceiptHandle(self._broker, queue_id, record.queue_offset, claim.generation, deadline_ms)
            self.deliveries.append(Delivery(stored_message(queue, record), handle, attempt))
            self._bytes += len(record.rest)


def stored_message(queue: QueueRef, record: "Record") -> StoredMessage:
    return StoredMessage(queue, record.queue_offset, record.stored_ms, record.system, record.rest)


def _passes(tags: TagFilter, record: "Record") -> bool:
    if tags.tags is None:
        return True
    return tags.passes(definition_pb2.SystemProperties.FromString(record.system).tag)
