"""Who subscribes what, of all processes that serve clients of these brokers.

Each process knows what its own clients subscribe, by the filter that each used last. The one that is asked asks the
others, and puts together what they say. Of an answer each gives the first entries, one more than are shown, so that a
cut is seen.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ternmq_common.fairness import WorkTurns
from ternmq_protos.v2.admin_pb2 import (
    CLUSTERING,
    ClientInfo,
    DescribeSubscriptionRequest,
    DescribeSubscriptionResponse,
    ListSubscriptionResponse,
    SubscriptionInfo,
)
from ternmq_protos.v2.definition_pb2 import SQL, TAG, FilterExpression
from ternmq_proxy.fronts.grpc.activities.admin.clients import connected
from ternmq_proxy.fronts.grpc.activities.admin.elsewhere import told_elsewhere
from ternmq_proxy.fronts.grpc.activities.published_admin.client_info import client_info
from ternmq_proxy.operations.client_settings import checked_filter_text
from ternmq_proxy.processors.subscriptions import kept_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

SUBSCRIPTIONS, SUBSCRIBERS = "published-subscriptions", "published-subscribers"
"""The questions for others; the argument of each is a DescribeSubscriptionRequest in hexadecimal digits."""
Described = DescribeSubscriptionResponse.ClientSubscriptionInfo
Entry = TypeVar("Entry")


class Wanted(NamedTuple):
    """Of the group, or of all if it is empty; of the topic, or of all."""

    group: str
    topic: str

    def question(self) -> str:
        request = DescribeSubscriptionRequest(group={"name": self.group}, topic={"name": self.topic})
        return request.SerializeToString().hex()

    @classmethod
    def of(cls, question: str) -> "Wanted":
        request = DescribeSubscriptionRequest.FromString(bytes.fromhex(question))
        return cls(request.group.name, request.topic.name)


@dataclass(frozen=True, slots=True)
class Found(Generic[Entry]):
    """The first `entries`; at how many they were cut, if there are more, and which processes did not answer."""

    entries: list[Entry]
    cut_at: int | None
    silent: list[str]

    @classmethod
    def first(cls, entries: list[Entry], entries_max: int, silent: list[str]) -> "Found[Entry]":
        return cls(entries[:entries_max], entries_max if len(entries) > entries_max else None, silent)


# --- of all processes


async def subscriptions(wanted: Wanted, services: "Services") -> Found[SubscriptionInfo]:
    """Each group with each topic that a member of it subscribes, by their names."""
    by_place = {_place(each): each for each in await _own_subscriptions(wanted, services)}
    answers, silent = await told_elsewhere(
        ListSubscriptionResponse.FromString, SUBSCRIPTIONS, wanted.question(), services
    )
    for answer in answers:
        for info in answer.subscription_info:
            known = by_place.get(_place(info))
            by_place[_place(info)] = info if known is None else _joined(known, info)
    infos = [by_place[place] for place in sorted(by_place)]
    return Found.first(infos, services.answer_limits.entries_max, silent)


async def subscribers(wanted: Wanted, services: "Services") -> Found[Described]:
    """The same of each client, by its id. One that several processes know is told once."""
    by_client = {_client_place(each): each for each in await _own_subscribers(wanted, services)}
    answers, silent = await told_elsewhere(
        DescribeSubscriptionResponse.FromString, SUBSCRIBERS, wanted.question(), services
    )
    for answer in answers:
        for each in answer.client_subscription_info:
            by_client.setdefault(_client_place(each), each)
    found = Found.first([by_client[key] for key in sorted(by_client)], services.answer_limits.entries_max, silent)
    agree = {_place(each): each.subscription_consistency for each in (await subscriptions(wanted, services)).entries}
    for entry in found.entries:
        info = entry.subscription_info
        info.subscription_consistency = agree.get(_place(info), info.subscription_consistency)
    return found


def _joined(one: SubscriptionInfo, other: SubscriptionInfo) -> SubscriptionInfo:
    """The subscription as two processes know it."""
    if not one.subscription_consistency or one.expression.expression != other.expression.expression:
        one.subscription_consistency = False
        one.ClearField("expression")
    return one


def _place(info: SubscriptionInfo) -> tuple[str, str]:
    return info.group.name, info.topic.name


def _client_place(each: Described) -> tuple[str, str, str]:
    return each.client_info.client_id, *_place(each.subscription_info)


# --- of this process


async def answer_subscriptions(argument: str, services: "Services") -> bytes:
    """What another process is told."""
    infos = await _own_subscriptions(Wanted.of(argument), services)
    data: bytes = ListSubscriptionResponse(subscription_info=infos).SerializeToString()
    return data


async def answer_subscribers(argument: str, services: "Services") -> bytes:
    """What another process is told."""
    infos = await _own_subscribers(Wanted.of(argument), services)
    data: bytes = DescribeSubscriptionResponse(client_subscription_info=infos).SerializeToString()
    return data


async def _places(wanted: Wanted, services: "Services") -> "AsyncIterator[tuple[str, str]]":
    """The groups and topics that were asked for, of which this process has a client."""
    known = services.subscriptions
    turns = WorkTurns()
    for group in [wanted.group] if wanted.group else known.subscribed_groups():
        for topic in [wanted.topic] if wanted.topic else known.subscribed_topics(group):
            if known.has_readers(group, topic):
                yield group, topic
            await turns.next_turn()


async def _own_subscriptions(wanted: Wanted, services: "Services") -> list[SubscriptionInfo]:
    first = _First(services)
    async for group, topic in _places(wanted, services):
        first.add(group, topic)
    turns = WorkTurns()
    infos = []
    for group, topic in first.all():
        if filters := services.subscriptions.topic_filters(group, topic):  # else they left meanwhile
            info = _info(group, topic, services)
            if info.subscription_consistency:
                client_id = min(filters)
                info.expression.CopyFrom(_shown(services.clients.find_client(client_id), topic, filters[client_id]))
            infos.append(info)
        await turns.next_turn()
    return infos


async def _own_subscribers(wanted: Wanted, services: "Services") -> list[Described]:
    first = _First(services)
    turns = WorkTurns()
    async for group, topic in _places(wanted, services):
        for client_id, kept in services.subscriptions.topic_filters(group, topic).items():
            first.add(client_id, group, topic, kept)
            await turns.next_turn()
    described = []
    for client_id, group, topic, kept in first.all():
        client = services.clients.find_client(client_id)
        shown = ClientInfo(client_id=client_id) if client is None else client_info(connected(client, services))
        info = _info(group, topic, services)
        info.expression.CopyFrom(_shown(client, topic, kept))
        described.append(Described(client_info=shown, subscription_info=info))
        await turns.next_turn()
    return described


class _First:
    """Keeps the first entries in their order, one more than are shown, of however many are added."""

    def __init__(self, services: "Services") -> None:
        self._shown_and_one = services.answer_limits.entries_max + 1
        self._entries: list[tuple[str, ...]] = []

    def add(self, *entry: str) -> None:
        self._entries.append(entry)
        if len(self._entries) > 4 * self._shown_and_one:
            self._entries = self.all()

    def all(self) -> list[tuple[str, ...]]:
        return sorted(self._entries)[: self._shown_and_one]


def _info(group: str, topic: str, services: "Services") -> SubscriptionInfo:
    return SubscriptionInfo(
        group={"name": group},
        topic={"name": topic},
        online=True,
        message_model=CLUSTERING,
        subscription_consistency=services.subscriptions.filters_agree(group, topic),
    )


def _shown(client: "ConnectedClient | None", topic: str, kept: str) -> FilterExpression:
    """The filter as lists have it: each may be long, and they hold many."""
    return FilterExpression(type=expression_of(client, topic, kept).type, expression=kept)


def expression_of(client: "ConnectedClient | None", topic: str, kept: str) -> FilterExpression:
    """The filter whole and with its type, if the client's settings have it; else what is remembered of its receives,
    which is no more than a text."""
    entries = client.settings.subscriptions if client is not None and client.settings is not None else ()
    for entry in entries:
        if entry.topic == topic and kept_text(text := checked_filter_text(entry.filter)) == kept:
            return FilterExpression(type=SQL if entry.filter.is_sql else TAG, expression=text)
    return FilterExpression(expression=kept)
