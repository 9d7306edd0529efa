"""The MessageService of a cluster: each call goes to the broker that has the queue, or to all brokers."""

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import FigureHistory, TimerPage, TopicContent, TransactionPage
from ternmq_common.names import retry_topic
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS, remote_method
from ternmq_common.shard.shard import Storage
from ternmq_common.transaction_id import TransactionId
from ternmq_proxy.message_service.cluster.background_calls import BackgroundCalls
from ternmq_proxy.message_service.cluster.broker_pages import page_of_brokers
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.follower_reads import FollowerReads
from ternmq_proxy.message_service.cluster.gathered_acknowledgements import GatheredAcknowledgements
from ternmq_proxy.message_service.cluster.gathered_sends import GatheredSends
from ternmq_proxy.message_service.cluster.link_timing import LINK_TIMING, LinkTiming
from ternmq_proxy.message_service.cluster.links import BrokerLinks
from ternmq_proxy.message_service.cluster.lite_subscriptions import LocalLiteSubscriptions
from ternmq_proxy.message_service.cluster.polls import BrokerPolls
from ternmq_proxy.message_service.cluster.pulling import ClusterPulling
from ternmq_proxy.message_service.cluster.receiving import ClusterReceiving
from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls
from ternmq_proxy.message_service.cluster.routes import TopicRoutes
from ternmq_proxy.message_service.cluster.sending import ClusterSending
from ternmq_proxy.message_service.cluster.subscription_notices import SubscriptionNotices
from ternmq_registry.errors import RegistryUnavailable
from ternmq_runtime.observability.history_rings import STEP_MS, combine_histories

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.cluster import RegistrySnapshot
    from ternmq_common.model import (
        Acknowledged,
        DroppedLite,
        HistoryOf,
        OrphanedTransaction,
        ProxyAnswer,
        PullingMember,
        QueueBounds,
        QueueProgress,
        SettleOutcome,
        StoredMessage,
        Topic,
        TopicRoute,
        TransactionState,
    )
    from ternmq_common.shard.calls import ShardCall, Values
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
        self._gathered = GatheredAcknowledgements(self._repeats)
        self._telling = SubscriptionNotices(self.links)
        self.notify_subscriptions = self._telling.notify_subscriptions
        self._background_calls = BackgroundCalls()
        sending = ClusterSending(directory, self.links, self.routes, self._repeats)
        self._ask: AskProducer | None = None
        self._answer_proxies: AnswerProxies | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._seeking: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        """Set when a broker is connected for the first time."""

        self.append = remote_method(Storage.append, sending.send_to_queue)
        self.append_nowait = GatheredSends(self.links, self.routes, self.append).append_nowait
        self.schedule = remote_method(Storage.schedule, sending.send_to_queue)
        self.begin_transaction = remote_method(Storage.begin_transaction, sending.send_to_queue)
        self.retry = remote_method(Storage.retry, sending.send_anywhere)
        self.recall = remote_method(Storage.recall, self._ask_named_broker)
        self.end_transaction = remote_method(Storage.end_transaction, self._ask_named_broker)
        self.transaction = remote_method(Storage.transaction, self._ask_named_broker)
        self.pop = ClusterReceiving(directory, self.links, self.polls).pop
        self._lite = LocalLiteSubscriptions(directory, self.links, self._repeats)
        self.sync_lite = self._lite.sync_subscriptions
        self._lite_listener: Callable[[Sequence[DroppedLite]], None] | None = None
        self.acknowledge = remote_method(Storage.acknowledge, self._ask_brokers_of_handles)
        self.prolong = remote_method(Storage.prolong, self._ask_brokers_of_handles)
        self.release = remote_method(Storage.release, self._ask_brokers_of_handles)
        self.change_invisible = remote_method(Storage.change_invisible, self._ask_named_broker)
        self.dead_letter = remote_method(Storage.dead_letter, self._ask_named_broker)
        self._followers: FollowerReads | None = None
        self.bounds = remote_method(Storage.bounds, self._ask_named_broker)
        if read_from_followers:
            self._followers = FollowerReads(directory, proxy=proxy, timing=link_timing, tls=tls)
            self.bounds = remote_method(Storage.bounds, self._ask_bounds)
        self.pull = ClusterPulling(self._repeats, self._followers).pull_messages
        self.offset_at = remote_method(Storage.offset_at, self._ask_named_broker)
        self.committed = remote_method(Storage.committed, self._ask_named_broker)
        self.set_committed = remote_method(Storage.set_committed, self._ask_named_broker)
        self.skip = remote_method(Storage.skip, self._ask_named_broker)
        self.drop_retries = remote_method(Storage.drop_retries, self._ask_all)
        self.purge = remote_method(Storage.purge, self._ask_named_broker)
        self.standings = remote_method(Storage.standings, self._ask_named_broker)
        self.dead_letters = remote_method(Storage.dead_letters, self._ask_named_broker)
        self.remaining = remote_method(Storage.remaining, self._ask_named_broker)
        self.end_polls = self.polls.close

    def start(self) -> None:
        self._directory.on_change(self._registry_changed)
        self.links.start()
        if self._followers is not None:
            self._followers.start()

    async def close(self) -> None:
        self.polls.close()
        for task in filter(None, (self._refreshing, self._seeking)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.links.close()
        if self._followers is not None:
            await self._followers.close()

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
        self._telling.link_changed(broker)
        self._lite.link_changed(broker)
        if self._seeks_leader(broker) and (self._seeking is None or self._seeking.done()):
            self._seeking = asyncio.create_task(self._seek_leaders(), name="search for leaders")

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
        if version > self._directory.snapshot.version and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._directory.wait_for_version(version), name="later version")

    async def check_orphan(self, orphan: "OrphanedTransaction") -> bool:
        if self._ask is None:
            return False
        try:
            return await self._ask(orphan)
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

    async def lite_clients(self, group: str, topic: str) -> list[str]:
        """Return the clients that the connected brokers know; all brokers know the same."""
        found = await self._ask_connected(CALLS["lite_clients"], (group, topic))
        return sorted({client_id for some in found for client_id in some})

    async def leave(self, group: str, client_id: str) -> None:
        self._lite.forget_client(group, client_id)
        await self._ask_connected(CALLS["leave"], (group, client_id))

    def _registry_changed(self, snapshot: "RegistrySnapshot") -> None:
        self.links.follow_snapshot(snapshot)
        if self._followers is not None:
            self._followers.follow_snapshot(snapshot)
        self.routes.forget_routes()
        self.polls.note_topics_moved()

    # --- which brokers are asked

    def acknowledge_nowait(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        name = handles[0].broker
        if all(handle.broker == name for handle in handles):
            self._check_broker(handles[0])
            self._gathered.acknowledge_nowait(name, group, topic, handles, done)
        else:
            self._background_calls.start(self._acknowledge_handles(group, topic, handles), done)

    async def _acknowledge_handles(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]"
    ) -> "list[SettleOutcome]":
        return await self.acknowledge(group, topic, handles)

    async def _ask_named_broker(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """Call the broker that is named, or that the queue, handle or transaction names."""
        assert call.broker is not None
        named = values[call.broker]
        if isinstance(named, str):
            return await self._repeats.ask_broker(named or self._only_broker(), call, values)
        if isinstance(named, ReceiptHandle | TransactionId):
            self._check_broker(named)
        return await self._repeats.ask_broker(named.broker, call, values)

    async def _ask_bounds(self, call: "ShardCall", values: "Values") -> "QueueBounds":
        bounds: QueueBounds = await self._ask_named_broker(call, values)
        if self._followers is not None:
            self._followers.note_bounds(values[0], bounds)
        return bounds

    async def _ask_brokers_of_handles(self, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        """Call each broker that issued some of the handles; return an outcome for each handle, in order."""
        group, topic, handles, *others = values
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, handle in enumerate(handles):
            if handle.broker not in places:
                self._check_broker(handle)
            places[handle.broker].append(place)
        if len(places) == 1:
            return await self._repeats.ask_broker(handles[0].broker, call, values)

        def ask_broker_of(name: str) -> "Awaitable[list[Any] | None]":
            some = [handles[place] for place in places[name]]
            return self._repeats.ask_broker(name, call, (group, topic, some, *others))

        outcomes: dict[int, Any] = {}
        for name, result in zip(places, await asyncio.gather(*map(ask_broker_of, places)), strict=True):
            outcomes.update(zip(places[name], result or (), strict=result is not None))
        return [outcomes[place] for place in sorted(outcomes)]

    def _check_broker(self, named: "ReceiptHandle | TransactionId") -> None:
        if self.links.find_broker(named.broker) is None:
            code, what = ErrorCode.INVALID_RECEIPT_HANDLE, "the receipt handle"
            if isinstance(named, TransactionId):
                code, what = ErrorCode.INVALID_TRANSACTION_ID, f"transaction {str(named)!r}"
            raise MessagingError(code, f"{what} names broker {named.broker!r}, which this cluster has not")

    async def _ask_all(self, call: "ShardCall", values: "Values") -> None:
        await asyncio.gather(
            *(self._repeats.ask_broker(broker.name, call, values) for broker in self.links.list_brokers())
        )

    async def _ask_connected(self, call: "ShardCall", values: "Values") -> list[Any]:
        """Return the answers of all connected brokers; a broker that does not answer is logged."""
        brokers = self.links.connected_brokers()
        results = await asyncio.gather(*(broker.ask_broker(call, values) for broker in brokers), return_exceptions=True)
        answers: list[Any] = []
        for broker, result in zip(brokers, results, strict=True):
            if isinstance(result, BrokerUnavailable | LateAnswer):
                _log.warning("leaving out broker %s: %s", broker.name, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        return answers

    # --- what is put together

    def find_route(self, topic: "Topic") -> "TopicRoute":
        return self.routes.find_route(topic)

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> TransactionPage:
        """Return a page of transactions, broker by broker."""

        async def read_page(broker: str, place: str) -> tuple[TransactionPage, bool]:
            page = await self._repeats.shard_of(broker).transactions(state, topic=topic, start=place, limit=limit)
            return page, bool(page.transactions)

        page, following = await page_of_brokers(self._broker_names(), start, read_page)
        return TransactionPage(page.transactions if page else [], following)

    async def timers(self, *, topic: str, start: str, limit: int) -> TimerPage:
        """Return a page of timers, broker by broker, each one's sorted by time."""

        async def read_page(broker: str, place: str) -> tuple[TimerPage, bool]:
            page = await self._repeats.shard_of(broker).timers(topic=topic, start=place, limit=limit)
            return page, bool(page.timers)

        page, following = await page_of_brokers(self._broker_names(), start, read_page)
        return TimerPage(page.timers if page else [], following)

    def _broker_names(self) -> list[str]:
        return [broker.name for broker in self.links.list_brokers()]

    async def content(self, topic: str) -> TopicContent:
        """Return the topic's content on the connected brokers."""
        told: list[TopicContent] = await self._ask_connected(CALLS["content"], (topic,))
        return TopicContent(
            queues=[queue for each in told for queue in each.queues],
            groups=sorted({group for each in told for group in each.groups}),
            sent_per_s=sum(each.sent_per_s for each in told),
            delivered_per_s=sum(each.delivered_per_s for each in told),
            lite_topics=sum(each.lite_topics for each in told),
            lite_messages=sum(each.lite_messages for each in told),
        )

    async def history(self, of: "HistoryOf", name: str) -> FigureHistory:
        """Return the combined history of the connected brokers."""
        told = combine_histories(await self._ask_connected(CALLS["history"], (of, name)))
        return FigureHistory(step_ms=STEP_MS, end_ms=0, series={}) if told is None else told

    def watch_orphans(self, ask: "AskProducer") -> None:
        self._ask = ask

    async def progress(self, group: str, topics: "Sequence[str]" = ()) -> "list[QueueProgress]":
        """Return the group's progress on the connected brokers. Queues that one broker knows for the group are asked of
        all."""
        rows = await self._read_progress(group, topics)
        known = {row.queue.topic for row in rows} - {retry_topic(group)}
        if known.issubset(topics) or len(self.links.list_brokers()) == 1:
            return rows
        return await self._read_progress(group, sorted(known.union(topics)))

    async def _read_progress(self, group: str, topics: "Sequence[str]") -> "list[QueueProgress]":
        return [row for some in await self._ask_connected(CALLS["progress"], (group, list(topics))) for row in some]

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """Find messages on the connected brokers."""
        found = await self._ask_connected(CALLS["find_by_key"], (topic, key, limit))
        newest_first = sorted((each for some in found for each in some), key=lambda each: each.stored_ms, reverse=True)
        return newest_first[:limit]

    async def forget_topic(self, topic: str, *, version: int) -> None:
        self.polls.forget_deleted(topic=topic)
        await self._ask_connected(CALLS["forget_topic"], (topic, version))

    async def forget_group(self, group: str, *, version: int) -> None:
        self.polls.forget_deleted(group=group)
        await self._ask_connected(CALLS["forget_group"], (group, version))

    def announce_members(self, members: "Sequence[PullingMember]") -> None:
        self.links.announce_members(shard_frames.PRESENCE.encode_note(list(members)))

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        """Return the members that one of the brokers knows: every proxy reports to all brokers."""
        for broker in self.links.connected_brokers():
            try:
                return sorted({*here, *await broker.shard.pulling_members(group, topic)})
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
                return await broker.shard.ask_proxies(question, argument)
            except (BrokerUnavailable, LateAnswer) as error:
                why = error
        raise why or BrokerUnavailable(self.outage_reason or "no broker can be reached", maybe_done=False)

    def _only_broker(self) -> str:
        names = [broker.name for broker in self.links.list_brokers()]
        if len(names) != 1:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"name the broker, one of {', '.join(names) or 'none'}")
        return names[0]
