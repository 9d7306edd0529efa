"""Messages are found by a key or by their place."""

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.limits import CLIENT_MESSAGE_BYTES, DELIVERY_BYTES
from ternmq_common.shard.model import MessageStatus, QueueRef, StoredMessage
from ternmq_proxy.access.needs import GROUP_GET, TOPIC_QUERY
from ternmq_proxy.operations.admin.messages.bodies import hide_bodies
from ternmq_proxy.operations.admin.named import find_lite_queue, find_topic
from ternmq_proxy.processors.sending.stored_form import read_names

if TYPE_CHECKING:
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

FOUND_MAX = 64


class MessagePlace(NamedTuple):
    """Where a message is: an empty `broker` is the only one that the topic is on, an empty `lite_topic` is none."""

    topic: str
    queue_id: int
    offset: int
    broker: str = ""
    lite_topic: str = ""


class MessageDescription(NamedTuple):
    """A message, and its state in the groups that the caller may see; without body if the caller may not receive it."""

    topic: str
    message: StoredMessage
    statuses: list[MessageStatus]


async def find_messages_by_key(
    topic_name: str, key: str, limit: int, call: "Call", services: "Services"
) -> list[StoredMessage]:
    """Return the newest messages of a topic with a key or message id: as many as clients take in one answer, one at
    least. A limit of 0 is the usual one."""
    services.access.require_all("QueryMessages", call, (TOPIC_QUERY, topic_name))
    topic = await find_topic(topic_name, services)
    if not key:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no key")
    found = await services.messages.inspecting.find_by_key(topic.name, key, min(max(1, limit or FOUND_MAX), FOUND_MAX))
    sizes = accumulate(map(_size, found))
    fitting = [message for message, size in zip(found, sizes, strict=True) if size <= CLIENT_MESSAGE_BYTES]
    return hide_bodies(fitting or found[:1], topic_name, call, services)


def _size(message: StoredMessage) -> int:
    return len(message.rest) + len(message.system) + len(message.queue.broker) + DELIVERY_BYTES


async def describe_message(place: MessagePlace, call: "Call", services: "Services") -> MessageDescription:
    """Return a message by its place, and its state in the groups; MESSAGE_NOT_FOUND if there is none."""
    services.access.require_all("DescribeMessage", call, (TOPIC_QUERY, place.topic))
    topic = await find_topic(place.topic, services)
    broker = _find_broker(place, topic, services)
    if place.lite_topic:
        queue, queues = QueueRef(find_lite_queue(place.lite_topic, topic), broker, place.queue_id), 1
    else:
        queue, queues = QueueRef(topic.name, broker, place.queue_id), topic.queues
    if not 0 <= place.queue_id < queues or place.offset < 0:
        raise _no_such_message(place)
    pulled = await services.messages.reading.pull(queue, place.offset, ALL, batch=1, poll_s=0.0)
    found = [each for each in pulled.messages if each.queue_offset == place.offset]
    if not found:
        raise _no_such_message(place)
    statuses = await services.messages.inspecting.standings(queue, place.offset, read_names(found[0].system).message_id)
    visible = [each for each in statuses if services.access.has_right(call, GROUP_GET, each.group)]
    [message] = hide_bodies(found[:1], place.topic, call, services)
    return MessageDescription(topic.name, message, visible)


def _find_broker(place: MessagePlace, topic: "Topic", services: "Services") -> str:
    brokers = services.messages.find_route(topic).brokers
    if place.broker in brokers:
        return place.broker
    if not place.broker and len(brokers) == 1:
        return brokers[0]
    asked = f"broker {place.broker!r} has no part of it" if place.broker else "the request names no broker"
    raise MessagingError(ErrorCode.BAD_REQUEST, f"{asked}: topic {topic.name!r} is on {', '.join(brokers) or 'none'}")


def _no_such_message(place: MessagePlace) -> MessagingError:
    return MessagingError(
        ErrorCode.MESSAGE_NOT_FOUND,
        f"queue {place.queue_id} of topic {place.topic!r} has no message at offset {place.offset}",
    )
