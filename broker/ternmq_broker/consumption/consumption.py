"""Consumption of one broker: delivers messages of the store to consumer groups and keeps their progress.

The decisions are those of `delivery/`; this module connects them with the store, the filter and the journal. A state
changes in one synchronous step, after all reading is done: an interrupted read has changed nothing.

A group has one more state for each topic, under RETRY_QUEUE_ID: its messages of that topic that are in the group's
retry topic. In a FIFO group these are only such that members sent back while it pulled, and they come in no order.
"""

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ternmq_broker.consumption.group_progress import progress_of, untouched_queues
from ternmq_broker.consumption.in_flight import InFlightMessages
from ternmq_broker.consumption.lite_progress import LiteProgress
from ternmq_broker.consumption.losses import LostMessages
from ternmq_broker.consumption.ordered_popping import OrderedPop
from ternmq_broker.consumption.popping import PopBatch, UnorderedPop
from ternmq_broker.consumption.queue_reader import QueueReader
from ternmq_broker.consumption.restoring import ProgressRestorer
from ternmq_broker.delivery.claims import first_generation
from ternmq_broker.delivery.idle_offsets import IdleOffsets
from ternmq_broker.delivery.lite_subscriptions import LiteSubscriptions
from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.names import is_lite_queue, lite_parent, retry_topic
from ternmq_common.receiving.priority import turn_of_lower
from ternmq_common.shard.model import (
    RETRY_QUEUE_ID,
    ConsumerGroup,
    PopOrder,
    QueueBounds,
    QueueProgress,
    QueueRef,
    SettleOutcome,
)
from ternmq_common.shard.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_broker.store.journal.progress_journal import ProgressJournal, QueueKey
    from ternmq_broker.store.message_store import MessageStore

_log = logging.getLogger(__name__)
QueueState = QueueConsumption | OrderedConsumption
# A client that ends may still have acknowledgements under way.
_LAST_WORD_MS: Final = 10_000
# One message in so many of a batch is a redelivery, so that neither redeliveries nor new messages starve.
_RETRY_SHARE: Final = 4


class Consumption:
    """The progress of all groups in the queues of one broker. `rules` returns the settings of a group."""

    def __init__(
        self,
        store: "MessageStore",
        journal: "ProgressJournal",
        *,
        broker: str,
        readable_end: "Callable[[], int]",
        rules: "Callable[[str], ConsumerGroup]",
        now_ms: "Callable[[], int]",
        lite: LiteSubscriptions | None = None,
    ) -> None:
        """Restore the groups' progress from the journal; blocks."""
        self._store = store
        self._queues = store.indexes.queues
        self._broker = broker
        self.rules = rules
        self._now_ms = now_ms
        self.losses = LostMessages(store, journal.count_marks())
        self.reader = QueueReader(store, readable_end, self.losses)
        self.lite = lite or LiteSubscriptions(_has_no_waiting_poll)
        self.resting = IdleOffsets()
        self._states = ProgressRestorer(store, journal, rules, now_ms(), self.resting).restore_states()
        self.lite_progress = LiteProgress(self, store, broker, self._states)
        self.in_flight = InFlightMessages(self.find_states)
        self.in_flight.add_pairs(self._states)
        self._changed: dict[QueueKey, QueueState] = {}
        self._being_written: set[QueueKey] = set()
        # The queue at which each group's next pop begins. If groups shared it, one of two would get every second queue
        # only.
        self._turns: dict[tuple[str, str], int] = {}
        self._begins: dict[QueueKey, int] = {}
        self._lost_below = journal.lost_below

    def queue_of(self, group: str, topic: str, queue_id: int) -> QueueRef:
        """The queue with the messages that a handle or state of the group refers to."""
        if queue_id == RETRY_QUEUE_ID:
            return QueueRef(retry_topic(group), self._broker, 0)
        return QueueRef(topic, self._broker, queue_id)

    # --- delivering

    def pop(self, order: PopOrder, now_ms: int) -> PopBatch:
        """Deliver the messages that are there, up to the batch and to the limits of messages in flight.

        Three steps: limit the order, plan which queues come when, take from them until the batch is full. A queue is
        skipped while its next message is damaged and another replica may have it whole. After WouldBlock nothing was
        delivered: wait in a thread, then call again.
        """
        if order.group_in_flight_max is not None or order.topic_in_flight_max is not None:
            room = self.in_flight.room_for(order) + self._count_redelivered(order)
            if room <= 0:
                self.in_flight.hold_back(order.group, order.wait_key)
                return PopBatch(order, self.reader, broker=self._broker, now_ms=now_ms)
            if room < order.batch:
                order = replace(order, batch=room)
        pop: PopBatch
        try:
            if order.lite_client:
                pop = lite = OrderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
                self._take_lite(order, lite)
                return pop
            key = (order.group, order.topic)
            turn = self._turns[key] = self._turns.get(key, -1) + 1
            rules = self.rules(order.group)
            if rules.fifo:
                pop = ordered = OrderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
                self._take_sent_back(order, ordered)
                self._take_ordered(order, ordered, _queues_in_turn(order, turn))
            else:
                pop = unordered = UnorderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
                if order.by_priority:
                    plan = self._plan_by_priority(order, turn, rules.priority_factor)
                else:
                    plan = self._plan_in_turn(order, turn)
                self._take_unordered(order, unordered, plan)
        except WouldBlock:
            if not pop.deliveries:
                raise
            pop.more = True  # delivered messages must not wait for the disk
        return pop

    def _count_redelivered(self, order: PopOrder) -> int:
        """How many messages are delivered already to the call that this order may repeat."""
        if not order.attempt_id:
            return 0
        return sum(
            len(lane.claimed)
            for state in self.find_states(order.group, order.topic).values()
            if isinstance(state, OrderedConsumption)
            for lane in state.lanes_of_attempt(order.attempt_id)
        )

    def _plan_in_turn(self, order: PopOrder, turn: int) -> list[tuple[int, int]]:
        """Some redeliveries, then new messages queue by queue, then the remaining redeliveries: queues, each with how
        many redeliveries may be taken of it.
        """
        batch = order.batch
        plan = [(queue_id, batch) for queue_id in _queues_in_turn(order, turn)]
        if self._waiting_state(order, RETRY_QUEUE_ID) is not None:
            plan.insert(0, (RETRY_QUEUE_ID, batch // _RETRY_SHARE or int(turn % _RETRY_SHARE == 0)))
            plan.append((RETRY_QUEUE_ID, batch))
        return plan

    def _plan_by_priority(self, order: PopOrder, turn: int, factor: int) -> list[tuple[int, int]]:
        """The queues by falling priority, then the redeliveries (`consuming.md, Priority`), as `_plan_in_turn`.

        In some turns a queue of a lower priority comes before all others.
        """
        queue_ids = self._queues_by_urgency(order)
        first = self._lower_queue_first(order, turn, factor)
        if first is not None:
            queue_ids.insert(0, first)
        return [(queue_id, order.batch) for queue_id in queue_ids]

    def _take_unordered(self, order: PopOrder, pop: UnorderedPop, plan: list[tuple[int, int]]) -> None:
        """Take redeliveries and new messages by the plan."""
        for queue_id, ready_max in plan:
            state = self._waiting_state(order, queue_id)
            if state is None:
                continue
            queue = self.queue_of(order.group, order.topic, queue_id)
            before = state.change_mark
            try:
                if state.ready_count:
                    pop.claim_ready(queue, queue_id, state, ready_max)
                if queue_id != RETRY_QUEUE_ID and not pop.is_full:
                    pop.claim_new(queue, state)
            except AwaitsRepair:
                pass
            finally:
                if state.change_mark != before:
                    self._changed[order.group, order.topic, queue_id] = state
            if pop.is_full:
                return

    def _take_sent_back(self, order: PopOrder, pop: OrderedPop) -> None:
        """Take some of what members of a FIFO group sent back while it pulled."""
        state = self._waiting_state(order, RETRY_QUEUE_ID)
        if state is None:
            return
        queue = self.queue_of(order.group, order.topic, RETRY_QUEUE_ID)
        before = state.change_mark
        try:
            pop.claim_ready(queue, RETRY_QUEUE_ID, state, max(1, order.batch // _RETRY_SHARE))
        except AwaitsRepair:
            pass
        finally:
            if state.change_mark != before:
                self._changed[order.group, order.topic, RETRY_QUEUE_ID] = state

    def _take_ordered(self, order: PopOrder, pop: OrderedPop, queue_ids: "Sequence[int]") -> None:
        """Take what the order's first call was given, if it repeats one, then from open lanes."""
        states = {queue_id: self._find_or_create_state(order.group, order.topic, queue_id) for queue_id in queue_ids}
        for takes_again in (True, False):
            for queue_id, state in states.items():
                assert isinstance(state, OrderedConsumption)
                if takes_again and not state.lanes_of_attempt(order.attempt_id):
                    continue
                queue = QueueRef(order.topic, self._broker, queue_id)
                before = state.change_mark
                try:
                    if takes_again:
                        pop.redeliver_held(queue, state)
                    else:
                        pop.claim_from_lanes(queue, state)
                except AwaitsRepair:
                    pass
                finally:
                    if state.change_mark != before:
                        self._changed[order.group, order.topic, queue_id] = state
                if pop.is_full:
                    return

    def _take_lite(self, order: PopOrder, pop: OrderedPop) -> None:
        """Take from the client's lite topics that may have something, in turn."""
        held_up: list[str] = []
        try:
            for topic in self.lite.take_ready(order.group, order.lite_client):
                try:
                    self._pop_lite(order, pop, topic)
                except WouldBlock:
                    held_up.append(topic)
                    raise
                except AwaitsRepair:
                    held_up.append(topic)
                if pop.is_full:
                    return
        finally:  # not earlier, or the topic would be a candidate again in this pop
            for topic in held_up:
                self.lite.mark_ready(order.group, topic)

    def _queues_by_urgency(self, order: PopOrder) -> list[int]:
        """The queues of the order, the most urgent one first, and the retry queue last."""
        if order.most_urgent:
            return list(order.by_urgency[: order.most_urgent])
        return [*order.by_urgency, RETRY_QUEUE_ID]

    def count_before_waiting(self, group: str, topic: str, queues: "Sequence[int]") -> int:
        """How many of the queues precede the first that may have a message for the group."""
        states = self.find_states(group, topic)
        for place, queue_id in enumerate(queues):
            state = states.get(queue_id)
            if isinstance(state, QueueConsumption):
                may_have = self._has_waiting(topic, queue_id, state)
            else:  # where the group begins is decided at its first pop
                first, end = self._queues.queue_bounds(topic, queue_id)
                may_have = first < end
            if may_have:
                return place
        return len(queues)

    def _waiting_state(self, order: PopOrder, queue_id: int) -> QueueConsumption | None:
        """The group's state of that queue; of the retry queue only if something is ready there."""
        if queue_id != RETRY_QUEUE_ID:
            state = self._find_or_create_state(order.group, order.topic, queue_id)
            assert isinstance(state, QueueConsumption)
            return state
        retries = self.find_states(order.group, order.topic).get(RETRY_QUEUE_ID)
        return retries if isinstance(retries, QueueConsumption) and retries.ready_count else None

    def _lower_queue_first(self, order: PopOrder, turn: int, factor: int) -> int | None:
        """The queue of a lower priority that comes first in this turn, so that it does not starve; mostly None."""
        number = turn_of_lower(turn, factor)
        if number is None:
            return None
        queue_ids = self._queues_by_urgency(order)
        lower = [*reversed(queue_ids[1:-1]), queue_ids[-1]]
        for place in range(len(lower)):
            queue_id = lower[(number + place) % len(lower)]
            state = self._waiting_state(order, queue_id)
            if state is not None and self._has_waiting(order.topic, queue_id, state):
                return queue_id
        return None

    def _has_waiting(self, topic: str, queue_id: int, state: QueueConsumption) -> bool:
        return state.ready_count > 0 or (
            queue_id != RETRY_QUEUE_ID and state.cursor < self._queues.queue_bounds(topic, queue_id)[1]
        )

    def _pop_lite(self, order: PopOrder, pop: OrderedPop, topic: str) -> None:
        state = self._lite_state(order.group, topic)
        before = state.change_mark
        try:
            pop.claim_from_single_lane(QueueRef(topic, self._broker, 0), state)
        finally:
            if state.change_mark != before:
                self._changed[order.group, topic, 0] = state
            else:
                self._put_to_rest(order.group, topic, state)

    def _lite_state(self, group: str, topic: str) -> OrderedConsumption:
        """The group's state in a lite topic; taken out of `resting` or created if there is none."""
        state = self.find_states(group, topic).get(0)
        if isinstance(state, OrderedConsumption):
            return state
        begun = self.resting.take_state(group, topic)
        if begun is None:
            begin = self._begin_offset(group, topic, 0, self.rules(group).consume_from)
            begun = self.resting.begin_state(begin, self._first_generation())
            self._changed[group, topic, 0] = begun
        self._ensure_states(group, topic)[0] = begun
        return begun

    def _put_to_rest(self, group: str, topic: str, state: QueueState) -> None:
        """Reduce the state of a lite topic without messages in flight to an offset, once it is written."""
        key = (group, topic, 0)
        is_written = key not in self._changed and key not in self._being_written
        if is_written and isinstance(state, OrderedConsumption) and state.is_idle:
            self.resting.put_offset(group, topic, state.cursor, state.generation)
            self._forget_state(group, topic)

    def _forget_state(self, group: str, topic: str) -> None:
        del self._states[group, topic]
        self._changed.pop((group, topic, 0), None)
        self.in_flight.remove_pair(group, topic)

    def confirm_changes(self, keys: "Iterable[QueueKey]") -> None:
        """Note that the journal has the states that `take_changes` gave."""
        self._being_written.clear()
        for group, topic, queue_id in keys:
            if is_lite_queue(topic):
                state = self.find_states(group, topic).get(queue_id)
                if state is not None:
                    self._put_to_rest(group, topic, state)

    def may_have_lite_messages(self, group: str, topic: str) -> bool:
        """Whether the lite topic may have something for the group now."""
        first, end = self._queues.queue_bounds(topic, 0)
        state = self.find_states(group, topic).get(0)
        if isinstance(state, OrderedConsumption):
            return state.has_open_lane or bool(state.offsets_to_scan(1)) or (not state.is_closed and state.cursor < end)
        at = self.resting.offset_of(group, topic)
        return max(first, at or 0) < end

    def begin_lite(self, group: str, topic: str, begin: int) -> bool:
        """Let the group begin at `begin` in a lite topic; False if it was in it before."""
        if self.find_states(group, topic) or self.resting.offset_of(group, topic) is not None:
            return False
        self.set_committed(group, topic, 0, begin)
        return True

    def expire_lite_topics(self, ended: "Sequence[tuple[str, int]]") -> None:
        """Count as lost what groups had not read of lite topics that retention removed; each with the offset of its
        end."""
        groups = {group for group, topic in self._states if is_lite_queue(topic)}
        groups.update(self.resting.idle_groups())
        for topic, end in ended:
            for group in groups:
                at = self.resting.offset_of(group, topic)
                if at is not None and at < end:
                    self.losses.add_lost(group, topic, 0, end - at)
                    self.resting.put_offset(group, topic, end, 0)
                state = self.find_states(group, topic).get(0)
                if state is not None:
                    self.losses.note_passed_over(group, topic, 0, state, end, origin=0)
                    state.skip_to(end)
                    self._changed[group, topic, 0] = state

    def forget_lite(self, topics: "Iterable[str]") -> list[tuple[str, str]]:
        """Drop the states of these lite topics. Returns each group and topic, for the journal."""
        gone = set(topics)
        pairs = [pair for pair in self._states if pair[1] in gone]
        for pair in pairs:
            self._forget_state(*pair)
        for group in self.resting.idle_groups():
            pairs += [(group, topic) for topic in gone if self.resting.forget_offset(group, topic)]
        return pairs

    def _state_type(self, group: str, topic: str) -> "type[OrderedConsumption | QueueConsumption]":
        return OrderedConsumption if is_lite_queue(topic) or self.rules(group).fifo else QueueConsumption

    def _find_or_create_state(self, group: str, topic: str, queue_id: int) -> QueueState:
        states = self._ensure_states(group, topic)
        state = states.get(queue_id)
        rules = self.rules(group)
        kind = OrderedConsumption if rules.fifo else QueueConsumption
        if not isinstance(state, kind):
            # The kind differs if the group was deleted and created again with another order while its poll waited.
            begin = (
                state.committed_offset
                if state is not None
                else self._begin_offset(group, topic, queue_id, rules.consume_from)
            )
            state = states[queue_id] = kind(begin, self._first_generation())
            self._changed[group, topic, queue_id] = state
        return state

    def _begin_offset(self, group: str, topic: str, queue_id: int, consume_from: str) -> int:
        """Return the offset where a group begins in a new queue. Raises WouldBlock while a time must be looked up."""
        first, end = self._queues.queue_bounds(topic, queue_id)
        if consume_from == "earliest" or (consume_from == "auto" and is_lite_queue(topic)):
            return first
        if consume_from in ("latest", "auto") and self._may_have_lost_progress(topic, queue_id, may_block=False):
            if first < end:
                _log.warning(
                    "group %s begins with the first message of queue %d of topic %s: it may have been there, and lines "
                    "of the consumption journal were lost",
                    *(group, queue_id, topic),
                )
            return first
        if consume_from == "latest":
            return end
        if consume_from == "auto":
            # With the first message while the queue still has it, else at the end: consumers that start after the
            # first sends see them, and a group on an old topic isn't buried in days of history.
            return first if self._queues.is_complete(topic, queue_id) else end
        key = (group, topic, queue_id)
        if key not in self._begins:
            raise _TimeLookup(lambda: self._look_up_begin(key, int(consume_from)))
        return self._begins.pop(key)

    def predict_begin(self, topic: str, queue_id: int, consume_from: str, *, may_block: bool) -> int:
        """Return the offset where a group would begin now in a new queue.

        A time is looked up, which reads. For the others WouldBlock as in `pop`, unless `may_block`.
        """
        first, end = self._queues.queue_bounds(topic, queue_id)
        if consume_from == "earliest" or (consume_from == "auto" and is_lite_queue(topic)):
            return first
        if consume_from in ("latest", "auto"):
            if self._may_have_lost_progress(topic, queue_id, may_block=may_block):
                return first
            return first if consume_from == "auto" and self._queues.is_complete(topic, queue_id) else end
        return self._store.reader.find_offset_at(topic, queue_id, int(consume_from))

    def _may_have_lost_progress(self, topic: str, queue_id: int, *, may_block: bool) -> bool:
        """Whether groups with lost journal lines may have been in the queue; see `ProgressJournal.lost_below`."""
        first, end = self._queues.queue_bounds(topic, queue_id)
        if self._store.log.log_start >= self._lost_below or first == end:
            return False
        (location,) = self._queues.locate_messages(topic, queue_id, first, 1, may_block=may_block)
        return location.log_offset < self._lost_below

    def _look_up_begin(self, key: "QueueKey", time_ms: int) -> None:
        self._begins[key] = self._store.reader.find_offset_at(key[1], key[2], time_ms)

    # --- states

    def add_subscription(self, group: str, topic: str) -> None:
        """Note that the group subscribes the topic. A restart forgets it, if the group took no message by then."""
        self._ensure_states(group, topic)

    def _ensure_states(self, group: str, topic: str) -> dict[int, QueueState]:
        """Return the same as `states`, but create the dict if there is none."""
        states = self._states.get((group, topic))
        if states is None:
            states = self._states[group, topic] = {}
            self.in_flight.add_pairs([(group, topic)])
        return states

    def find_states(self, group: str, topic: str) -> dict[int, QueueState]:
        """The group's states in the topic, by queue id."""
        return self._states.get((group, topic), {})

    def group_topic_pairs(self) -> "list[tuple[str, str]]":
        """Every (group, topic) with states; those of lite topics by their queues' topics."""
        return list(self._states)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that took messages of the topic here, or subscribe it; of a LITE topic, of its lite topics."""
        found = {group for group, its in self._states if its == topic or lite_parent(its) == topic}
        for group in self.resting.idle_groups():
            if any(its == topic or lite_parent(its) == topic for its in self.resting.offsets_of_group(group)):
                found.add(group)
        return sorted(found)

    def find_or_create_retries(self, group: str, topic: str) -> QueueConsumption:
        """The state of the group's messages of that topic in its retry queue."""
        states = self._ensure_states(group, topic)
        state = states.get(RETRY_QUEUE_ID)
        if state is None:
            state = states[RETRY_QUEUE_ID] = QueueConsumption(0, self._first_generation())
        assert isinstance(state, QueueConsumption)
        return state

    def _first_generation(self) -> int:
        return first_generation(self._now_ms())

    def next_deadline_ms(self, group: str, topic: str) -> int | None:
        """When the group's next claim may end; None if it has no claim."""
        deadlines = [state.next_deadline_ms() for state in self._states.get((group, topic), {}).values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def has_open_lanes(self, group: str, topic: str) -> bool:
        """Whether a poll of a FIFO group would find messages that were read before and had to wait."""
        return any(
            isinstance(state, OrderedConsumption) and state.has_open_lane
            for state in self.find_states(group, topic).values()
        )

    # --- settling

    def acknowledge_message(self, group: str, topic: str, handle: ReceiptHandle, now_ms: int) -> SettleOutcome:
        state = self.state_to_settle(group, topic, handle)
        if state is None:
            return SettleOutcome.STALE if now_ms < handle.deadline_ms else SettleOutcome.EXPIRED
        offset = handle.queue_offset
        generation = handle.generation or state.find_generation(offset, handle.deadline_ms)
        return state.acknowledge_message(offset, generation, handle.deadline_ms, now_ms)

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> ReceiptHandle | None:
        """Return the handle that replaces `handle`; None if its claim is not in force."""
        state = self.state_to_settle(group, topic, handle)
        if state is None:
            return None
        offset = handle.queue_offset
        generation = handle.generation or state.find_generation(offset, handle.deadline_ms)
        claim = state.change_invisible(offset, generation, now_ms=now_ms, deadline_ms=deadline_ms, counts=counts)
        if claim is None:
            return None
        return ReceiptHandle(self._broker, handle.queue_id, handle.queue_offset, claim.generation, deadline_ms)

    def prolong_claim(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int) -> bool:
        state = self.state_to_settle(group, topic, handle)
        return state is not None and state.prolong_claim(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms
        )

    def release_claim(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, counts: bool) -> bool:
        """Make a message ready for delivery again; False if it can't be.

        A message without attempts left becomes a dead letter instead, after a while: its acknowledgement may be under
        way.
        """
        state = self.state_to_settle(group, topic, handle)
        if state is None:
            return False
        offset, generation = handle.queue_offset, handle.generation
        claim = state.claim_in_force(offset, generation, now_ms)
        if counts and claim is not None and claim.attempt >= self.rules(group).max_attempts:
            deadline_ms = min(claim.deadline_ms, now_ms + _LAST_WORD_MS)
            state.prolong_claim(offset, generation, now_ms=now_ms, deadline_ms=deadline_ms)
            return False
        return state.release_message(offset, generation, now_ms=now_ms, counts=counts)

    def state_to_settle(self, group: str, topic: str, handle: ReceiptHandle) -> QueueState | None:
        """The state of the handle's queue, marked as changed; None if the group was deleted meanwhile."""
        state = self._states.get((group, topic), {}).get(handle.queue_id)
        if state is not None:
            self._changed[group, topic, handle.queue_id] = state
        return state

    def mark_changed(self, group: str, topic: str, queue_id: int) -> None:
        """Mark the state of that queue as changed: the caller changed it."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is not None:
            self._changed[group, topic, queue_id] = state

    # --- offsets

    def committed_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The group's committed offset in the queue; None if it was never there."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is None and is_lite_queue(topic):
            return self.resting.offset_of(group, topic)
        if state is None and self._may_have_lost_progress(topic, queue_id, may_block=True):
            return self._queues.queue_bounds(topic, queue_id)[0]
        return None if state is None else state.committed_offset

    def set_committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on at `offset`; its claims in this queue end."""
        states = self._ensure_states(group, topic)
        state = states.get(queue_id)
        kind = self._state_type(group, topic)
        if not isinstance(state, kind):
            state = kind(offset, self._first_generation())
            if is_lite_queue(topic):
                self.resting.forget_offset(group, topic)
                state.continue_generation(self.resting.generation)
            states[queue_id] = state
        first = self.reader.first_offset(topic, queue_id)
        if offset < state.cursor:
            offset = max(offset, min(first, state.cursor))  # messages that are gone were counted as lost before
        elif state.cursor < first <= offset:  # it had read on to there before retention removed it
            self.losses.note_passed_over(group, topic, queue_id, state, first)
        state.reset_to(offset)
        self._changed[group, topic, queue_id] = state

    def skip_message(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Finish the message at that offset for any member; False if the group has not reached it yet."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is None or offset >= state.cursor:
            return False
        state.finish_offset(offset)
        self._changed[group, topic, queue_id] = state
        return True

    def drop_retries(self, group: str, topic: str) -> None:
        """Finish all messages of the topic that wait in the group's retry queue."""
        state = self._states.get((group, topic), {}).get(RETRY_QUEUE_ID)
        if state is not None:
            state.reset_to(state.cursor)
            self._changed[group, topic, RETRY_QUEUE_ID] = state

    def forget_topic(self, topic: str) -> None:
        """Drop the topic's messages from the groups' retry queues: the topic was deleted."""
        for group, its in list(self._states):
            if its == topic:
                self.drop_retries(group, topic)

    def move_past_purge(self, topic: str, queue_id: int, *, origin: int, by_operator: bool) -> None:
        """Move all groups to the new first offset of a purged queue. `origin` is that of the queue before."""
        first = self.reader.first_offset(topic, queue_id)
        if by_operator:
            self.losses.note_purge(topic, queue_id, first)
        for (group, its), states in self._states.items():
            state = states.get(queue_id) if its == topic else None
            if state is not None:
                self.losses.note_passed_over(group, topic, queue_id, state, first, origin=origin)
                state.skip_to(first)
                self._changed[group, topic, queue_id] = state

    def rebase_claims(self, by_ms: int) -> None:
        """Move the ends of claims by `by_ms`, as the clock was set by that much: they keep the time left."""
        for (group, topic), states in self._states.items():
            for queue_id, state in states.items():
                state.rebase_claims(by_ms)
                self._changed[group, topic, queue_id] = state

    def group_progress(self, group: str) -> list[QueueProgress]:
        """The group's progress in each queue that it has touched; its retry queue has one row for all topics.

        `lite_progress` has lite topics.
        """
        states = [
            (topic, states)
            for (owner, topic), states in sorted(self._states.items())
            if owner == group and not is_lite_queue(topic)
        ]
        retry_queue = self.queue_of(group, "", RETRY_QUEUE_ID)
        return progress_of(group, states, retry_queue, self._broker, self._store, self.losses)

    def lag_pairs(self) -> list[tuple[str, str]]:
        """Return the same as `group_topic_pairs`, but with the LITE topics of lite groups in place of lite topics."""
        lite = {group for group, topic in self._states if is_lite_queue(topic)}
        lite.update(self.resting.idle_groups(), self.lite.group_names())
        bound: set[tuple[str, str]] = set()
        for group in lite:
            rules = self.rules(group).lite
            if rules is not None:
                bound.add((group, rules.bind))
        return sorted(bound.union(pair for pair in self._states if not is_lite_queue(pair[1])))

    def resume_after_repair(self, begin: int, end: int) -> None:
        """Let groups go on at messages that were damaged: the log is whole between these offsets."""
        for topic, queue_id, offset in self.reader.forget_repaired(begin, end):
            for (_, its_topic), states in self._states.items():
                state = states.get(queue_id) if its_topic == topic else None
                if isinstance(state, OrderedConsumption):
                    state.unblock_lane(offset)

    def untouched_queues(self, group: str, topics: "Iterable[str]") -> list[QueueRef]:
        """The queues with messages in which the group was never, of its known topics and of `topics`."""
        known = set(topics)
        known.update(topic for owner, topic in self._states if owner == group)
        known = {topic for topic in known if not is_lite_queue(topic) or self.committed_offset(group, topic, 0) is None}
        return [
            QueueRef(topic, self._broker, queue_id)
            for topic in sorted(known)
            for queue_id in untouched_queues(topic, self.find_states(group, topic), self._store)
        ]

    def queue_bounds(self, topic: str, queue_id: int) -> QueueBounds:
        return QueueBounds(*self._queues.queue_bounds(topic, queue_id), self.losses.purged_below(topic, queue_id))

    # --- writing to the journal

    def take_changes(self) -> "Iterable[tuple[QueueKey, QueueState]]":
        """Return the states that changed since the last call.

        Retry queues come first, so that the target of a move is written before its source.
        """
        changed, self._changed = self._changed, {}
        self._being_written.update(key for key in changed if is_lite_queue(key[1]))
        return sorted(changed.items(), key=lambda item: item[0][2] != RETRY_QUEUE_ID)

    def restore_changes(self, keys: "Iterable[QueueKey]") -> None:
        """Let `take_changes` give these states again: they could not be written."""
        self._being_written.clear()
        for group, topic, queue_id in keys:
            state = self._states.get((group, topic), {}).get(queue_id)
            if state is not None:
                state.require_snapshot()
                self._changed[group, topic, queue_id] = state

    def forget_group(self, group: str) -> None:
        self.in_flight.forget_group(group)
        self.lite.forget_group(group)
        self.resting.forget_group(group)
        self.losses.forget_group(group)
        for key in [key for key in self._states if key[0] == group]:
            del self._states[key]
            self._turns.pop(key, None)
        self._changed = {key: state for key, state in self._changed.items() if key[0] != group}


def _queues_in_turn(order: PopOrder, turn: int) -> tuple[int, ...]:
    """The queues of the order, from the one on whose turn it is."""
    start = (turn if order.first_queue is None else order.first_queue) % len(order.queues)
    return (*order.queues[start:], *order.queues[:start])


def _has_no_waiting_poll(_group: str, _topic: str, _client_id: str) -> bool:
    return False


class _TimeLookup(WouldBlock):
    """A lookup of the offset at a time, where a group begins: it needs a read of the log, and `wait` does it."""

    def __init__(self, look_up: "Callable[[], None]") -> None:
        self._look_up = look_up
        Exception.__init__(self, "looks up an offset by its time")

    def wait(self) -> None:
        self._look_up()
