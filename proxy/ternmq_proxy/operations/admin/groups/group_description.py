"""Describes a consumer group: its progress, and its members at all proxies."""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ternmq_common.names import RETRY_PREFIX
from ternmq_common.shard.model import ConsumerGroup, QueueProgress, TopicSubscription
from ternmq_proxy.access.needs import CLUSTER_LIST, GROUP_GET
from ternmq_proxy.operations.admin.clients.client_list import find_group_clients
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.peers.values import ClientEntry
from ternmq_proxy.processors.subscription_news import order_problem
from ternmq_proxy.processors.subscriptions import find_contradictions, kept_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

MEMBERS = "members"
"""The question for others; the argument is the name of a group."""


class GroupMember(NamedTuple):
    """A client of a group: its type, a number of `ClientType`, its filter of each topic that it reads, and what else is
    known of it; None for one that came or left meanwhile."""

    client_id: str
    client_type: int
    subscriptions: dict[str, str]
    client: ClientEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group at `now_ms`, how far it is in each queue, its members by their ids, sentences about where they contradict
    each other, and the processes that did not report their members."""

    group: ConsumerGroup
    now_ms: int
    progress: list[QueueProgress]
    members: list[GroupMember]
    inconsistencies: list[str]
    silent: list[str]


class _Members(NamedTuple):
    """The client types of a group's members, by their ids; and of each topic the filter of each that reads it."""

    types: dict[str, int]
    filters: dict[str, dict[str, str]]


_members_decoder = msgspec.json.Decoder(_Members)


async def describe_group(name: str, call: "Call", services: "Services") -> GroupDescription:
    """Return the group, its progress and reader in each queue, its members at all proxies, and
    where they contradict.

    The queues are those of all topics that it subscribes or has taken messages of; see `Storage.progress`. Addresses of
    members are shown if the caller may list clients.
    """
    services.access.require_all("DescribeGroup", call, (GROUP_GET, name))
    group = await services.catalog.existing_group(name)
    asked = ask_others(_members_decoder.decode, MEMBERS, group.name, services)
    (answers, silent), clients = await asyncio.gather(asked, _find_clients(group.name, call, services))
    types, filters = _join_members([*answers, _find_members_here(group.name, services)])
    inconsistencies = [*find_contradictions(filters), *_order_problems(group, filters, services)]
    now_ms = services.clock.now_ms()
    return GroupDescription(
        group=group,
        now_ms=now_ms,
        progress=await services.messages.inspecting.progress(group.name, sorted(filters)),
        members=[_member(client_id, types[client_id], filters, clients.get(client_id)) for client_id in sorted(types)],
        inconsistencies=inconsistencies,
        silent=silent,
    )


async def answer_members(argument: str, services: "Services") -> bytes:
    """Answer another process about a group."""
    return msgspec.json.encode(_find_members_here(argument, services))


async def _find_clients(group: str, call: "Call", services: "Services") -> dict[str, ClientEntry]:
    """Return the group's clients by their ids."""
    found = (await find_group_clients(group, services)).entries
    if not services.access.has_right(call, CLUSTER_LIST, "clients"):
        found = [replace(each, address="", hostname="") for each in found]
    return {each.client_id: each for each in found}


def _member(
    client_id: str, client_type: int, filters: dict[str, dict[str, str]], client: ClientEntry | None
) -> GroupMember:
    subscribed = {topic: its[client_id] for topic, its in filters.items() if client_id in its}
    return GroupMember(client_id, client_type, subscribed, client)


def _find_members_here(group: str, services: "Services") -> _Members:
    members = services.clients.group_members(group)
    filters = services.subscriptions.group_filters(group)
    for client in members:
        if client.is_by_remoting:
            for own in filters.values():
                if client.client_id in own:  # it pops, by the id of this membership
                    own[client.own_id] = own.pop(client.client_id)
            for each in client.settings.subscriptions if client.settings is not None else ():
                if not each.topic.startswith(RETRY_PREFIX):
                    filters.setdefault(each.topic, {})[client.own_id] = kept_text(each.filter.expression)
    return _Members({client.own_id: int(client.client_type) for client in members}, filters)


def _join_members(parts: "Iterable[_Members]") -> _Members:
    """Return what one process would know; what comes last counts."""
    types: dict[str, int] = {}
    filters: dict[str, dict[str, str]] = {}
    for each in parts:
        types.update(each.types)
        for topic, its in each.filters.items():
            filters.setdefault(topic, {}).update(its)
    return _Members(types, filters)


def _order_problems(group: ConsumerGroup, topics: "Iterable[str]", services: "Services") -> "Iterator[str]":
    for topic in sorted(topics):
        if problem := order_problem(TopicSubscription(group.name, topic), services):
            yield problem
