"""Consumer groups are created, listed, changed and deleted."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.lite_group import find_rebinding_problem
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import now_ms
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_common.shard.model import ConsumerGroup, QueueRef
from ternmq_proxy.access.needs import GROUP_CREATE, GROUP_DELETE, GROUP_LIST, GROUP_UPDATE, TOPIC_QUERY
from ternmq_proxy.operations.admin.pages import PageQuery, cut_page, select_visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.shard.model import QueueProgress
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def create_group(
    name: str, read: "Callable[[], ConsumerGroup]", call: "Call", services: "Services", *, lite_topic: str | None = None
) -> bool:
    """Create the group that `read` returns, which is to be bound to the LITE topic if there is one; return whether it
    is new. One that exists with the same settings is fine."""
    asked: list[NamedNeed] = [(GROUP_CREATE, name)]
    # The errors tell a user whether the topic is there, its type, and how much it holds for the group.
    if lite_topic is not None:
        asked.append((TOPIC_QUERY, lite_topic))
    services.access.require_change("CreateGroup", call, *asked)
    group = replace(read(), created_ms=now_ms())
    if group.lite is not None:
        await _check_bound(group.lite.bind, services)
    _, created = await services.catalog.create_group(group)
    return created


async def update_group(
    name: str, read: "Callable[[], ConsumerGroup]", call: "Call", services: "Services", *, lite_topic: str | None = None
) -> ConsumerGroup:
    """Give a group the settings that `read` returns. BAD_REQUEST for a change between FIFO and not once it has taken
    messages, which its progress can't follow, and for one of the LITE topic that it is bound to."""
    services.access.require_change("UpdateGroup", call, (GROUP_UPDATE, name))
    known = await services.catalog.existing_group(name)
    if problem := find_rebinding_problem(known.name, known.lite, lite_topic):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    group = replace(read(), created_ms=known.created_ms)
    if group.fifo != known.fifo and (topic := await _find_begun_topic(group.name, services)) is not None:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"consumer group {group.name!r} {'is' if known.fifo else 'is not'} FIFO, and that can't change any more, "
            f"since it has begun to take the messages of topic {topic!r}; delete the group, or use another",
        )
    await services.catalog.update_group(group)
    return group


async def _check_bound(name: str, services: "Services") -> None:
    """TOPIC_NOT_FOUND, ILLEGAL_TOPIC unless lite groups can be bound to the topic."""
    topic = await services.catalog.existing_topic(name, MessageType.LITE)
    if topic.type != MessageType.LITE:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"a lite group is bound to a LITE topic, which {name!r} is not: its type is {topic.type_name}",
        )


async def _find_begun_topic(group: str, services: "Services") -> str | None:
    """Return a topic of which the group has taken messages, None if there is none; HA_NOT_AVAILABLE if a broker can't
    say.

    A group that waits at the beginning of a queue has taken nothing. One that begins at the end has, as far as anybody
    knows: nothing tells what it left out from what it has finished.
    """
    for broker in services.catalog.list_brokers():
        await services.messages.reading.committed(group, QueueRef(retry_topic(group), broker.name, 0))
    for row in await services.messages.inspecting.progress(group):
        if row.in_flight or (row.cursor and await _has_begun(group, row, services)):
            return row.queue.topic
    return None


async def _has_begun(group: str, row: "QueueProgress", services: "Services") -> bool:
    if row.queue.topic == retry_topic(group):
        return True
    bounds, committed = (
        await services.messages.reading.bounds(row.queue),
        await services.messages.reading.committed(group, row.queue),
    )
    return committed is not None and row.cursor > bounds.minimum


async def list_groups(query: PageQuery, call: "Call", services: "Services") -> tuple[list[ConsumerGroup], str]:
    """Return all groups, by name, or a page of them, and after which name the next one begins."""
    return cut_page(await select_visible(services.catalog.list_groups(), GROUP_LIST, call, services), query)


async def delete_group(name: str, call: "Call", services: "Services", *, with_dead_letters: bool = False) -> None:
    """Delete the group with its progress and its retries, and with its dead letters if requested. Otherwise
    they stay until retention removes them, and a group that is created with this name has them."""
    services.access.require_change("DeleteGroup", call, (GROUP_DELETE, name))
    if with_dead_letters:
        version, letters_version = await services.catalog.delete_group_with_dead_letters(name)
        await services.messages.administering.forget_group(name, version=version)
        await services.messages.administering.forget_topic(dead_letter_topic(name), version=letters_version)
    else:
        version = await services.catalog.delete_group(name)
        await services.messages.administering.forget_group(name, version=version)
