"""Consumption of one broker: hands out messages of the store to groups, takes them back, and remembers how far.

The decisions are those of `delivery.QueueConsumption`; here they meet the store, the filter and the journal. Whatever
changes does so in one synchronous step, after all reading is done: a reader that is interrupted changed nothing.
"""

from typing import TYPE_CHECKING

from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.popping import Pop, QueueReader, stored_message
from ternmq_broker.store.files import WouldBlock
from ternmq_common.model import (
    PopOrder,
    Pulled,
    QueueBounds,
    QueueProgress,
    QueueRef,
    Settled,
)
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.tag_filter import TagFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.progress_journal import ProgressJournal, QueueKey


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
        self._broker = broker
        self._reader = QueueReader(store, readable_end)
        self._states: dict[tuple[str, str], dict[int, QueueConsumption]] = {}
        self._changed: dict[QueueKey, QueueConsumption] = {}
        # Where each group begins to look: of a turn that all shared, one of two groups would get every second queue.
        self._turns: dict[tuple[str, str], int] = {}
        for (group, topic, queue_id), snapshot in journal.snapshots().items():
            end = store.bounds(topic, queue_id)[1]
            self._states.setdefault((group, topic), {})[queue_id] = QueueConsumption.restore(snapshot, end=end)

    # --- handing out

    def pop(self, order: PopOrder, now_ms: int) -> Pop:
        """Hand out what is there, up to the batch.

        WouldBlock: nothing was handed out; wait in a thread, then call again.
        """
        pop = Pop(order, self._reader, broker=self._broker, now_ms=now_ms)
        key = (order.group, order.topic)
        start = self._turns[key] = (self._turns.get(key, -1) + 1) % len(order.queues)
        for queue_id in (*order.queues[start:], *order.queues[:start]):
            state = self._state(order.group, order.topic, queue_id)
            before = state.mark
            try:
                pop.take_ready(queue_id, state)
                pop.take_new(queue_id, state)
            except WouldBlock:
                if not pop.deliveries:
                    raise
                pop.more = True  # what was handed out must not wait for the disk
                break
            finally:
                if state.mark != before:
                    self._changed[order.group, order.topic, queue_id] = state
            if pop.is_full:
                break
        return pop

    def _state(self, group: str, topic: str, queue_id: int) -> QueueConsumption:
        states = self._states.setdefault((group, topic), {})
        state = states.get(queue_id)
        if state is None:
            # A new group begins with the first message while the queue still has it, else at the end: consumers that
            # start after the first sends see them, and a group on an old topic isn't buried in days of history.
            first, end = self._store.bounds(topic, queue_id)
            begin = first if self._store.is_complete(topic, queue_id) else end
            state = states[queue_id] = QueueConsumption(begin)
            self._changed[group, topic, queue_id] = state
        return state

    def next_deadline_ms(self, group: str, topic: str) -> int | None:
        """When a claim of the group may end next."""
        deadlines = [state.next_deadline_ms() for state in self._states.get((group, topic), {}).values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- settling

    def acknowledge(self, group: str, topic: str, handle: ReceiptHandle, now_ms: int) -> Settled:
        state = self._settling(group, topic, handle)
        if state is None:
            return Settled.STALE if now_ms < handle.deadline_ms else Settled.EXPIRED
        return state.acknowledge(handle.queue_offset, handle.generation, handle.deadline_ms, now_ms)

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> ReceiptHandle | None:
        """The handle that replaces `handle`; None if its claim is not in force."""
        state = self._settling(group, topic, handle)
        if state is None:
            return None
        claim = state.change_invisible(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms, counts=counts
        )
        if claim is None:
            return None
        return ReceiptHandle(self._broker, handle.queue_id, handle.queue_offset, claim.generation, deadline_ms)

    def prolong(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int) -> bool:
        state = self._settling(group, topic, handle)
        return state is not None and state.prolong(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms
        )

    def release(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, counts: bool) -> bool:
        state = self._settling(group, topic, handle)
        return state is not None and state.release(handle.queue_offset, handle.generation, now_ms=now_ms, counts=counts)

    def _settling(self, group: str, topic: str, handle: ReceiptHandle) -> QueueConsumption | None:
        """The state that the handle is about; None if the group was deleted meanwhile."""
        state = self._states.get((group, topic), {}).get(handle.queue_id)
        if state is not None:
            self._changed[group, topic, handle.queue_id] = state
        return state

    # --- offsets

    def read(self, queue: QueueRef, offset: int, tags: TagFilter, limit: int) -> Pulled:
        """Up to `limit` messages of one stretch from `offset` on, for nobody in particular; WouldBlock as in `pop`."""
        locations = self._reader.locate(queue.topic, queue.queue_id, offset, limit)
        passing = [location for location in locations if tags.may_pass(location.tag_hash)]
        records = self._reader.read(passing, tags)
        return Pulled([stored_message(queue, record) for record in records], offset + len(locations))

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        state = self._states.get((group, topic), {}).get(queue_id)
        return None if state is None else state.committed

    def set_committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on at `offset`; claims that are under way in this queue end."""
        state = self._state(group, topic, queue_id)
        state.reset(offset)
        self._changed[group, topic, queue_id] = state

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
            self._turns.pop(key, None)
        self._changed = {key: state for key, state in self._changed.items() if key[0] != group}
