"""Hands retries over when a group changes its way of consuming, from popping to pulling or back.

Both ways have their retries in queue 0 of the group's retry topic. A popping group knows them by its states under
RETRY_QUEUE_ID, one for each topic; a pulling group reads the queue like any other, and has a state of its own there.

Begins to pull   it reads the retry queue from the first retry that is not finished, and other queues from what is
                 committed: claims end, and messages after them that were finished already come again. The offset that
                 it commits in the retry queue finishes the retries below
Begins to pop    messages that members sent back, behind what is committed, become retries of their topics, also those
                 that arrive later. Which topic, their hidden fields say. They come in no order, also in a FIFO group:
                 it went on behind them when they were sent back

The state in the retry queue is created when a member of the group first asks where to begin, before it can send
anything back. Nothing is lost by a crash: either state is moved only when the other has what it gives up, or later.
"""

from typing import TYPE_CHECKING, Final

from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import RETRY_PREFIX, retry_topic
from ternmq_common.shard.hidden_fields import RETRY_TOPIC, hidden_of
from ternmq_common.shard.model import RETRY_QUEUE_ID, QueueRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_common.receiving.poll_queues import PollQueues

_BATCH: Final = 256


class RetryHandover:
    """The retries of one broker's groups that change their way."""

    def __init__(self, consumption: "Consumption", pollers: "PollQueues", broker: str) -> None:
        self._consumption = consumption
        self._pollers = pollers
        self._broker = broker

    # --- to pulling

    def begin_pulling(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a member of a pulling group goes on in the queue, None if the group was never there."""
        consumption = self._consumption
        if topic == retry_topic(group):
            return self._begin_in_retries(group, topic)
        state = consumption.find_states(group, topic).get(queue_id)
        if state is not None and state.in_flight:
            consumption.set_committed(group, topic, queue_id, state.committed_offset)
            consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return consumption.committed_offset(group, topic, queue_id)

    def _begin_in_retries(self, group: str, topic: str) -> int:
        known = self._consumption.committed_offset(group, topic, 0)
        states = [state for _, state in self._retries_of(group)]
        if known is None:
            bounds = self._consumption.queue_bounds(topic, 0)
            begin = bounds.maximum if states else bounds.minimum
        else:
            begin = known
        begin = min([begin, *(state.committed_offset for state in states if state.in_flight)])
        if begin != known:
            self._consumption.set_committed(group, topic, 0, begin)
        return begin

    def finish_pulled(self, group: str, topic: str, offset: int) -> None:
        """Finish the retries below what a pulling group commits in its retry queue; do nothing for other topics."""
        if topic != retry_topic(group) or self._consumption.committed_offset(group, topic, 0) == offset:
            return  # members commit the same offset again and again
        for its, state in self._retries_of(group):
            if state.in_flight and state.committed_offset < offset:
                state.finish_below(offset)
                self._consumption.mark_changed(group, its, RETRY_QUEUE_ID)

    def _retries_of(self, group: str) -> "Iterator[tuple[str, QueueConsumption]]":
        for topic in self._consumption.in_flight.topics_of_group(group):
            state = self._consumption.find_states(group, topic).get(RETRY_QUEUE_ID)
            if isinstance(state, QueueConsumption):
                yield topic, state

    # --- to popping

    def adopt_retries(self, group: str) -> None:
        """Take over what members sent back while the group pulled, before a pop; WouldBlock while it must be read."""
        name = retry_topic(group)
        progress = self._consumption.find_states(group, name).get(0)
        if progress is None:
            return
        bounds = self._consumption.queue_bounds(name, 0)
        if progress.cursor >= bounds.maximum:
            return
        begin = max(progress.cursor, bounds.minimum)
        pulled = self._consumption.reader.pull_messages(QueueRef(name, self._broker, 0), begin, ALL, _BATCH)
        for message in pulled.messages:
            hidden = hidden_of(message.system)
            origin = hidden.properties.get(RETRY_TOPIC, name)
            if origin == name:
                continue  # a copy that popping made, and knows
            retries = self._consumption.find_or_create_retries(group, origin)
            if not retries.has_claim(message.queue_offset):
                retries.place_copy(message.queue_offset, hidden.reconsume_times)
                self._consumption.mark_changed(group, origin, RETRY_QUEUE_ID)
                self._pollers.wake_group(group, origin, 1)
        if pulled.next_offset > progress.cursor:
            progress.skip_to(pulled.next_offset)
            self._consumption.mark_changed(group, name, 0)

    def note_arrived(self, topic: str) -> None:
        """Wake the group's polls after messages came into its retry topic: they may be sent back ones."""
        group = topic.removeprefix(RETRY_PREFIX)
        if group != topic and self._consumption.find_states(group, topic):
            for its in self._consumption.in_flight.topics_of_group(group):
                self._pollers.wake_group(group, its, 1)
