"""Consumption of one broker: hands out messages of the store to groups, takes them back, and remembers how far.

The decisions are those of `delivery/`; here they meet the store, the filter and the journal. Whatever changes does so
in one synchronous step, after all reading is done: a reader that is interrupted changed nothing.

A group that is not FIFO has one more state for each topic, under RETRY_QUEUE_ID: its messages of that topic that are
in the group's retry topic.
"""

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ternmq_broker.consumption.group_progress import progress_of, untouched_queues
from ternmq_broker.consumption.in_flight import InFlight
from ternmq_broker.consumption.lite_progress import LiteProgress
from ternmq_broker.consumption.losses import Losses
from ternmq_broker.consumption.ordered_popping import OrderedPop
from ternmq_broker.consumption.popping import Pop, UnorderedPop
from ternmq_broker.consumption.queue_reader import QueueReader
from ternmq_broker.consumption.restoring import Restoring
from ternmq_broker.delivery.claims import first_generation
from ternmq_broker.delivery.lite_subscriptions import LiteSubscriptions
from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.delivery.resting import Resting
from ternmq_broker.store.damage import AwaitsRepair
from ternmq_broker.store.files import WouldBlock
from ternmq_common.model import (
    RETRY_QUEUE_ID,
    Group,
    PopOrder,
    QueueBounds,
    QueueProgress,
    QueueRef,
    SettleOutcome,
)
from ternmq_common.names import is_lite_queue, lite_parent, retry_topic
from ternmq_common.priority import turn_of_lower
from ternmq_common.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.progress_journal import ProgressJournal, QueueKey

_log = logging.getLogger(__name__)
QueueState = QueueConsumption | OrderedConsumption
# A client that says good-bye may have acknowledgements under way.
_LAST_WORD_MS = 10_000
# Of every batch so much is for messages that were delivered before, so that neither they nor new ones starve.
_RETRY_SHARE = 4


class Consumption:
    """Every group's progress in the queues of one broker. `rules` tells how a group wants to be served."""

    def __init__(
        self,
        store: "MessageStore",
        journal: "ProgressJournal",
        *,
        broker: str,
        readable_end: "Callable[[], int]",
        rules: "Callable[[str], Group]",
        now_ms: "Callable[[], int]",
        lite: LiteSubscriptions | None = None,
    ) -> None:
        """Blocks: the journal's groups go on where they were."""
        self._store = store
        self._broker = broker
        self.rules = rules
        self._now_ms = now_ms
        self.losses = Losses(store, journal.marks())
        self.reader = QueueReader(store, readable_end, self.losses)
        self.lite = lite or LiteSubscriptions(_nobody_waits)
        self.resting = Resting()
        self._states = Restoring(store, journal, rules, now_ms(), self.resting).states()
        self.lite_progress = LiteProgress(self, store, broker, self._states)
        self.in_flight = InFlight(self.states)
        self.in_flight.known(self._states)
        self._changed: dict[QueueKey, QueueState] = {}
        self._being_written: set[QueueKey] = set()
        # Where each group begins to look: of a turn that all shared, one of two groups would get every second queue.
        self._turns: dict[tuple[str, str], int] = {}
        self._begins: dict[QueueKey, int] = {}
        self._lost_below = journal.lost_below

    def place_of(self, group: str, topic: str, queue_id: int) -> QueueRef:
        """Where the messages are that a handle or a state of the group speaks of."""
        if queue_id == RETRY_QUEUE_ID:
            return QueueRef(retry_topic(group), self._broker, 0)
        return QueueRef(topic, self._broker, queue_id)

    # --- handing out

    def pop(self, order: PopOrder, now_ms: int) -> Pop:
        """Hand out what is there, up to the batch, and to what may be in flight.

        A queue whose next message is damaged, while another replica may have it whole, is as one without messages.
        WouldBlock: nothing was handed out; wait in a thread, then call again.
        """
        if order.group_in_flight_max is not None or order.topic_in_flight_max is not None:
            room = self.in_flight.room(order) + self._held_under(order)
            if room <= 0:
                self.in_flight.hold_back(order.group, order.wait_key)
                return Pop(order, self.reader, broker=self._broker, now_ms=now_ms)
            if room < order.batch:
                order = replace(order, batch=room)
        if order.lite_client:
            lite = OrderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
            held_up: list[str] = []
            try:
                return self._take(lite, self._lite_steps(order, lite, held_up))
            finally:  # not before: it would be a candidate again at once
                for topic in held_up:
                    self.lite.mark(order.group, topic)
        key = (order.group, order.topic)
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        rules = self.rules(order.group)
        pop: Pop
        if order.by_priority and not rules.fifo:
            first = self._lower_first(order, turn, rules.priority_factor)
            pop = unordered = UnorderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
            return self._take(pop, self._steps_by_priority(order, unordered, first))
        start = (turn if order.first_queue is None else order.first_queue) % len(order.queues)
        queue_ids = (*order.queues[start:], *order.queues[:start])
        if rules.fifo:
            pop = ordered = OrderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
            steps = self._ordered_steps(order, ordered, queue_ids)
        else:
            pop = unordered = UnorderedPop(order, self.reader, broker=self._broker, now_ms=now_ms)
            steps = self._unordered_steps(order, unordered, queue_ids, turn)
        return self._take(pop, steps)

    def _held_under(self, order: PopOrder) -> int:
        """How many messages are handed out already to the call that the order may be a repetition of."""
        if not order.attempt_id:
            return 0
        return sum(
            len(lane.claimed)
            for state in self.states(order.group, order.topic).values()
            if isinstance(state, OrderedConsumption)
            for lane in state.held_under(order.attempt_id)
        )

    def _take(self, pop: Pop, steps: "Iterator[None]") -> Pop:
        try:
            for _ in steps:
                if pop.is_full:
                    break
        except WouldBlock:
            if not pop.deliveries:
                raise
            pop.more = True  # what was handed out must not wait for the disk
        return pop

    def _steps_by_priority(self, order: PopOrder, pop: UnorderedPop, first: int | None) -> "Iterator[None]":
        """The queues from that of the highest priority to that of the lowest, then what is to be delivered again
        (`consuming.md, Priority`); the queue `first` before all, if there is one."""
        queue_ids = self._by_urgency(order)
        if first is not None:
            queue_ids.insert(0, first)
        for queue_id in queue_ids:
            state = self._waiting_state(order, queue_id)
            if state is not None:
                self._changing(order, queue_id, state, pop, order.batch)
                yield

    def _by_urgency(self, order: PopOrder) -> list[int]:
        """The queues that the order is for, the most urgent one first, and last what is to be delivered again."""
        if order.most_urgent:
            return list(order.by_urgency[: order.most_urgent])
        return [*order.by_urgency, RETRY_QUEUE_ID]

    def urgency(self, group: str, topic: str, queues: "Sequence[int]") -> int:
        """How many of the queues come before the first one that may have something for the group."""
        states = self.states(group, topic)
        for place, queue_id in enumerate(queues):
            state = states.get(queue_id)
            if isinstance(state, QueueConsumption):
                may_have = self._has_waiting(topic, queue_id, state)
            else:  # where the group begins is found out when it takes something
                first, end = self._store.bounds(topic, queue_id)
                may_have = first < end
            if may_have:
                return place
        return len(queues)

    def _waiting_state(self, order: PopOrder, queue_id: int) -> QueueConsumption | None:
        """The group's state of that queue; of the retry queue only if something is ready there."""
        if queue_id != RETRY_QUEUE_ID:
            state = self._state(order.group, order.topic, queue_id)
            assert isinstance(state, QueueConsumption)
            return state
        retries = self.states(order.group, order.topic).get(RETRY_QUEUE_ID)
        return retries if isinstance(retries, QueueConsumption) and retries.ready_count else None

    def _lower_first(self, order: PopOrder, turn: int, factor: int) -> int | None:
        """Which queue of a lower priority has its turn before the highest, so that it does not starve; mostly none."""
        number = turn_of_lower(turn, factor)
        if number is None:
            return None
        queue_ids = self._by_urgency(order)
        lower = [*reversed(queue_ids[1:-1]), queue_ids[-1]]
        for place in range(len(lower)):
            queue_id = lower[(number + place) % len(lower)]
            state = self._waiting_state(order, queue_id)
            if state is not None and self._has_waiting(order.topic, queue_id, state):
                return queue_id
        return None

    def _has_waiting(self, topic: str, queue_id: int, state: QueueConsumption) -> bool:
        return state.ready_count > 0 or (
            queue_id != RETRY_QUEUE_ID and state.cursor < self._store.bounds(topic, queue_id)[1]
        )

    def _unordered_steps(
        self, order: PopOrder, pop: UnorderedPop, queue_ids: "tuple[int, ...]", turn: int
    ) -> "Iterator[None]":
        """Some of what is to be delivered again, what is new, and the rest of the former, queue by queue."""
        retries = self._states.get((order.group, order.topic), {}).get(RETRY_QUEUE_ID)
        if isinstance(retries, QueueConsumption) and retries.ready_count:
            share = order.batch // _RETRY_SHARE or int(turn % _RETRY_SHARE == 0)
            self._changing(order, RETRY_QUEUE_ID, retries, pop, share)
            yield
        for queue_id in queue_ids:
            state = self._state(order.group, order.topic, queue_id)
            assert isinstance(state, QueueConsumption)
            self._changing(order, queue_id, state, pop, order.batch)
            yield
        if isinstance(retries, QueueConsumption) and retries.ready_count:
            self._changing(order, RETRY_QUEUE_ID, retries, pop, order.batch)
            yield

    def _changing(
        self, order: PopOrder, queue_id: int, state: QueueConsumption, pop: UnorderedPop, ready_max: int
    ) -> None:
        queue = self.place_of(order.group, order.topic, queue_id)
        before = state.mark
        try:
            if state.ready_count:
                pop.take_ready(queue, queue_id, state, ready_max)
            if queue_id != RETRY_QUEUE_ID and not pop.is_full:
                pop.take_new(queue, state)
        except AwaitsRepair:
            pass
        finally:
            if state.mark != before:
                self._changed[order.group, order.topic, queue_id] = state

    def _ordered_steps(self, order: PopOrder, pop: OrderedPop, queue_ids: "tuple[int, ...]") -> "Iterator[None]":
        states = {queue_id: self._state(order.group, order.topic, queue_id) for queue_id in queue_ids}
        for takes_again in (True, False):
            for queue_id, state in states.items():
                assert isinstance(state, OrderedConsumption)
                if takes_again and not state.held_under(order.attempt_id):
                    continue
                queue = QueueRef(order.topic, self._broker, queue_id)
                before = state.mark
                try:
                    if takes_again:
                        pop.take_again(queue, state)
                    else:
                        pop.take(queue, state)
                except AwaitsRepair:
                    pass
                finally:
                    if state.mark != before:
                        self._changed[order.group, order.topic, queue_id] = state
                yield

    def _lite_steps(self, order: PopOrder, pop: OrderedPop, held_up: list[str]) -> "Iterator[None]":
        for topic in self.lite.candidates(order.group, order.lite_client):
            try:
                self._take_lite(order, pop, topic)
            except WouldBlock:
                held_up.append(topic)
                raise
            except AwaitsRepair:
                held_up.append(topic)
            yield

    def _take_lite(self, order: PopOrder, pop: OrderedPop, topic: str) -> None:
        state = self._lite_state(order.group, topic)
        before = state.mark
        try:
            pop.take_lane(QueueRef(topic, self._broker, 0), state)
        finally:
            if state.mark != before:
                self._changed[order.group, topic, 0] = state
            else:
                self._rest(order.group, topic, state)

    def _lite_state(self, group: str, topic: str) -> OrderedConsumption:
        """The group's state in a lite topic, which rests no more."""
        state = self.states(group, topic).get(0)
        if isinstance(state, OrderedConsumption):
            return state
        begun = self.resting.take(group, topic)
        if begun is None:
            begin = self._begin(group, topic, 0, self.rules(group).consume_from)
            begun = self.resting.begun(begin, self._first_generation())
            self._changed[group, topic, 0] = begun
        self._states_to_be(group, topic)[0] = begun
        return begun

    def _rest(self, group: str, topic: str, state: QueueState) -> None:
        """Keep of a lite topic of which nothing is in flight where the group is, and no more, once it is written."""
        key = (group, topic, 0)
        is_written = key not in self._changed and key not in self._being_written
        if is_written and isinstance(state, OrderedConsumption) and state.is_at_rest:
            self.resting.put(group, topic, state.cursor, state.generation)
            self._forget_state(group, topic)

    def _forget_state(self, group: str, topic: str) -> None:
        del self._states[group, topic]
        self._changed.pop((group, topic, 0), None)
        self.in_flight.unknown(group, topic)

    def written(self, keys: "Iterable[QueueKey]") -> None:
        """What `take_changes` gave is remembered."""
        self._being_written.clear()
        for group, topic, queue_id in keys:
            if is_lite_queue(topic):
                state = self.states(group, topic).get(queue_id)
                if state is not None:
                    self._rest(group, topic, state)

    def lite_waits(self, group: str, topic: str) -> bool:
        """Whether the lite topic may have something for the group now."""
        first, end = self._store.bounds(topic, 0)
        state = self.states(group, topic).get(0)
        if isinstance(state, OrderedConsumption):
            return state.has_open_lane or bool(state.to_scan(1)) or (not state.is_closed and state.cursor < end)
        at = self.resting.at(group, topic)
        return max(first, at or 0) < end

    def begin_lite(self, group: str, topic: str, begin: int) -> bool:
        """Have the group begin there in a lite topic, if it was never in it; whether that is so."""
        if self.states(group, topic) or self.resting.at(group, topic) is not None:
            return False
        self.set_committed(group, topic, 0, begin)
        return True

    def lite_topics_expired(self, ended: "Sequence[tuple[str, int]]") -> None:
        """Retention took the last messages of these lite topics, which ended there, and nothing is known of them any
        more: what groups had not read of them is lost."""
        groups = {group for group, topic in self._states if is_lite_queue(topic)}
        groups.update(self.resting.groups())
        for topic, end in ended:
            for group in groups:
                at = self.resting.at(group, topic)
                if at is not None and at < end:
                    self.losses.add(group, topic, 0, end - at)
                    self.resting.put(group, topic, end, 0)
                state = self.states(group, topic).get(0)
                if state is not None:
                    self.losses.passed_over(group, topic, 0, state, end, origin=0)
                    state.skip_to(end)
                    self._changed[group, topic, 0] = state

    def forget_lite(self, topics: "Iterable[str]") -> list[tuple[str, str]]:
        """These lite topics are gone: the groups that were in them, each with the topic, for the journal."""
        gone = set(topics)
        pairs = [pair for pair in self._states if pair[1] in gone]
        for pair in pairs:
            self._forget_state(*pair)
        for group in self.resting.groups():
            pairs += [(group, topic) for topic in gone if self.resting.forget(group, topic)]
        return pairs

    def _kind(self, group: str, topic: str) -> "type[OrderedConsumption | QueueConsumption]":
        return OrderedConsumption if is_lite_queue(topic) or self.rules(group).fifo else QueueConsumption

    def _state(self, group: str, topic: str, queue_id: int) -> QueueState:
        states = self._states_to_be(group, topic)
        state = states.get(queue_id)
        rules = self.rules(group)
        kind = OrderedConsumption if rules.fifo else QueueConsumption
        if not isinstance(state, kind):
            # Of the other kind it can be after the group was deleted and created again while a poll of it waited.
            begin = state.committed if state is not None else self._begin(group, topic, queue_id, rules.consume_from)
            state = states[queue_id] = kind(begin, self._first_generation())
            self._changed[group, topic, queue_id] = state
        return state

    def _begin(self, group: str, topic: str, queue_id: int, consume_from: str) -> int:
        """Where a group begins in a queue that it was never in; WouldBlock while a time is being looked up."""
        first, end = self._store.bounds(topic, queue_id)
        if consume_from == "earliest" or (consume_from == "auto" and is_lite_queue(topic)):
            return first
        if consume_from in ("latest", "auto") and self._may_have_been(topic, queue_id, may_block=False):
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
            return first if self._store.is_complete(topic, queue_id) else end
        key = (group, topic, queue_id)
        if key not in self._begins:
            raise _LooksUpTime(lambda: self._look_up(key, int(consume_from)))
        return self._begins.pop(key)

    def would_begin(self, topic: str, queue_id: int, consume_from: str, *, may_block: bool) -> int:
        """Where a group would begin if it came now to a queue that it was never in. A time is looked up, which reads;
        for the others WouldBlock as in `pop`, unless it `may_block`."""
        first, end = self._store.bounds(topic, queue_id)
        if consume_from == "earliest" or (consume_from == "auto" and is_lite_queue(topic)):
            return first
        if consume_from in ("latest", "auto"):
            if self._may_have_been(topic, queue_id, may_block=may_block):
                return first
            return first if consume_from == "auto" and self._store.is_complete(topic, queue_id) else end
        return self._store.offset_at(topic, queue_id, int(consume_from))

    def _may_have_been(self, topic: str, queue_id: int, *, may_block: bool) -> bool:
        """Whether groups of which nothing is known may have been in the queue; see `ProgressJournal.lost_below`."""
        first, end = self._store.bounds(topic, queue_id)
        if self._store.start >= self._lost_below or first == end:
            return False
        (location,) = self._store.locate(topic, queue_id, first, 1, may_block=may_block)
        return location.log_offset < self._lost_below

    def _look_up(self, key: "QueueKey", time_ms: int) -> None:
        self._begins[key] = self._store.offset_at(key[1], key[2], time_ms)

    # --- what waits

    def subscribed(self, group: str, topic: str) -> None:
        """The group is to have the topic's messages, wherever it is in them. Forgotten in a restart, if it has taken
        none by then."""
        self._states_to_be(group, topic)

    def _states_to_be(self, group: str, topic: str) -> dict[int, QueueState]:
        """As `states`, to be added to."""
        states = self._states.get((group, topic))
        if states is None:
            states = self._states[group, topic] = {}
            self.in_flight.known([(group, topic)])
        return states

    def states(self, group: str, topic: str) -> dict[int, QueueState]:
        """The group's states in the topic, by queue id."""
        return self._states.get((group, topic), {})

    def pairs(self) -> "list[tuple[str, str]]":
        """Every (group, topic) of which there are states; those of lite topics by their queues' topics."""
        return list(self._states)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have taken messages of the topic here, or subscribe it; of a LITE topic those of its lite
        topics."""
        found = {group for group, its in self._states if its == topic or lite_parent(its) == topic}
        for group in self.resting.groups():
            if any(its == topic or lite_parent(its) == topic for its in self.resting.of_group(group)):
                found.add(group)
        return sorted(found)

    def retries(self, group: str, topic: str) -> QueueConsumption:
        """The state of the group's messages of that topic in its retry queue."""
        states = self._states_to_be(group, topic)
        state = states.get(RETRY_QUEUE_ID)
        if state is None:
            state = states[RETRY_QUEUE_ID] = QueueConsumption(0, self._first_generation())
        assert isinstance(state, QueueConsumption)
        return state

    def _first_generation(self) -> int:
        return first_generation(self._now_ms())

    def next_deadline_ms(self, group: str, topic: str) -> int | None:
        """When a claim of the group may end next."""
        deadlines = [state.next_deadline_ms() for state in self._states.get((group, topic), {}).values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def has_open_lanes(self, group: str, topic: str) -> bool:
        """Whether a FIFO group's poll would find messages that were read before and had to wait."""
        return any(
            isinstance(state, OrderedConsumption) and state.has_open_lane
            for state in self.states(group, topic).values()
        )

    # --- settling

    def acknowledge(self, group: str, topic: str, handle: ReceiptHandle, now_ms: int) -> SettleOutcome:
        state = self.settling(group, topic, handle)
        if state is None:
            return SettleOutcome.STALE if now_ms < handle.deadline_ms else SettleOutcome.EXPIRED
        return state.acknowledge(handle.queue_offset, handle.generation, handle.deadline_ms, now_ms)

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int, counts: bool
    ) -> ReceiptHandle | None:
        """The handle that replaces `handle`; None if its claim is not in force."""
        state = self.settling(group, topic, handle)
        if state is None:
            return None
        claim = state.change_invisible(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms, counts=counts
        )
        if claim is None:
            return None
        return ReceiptHandle(self._broker, handle.queue_id, handle.queue_offset, claim.generation, deadline_ms)

    def prolong(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, deadline_ms: int) -> bool:
        state = self.settling(group, topic, handle)
        return state is not None and state.prolong(
            handle.queue_offset, handle.generation, now_ms=now_ms, deadline_ms=deadline_ms
        )

    def release(self, group: str, topic: str, handle: ReceiptHandle, *, now_ms: int, counts: bool) -> bool:
        """Whether the message can be delivered again.

        One whose attempts are used up can't, and becomes a dead letter; in a while, since its acknowledgement may be
        under way.
        """
        state = self.settling(group, topic, handle)
        if state is None:
            return False
        offset, generation = handle.queue_offset, handle.generation
        claim = state.in_force(offset, generation, now_ms)
        if counts and claim is not None and claim.attempt >= self.rules(group).max_attempts:
            deadline_ms = min(claim.deadline_ms, now_ms + _LAST_WORD_MS)
            state.prolong(offset, generation, now_ms=now_ms, deadline_ms=deadline_ms)
            return False
        return state.release(offset, generation, now_ms=now_ms, counts=counts)

    def settling(self, group: str, topic: str, handle: ReceiptHandle) -> QueueState | None:
        """The state that the handle is about, which changes; None if the group was deleted meanwhile."""
        state = self._states.get((group, topic), {}).get(handle.queue_id)
        if state is not None:
            self._changed[group, topic, handle.queue_id] = state
        return state

    def changes(self, group: str, topic: str, queue_id: int) -> None:
        """The state of that queue was changed by its caller."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is not None:
            self._changed[group, topic, queue_id] = state

    # --- offsets

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group is in the queue; None if it never was there."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is None and is_lite_queue(topic):
            return self.resting.at(group, topic)
        if state is None and self._may_have_been(topic, queue_id, may_block=True):
            return self._store.bounds(topic, queue_id)[0]
        return None if state is None else state.committed

    def set_committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on at `offset`; claims that are under way in this queue end."""
        states = self._states_to_be(group, topic)
        state = states.get(queue_id)
        kind = self._kind(group, topic)
        if not isinstance(state, kind):
            state = kind(offset, self._first_generation())
            if is_lite_queue(topic):
                self.resting.forget(group, topic)
                state.go_on_from(self.resting.generation)
            states[queue_id] = state
        first = self.reader.first(topic, queue_id)
        if offset < state.cursor:
            offset = max(offset, min(first, state.cursor))  # what is gone was passed over, and is not lost again
        elif state.cursor < first <= offset:  # below `first` it says that it had read on before that went
            self.losses.passed_over(group, topic, queue_id, state, first)
        state.reset(offset)
        self._changed[group, topic, queue_id] = state

    def skip(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Finish the message at that offset, whoever has it; False if the group has not come there yet."""
        state = self._states.get((group, topic), {}).get(queue_id)
        if state is None or offset >= state.cursor:
            return False
        state.finish(offset)
        self._changed[group, topic, queue_id] = state
        return True

    def drop_retries(self, group: str, topic: str) -> None:
        """Finish all messages of the topic that wait in the group's retry queue."""
        state = self._states.get((group, topic), {}).get(RETRY_QUEUE_ID)
        if state is not None:
            state.reset(state.cursor)
            self._changed[group, topic, RETRY_QUEUE_ID] = state

    def forget_topic(self, topic: str) -> None:
        """The topic's messages are gone, also from the groups' retry queues."""
        for group, its in list(self._states):
            if its == topic:
                self.drop_retries(group, topic)

    def purged(self, topic: str, queue_id: int, *, origin: int, by_operator: bool) -> None:
        """The queue begins later than before: no group is behind that. `origin` is that of the queue before."""
        first = self.reader.first(topic, queue_id)
        if by_operator:
            self.losses.purged(topic, queue_id, first)
        for (group, its), states in self._states.items():
            state = states.get(queue_id) if its == topic else None
            if state is not None:
                self.losses.passed_over(group, topic, queue_id, state, first, origin=origin)
                state.skip_to(first)
                self._changed[group, topic, queue_id] = state

    def rebase(self, by_ms: int) -> None:
        """The clock was set by so much: claims keep the time that they had left."""
        for (group, topic), states in self._states.items():
            for queue_id, state in states.items():
                state.rebase(by_ms)
                self._changed[group, topic, queue_id] = state

    def progress(self, group: str) -> list[QueueProgress]:
        """How far the group is in every queue that it has touched; in its retry queue, with all topics together. Lite
        topics are for `lite_progress`."""
        states = [
            (topic, states)
            for (owner, topic), states in sorted(self._states.items())
            if owner == group and not is_lite_queue(topic)
        ]
        retry_queue = self.place_of(group, "", RETRY_QUEUE_ID)
        return progress_of(group, states, retry_queue, self._broker, self._store, self.losses)

    def lag_pairs(self) -> list[tuple[str, str]]:
        """As `pairs`, but with the LITE topics of lite groups in place of lite topics."""
        lite = {group for group, topic in self._states if is_lite_queue(topic)}
        lite.update(self.resting.groups(), self.lite.groups())
        bound: set[tuple[str, str]] = set()
        for group in lite:
            rules = self.rules(group).lite
            if rules is not None:
                bound.add((group, rules.bind))
        return sorted(bound.union(pair for pair in self._states if not is_lite_queue(pair[1])))

    def repaired(self, begin: int, end: int) -> None:
        """The log is whole between these offsets: what stopped at a message there goes on."""
        for topic, queue_id, offset in self.reader.repaired(begin, end):
            for (_, its_topic), states in self._states.items():
                state = states.get(queue_id) if its_topic == topic else None
                if isinstance(state, OrderedConsumption):
                    state.unblock(offset)

    def untouched(self, group: str, topics: "Iterable[str]") -> list[QueueRef]:
        """The queues with messages in which the group has never been, of the topics that it is known to have and of
        `topics`."""
        known = set(topics)
        known.update(topic for owner, topic in self._states if owner == group)
        known = {topic for topic in known if not is_lite_queue(topic) or self.committed(group, topic, 0) is None}
        return [
            QueueRef(topic, self._broker, queue_id)
            for topic in sorted(known)
            for queue_id in untouched_queues(topic, self.states(group, topic), self._store)
        ]

    def bounds(self, topic: str, queue_id: int) -> QueueBounds:
        return QueueBounds(*self._store.bounds(topic, queue_id), self.losses.purged_below(topic, queue_id))

    # --- remembering

    def take_changes(self) -> "Iterable[tuple[QueueKey, QueueState]]":
        """What changed since the last call; retry queues first, so that of a move its target is remembered first."""
        changed, self._changed = self._changed, {}
        self._being_written.update(key for key in changed if is_lite_queue(key[1]))
        return sorted(changed.items(), key=lambda item: item[0][2] != RETRY_QUEUE_ID)

    def changed_again(self, keys: "Iterable[QueueKey]") -> None:
        """What `take_changes` gave could not be remembered; give it again next time."""
        self._being_written.clear()
        for group, topic, queue_id in keys:
            state = self._states.get((group, topic), {}).get(queue_id)
            if state is not None:
                state.record_was_lost()
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


def _nobody_waits(_group: str, _topic: str, _client_id: str) -> bool:
    return False


class _LooksUpTime(WouldBlock):
    """Where a group begins by time has to be read from the log; `wait` does that."""

    def __init__(self, look_up: "Callable[[], None]") -> None:
        self._look_up = look_up
        Exception.__init__(self, "looks up an offset by its time")

    def wait(self) -> None:
        self._look_up()
