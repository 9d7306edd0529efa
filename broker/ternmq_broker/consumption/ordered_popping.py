"""One pop of a FIFO group: claims the next messages of message groups that no consumer has messages of.

Messages that were read ahead and must wait for their message group are read again when they are due: only their
offsets are kept.

A message that can't be read any more blocks its message group, if that is known because it was read before: nothing
behind it is delivered until an operator skips it. If the message group is unknown, any message might be its follower,
so the message is skipped.
"""

import logging
from typing import TYPE_CHECKING

from ternmq_broker.consumption.popping import SCAN_STEP, PopBatch
from ternmq_broker.consumption.queue_reader import delivered_bytes
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.limits import RECEIVE_BYTES_MAX
from ternmq_common.names import is_lite_queue
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_broker.delivery.ordered_consumption import MessageGroupLane, OrderedConsumption
    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.log.record import Record
    from ternmq_common.shard.model import QueueRef

_log = logging.getLogger(__name__)


class OrderedPop(PopBatch):
    """Claims messages in order; see the module."""

    def redeliver_held(self, queue: "QueueRef", state: "OrderedConsumption") -> None:
        """Deliver to a consumer that repeats its call what the first call delivered."""
        for lane in list(state.lanes_of_attempt(self._order.attempt_id)):
            offsets = sorted(lane.claimed | lane.ended)
            records = self._reader.read_offsets(queue.topic, queue.queue_id, offsets, ALL)
            claims = state.hand_out_again(lane, deadline_ms=self.deadline_ms)
            found = [records[offset] for offset in claims if offset in records]
            self.add_deliveries(queue, found, [claims[record.queue_offset] for record in found], queue.queue_id)

    def claim_from_lanes(self, queue: "QueueRef", state: "OrderedConsumption") -> None:
        """Claim from open lanes; read ahead while there are none and there is room for messages that must wait."""
        self._skip_removed(queue, state)
        read: dict[int, Record] = {}
        while not self.is_full:
            self._claim_open_lanes(queue, state, read)
            if self.is_full or not state.may_read_ahead:
                break
            looked_at = self._read_ahead(queue, state, read)
            if not looked_at:
                return
            self.count_scanned(looked_at)
        self.more |= state.has_open_lane

    def claim_from_single_lane(self, queue: "QueueRef", state: "OrderedConsumption") -> None:
        """Claim the next messages of a queue that is one lane, as a lite topic is, unless a consumer has some."""
        self._skip_removed(queue, state)
        self.count_scanned(1)
        read: dict[int, Record] = {}
        while state.offsets_to_scan(1) and self._read_ahead(queue, state, read):
            pass
        if state.is_closed:
            return
        lane = state.open_lane()
        if lane is None or len(lane.waiting) < self.wanted_count:
            self.count_scanned(self._read_ahead(queue, state, read))
        self._claim_open_lanes(queue, state, read)

    def _skip_removed(self, queue: "QueueRef", state: "OrderedConsumption") -> None:
        """Finish the messages that retention removed."""
        first = self._reader.first_offset(queue.topic, queue.queue_id)
        if state.begins_before(first):
            self._reader.losses.note_passed_over(self._order.group, queue.topic, queue.queue_id, state, first)
            state.skip_to(first)

    def _claim_open_lanes(self, queue: "QueueRef", state: "OrderedConsumption", read: "dict[int, Record]") -> None:
        while not self.is_full:
            lane = state.open_lane()
            if lane is None:
                return
            self._claim_from_lane(lane, queue, state, read)

    def _claim_from_lane(
        self, lane: "MessageGroupLane", queue: "QueueRef", state: "OrderedConsumption", read: "dict[int, Record]"
    ) -> None:
        # Some of each message group, rather than many of one: when one fails, fewer wait for it at the consumer, and
        # messages that are taken in the order of the queue need not be read a second time.
        share = max(1, self.wanted_count // state.open_lanes)
        limit = min(self.wanted_count, self._order.message_group_batch, share)
        offsets = [offset for offset, _ in zip(lane.waiting, range(limit), strict=False)]
        unread = [offset for offset in offsets if offset not in read]
        located = self._reader.locate_offsets(queue.topic, queue.queue_id, unread) if unread else {}
        sizes = {offset: location.size for offset, location in located.items()}
        sizes |= {offset: len(read[offset].rest) for offset in offsets if offset in read}
        wanted = self._within_size(offsets, sizes)
        missing = {offset: located[offset] for offset in wanted if offset in located}
        records = self._reader.read_located(queue.topic, queue.queue_id, missing, ALL)
        read.update((record.queue_offset, record) for record in records)
        chosen: list[Record] = []
        for offset in wanted:
            record = read.get(offset)
            if record is not None:
                chosen.append(record)
            elif offset not in missing:
                state.skip_message(offset)  # retention has removed it
            else:
                if is_lite_queue(queue.topic):
                    # No operator could know of it, and messages behind it would wait until the topic is dropped.
                    self._log_skipped(queue, {offset: missing[offset]}, {})
                    state.skip_message(offset)
                    continue
                if not chosen:
                    self._block_lane(lane, offset, queue, state)
                break  # messages before it are delivered first
        chosen = chosen[: self.count_fitting([delivered_bytes(record) for record in chosen])]
        if chosen:
            claims = state.hand_out(
                lane,
                [record.queue_offset for record in chosen],
                deadline_ms=self.deadline_ms,
                attempt_id=self._order.attempt_id,
            )
            self.add_deliveries(queue, chosen, claims, queue.queue_id)

    def _block_lane(
        self, lane: "MessageGroupLane", offset: int, queue: "QueueRef", state: "OrderedConsumption"
    ) -> None:
        state.block_lane(lane)
        group, topic, queue_id = self._order.group, queue.topic, queue.queue_id
        _log.error(
            "group %s stops in message group %r of topic %s, queue %d: the message at offset %d can't be read any "
            "more, and messages behind it wait until an operator skips it: "
            "`ternmq group offset skip %s --topic %s --broker %s --queue %d --offset %d`",
            *(group, lane.key, topic, queue_id, offset, group, topic, queue.broker, queue_id, offset),
        )

    def _within_size(self, offsets: "list[int]", sizes: "dict[int, int]") -> "list[int]":
        """The first offsets, up to the one whose message fills the batch; an offset without a size is gone."""
        size = self._bytes
        for number, offset in enumerate(offsets, start=1):
            size += sizes.get(offset, 0)
            if size >= RECEIVE_BYTES_MAX:
                return offsets[:number]
        return offsets

    def _read_ahead(self, queue: "QueueRef", state: "OrderedConsumption", read: "dict[int, Record]") -> int:
        """Put the next messages into their lanes; returns how many were examined, 0 at the end of the queue.

        `read` has their records afterwards, and no others: memory must not grow with the bodies of messages
        that wait.
        """
        offsets = state.offsets_to_scan(SCAN_STEP)
        if offsets:
            offsets = list(self._reader.readable_offsets(queue.topic, queue.queue_id, offsets))
            located = self._reader.locate_offsets(queue.topic, queue.queue_id, offsets)
        else:
            count = max(self.wanted_count, SCAN_STEP if read else 0)
            locations = self._reader.locate_messages(queue.topic, queue.queue_id, state.cursor, count)
            located = dict(enumerate(locations, state.cursor))
            offsets = list(located)
        offsets = self._within_size(offsets, {offset: location.size for offset, location in located.items()})
        passing = {
            offset: located[offset]
            for offset in offsets
            if offset in located and self._order.filter.may_pass(located[offset].tag_hash)
        }
        found = self._reader.read_located(queue.topic, queue.queue_id, passing, self._order.filter)
        records = {record.queue_offset: record for record in found}
        self._log_skipped(queue, passing, records)
        self._admit_messages(offsets, records, state)
        read.clear()
        read.update(records)
        return len(offsets)

    def _log_skipped(
        self, queue: "QueueRef", located: "dict[int, MessageLocation]", records: "dict[int, Record]"
    ) -> None:
        for offset in self._reader.lost_offsets(queue.topic, queue.queue_id, located.keys() - records.keys()):
            _log.error(
                "group %s skips the message at offset %d of queue %d of topic %s: it can't be read any more, and its "
                "message group is unknown",
                *(self._order.group, offset, queue.queue_id, queue.topic),
            )

    def _admit_messages(self, offsets: "list[int]", records: "dict[int, Record]", state: "OrderedConsumption") -> None:
        for offset in offsets:
            record = records.get(offset)
            if record is None:
                state.skip_message(offset)
            else:
                group = definition_pb2.SystemProperties.FromString(record.system).message_group
                state.admit_message(offset, group, self._now_ms)
