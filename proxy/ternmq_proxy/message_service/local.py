"""The MessageService of the embedded stack: a broker in this process."""

import asyncio
from typing import TYPE_CHECKING, Any

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import STORE, BrokerSettings
from ternmq_broker.store_opening import make_room_to_start
from ternmq_common.shard.model import TopicRoute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from pathlib import Path

    from ternmq_broker.shard.consuming import BrokerConsuming
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.server_settings import ServerSettings
    from ternmq_common.shard.model import (
        Acknowledged,
        ConsumerGroup,
        DeliveredMessage,
        DroppedLite,
        LiteSync,
        PopOrder,
        ProxyAnswer,
        PullingMember,
        QueueRef,
        SettleOutcome,
        Topic,
        TopicSubscription,
    )
    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_proxy.message_service.interface import AnswerProxies, AskProducer
    from ternmq_runtime.observability.figures import BrokerSource


class LocalConsuming:
    """`ServiceConsuming` by the broker in this process."""

    def __init__(self, consuming: "BrokerConsuming") -> None:
        self._consuming = consuming

    def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "Coroutine[Any, Any, list[DeliveredMessage]]":
        del broker
        # No coroutine around that of the broker: thousands wait.
        return self._consuming.pop(order, poll_s, room)

    def acknowledge(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]"
    ) -> "Awaitable[list[SettleOutcome]]":
        return self._consuming.acknowledge(group, topic, handles)

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        done(self._consuming.acknowledge(group, topic, handles).result, None)

    def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "Awaitable[ReceiptHandle]":
        return self._consuming.change_invisible(group, topic, handle, invisible_ms, counts=counts)

    def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> "Awaitable[list[bool]]":
        return self._consuming.prolong(group, topic, handles, invisible_ms)

    def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> "Awaitable[None]":
        return self._consuming.release(group, topic, handles, counts=counts)

    def dead_letter(
        self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0
    ) -> "Awaitable[SettleOutcome]":
        return self._consuming.dead_letter(group, topic, handle, attempts=attempts)

    def sync_lite(self, sync: "LiteSync") -> "Awaitable[None]":
        return self._consuming.sync_lite(sync)

    def leave(self, group: str, client_id: str) -> "Awaitable[None]":
        return self._consuming.leave(group, client_id)

    def lock_queues(
        self, broker: str, group: str, client_id: str, queues: "Sequence[QueueRef]"
    ) -> "Awaitable[list[QueueRef]]":
        return self._consuming.lock_queues(broker, group, client_id, queues)

    def unlock_queues(self, broker: str, group: str, client_id: str, queues: "Sequence[QueueRef]") -> "Awaitable[None]":
        return self._consuming.unlock_queues(broker, group, client_id, queues)

    def has_locks(self, broker: str, group: str) -> "Awaitable[bool]":
        return self._consuming.has_locks(broker, group)

    def hold_way(self, broker: str, group: str, way: str, join: str) -> "Awaitable[bool]":
        return self._consuming.hold_way(broker, group, way, join)

    def release_way(self, broker: str, group: str, join: str) -> "Awaitable[None]":
        return self._consuming.release_way(broker, group, join)


class LocalMessageService:
    """See `MessageService`. The only broker has every queue, so the broker's name in a call does not matter."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: dict[str, TopicRoute] = {}
        self.sending = broker.sending
        self.consuming = LocalConsuming(broker.consuming)
        self.reading = broker.reading
        self.inspecting = broker.inspecting
        self.administering = broker.administering
        self.live_files = broker.live_files

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

    async def close(self) -> None:
        await self._broker.close()

    def end_polls(self) -> None:
        self._broker.end_polls()

    def know_topics(self, find: "Callable[[str], Topic | None]") -> None:
        """Set where to find the settings of a topic."""
        self._broker.set_topic_lookup(find)

    def watch_orphans(self, ask: "AskProducer") -> None:
        self._broker.orphans.set_watcher(ask)

    def watch_lite(self, listener: "Callable[[Sequence[DroppedLite]], None]") -> None:
        self._broker.lite.add_listener(listener)

    def find_route(self, topic: "Topic") -> TopicRoute:
        known = self._routes.get(topic.name)
        if known is None or known.topic is not topic:
            known = self._routes[topic.name] = TopicRoute.to_one_broker(topic, self._broker.name)
        return known

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        # The rest is known: the broker has run as long as this process.
        await self._broker.consuming.subscribed(news)

    def announce_members(
        self,
        joined: "Sequence[PullingMember]",
        left: "Sequence[PullingMember]",
        everyone: "Callable[[], Sequence[PullingMember]]",
    ) -> None:
        """Do nothing, since no other process needs them."""

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        return list(here)

    async def ask_proxies(self, question: str, argument: str) -> "list[ProxyAnswer]":
        """Return nothing, since there are no other processes."""
        return []

    def answer_proxies(self, answer: "AnswerProxies") -> None:
        """Do nothing, since no other process asks."""
