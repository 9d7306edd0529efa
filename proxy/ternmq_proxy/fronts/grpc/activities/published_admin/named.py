"""The topics and groups that a request names, as the registry has them."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.message_type import MessageType
from ternmq_common.names import check_group_name, check_lite_topic_name, check_topic_name, lite_queue_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.model import ConsumerGroup, Topic
    from ternmq_protos.v2.definition_pb2 import Resource
    from ternmq_proxy.services import Services


async def named_topic(resource: "Resource", services: "Services") -> "Topic":
    """ILLEGAL_TOPIC, or TOPIC_NOT_FOUND."""
    return await services.catalog.existing_topic(check_topic_name(resource.name))


async def named_group(resource: "Resource", services: "Services") -> "ConsumerGroup":
    """ILLEGAL_CONSUMER_GROUP, or CONSUMER_GROUP_NOT_FOUND."""
    return await services.catalog.existing_group(check_group_name(resource.name))


async def topics_of(group: str, resources: "Iterable[Resource]", services: "Services") -> list[str]:
    """The names of those topics, each once, or if there are none of what members of the group subscribe."""
    names = {resource.name: (await named_topic(resource, services)).name for resource in resources}
    return sorted(names.values()) if names else services.subscriptions.subscribed_topics(group)


def lite_queue_of(group: "ConsumerGroup", name: str) -> str:
    """The topic of the queue of that lite topic, as the lite group reads it; BAD_REQUEST for any other group,
    ILLEGAL_LITE_TOPIC."""
    if group.lite is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"group {group.name!r} is no lite group")
    return lite_queue_topic(group.lite.bind, check_lite_topic_name(name))


def named_lite_queue(name: str, topic: "Topic") -> str:
    """The topic of the queue of that lite topic; BAD_REQUEST if the topic has no lite topics, ILLEGAL_LITE_TOPIC."""
    if topic.type != MessageType.LITE:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} is {topic.type_name}: it has no lite topics")
    return lite_queue_topic(topic.name, check_lite_topic_name(name))
