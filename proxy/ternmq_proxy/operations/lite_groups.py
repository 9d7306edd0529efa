"""Checks of lite groups: which topics and consumers belong to them (`consuming.md, Lite topics`)."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.processors.client_type import LITE_CONSUMERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import ConsumerGroup, Topic


def check_lite_receive(topic: "Topic", group: "ConsumerGroup", passing: "MessageFilter") -> None:
    """Raise ILLEGAL_TOPIC unless the topic is LITE and the group is bound to it; ILLEGAL_FILTER_EXPRESSION for a
    filter."""
    check_bound_topic(topic.name, group)
    if topic.type != MessageType.LITE:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC, f"topic {topic.name!r} of lite group {group.name!r} is {topic.type_name}, not LITE"
        )
    if not passing.takes_all:
        raise MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, "lite groups take all messages: the filter is *")


def check_bound_topic(topic: str, group: "ConsumerGroup") -> None:
    """Raise ILLEGAL_TOPIC unless the group is a lite group of that topic."""
    if group.lite is None:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"topic {topic!r} is LITE, and group {group.name!r} is no lite group: create one for the topic, "
            f"`ternmq group create NAME --lite-bind {topic}`",
        )
    if group.lite.bind != topic:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"lite group {group.name!r} is bound to topic {group.lite.bind!r}, not {topic!r}",
        )


def check_client_type(client_type: int, topics: "Sequence[str]", group: "ConsumerGroup") -> None:
    """Raise ILLEGAL_CONSUMER_GROUP unless lite consumers, and no others, use lite groups; ILLEGAL_TOPIC unless they
    read their group's topic."""
    if client_type in LITE_CONSUMERS:
        if group.lite is None:
            raise MessagingError(
                ErrorCode.ILLEGAL_CONSUMER_GROUP, f"group {group.name!r} is no lite group; lite consumers need one"
            )
        for topic in topics:
            check_bound_topic(topic, group)
    elif group.lite is not None:
        raise MessagingError(
            ErrorCode.ILLEGAL_CONSUMER_GROUP,
            f"group {group.name!r} is a lite group, which only lite consumers can read with",
        )
