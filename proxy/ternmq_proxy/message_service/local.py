"""The MessageService of the embedded stack: a broker in this process."""

import asyncio
from typing import TYPE_CHECKING, Any

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import STORE, BrokerSettings
from ternmq_broker.store_opening import make_room_to_start
from ternmq_common.model import TopicRoute

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from ternmq_common.clock import SystemClock
    from ternmq_common.model import (
        Acknowledged,
        ConsumerGroup,
        DeliveredMessage,
        PopOrder,
        ProxyAnswer,
        PullingMember,
        Topic,
        TopicSubscription,
    )
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.server_settings import ServerSettings
    from ternmq_proxy.message_service.interface import AnswerProxies
    from ternmq_runtime.observability.figures import BrokerSource


class LocalMessageService:
    """See `MessageService`. The only broker has every queue, so the broker's name in a call does not matter."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: dict[str, TopicRoute] = {}
        self.append = broker.append
        self.append_nowait = broker.append_nowait
        self.schedule = broker.schedule
        self.recall = broker.recall
        self.begin_transaction = broker.begin_transaction
        self.end_transaction = broker.end_transaction
        self.transactions = broker.transactions
        self.transaction = broker.transaction
        self.watch_orphans = broker.orphans.set_watcher
        self.sync_lite = broker.sync_lite
        self.watch_lite = broker.watch_lite
        self.lite_clients = broker.lite_clients
        self.acknowledge = broker.acknowledge
        self.change_invisible = broker.change_invisible
        self.prolong = broker.prolong
        self.release = broker.release
        self.dead_letter = broker.dead_letter
        self.pull = broker.pull
        self.bounds = broker.bounds
        self.offset_at = broker.offset_at
        self.committed = broker.committed
        self.set_committed = broker.set_committed
        self.skip = broker.skip
        self.leave = broker.leave
        self.drop_retries = broker.drop_retries
        self.purge = broker.purge
        self.progress = broker.progress
        self.find_by_key = broker.find_by_key
        self.standings = broker.standings
        self.content = broker.content
        self.timers = broker.timers
        self.history = broker.history
        self.dead_letters = broker.dead_letters
        self.retry = broker.retry
        self.remaining = broker.remaining
        self.forget_topic = broker.forget_topic
        self.forget_group = broker.forget_group
        self.end_polls = broker.end_polls
        self.held_topics = broker.held_topics
        self.close = broker.close
        self.know_topics = broker.set_topic_lookup
        self.watch_file, self.keep_file = broker.watch_file, broker.keep_file

    @classmethod
    async def open_store(
        cls, settings: "ServerSettings", rules: "Callable[[str], ConsumerGroup]", clock: "SystemClock"
    ) -> "LocalMessageService":
        """Open the store below the data directory and start its broker. Raises StartupError.

        `rules` returns the settings of a consumer group, defaults for an unknown one.
        """
        broker = await asyncio.to_thread(Broker.open, BrokerSettings.from_storage(settings), rules, clock)
        broker.start()
        return cls(broker)

    @staticmethod
    def make_room_to_start(data_dir: "Path") -> None:
        """Make room on a full disk; to be called before anything in the data directory is opened, which may need
        room."""
        make_room_to_start(data_dir / STORE)

    @property
    def outage_reason(self) -> str | None:
        """Why no message can be stored now, None while it can."""
        return self._broker.problem

    @property
    def degraded_reason(self) -> str | None:
        return self._broker.degraded

    @property
    def broker_figures(self) -> "BrokerSource":
        return self._broker.figures

    def find_route(self, topic: "Topic") -> TopicRoute:
        known = self._routes.get(topic.name)
        if known is None or known.topic is not topic:
            known = self._routes[topic.name] = TopicRoute.to_one_broker(topic, self._broker.name)
        return known

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        done(self._broker.acknowledge(group, topic, handles).result, None)

    def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "Coroutine[Any, Any, list[DeliveredMessage]]":
        del broker
        # No coroutine around the broker's: thousands wait.
        return self._broker.pop(order, poll_s, room)

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        # The rest is known: the broker started together with this process.
        await self._broker.subscribed(news)

    def announce_members(self, members: "Sequence[PullingMember]") -> None:
        """Do nothing, since no other process needs them."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        return list(here)

    async def ask_proxies(self, question: str, argument: str) -> "list[ProxyAnswer]":
        """Return nothing, since there are no other processes."""
        return []

    def answer_proxies(self, answer: "AnswerProxies") -> None:
        """Do nothing, since no other process asks."""
