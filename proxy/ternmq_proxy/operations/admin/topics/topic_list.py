"""Topics are listed and described."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name
from ternmq_common.shard.model import QueueRef, Topic
from ternmq_proxy.access.needs import GROUP_LIST, TOPIC_GET, TOPIC_LIST, TOPIC_ROUTE
from ternmq_proxy.operations.admin.named import find_topic
from ternmq_proxy.operations.admin.pages import PageQuery, cut_page, select_visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.shard.model import QueueBounds, TopicContent
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic, what each of its queues holds, and the brokers that did not answer. `content` is what is more costly to
    know, None if it was not requested, and `groups` those of it that the caller may see. A LITE topic has the numbers
    of its lite topics and of the messages in them."""

    topic: Topic
    queues: "dict[QueueRef, QueueBounds]"
    silent_brokers: list[str]
    content: "TopicContent | None" = None
    groups: list[str] = field(default_factory=list)
    lite_topics: int | None = None
    lite_messages: int | None = None


async def list_topics(
    query: PageQuery, names: "Iterable[str]", call: "Call", services: "Services"
) -> tuple[list[Topic], str]:
    """Return all topics, by name, or a page of them, and after which name the next one begins; or those that are named,
    as far as they are there."""
    named = sorted({check_topic_name(name) for name in names})
    if named:
        found: Iterable[Topic] = await services.catalog.existing_topics(named)
    else:
        found = await select_visible(services.catalog.list_topics(), TOPIC_LIST, call, services)
    topics, following = cut_page(found, query)
    if named:  # who names a topic and may have its route learns nothing new: that it is there
        may = services.access.has_right
        topics = [each for each in topics if any(may(call, need, each.name) for need in (TOPIC_LIST, TOPIC_ROUTE))]
    return topics, following


async def describe_topic(
    name: str, call: "Call", services: "Services", *, contents: bool = False, may_be_traces: bool = False
) -> TopicDescription:
    """Return the topic and the bounds of its queues; with `contents` also figures that cost more."""
    services.access.require_all("DescribeTopic", call, (TOPIC_GET, name))
    topic = await find_topic(name, services, may_be_traces=may_be_traces)
    queues: dict[QueueRef, QueueBounds] = {}
    silent = []
    for broker in services.messages.find_route(topic).brokers:
        bounds = await _find_bounds(topic, broker, services)
        if bounds is None:
            silent.append(broker)
        else:
            queues |= bounds
    is_lite = topic.type == MessageType.LITE
    content = await services.messages.inspecting.content(topic.name) if contents or is_lite else None
    return TopicDescription(
        topic=topic,
        queues=queues,
        silent_brokers=silent,
        content=content if contents else None,
        groups=_select_groups(content.groups, call, services) if content is not None and contents else [],
        lite_topics=content.lite_topics if content is not None and is_lite else None,
        lite_messages=content.lite_messages if content is not None and is_lite else None,
    )


def _select_groups(groups: "Iterable[str]", call: "Call", services: "Services") -> list[str]:
    return [group for group in groups if services.access.has_right(call, GROUP_LIST, group)]


async def _find_bounds(topic: Topic, broker: str, services: "Services") -> "dict[QueueRef, QueueBounds] | None":
    """Return None if the broker doesn't answer: what the others hold is worth knowing then."""
    queues = [QueueRef(topic.name, broker, queue_id) for queue_id in range(topic.queues)]
    try:
        bounds = await asyncio.gather(*map(services.messages.reading.bounds, queues))
    except MessagingError as error:
        if error.code not in (ErrorCode.HA_NOT_AVAILABLE, ErrorCode.PROXY_TIMEOUT):
            raise
        return None
    return dict(zip(queues, bounds, strict=True))


async def describe_topic_status(name: str, call: "Call", services: "Services", *, may_be_traces: bool = False) -> Topic:
    """Return the topic alone."""
    services.access.require_all("DescribeTopicStatus", call, (TOPIC_GET, name))
    return await find_topic(name, services, may_be_traces=may_be_traces)
