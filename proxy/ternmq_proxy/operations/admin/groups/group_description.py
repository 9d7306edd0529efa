"""A consumer group is described: how far it is, and who its members are, wherever they are connected."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ternmq_common.shard.model import ConsumerGroup, QueueProgress, TopicSubscription
from ternmq_proxy.access.needs import GROUP_GET
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.processors.subscription_news import order_problem
from ternmq_proxy.processors.subscriptions import find_contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

MEMBERS = "members"
"""The question for others; the argument is the name of a group."""


class GroupMember(NamedTuple):
    """A client of a group: its type, a number of `ClientType`, and its filter of each topic that it reads."""

    client_id: str
    client_type: int
    subscriptions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group at `now_ms`, how far it is in each queue, its members by their ids, sentences about where they contradict
    each other, and the processes that did not say who their members are."""

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
    """Return the group, how far it is in each queue, its members, wherever they are connected, and where they
    contradict.

    The queues are those of all topics that it subscribes or has taken messages of; see `Storage.progress`.
    """
    services.access.require_all("DescribeGroup", call, (GROUP_GET, name))
    group = await services.catalog.existing_group(name)
    answers, silent = await ask_others(_members_decoder.decode, MEMBERS, group.name, services)
    types, filters = _join_members([*answers, _find_members_here(group.name, services)])
    inconsistencies = [*find_contradictions(filters), *_order_problems(group, filters, services)]
    now_ms = services.clock.now_ms()
    return GroupDescription(
        group=group,
        now_ms=now_ms,
        progress=await services.messages.inspecting.progress(group.name, sorted(filters)),
        members=[_member(client_id, types[client_id], filters) for client_id in sorted(types)],
        inconsistencies=inconsistencies,
        silent=silent,
    )


async def answer_members(argument: str, services: "Services") -> bytes:
    """Answer another process about a group."""
    return msgspec.json.encode(_find_members_here(argument, services))


def _member(client_id: str, client_type: int, filters: dict[str, dict[str, str]]) -> GroupMember:
    subscribed = {topic: its[client_id] for topic, its in filters.items() if client_id in its}
    return GroupMember(client_id, client_type, subscribed)


def _find_members_here(group: str, services: "Services") -> _Members:
    types = {client.client_id: int(client.client_type) for client in services.clients.group_members(group)}
    return _Members(types, services.subscriptions.group_filters(group))


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
