"""The other calls of clients that pop: where to begin, acknowledgements, changes of invisible durations.

These clients name a message by its place and by the end of its claim, which is a receipt handle without generation.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.shard.model import RETRY_QUEUE_ID, QueueRef, SettleOutcome
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.operations.invisible_duration import checked_invisible_ms
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """A message that a client of the group popped; its claim ends at `end_ms`. The queue id is RETRY_QUEUE_ID for one
    that waited for redelivery in the group's retry topic."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    end_ms: int

    @property
    def handle(self) -> ReceiptHandle:
        """The right to settle the message."""
        return ReceiptHandle(self.broker, self.queue_id, self.offset, 0, self.end_ms)


async def begin_at_first(group: str, topic: str, call: "Call", services: "Services") -> None:
    """Have the group begin at the first message that is kept, in queues of the topic in which it has never been."""
    require_consumer("ReceiveMessage", call, group, topic, services)
    known = await services.catalog.existing_topic(check_topic_name(topic))
    reading = services.messages.reading
    for broker in services.messages.find_route(known).readable:
        for queue_id in range(known.queues):
            queue = QueueRef(topic, broker, queue_id)
            bounds = await reading.bounds(queue)
            if bounds.minimum and await reading.committed(group, queue) is None:
                await reading.set_committed(group, queue, bounds.minimum)


async def acknowledge_popped(
    group: str, messages: "Sequence[PoppedMessage]", call: "Call", services: "Services"
) -> list[SettleOutcome]:
    """Finish messages; return an outcome for each, in order: STALE for one that is finished already.

    BAD_REQUEST for a queue that the topic does not have; EXPIRED for an offset that its queue does not have.
    """
    by_topic: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        by_topic.setdefault(message.topic, []).append(place)
    outcomes: dict[int, SettleOutcome] = {}
    for topic, places in by_topic.items():
        await _check_queues(group, [messages[place] for place in places], topic, "AckMessage", call, services)
        handles = [messages[place].handle for place in places]
        found = await services.messages.consuming.acknowledge(group, topic, handles)
        for place, outcome in zip(places, found, strict=True):
            is_unknown = outcome is SettleOutcome.STALE and not await _has_message(messages[place], services)
            outcomes[place] = SettleOutcome.EXPIRED if is_unknown else outcome
    return [outcomes[place] for place in range(len(messages))]


async def hide_popped(
    group: str, message: PoppedMessage, invisible_ms: int, call: "Call", services: "Services"
) -> PoppedMessage:
    """Change how long a message stays hidden; return it with the new end. INVALID_RECEIPT_HANDLE if its time has
    passed."""
    await _check_queues(group, [message], message.topic, "ChangeInvisibleDuration", call, services)
    checked_invisible_ms(invisible_ms, at_least_ms=0)
    changed = await services.messages.consuming.change_invisible(
        group, message.topic, message.handle, invisible_ms, counts=True
    )
    return PoppedMessage(message.topic, message.broker, message.queue_id, message.offset, changed.deadline_ms)


async def _check_queues(
    group: str, messages: "Sequence[PoppedMessage]", topic: str, rpc: str, call: "Call", services: "Services"
) -> None:
    """Check rights, names, and that the topic has these queues."""
    require_consumer(rpc, call, check_group_name(group), check_topic_name(topic), services)
    known = await services.catalog.existing_topic(topic)
    for message in messages:
        if message.queue_id != RETRY_QUEUE_ID and not 0 <= message.queue_id < known.queues:
            text = f"topic {topic!r} has no queue {message.queue_id}: it has {known.queues}"
            raise MessagingError(ErrorCode.BAD_REQUEST, text)


async def _has_message(message: PoppedMessage, services: "Services") -> bool:
    """Return whether the queue has, or had, a message at that offset; retries are believed."""
    if message.queue_id == RETRY_QUEUE_ID:
        return True
    bounds = await services.messages.reading.bounds(QueueRef(message.topic, message.broker, message.queue_id))
    return 0 <= message.offset < bounds.maximum
