"""Handles new subscriptions of groups, now and then."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.printable import list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_common.shard.model import TopicSubscription
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)


async def handle_new_subscriptions(services: "Services") -> None:
    """Tell brokers what groups subscribe to here, and log where order is lost by it. A subscription to a missing topic
    or group stays new."""
    news: list[TopicSubscription] = []
    turns = WorkTurns()
    for subscription in services.subscriptions.new_subscriptions():
        await turns.next_turn()
        if _is_known(subscription, services):
            services.subscriptions.mark_known(subscription)
            news.append(subscription)
            if problem := order_problem(subscription, services):
                _log.warning("%s", problem)
    await services.messages.notify_subscriptions(news, lambda: _all_known(services))


def _all_known(services: "Services") -> "list[TopicSubscription]":
    return [each for each in services.subscriptions.list_subscriptions() if _is_known(each, services)]


def _is_known(subscription: "TopicSubscription", services: "Services") -> bool:
    return services.catalog.has_group(subscription.group) and services.catalog.has_topic(subscription.topic)


def order_problem(subscription: "TopicSubscription", services: "Services") -> str | None:
    """Return why a subscription loses the order of a FIFO topic, and what to do; None while it keeps it."""
    group, topic = subscription.group, subscription.topic
    known = services.catalog.known_topic(topic)
    if known is None or known.type != MessageType.FIFO:
        return None
    popping = [client for client in _find_readers(subscription, services) if not client.is_pulling]
    if popping and not services.catalog.group_or_default(group).fifo:
        return (
            f"group {group} subscribes FIFO topic {topic} and is not FIFO, so the topic's messages come in no order; "
            f"while the group has taken none, `ternmq group update {group} --fifo` changes that"
        )
    late = [client.client_id for client in popping if _relies_on_settings(client) and not client.got_fifo]
    if late:
        return (
            f"group {group} is FIFO, which it was not yet when {list_names(late, 'clients')} began, so these may run "
            "the "
            f"messages of topic {topic} in no order; start them again"
        )
    return None


def _relies_on_settings(client: "ConnectedClient") -> bool:
    """Return whether the client keeps the order if its settings say so. A remoting client gets one message of a
    message group at a time."""
    return client.is_push and client.settings is not None and not client.is_by_remoting


def _find_readers(subscription: "TopicSubscription", services: "Services") -> "Iterator[ConnectedClient]":
    for client_id in services.subscriptions.topic_readers(subscription.group, subscription.topic):
        client = services.clients.find_client(client_id)
        if client is not None:
            yield client
