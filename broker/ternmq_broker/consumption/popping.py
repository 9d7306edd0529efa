"""One pop: claims messages of a topic's queues for one consumer of a group.

A queue's state changes only after everything for that step was read, so a read that would wait for the disk
(`WouldBlock`) leaves nothing half done.
"""

from typing import TYPE_CHECKING, Final

from ternmq_broker.consumption.queue_reader import QueueReader, delivered_bytes, stored_message
from ternmq_common.limits import RECEIVE_BYTES_MAX
from ternmq_common.shard.model import DeliveredMessage, PopOrder, QueueRef
from ternmq_common.shard.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.delivery.claims import Claim
    from ternmq_broker.delivery.queue_consumption import QueueConsumption
    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.log.record import Record

# A filter that few messages pass examines so many before other tasks get their turn on the loop.
SCAN_ROWS: Final = 1024
SCAN_STEP: Final = 256


class PopBatch:
    """The messages that one consumer gets: up to the batch, at least one, and up to RECEIVE_BYTES_MAX bytes.

    The limit of bytes keeps large bodies from filling the memory. `more` says that there may be more messages to claim
    or to examine. Claims last until `deadline_ms`.
    """

    def __init__(self, order: PopOrder, reader: QueueReader, *, broker: str, now_ms: int) -> None:
        self._order = order
        self._reader = reader
        self._broker = broker
        self._now_ms = now_ms
        self.deadline_ms = now_ms + order.invisible_ms
        self._bytes = 0
        self._no_other_fits = False
        self._scanned = 0
        self.deliveries: list[DeliveredMessage] = []
        self.more = False

    @property
    def is_full(self) -> bool:
        """Whether no more messages may be claimed or examined in this turn."""
        return (
            len(self.deliveries) >= self._order.batch
            or self._bytes >= RECEIVE_BYTES_MAX
            or self._no_other_fits
            or self._scanned >= SCAN_ROWS
        )

    def count_scanned(self, rows: int) -> None:
        """Count examined rows; there may be more when they were enough for one turn."""
        self._scanned += rows
        self.more |= self._scanned >= SCAN_ROWS

    @property
    def wanted_count(self) -> int:
        """How many messages the batch still has room for."""
        return self._order.batch - len(self.deliveries)

    def count_fitting(self, sizes: "Sequence[int]") -> int:
        """How many messages of these sizes fit, in their order; if not all do, the pop is full.

        The first message always fits into an empty pop.
        """
        total = self._bytes
        for number, size in enumerate(sizes):
            total += size
            if total > RECEIVE_BYTES_MAX and (number or self.deliveries):
                self._no_other_fits = self.more = True
                return number
        return len(sizes)

    def add_deliveries(
        self, queue: QueueRef, records: "list[Record]", claims: "list[Claim]", handle_queue_id: int
    ) -> None:
        """Add claimed records. `handle_queue_id` is the queue id in handles: a retry queue has a number of its own."""
        for record, claim in zip(records, claims, strict=True):
            handle = ReceiptHandle(
                self._broker, handle_queue_id, record.queue_offset, claim.generation, self.deadline_ms
            )
            self.deliveries.append(DeliveredMessage(stored_message(queue, record), handle, claim.attempt))
            self._bytes += delivered_bytes(record)

    def claim_ready(self, queue: QueueRef, handle_queue_id: int, state: "QueueConsumption", limit: int) -> None:
        """Claim messages to be redelivered; messages that are gone, or fail the filter, are finished."""
        for offset, attempt in state.ready_offsets(min(limit, self.wanted_count)):
            read = self._reader.read_offsets(queue.topic, queue.queue_id, [offset], self._order.filter)
            records = list(read.values())
            if not self.count_fitting([delivered_bytes(record) for record in records]) and records:
                break
            if records:
                self._claim_records(queue, handle_queue_id, state, records, attempt)
            elif not self._reader.readable_from(queue.topic, queue.queue_id, offset):
                state.finish_offset(offset)
                if handle_queue_id == queue.queue_id and offset < self._reader.first_offset(
                    queue.topic, queue.queue_id
                ):
                    self._reader.losses.add_lost(self._order.group, queue.topic, queue.queue_id, 1)
            if self.is_full:
                break
        self.more |= self.is_full

    def _claim_records(
        self, queue: QueueRef, handle_queue_id: int, state: "QueueConsumption", records: "list[Record]", attempt: int
    ) -> None:
        offsets = [record.queue_offset for record in records]
        claim = state.hand_out(offsets, attempt=attempt, deadline_ms=self.deadline_ms)
        self.add_deliveries(queue, records, [claim] * len(records), handle_queue_id)


class UnorderedPop(PopBatch):
    """Claims new messages too, in the order of their queues."""

    def claim_new(self, queue: QueueRef, state: "QueueConsumption") -> None:
        """Claim messages that no member has had; those that fail the filter are skipped for good."""
        while not self.is_full:
            cursor, first = state.cursor, self._reader.first_offset(queue.topic, queue.queue_id)
            if cursor < first:
                self._reader.losses.note_passed_over(self._order.group, queue.topic, queue.queue_id, state, first)
                state.skip_to(first)
                cursor = first
            wanted = self.wanted_count
            count = wanted if self._order.filter.takes_all else max(wanted, SCAN_STEP)
            locations = self._reader.locate_messages(queue.topic, queue.queue_id, cursor, count)
            if not locations:
                return
            chosen, end = self._choose_messages(locations, cursor, wanted)
            records = self._reader.read_located(queue.topic, queue.queue_id, chosen, self._order.filter)
            count = self.count_fitting([delivered_bytes(record) for record in records])
            if count < len(records):
                end, records = records[count].queue_offset, records[:count]
            if records:
                self._claim_records(queue, queue.queue_id, state, records, 1)
            state.skip_to(end)
            self.count_scanned(end - cursor)
        self.more = True

    def _choose_messages(
        self, locations: "list[MessageLocation]", cursor: int, wanted: int
    ) -> "tuple[dict[int, MessageLocation], int]":
        """Choose the messages to read, at most about as many bytes as fit.

        Returns their locations by offset, and the offset behind the last one examined.
        """
        chosen: dict[int, MessageLocation] = {}
        size = self._bytes
        passing = self._order.filter
        takes_all = passing.takes_all
        for offset, location in enumerate(locations, cursor):
            if takes_all or passing.may_pass(location.tag_hash):
                chosen[offset] = location
                size += location.size
                if len(chosen) == wanted or size >= RECEIVE_BYTES_MAX:
                    return chosen, offset + 1
        return chosen, cursor + len(locations)
