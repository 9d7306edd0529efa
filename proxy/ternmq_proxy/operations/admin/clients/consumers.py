"""The consumers of a group that are connected to this server, and one of them, as far as a server knows it: what it
caches, and how fast it is, is its own.

The called process knows its own clients, and asks the others for a client that is not among them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.printable import cut_text, find_name_problem
from ternmq_proxy.access.needs import GROUP_GET
from ternmq_proxy.operations.admin.clients.client_list import find_group_clients
from ternmq_proxy.operations.admin.clients.subscriptions import (
    describe_consumer,
    find_client_subscriptions,
    find_filter,
    hide_hosts,
)
from ternmq_proxy.operations.admin.named import find_group, find_lite_queue_of_group, find_topic
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.peers.forms import (
    decode_running_info,
    encode_running_info,
    parse_consumer_query,
    write_consumer_query,
)
from ternmq_proxy.peers.values import Consumer, FirstEntries, RunningInfo, SubscriptionQuery

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

RUNNING_INFO = "published-running-info"
"""The question for others; the argument names a group and a client."""


class ConsumerDescription(NamedTuple):
    """The report of a consumer, and its group's progress in the queues that it reads: the first `cut_at`, if that
    is not None."""

    info: RunningInfo
    queues: "list[QueueProgress]"
    cut_at: int | None


async def list_consumers(
    group_name: str,
    call: "Call",
    services: "Services",
    *,
    topic_name: str | None = None,
    lite_topic: str | None = None,
) -> FirstEntries[Consumer]:
    """Return the group's clients by their ids; with a topic, or a lite topic, those that subscribe it."""
    services.access.require_all("ListConsumerConnection", call, (GROUP_GET, group_name))
    group = await find_group(group_name, services)
    if lite_topic is not None:
        queue_topic = find_lite_queue_of_group(group, lite_topic)
        found = await _find_consumers_of_lite_topic(queue_topic, group.name, services)
    elif topic_name is not None:
        topic = await find_topic(topic_name, services)
        described = await find_client_subscriptions(SubscriptionQuery(group.name, topic.name), services)
        found = FirstEntries([each.consumer for each in described.entries], described.cut_at, described.silent)
    else:
        found = await _find_consumers(group.name, services)
    return replace(found, entries=hide_hosts(found.entries, call, services))


async def _find_consumers_of_lite_topic(topic: str, group: str, services: "Services") -> FirstEntries[Consumer]:
    ids = set(await services.messages.inspecting.lite_clients(group, topic))
    found = await _find_consumers(group, services)
    return replace(found, entries=[each for each in found.entries if each.client_id in ids])


async def _find_consumers(group: str, services: "Services") -> FirstEntries[Consumer]:
    found = await find_group_clients(group, services)
    return FirstEntries(list(map(describe_consumer, found.entries)), found.cut_at, found.silent)


async def describe_running_consumer(
    group_name: str, client_id: str, call: "Call", services: "Services"
) -> ConsumerDescription:
    """Return what the client reported about itself, what it reads, and its group's progress in those queues; NOT_FOUND
    if the group has no such client here."""
    services.access.require_all("GetConsumerRunningInfo", call, (GROUP_GET, group_name))
    group = await find_group(group_name, services)
    info = None
    if not find_name_problem(client_id):  # else no client has it, and it is too long to request
        info = _describe_own(group.name, client_id, services) or await _ask_others(group.name, client_id, services)
    if info is None:
        raise MessagingError(
            ErrorCode.NOT_FOUND, f"consumer group {group.name!r} has no client {cut_text(client_id)!r} here"
        )
    rows = await services.messages.inspecting.progress(group.name, sorted(info.filters))
    found = FirstEntries.take_first(
        [row for row in rows if row.queue.topic in info.filters], services.answer_limits.entries_max, []
    )
    return ConsumerDescription(info, found.entries, found.cut_at)


async def answer_running_info(argument: str, services: "Services") -> bytes:
    """Answer another process; without the info if it is no client of this process."""
    group, client_id = parse_consumer_query(argument)
    return encode_running_info(_describe_own(group, client_id, services))


async def _ask_others(group: str, client_id: str, services: "Services") -> RunningInfo | None:
    question = write_consumer_query(group, client_id)
    answers, _ = await ask_others(decode_running_info, RUNNING_INFO, question, services)
    return next((info for info in answers if info is not None), None)


def _describe_own(group: str, client_id: str, services: "Services") -> RunningInfo | None:
    client = next((each for each in services.clients.group_members(group) if each.own_id == client_id), None)
    if client is None:
        return None
    subscribed = services.subscriptions.member_filters(group, client.client_id)
    return RunningInfo(
        _properties(client), {topic: find_filter(client, topic, kept) for topic, kept in subscribed.items()}
    )


def _properties(client: "ConnectedClient") -> dict[str, str]:
    """Return only those that the client reported."""
    properties = {}
    if client.is_consumer:
        properties["PROP_CONSUME_TYPE"] = "CONSUME_PASSIVELY" if client.is_push else "CONSUME_ACTIVELY"
    if client.settings is not None:
        properties["PROP_CONSUMEORDERLY"] = str(client.got_fifo).lower()
        agent = client.settings.user_agent
        if agent is not None and agent.version:
            properties["PROP_CLIENT_VERSION"] = cut_text(agent.version)
    return properties
