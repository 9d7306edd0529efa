"""The base of consumers of lite topics: their subscriptions, and the sync of these with the servers.

Sync        each change at once; all subscriptions at the start, every `Timing.lite_sync_s`, and at once when a server
            has accepted the settings again: after a restart it knows no subscriptions
One by one  the sync calls wait for each other: a server that handled an older one last would drop what the newer one
            added
Dropped     a subscription that a server reports as ended is forgotten here: the lite topic was dropped, or another
            client of a group whose lite topics are exclusive has taken it over
Away        one server of several that can't be reached is synced when it can; no call waits for that
Close       the servers forget everything when the client terminates; nothing is synced after that
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence

from ternmq.arguments import check_topics
from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.consuming.consumer import Consumer
from ternmq.errors import ClientError, LiteSubscriptionQuotaExceeded, TransportError, check_status
from ternmq.lite.lite_begin import LiteBegin, offset_option
from ternmq.messages.message import check_lite_topic
from ternmq.times.backoff import RECONNECT_BACKOFF
from ternmq_common.event_loop.background_tasks import cancel_tasks
from ternmq_common.limits import LITE_TOPIC_BYTES_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


class LiteConsumer(Consumer):
    """The base of `LitePushConsumer` and `LiteSimpleConsumer`: one topic, of which lite topics are subscribed.

    Invariants: a sync call acquires `_sync_lock`; `_pending_servers` are servers that need a full sync.
    """

    def _init_subscription(self, topic: str, lite_topics: Iterable[str]) -> None:
        """Initialize the subscription, as the second half of a constructor."""
        self.topic = topic
        self._lite_topics: set[str] = set()
        self._first_lite_topics = check_topics(lite_topics, "lite_topics")
        for name in self._first_lite_topics:
            check_lite_topic(name)
        self._lite_quota = 0
        self._lite_bytes_max = LITE_TOPIC_BYTES_MAX
        self._sync_lock = asyncio.Lock()
        self._pending_servers: set[Endpoints] = set()
        self._has_pending = asyncio.Event()
        self._sync_task: asyncio.Task[None] | None = None

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that are subscribed now. With a group that has all of them (`--lite-wildcard`) it has no
        meaning."""
        return frozenset(self._lite_topics)

    async def subscribe_lite(self, name: str, begin: LiteBegin | None = None) -> None:
        """Subscribe to a lite topic from now on, also to one that has no messages yet.

        The group continues where it was, or at `begin`, which applies to all its clients. `BadRequest` for an invalid
        name, `LiteSubscriptionQuotaExceeded` for one too many, ValueError for an invalid `begin`.
        """
        self._check_running()
        option = None if begin is None else offset_option(begin)
        await self._subscribe_names([name], option)

    async def unsubscribe_lite(self, name: str) -> None:
        """Unsubscribe a lite topic; a push consumer gives back what was not started. The group keeps its position."""
        self._check_running()
        check_lite_topic(name, self._lite_bytes_max)
        async with self._sync_lock:
            self._check_running()
            self._lite_topics.discard(name)
            await self._sync_servers(pb.PARTIAL_REMOVE, [name])
        await self._lite_topic_left(name)

    async def _lite_topic_left(self, name: str) -> None:
        """React when a lite topic is not subscribed any more."""

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        super()._apply_settings(connection, settings)
        self._lite_quota = settings.subscription.lite_subscription_quota
        self._lite_bytes_max = settings.subscription.max_lite_topic_size or LITE_TOPIC_BYTES_MAX
        self._schedule_sync([connection.endpoints])

    async def _answer_command(
        self, connection: GrpcConnection, command: rpc.TelemetryCommand
    ) -> rpc.TelemetryCommand | None:
        if command.WhichOneof("command") != "notify_unsubscribe_lite_command":
            return await super()._answer_command(connection, command)
        await self._drop_lite_topic(command.notify_unsubscribe_lite_command.lite_topic)
        return None

    async def _drop_lite_topic(self, name: str) -> None:
        if name in self._lite_topics:
            self._lite_topics.discard(name)
            logger.info("%s: lite topic %s of %s is not subscribed any more", self.client_id, name, self.topic)
            self._hooks.lite_topic_dropped(self.client_id, self.group, name)
            await self._lite_topic_left(name)

    async def _start_work(self) -> None:
        await super()._start_work()
        self._pending_servers.clear()
        async with self._sync_lock:
            await self._sync_servers(pb.COMPLETE_ADD, [])
        if self._first_lite_topics:
            await self._subscribe_names(self._first_lite_topics)
        self._sync_task = self._tasks.start(self._sync_forever())
        self._tasks.start(self._run_every(self._timing.lite_sync_s, self._schedule_full_sync))

    async def _finish_work(self) -> None:
        await super()._finish_work()
        async with self._sync_lock:
            await cancel_tasks([self._sync_task] if self._sync_task else [])

    # Sync with the servers.

    async def _subscribe_names(self, names: Sequence[str], option: pb.OffsetOption | None = None) -> None:
        async with self._sync_lock:
            self._check_running()
            added = self._check_new_names(names)
            # Added before a server knows it, so that a drop by that server is not missed.
            self._lite_topics |= added
            try:
                await self._sync_servers(pb.PARTIAL_ADD, names, option)
            except BaseException:
                self._lite_topics -= added
                self._schedule_sync(self._sessions)  # some servers may have it
                raise

    def _check_new_names(self, names: Sequence[str]) -> set[str]:
        for name in names:
            check_lite_topic(name, self._lite_bytes_max)
        new = set(names) - self._lite_topics
        count = len(self._lite_topics) + len(new)
        if new and 0 < self._lite_quota < count:  # a server without lite topics sends no quota
            raise LiteSubscriptionQuotaExceeded(
                pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"a client of group {self.group} may subscribe {self._lite_quota} lite topics of {self.topic}, "
                f"not {count}",
            )
        return new

    async def _fetch_servers(self) -> list[Endpoints]:
        return (await self._routes.get_route(self.topic)).all_endpoints

    async def _sync_servers(
        self, action: "pb.LiteSubscriptionAction", names: Collection[str], option: pb.OffsetOption | None = None
    ) -> None:
        """Sync a change with all servers; one of several may be away, but not all, nor one that has to move the
        group."""
        servers = await self._fetch_servers()
        outcomes = await asyncio.gather(*(self._sync_server(one, action, names, option) for one in servers))
        failures = [error for error in outcomes if error is not None]
        failures.sort(key=lambda error: isinstance(error, TransportError))  # a refusal must be seen
        if failures and (
            len(failures) == len(servers) or option is not None or not isinstance(failures[0], TransportError)
        ):
            raise failures[0]
        self._schedule_sync([one for one, error in zip(servers, outcomes, strict=True) if error is not None])

    async def _sync_server(
        self,
        endpoints: Endpoints,
        action: "pb.LiteSubscriptionAction",
        names: Collection[str],
        option: pb.OffsetOption | None = None,
    ) -> ClientError | None:
        """Sync with one server; return the error if it could not be reached, or refuses."""
        request = rpc.SyncLiteSubscriptionRequest(
            action=action,
            topic=pb.Resource(name=self.topic),
            group=pb.Resource(name=self.group),
            lite_topic_set=names,
            offset_option=option,
        )
        try:
            response = await self._call_endpoint(endpoints, calls.SYNC_LITE_SUBSCRIPTION, request)
            check_status(response.status)
        except ClientError as error:
            return error
        return None

    def _schedule_sync(self, servers: Iterable[Endpoints]) -> None:
        self._pending_servers.update(servers)
        if self._pending_servers:
            self._has_pending.set()

    async def _schedule_full_sync(self) -> None:
        self._schedule_sync(self._sessions)

    async def _sync_forever(self) -> None:
        failures = 0
        while True:
            await self._has_pending.wait()
            async with self._sync_lock:
                is_done = await self._sync_pending()
            failures = 0 if is_done else failures + 1
            if failures:
                await asyncio.sleep(RECONNECT_BACKOFF.delay_s(failures))

    async def _sync_pending(self) -> bool:
        """Sync with the servers that need it; return False if some have to be synced again."""
        self._has_pending.clear()
        servers = self._pending_servers & set(await self._fetch_servers())
        self._pending_servers.clear()
        names = sorted(self._lite_topics)
        again: list[Endpoints] = []
        for endpoints in servers:
            error = await self._sync_server(endpoints, pb.COMPLETE_ADD, names)
            if error is not None:
                text = "%s: the lite topics could not be sent to %s: %s"
                logger.log(log_level_of(error), text, self.client_id, endpoints, error)
                if error.retryable:
                    again.append(endpoints)
        self._schedule_sync(again)
        return not again
