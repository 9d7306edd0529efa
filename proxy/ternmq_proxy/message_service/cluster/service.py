"""The MessageService of a cluster: each call goes to the broker that has the queue, or to all brokers."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard import shard_frames
from ternmq_proxy.message_service.cluster.administering import ClusterAdministering
from ternmq_proxy.message_service.cluster.broker_choice import BrokerChoice
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers
from ternmq_proxy.message_service.cluster.consuming import ClusterConsuming
from ternmq_proxy.message_service.cluster.gathered_acknowledgements import GatheredAcknowledgements
from ternmq_proxy.message_service.cluster.inspecting import ClusterInspecting
from ternmq_proxy.message_service.cluster.lite_subscriptions import LocalLiteSubscriptions
from ternmq_proxy.message_service.cluster.reading import ClusterReading
from ternmq_proxy.message_service.cluster.receives.follower_reads import FollowerReads
from ternmq_proxy.message_service.cluster.receives.polls import BrokerPolls
from ternmq_proxy.message_service.cluster.receives.pulling import ClusterPulling
from ternmq_proxy.message_service.cluster.receives.receiving import ClusterReceiving
from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls
from ternmq_proxy.message_service.cluster.routes import TopicRoutes
from ternmq_proxy.message_service.cluster.sending import ClusterSending
from ternmq_proxy.message_service.cluster.subscription_notices import SubscriptionNotices
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_common.errors import MessagingError
    from ternmq_common.shard.model import (
        DroppedLite,
        OrphanedTransaction,
        ProxyAnswer,
        PullingMember,
        Topic,
        TopicRoute,
        TopicSubscription,
    )
    from ternmq_proxy.message_service.interface import AnswerProxies, AskProducer
    from ternmq_registry.directory import RegistryDirectory
    from ternmq_runtime.observability.figures import FollowerReadFigures, LinkFigures

_log = logging.getLogger(__name__)
SEEK_EVERY_S = 0.15
# After that a shard without any live replica costs the registry no more than others.
SEEK_S = 30.0


class ClusterMessageService:
    """See `MessageService`. It begins with `start` and ends with `close`."""

    def __init__(
        self,
        directory: "RegistryDirectory",
        *,
        proxy: str,
        link_timing: LinkTiming = LINK_TIMING,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
        read_from_followers: bool = False,
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """`tls` returns the TLS settings of each connection to a broker, None for plain text."""
        self._directory = directory
        self._seconds = seconds
        self.links = BrokerLinks(directory, self, proxy=proxy, timing=link_timing, tls=tls)
        self.polls = BrokerPolls()
        self.routes = TopicRoutes(directory, self.links, seconds)
        self._repeats = RepeatedCalls(self.links, seconds)
        self._lite = LocalLiteSubscriptions(directory, self.links, self._repeats)
        self._notices = SubscriptionNotices(self.links)
        self._followers = (
            FollowerReads(directory, proxy=proxy, timing=link_timing, tls=tls) if read_from_followers else None
        )
        self._check_producer: AskProducer | None = None
        self._answer_proxies: AnswerProxies | None = None
        self._lite_listener: Callable[[Sequence[DroppedLite]], None] | None = None
        self._refreshing, self._seeking = BackgroundTasks(), BackgroundTasks()
        self.connected = asyncio.Event()
        """Set when a broker is connected for the first time."""

        brokers = CalledBrokers(self.links, self._repeats)
        choice = BrokerChoice(directory, self.links, self.routes, self._repeats)
        self.sending = ClusterSending(brokers, choice, self.links, self.routes)
        self.consuming = ClusterConsuming(
            brokers,
            ClusterReceiving(directory, self.links, self.polls),
            GatheredAcknowledgements(self._repeats),
            self._lite,
        )
        self.reading = ClusterReading(brokers, ClusterPulling(self._repeats, self._followers), self._followers)
        self.inspecting = ClusterInspecting(brokers)
        self.administering = ClusterAdministering(brokers, choice, self.polls)

    def start(self) -> None:
        self._directory.on_change(self._registry_changed)
        self.links.start()
        if self._followers is not None:
            self._followers.start()

    async def close(self) -> None:
        self.polls.close()
        await self._refreshing.stop()
        await self._seeking.stop()
        await self.links.close()
        if self._followers is not None:
            await self._followers.close()

    def end_polls(self) -> None:
        self.polls.close()

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        await self._notices.notify_subscriptions(news, everything)

    @property
    def outage_reason(self) -> str | None:
        if self.links.connected_brokers():
            return None
        names = ", ".join(broker.name for broker in self.links.list_brokers())
        return f"none of the brokers can be reached: {names}" if names else "no broker is registered"

    def link_figures(self) -> "list[LinkFigures]":
        """Return the current figures of the links; any thread may call this."""
        aside = set(self.routes.aside_brokers())
        return [broker.link.read_figures(set_aside=broker.name in aside) for broker in self.links.list_brokers()]

    def follower_read_figures(self) -> "list[FollowerReadFigures]":
        """Return the figures of pulls of cold messages, none without `read_from_followers`; any thread may call
        this."""
        return [] if self._followers is None else self._followers.read_figures()

    # --- what the links notify of

    def link_changed(self, broker: str) -> None:
        self.connected.set()  # links begin unconnected
        self._repeats.link_changed(broker)
        self.routes.forget_routes()
        self.polls.note_broker_changed(broker)
        self._notices.link_changed(broker)
        self._lite.link_changed(broker)
        if not self._seeking and self._seeks_leader(broker):
            self._seeking.start(self._seek_leaders(), name="search for leaders")

    def _seeks_leader(self, broker: str) -> bool:
        """Return whether another replica may soon lead the shard."""
        return self.links.is_replicated(broker) and not self.links.is_connected(broker)

    async def _seek_leaders(self) -> None:
        """Read the registry more often while a shard with replicas has no leader."""
        end = self._seconds() + SEEK_S
        while self._seconds() < end and any(self._seeks_leader(broker.name) for broker in self.links.list_brokers()):
            try:
                await self._directory.refresh_snapshot()
            except RegistryUnavailable as error:
                _log.debug("cannot look for a new leader without the registry: %s", error.message)
            await asyncio.sleep(SEEK_EVERY_S)

    def messages_ready(self, broker: str, group: str, topic: str) -> None:
        self.polls.note_ready(broker, group, topic)

    def registry_changed(self, version: int) -> None:
        if version > self._directory.snapshot.version and not self._refreshing:
            self._refreshing.start(self._directory.wait_for_version(version), name="later version")

    async def check_orphan(self, orphan: "OrphanedTransaction") -> bool:
        if self._check_producer is None:
            return False
        try:
            return await self._check_producer(orphan)
        except Exception:  # noqa: BLE001 - the outermost of this check, and it logs
            _log.exception("cannot check transaction %s", orphan.transaction_id)
            return False

    async def answer_question(self, question: str, argument: str) -> bytes | None:
        if self._answer_proxies is None:
            return None
        try:
            return await self._answer_proxies(question, argument)
        except Exception:  # noqa: BLE001 - the outermost of this answer, and it logs
            _log.exception("cannot answer another proxy's question %.100r", question)
            return None

    def lite_dropped(self, dropped: "list[DroppedLite]") -> None:
        self._lite.remove_dropped(dropped)
        if self._lite_listener is not None:
            self._lite_listener(dropped)

    def watch_lite(self, listener: "Callable[[Sequence[DroppedLite]], None]") -> None:
        self._lite_listener = listener

    def _registry_changed(self, snapshot: "RegistrySnapshot") -> None:
        self.links.follow_snapshot(snapshot)
        if self._followers is not None:
            self._followers.follow_snapshot(snapshot)
        self.routes.forget_routes()
        self.polls.note_topics_moved()

    # --- what is put together

    def find_route(self, topic: "Topic") -> "TopicRoute":
        return self.routes.find_route(topic)

    def watch_orphans(self, ask: "AskProducer") -> None:
        self._check_producer = ask

    def announce_members(
        self,
        joined: "Sequence[PullingMember]",
        left: "Sequence[PullingMember]",
        everyone: "Callable[[], Sequence[PullingMember]]",
    ) -> None:
        changes = shard_frames.MemberChanges(list(joined), list(left))
        self.links.announce_members(
            shard_frames.PRESENCE_CHANGES.encode_note(changes),
            lambda: shard_frames.PRESENCE.encode_note(list(everyone())),
        )

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """Return the members that one of the brokers knows: every proxy reports to all brokers."""
        for broker in self.links.connected_brokers():
            try:
                return sorted({*here, *await broker.shard.inspecting.pulling_members(group, topic)})
            except (BrokerUnavailable, LateAnswer) as error:
                _log.warning("broker %s cannot list the readers of %s for %s: %s", broker.name, topic, group, error)
        return sorted(here)

    def answer_proxies(self, answer: "AnswerProxies") -> None:
        self._answer_proxies = answer

    async def ask_proxies(self, question: str, argument: str) -> "list[ProxyAnswer]":
        """Ask other proxies by way of any broker: every proxy has a stream to all."""
        why: MessagingError | None = None
        for broker in self.links.connected_brokers():
            try:
                return await broker.shard.inspecting.ask_proxies(question, argument)
            except (BrokerUnavailable, LateAnswer) as error:
                why = error
        raise why or BrokerUnavailable(self.outage_reason or "no broker can be reached", maybe_done=False)
