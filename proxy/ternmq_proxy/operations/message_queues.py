"""Finds the message queue that a client names."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name
from ternmq_common.shard.model import QueueRef

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueBounds, Topic, TopicRoute
    from ternmq_proxy.services import Services


async def find_queue(named: QueueRef, services: "Services") -> QueueRef:
    """Return the queue with the name of its broker. Raises BAD_REQUEST, TOPIC_NOT_FOUND or ILLEGAL_TOPIC.

    Where the topic is on one broker, any broker name means that one.
    """
    return find_queue_of(await services.catalog.existing_topic(check_topic_name(named.topic)), named, services)


def find_queue_of(topic: "Topic", named: QueueRef, services: "Services") -> QueueRef:
    """Return the queue of this topic. Raises BAD_REQUEST."""
    if not 0 <= named.queue_id < topic.queues:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not {named.queue_id}"
        )
    return QueueRef(topic.name, _find_broker(named.broker, services.messages.find_route(topic)), named.queue_id)


def _find_broker(name: str, route: "TopicRoute") -> str:
    brokers = route.brokers
    if name in brokers:
        return name
    if len(brokers) == 1:
        return brokers[0]
    raise MessagingError(
        ErrorCode.BAD_REQUEST,
        f"the message queue names broker {name!r}, but {route.topic.name!r} is on {', '.join(brokers) or 'none'}",
    )


def illegal_offset(offset: int, queue: QueueRef, bounds: "QueueBounds") -> MessagingError:
    """Return the error for an offset outside of the queue."""
    return MessagingError(
        ErrorCode.ILLEGAL_OFFSET,
        f"offset {offset} is outside of queue {queue.queue_id} of {queue.topic!r} on {queue.broker}, which holds "
        f"{bounds.minimum} up to {bounds.maximum}",
    )
