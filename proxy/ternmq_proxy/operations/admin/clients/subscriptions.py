"""Lists subscriptions of the clients of all processes that serve clients of these brokers.

Each process knows what its own clients subscribe, by the filter that each used last. The called process asks the
others, and puts together what they say. Of an answer each gives the first entries, one more than are shown, so that a
cut is seen.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_proxy.access.needs import CLUSTER_LIST, GROUP_GET, TOPIC_GET
from ternmq_proxy.operations.admin.clients.client_list import describe_client
from ternmq_proxy.operations.admin.named import find_group, find_topic
from ternmq_proxy.operations.client_settings import checked_filter_text
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.peers.forms import (
    decode_client_subscriptions,
    decode_subscriptions,
    encode_client_subscriptions,
    encode_subscriptions,
    parse_subscription_query,
    write_subscription_query,
)
from ternmq_proxy.peers.values import (
    ClientSubscription,
    Consumer,
    FirstEntries,
    ShownFilter,
    Subscription,
    SubscriptionQuery,
)
from ternmq_proxy.processors.subscriptions import kept_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ternmq_proxy.call import Call
    from ternmq_proxy.peers.values import ClientEntry
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

SUBSCRIPTIONS, SUBSCRIBERS = "published-subscriptions", "published-subscribers"
"""The questions for others; the argument of each is the query."""


async def list_subscriptions(
    group: str | None, topic: str | None, call: "Call", services: "Services"
) -> FirstEntries[Subscription]:
    """Return what clients that are here subscribe: each group with each topic, of those that are named, as far as the
    caller may see the group. BAD_REQUEST if neither is."""
    query = await _checked_query("ListSubscription", group, topic, call, services)
    found = await _find_subscriptions(query, services)
    may = services.access.has_right
    return replace(found, entries=[each for each in found.entries if may(call, GROUP_GET, each.group)])


async def list_client_subscriptions(
    group: str | None, topic: str | None, call: "Call", services: "Services"
) -> FirstEntries[ClientSubscription]:
    """Return the same client by client."""
    query = await _checked_query("DescribeSubscription", group, topic, call, services)
    found = await find_client_subscriptions(query, services)
    may = services.access.has_right
    visible = [each for each in found.entries if may(call, GROUP_GET, each.subscription.group)]
    consumers = hide_hosts([each.consumer for each in visible], call, services)
    entries = [each._replace(consumer=consumer) for each, consumer in zip(visible, consumers, strict=True)]
    return replace(found, entries=entries)


async def _checked_query(
    call_name: str, group: str | None, topic: str | None, call: "Call", services: "Services"
) -> SubscriptionQuery:
    asked = [] if group is None else [(GROUP_GET, group)]
    if topic is not None:
        asked.append((TOPIC_GET, topic))
    services.access.require_all(call_name, call, *asked)
    if group is None and topic is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names neither a topic nor a group")
    group_name = "" if group is None else (await find_group(group, services)).name
    topic_name = "" if topic is None else (await find_topic(topic, services)).name
    return SubscriptionQuery(group_name, topic_name)


# --- of all processes


async def _find_subscriptions(query: SubscriptionQuery, services: "Services") -> FirstEntries[Subscription]:
    """Return each group with each topic that a member of it subscribes, by their names."""
    by_place = {each.place: each for each in await _find_own_subscriptions(query, services)}
    answers, silent = await ask_others(decode_subscriptions, SUBSCRIPTIONS, write_subscription_query(query), services)
    for answer in answers:
        for each in answer:
            known = by_place.get(each.place)
            by_place[each.place] = each if known is None else _join_subscriptions(known, each)
    found = [by_place[place] for place in sorted(by_place)]
    return FirstEntries.take_first(found, services.answer_limits.entries_max, silent)


async def find_client_subscriptions(query: SubscriptionQuery, services: "Services") -> FirstEntries[ClientSubscription]:
    """Return the same of each client, by its id. A client that several processes know comes once."""
    by_client = {each.place: each for each in await _find_own_client_subscriptions(query, services)}
    question = write_subscription_query(query)
    answers, silent = await ask_others(decode_client_subscriptions, SUBSCRIBERS, question, services)
    for answer in answers:
        for each in answer:
            by_client.setdefault(each.place, each)
    all_found = [by_client[key] for key in sorted(by_client)]
    found = FirstEntries.take_first(all_found, services.answer_limits.entries_max, silent)
    consistent = {each.place: each.is_consistent for each in (await _find_subscriptions(query, services)).entries}
    for entry in found.entries:
        subscription = entry.subscription
        subscription.is_consistent = consistent.get(subscription.place, subscription.is_consistent)
    return found


def _join_subscriptions(one: Subscription, other: Subscription) -> Subscription:
    """Return the subscription as two processes know it."""
    if one.is_consistent and _text(one) == _text(other):
        return one
    return Subscription(one.group, one.topic, is_consistent=False)


def _text(subscription: Subscription) -> str:
    return "" if subscription.filter is None else subscription.filter.text


# --- of this process


async def answer_subscriptions(argument: str, services: "Services") -> bytes:
    """Answer another process."""
    return encode_subscriptions(await _find_own_subscriptions(parse_subscription_query(argument), services))


async def answer_subscribers(argument: str, services: "Services") -> bytes:
    """Answer another process client by client."""
    found = await _find_own_client_subscriptions(parse_subscription_query(argument), services)
    return encode_client_subscriptions(found)


async def _find_places(query: SubscriptionQuery, services: "Services") -> "AsyncIterator[tuple[str, str]]":
    """Yield the requested groups and topics of which this process has a client."""
    known = services.subscriptions
    turns = WorkTurns()
    for group in [query.group] if query.group else known.subscribed_groups():
        for topic in [query.topic] if query.topic else known.subscribed_topics(group):
            if known.has_readers(group, topic):
                yield group, topic
            await turns.next_turn()


async def _find_own_subscriptions(query: SubscriptionQuery, services: "Services") -> list[Subscription]:
    first = _FirstPlaces(services)
    async for group, topic in _find_places(query, services):
        first.add_place(group, topic)
    turns = WorkTurns()
    found = []
    for group, topic in first.sort_places():
        if filters := services.subscriptions.topic_filters(group, topic):  # else they left meanwhile
            subscription = _describe_subscription(group, topic, services)
            if subscription.is_consistent:
                client_id = min(filters)
                subscription.filter = _shorten_filter(
                    services.clients.find_client(client_id), topic, filters[client_id]
                )
            found.append(subscription)
        await turns.next_turn()
    return found


async def _find_own_client_subscriptions(query: SubscriptionQuery, services: "Services") -> list[ClientSubscription]:
    first = _FirstPlaces(services)
    turns = WorkTurns()
    async for group, topic in _find_places(query, services):
        for client_id, kept in services.subscriptions.topic_filters(group, topic).items():
            first.add_place(client_id, group, topic, kept)
            await turns.next_turn()
    found = []
    for client_id, group, topic, kept in first.sort_places():
        client = services.clients.find_client(client_id)
        shown = Consumer(client_id) if client is None else describe_consumer(describe_client(client, services))
        subscription = _describe_subscription(group, topic, services)
        subscription.filter = _shorten_filter(client, topic, kept)
        found.append(ClientSubscription(shown, subscription))
        await turns.next_turn()
    return found


class _FirstPlaces:
    """Keeps the first entries in their order, one more than are shown, of however many are added."""

    def __init__(self, services: "Services") -> None:
        self._shown_and_one = services.answer_limits.entries_max + 1
        self._entries: list[tuple[str, ...]] = []

    def add_place(self, *entry: str) -> None:
        self._entries.append(entry)
        if len(self._entries) > 4 * self._shown_and_one:
            self._entries = self.sort_places()

    def sort_places(self) -> list[tuple[str, ...]]:
        return sorted(self._entries)[: self._shown_and_one]


def describe_consumer(client: "ClientEntry") -> Consumer:
    """Return what is shown of a consumer; version, language and host name are those of its settings."""
    host = client.address.rpartition(":")[0]
    return Consumer(client.client_id, client.version, client.language, client.hostname, host.strip("[]"))


def hide_hosts(consumers: list[Consumer], call: "Call", services: "Services") -> list[Consumer]:
    """Return the consumers; their addresses only if the caller may list clients."""
    if services.access.has_right(call, CLUSTER_LIST, "clients"):
        return consumers
    return [replace(each, hostname="", ip="") for each in consumers]


def _describe_subscription(group: str, topic: str, services: "Services") -> Subscription:
    return Subscription(group, topic, is_consistent=services.subscriptions.filters_agree(group, topic))


def _shorten_filter(client: "ConnectedClient | None", topic: str, kept: str) -> ShownFilter:
    """Return the filter as lists have it: each may be long, and they hold many."""
    return ShownFilter(kept, find_filter(client, topic, kept).is_sql)


def find_filter(client: "ConnectedClient | None", topic: str, kept: str) -> ShownFilter:
    """Return the filter whole and with its type, if the client's settings have it; else what is remembered of its
    receives, which is no more than a text."""
    entries = client.settings.subscriptions if client is not None and client.settings is not None else ()
    for entry in entries:
        if entry.topic == topic and kept_text(text := checked_filter_text(entry.filter)) == kept:
            return ShownFilter(text, entry.filter.is_sql)
    return ShownFilter(kept)
