"""Consumption of one broker: hands out messages of the store to groups, takes them back, and remembers how far.

The decisions are those of `delivery.QueueConsumption`; here they meet the store, the filter and the journal. Whatever
changes does so in one synchronous step, after all reading is done: a reader that is interrupted changed nothing.
"""

from typing import TYPE_CHECKING

from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.store.files import WouldBlock
from ternmq_common.model import (
    Delivery,
    PopOrder,
    Pulled,
    QueueBounds,
    QueueProgress,
    QueueRef,
    Settled,
    StoredMessage,
)
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.tag_filter import TagFilter
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.progress_journal import ProgressJournal, QueueKey
    from ternmq_broker.store.queue_index import Location
    from ternmq_broker.store.record import Record

# With a filter that lets little pass, so many messages are looked at before others get their turn on the loop.
_SCAN_ROWS = 2048


class Consumption:
    """Every group's progress in the queues of one broker."""

    def __init__(
        self,
        store: "MessageStore",
        journal: "ProgressJournal",
        *,
        broker: str,
        readable_end: "Callable[[], int]",
    ) -> None:
        self._store = store
        self._journal = journal
        self._broker = broker
        self._readable_end = readable_end
        self._states: dict[tuple[str, str], dict[int, QueueConsumption]] = {}
        self._changed: dict[QueueKey, QueueConsumption] = {}
        self._turn = 0
        self.lost = 0
        for (group, topic, queue_id), snapshot in journal.snapshots().items():
            end = store.bounds(topic, queue_id)[1]
            self._states.setdefault((group, topic), {})[queue_id] = QueueConsumption.restore(snapshot, end=end)

    # --- handing out

    def pop(self, order: PopOrder, now_ms: int) -> tuple[list[Delivery], bool]:
        """Hand out what is there, up to the batch, and say whether there may be more to look at.

        WouldBlock: nothing has changed; wait in a thread, then call again.
        """
        found: list[Delivery] = []
        unfinished = False
        self._turn += 1
        start = self._turn % len(order.queues)
        for queue_id in (*order.queues[start:], *order.queues[:start]):
            state = self._state(order.group, order.topic, queue_id)
            try:
                self._redeliver(order, queue_id, state, now_ms, found)
                unfinished |= self._deliver_new(order, queue_id, state, now_ms, found)
            except WouldBlock:
                if not found:
                    raise
                return found, True  # what was handed out must not wait for the disk
            if len(found) >= order.batch:
                break
        return found, unfinished

    def _state(self, group: str, topic: str, queue_id: int) -> QueueConsumption:
        states = self._states.setdefault((group, topic), {})
        state = states.get(queue_id)
        if state is None:
            # A new group begins with the first message while the queue still has it, else at the end: consumers that
            # start after the first sends see them, and a group on an old topic isn't buried in days of history.
            first, end = self._store.bounds(topic, queue_id)
            state = states[queue_id] = QueueConsumption(0 if first == 0 else end)
            self._changed[group, topic, queue_id] = state
        return state

    def _redeliver(
        self, order: PopOrder, queue_id: int, state: QueueConsumption, now_ms: int, found: list[Delivery]
    ) -> None:
        for offset, attempt in state.ready(now_ms, order.batch - len(found)):
            locations = self._store.locate(order.topic, queue_id, offset, 1, may_block=False)
            (record,) = self._store.read(locations, may_block=False) if locations else (None,)
            self._changed[order.group, order.topic, queue_id] = state
            if record is None or not _passes(order.filter, record):
                self.lost += record is None
                state.finish(offset)
            else:
                self._hand_out(order, queue_id, state, [record], attempt, now_ms, found)

    def _deliver_new(
        self, order: PopOrder, queue_id: int, state: QueueConsumption, now_ms: int, found: list[Delivery]
    ) -> bool:
        scanned = 0
        while len(found) < order.batch:
            if scanned >= _SCAN_ROWS:
                return True
            wanted = order.batch - len(found)
            first = self._store.bounds(order.topic, queue_id)[0]
            cursor = max(state.cursor, first)
            count = wanted if order.filter.tags is None else max(wanted, 256)
            locations = self._readable(self._store.locate(order.topic, queue_id, cursor, count, may_block=False))
            if not locations:
                return False
            passing = [
                (cursor + number, location)
                for number, location in enumerate(locations)
                if order.filter.may_pass(location.tag_hash)
            ][:wanted]
            # What is not looked at in this turn begins behind the last message that was taken.
            end = passing[-1][0] + 1 if len(passing) == wanted else cursor + len(locations)
            records = self._store.read([location for _, location in passing], may_block=False)
            matching = [record for record in records if record is not None and _passes(order.filter, record)]
            self.lost += sum(record is None for record in records)
            scanned += end - cursor
            self._changed[order.group, order.topic, queue_id] = state
            if matching:
                self._hand_out(order, queue_id, state, matching, 1, now_ms, found)
            state.skip_to(end)
        return False

    def _readable(self, locations: "list[Location]") -> "list[Location]":
        end = self._readable_end()
        if locations and locations[-1].log_offset + locations[-1].size > end:
            return [location for location in locations if location.log_offset + location.size <= end]
        return locations

    def _hand_out(
        self,
        order: PopOrder,
        queue_id: int,
        state: QueueConsumption,
        records: "list[Record]",
        attempt: int,
        now_ms: int,
        found: list[Delivery],
    ) -> None:
        deadline_ms = now_ms + order.invisible_ms
        claim = state.hand_out([record.queue_offset for record in records], attempt=attempt, deadline_ms=deadline_ms)
        queue = QueueRef(order.topic, self._broker, queue_id)
        for record in records:
            handle = ReceiptHandle(self._broker, queue_id, record.queue_offset, claim.generation, deadline_ms)
            found.append(Delivery(_message(queue, record), handle, attempt))

    def next_deadline_ms(self, group: str, topic: str) -> int | None:
        """When a claim of the group may end next."""
        deadlines = [state.next_deadline_ms() for state in self._states.get((group, topic), {}).values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- settling

    def acknowledge(self, group: str, topic: str, handle: ReceiptHandle, now_ms: int) -> Settled:
        state = self._changing(group, topic, handle.queue_id)
        return state.acknowledge(handle.queue_offset, handle.generation, handle.deadline_ms, now_ms)

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> ReceiptHandle | None:
        """The handle that replaces `handle`; None if its claim is not in force."""
        state = self._changing(group, topic, handle.queue_id)
        claim = state.change_invisible(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms, counts=counts
        )
        if claim is None:
            return None
        return ReceiptHandle(self._broker, handle.queue_id, handle.queue_offset, claim.generation, deadline_ms)

    def prolong(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int) -> bool:
        state = self._changing(group, topic, handle.queue_id)
        return state.prolong(handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms)

    def release(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, counts: bool) -> bool:
        state = self._changing(group, topic, handle.queue_id)
        return state.release(handle.queue_offset, handle.generation, now_ms=now_ms, counts=counts)

    def _changing(self, group: str, topic: str, queue_id: int) -> QueueConsumption:
        state = self._state(group, topic, queue_id)
        self._changed[group, topic, queue_id] = state
        return state

    # --- offsets

    def read(self, queue: QueueRef, offset: int, tags: TagFilter, limit: int) -> Pulled:
        """Up to `limit` messages of one stretch from `offset` on, for nobody in particular; WouldBlock as in `pop`."""
        locations = self._readable(self._store.locate(queue.topic, queue.queue_id, offset, limit, may_block=False))
        passing = [location for location in locations if tags.may_pass(location.tag_hash)]
        records = self._store.read(passing, may_block=False)
        messages = [_message(queue, record) for record in records if record is not None and _passes(tags, record)]
        return Pulled(messages, offset + len(locations))

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        state = self._states.get((group, topic), {}).get(queue_id)
        return None if state is None else state.committed

    def set_committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on at `offset`; claims that are under way in this queue end."""
        self._changing(group, topic, queue_id).reset(offset)

    def progress(self, group: str) -> list[QueueProgress]:
        """How far the group is in every queue that it has touched."""
        return [
            QueueProgress(
                queue=QueueRef(topic, self._broker, queue_id),
                committed=state.committed,
                cursor=state.cursor,
                in_flight=state.in_flight,
                max_offset=self._store.bounds(topic, queue_id)[1],
            )
            for (owner, topic), states in sorted(self._states.items())
            if owner == group
            for queue_id, state in sorted(states.items())
        ]

    def bounds(self, topic: str, queue_id: int) -> QueueBounds:
        return QueueBounds(*self._store.bounds(topic, queue_id))

    # --- remembering

    def take_changes(self) -> "Iterable[tuple[QueueKey, QueueConsumption]]":
        """What changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed.items()

    def changed_again(self, keys: "Iterable[QueueKey]") -> None:
        """What `take_changes` gave could not be remembered; give it again next time."""
        for group, topic, queue_id in keys:
            state = self._states.get((group, topic), {}).get(queue_id)
            if state is not None:
                self._changed[group, topic, queue_id] = state

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._states if key[0] == group]:
            del self._states[key]
        self._changed = {key: state for key, state in self._changed.items() if key[0] != group}


def _passes(tags: TagFilter, record: "Record") -> bool:
    if tags.tags is None:
        return True
    return tags.passes(definition_pb2.SystemProperties.FromString(record.system).tag)


def _message(queue: QueueRef, record: "Record") -> StoredMessage:
    return StoredMessage(queue, record.queue_offset, record.stored_ms, record.system, record.rest)
