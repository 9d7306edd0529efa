"""The topics and groups that a request names, as the registry has them."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import TRACE_TOPIC, check_group_name, check_lite_topic_name, check_topic_name, lite_queue_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.shard.model import ConsumerGroup, Topic
    from ternmq_proxy.services import Services


async def find_topic(name: str, services: "Services", *, may_be_traces: bool = False) -> "Topic":
    """Return the topic; ILLEGAL_TOPIC, or TOPIC_NOT_FOUND. The topic of message traces is not a user's."""
    is_traces = may_be_traces and name == TRACE_TOPIC
    return await services.catalog.existing_topic(name if is_traces else check_topic_name(name))


async def find_group(name: str, services: "Services") -> "ConsumerGroup":
    """Return the group; ILLEGAL_CONSUMER_GROUP, or CONSUMER_GROUP_NOT_FOUND."""
    return await services.catalog.existing_group(check_group_name(name))


async def find_topics_of_group(group: str, names: "Iterable[str]", services: "Services") -> list[str]:
    """Return the names of those topics, each once, or if there are none of what members of the group subscribe."""
    found = {name: (await find_topic(name, services)).name for name in names}
    return sorted(found.values()) if found else services.subscriptions.subscribed_topics(group)


def find_lite_queue_of_group(group: "ConsumerGroup", name: str) -> str:
    """Return the topic of the queue of that lite topic, as the lite group reads it; BAD_REQUEST for any other group,
    ILLEGAL_LITE_TOPIC."""
    if group.lite is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"group {group.name!r} is no lite group")
    return lite_queue_topic(group.lite.bind, check_lite_topic_name(name))


def find_lite_queue(name: str, topic: "Topic") -> str:
    """Return the topic of the queue of that lite topic; BAD_REQUEST if the topic has no lite topics,
    ILLEGAL_LITE_TOPIC."""
    if topic.type != MessageType.LITE:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} is {topic.type_name}: it has no lite topics")
    return lite_queue_topic(topic.name, check_lite_topic_name(name))
