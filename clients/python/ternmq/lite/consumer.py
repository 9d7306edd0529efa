"""What consumers of lite topics share: which ones they subscribe, and telling the servers.

Told        each change as it is made; all of them at the start, every `Timing.lite_sync_s`, and at once when a server
            takes the settings anew: after a restart it knows no subscriptions
One by one  the calls that tell something wait for each other: a server that handled an older one last would drop what
            the newer one has added
Dropped     what a server says a client has no more is forgotten here: the lite topic is gone, or another client of a
            group whose lite topics are exclusive has taken it over
Away        a server of several that can't be reached is told when it can; that holds nobody up
Close       the servers forget all with the goodbye; nothing is told behind it
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence

from ternmq import connection as calls
from ternmq.arguments import checked_topics
from ternmq.backoff import RECONNECT_BACKOFF
from ternmq.client import cancelled
from ternmq.connection import Connection
from ternmq.consumer import Consumer
from ternmq.endpoints import Endpoints
from ternmq.errors import ClientError, LiteSubscriptionQuotaExceeded, TransportError, check
from ternmq.lite.begin import LiteBegin, offset_option
from ternmq.message import check_lite_topic
from ternmq.reachability import level_of
from ternmq_common.limits import LITE_TOPIC_BYTES_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


class LiteConsumer(Consumer):
    """The base of `LitePushConsumer` and `LiteSimpleConsumer`: one topic, of which lite topics are subscribed.

    Invariants: who tells a server something has `_turn_to_tell`; `_untold` are servers that are to be told everything.
    """

    def _subscribe_to(self, topic: str, lite_topics: Iterable[str]) -> None:
        """The second half of a constructor."""
        self.topic = topic
        self._lite_topics: set[str] = set()
        self._first_lite_topics = checked_topics(lite_topics, "lite_topics")
        for name in self._first_lite_topics:
            check_lite_topic(name)
        self._lite_quota = 0
        self._lite_bytes_max = LITE_TOPIC_BYTES_MAX
        self._turn_to_tell = asyncio.Lock()
        self._untold: set[Endpoints] = set()
        self._has_untold = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None

    @property
    def lite_topics(self) -> frozenset[str]:
        """What is subscribed now. With a group that has all lite topics (`--lite-wildcard`) it says nothing."""
        return frozenset(self._lite_topics)

    async def subscribe_lite(self, name: str, begin: LiteBegin | None = None) -> None:
        """Have the messages of a lite topic from now on, also of one that has none yet.

        The group goes on where it is in it, or at `begin`, which counts for all its clients. `BadRequest` for a name
        that no lite topic has, `LiteSubscriptionQuotaExceeded` for one too many, ValueError for a `begin` that is none.
        """
        self._check_running()
        option = None if begin is None else offset_option(begin)
        await self._subscribe([name], option)

    async def unsubscribe_lite(self, name: str) -> None:
        """Have no more of a lite topic; a push consumer gives back what was not begun. The group stays where it is."""
        self._check_running()
        check_lite_topic(name, self._lite_bytes_max)
        async with self._turn_to_tell:
            self._check_running()
            self._lite_topics.discard(name)
            await self._tell_servers(pb.PARTIAL_REMOVE, [name])
        await self._left(name)

    async def _left(self, name: str) -> None:
        """The lite topic is not subscribed any more."""

    def _take_settings(self, connection: Connection, settings: pb.Settings) -> None:
        super()._take_settings(connection, settings)
        self._lite_quota = settings.subscription.lite_subscription_quota
        self._lite_bytes_max = settings.subscription.max_lite_topic_size or LITE_TOPIC_BYTES_MAX
        self._tell_all_soon([connection.endpoints])

    async def _answer(self, connection: Connection, command: rpc.TelemetryCommand) -> rpc.TelemetryCommand | None:
        if command.WhichOneof("command") != "notify_unsubscribe_lite_command":
            return await super()._answer(connection, command)
        await self._drop(command.notify_unsubscribe_lite_command.lite_topic)
        return None

    async def _drop(self, name: str) -> None:
        if name in self._lite_topics:
            self._lite_topics.discard(name)
            logger.info("%s: lite topic %s of %s is not subscribed any more", self.client_id, name, self.topic)
            self._hooks.lite_topic_dropped(self.client_id, self.group, name)
            await self._left(name)

    async def _started(self) -> None:
        await super()._started()
        self._untold.clear()
        async with self._turn_to_tell:
            await self._tell_servers(pb.COMPLETE_ADD, [])
        if self._first_lite_topics:
            await self._subscribe(self._first_lite_topics)
        self._telling = self._spawn(self._tell_untold())
        self._spawn(self._every(self._timing.lite_sync_s, self._tell_all_again))

    async def _finish(self) -> None:
        await super()._finish()
        async with self._turn_to_tell:
            await cancelled([self._telling] if self._telling else [])

    # Telling the servers.

    async def _subscribe(self, names: Sequence[str], option: pb.OffsetOption | None = None) -> None:
        async with self._turn_to_tell:
            self._check_running()
            added = self._checked_new(names)
            # There before a server knows it: what that drops at once is dropped.
            self._lite_topics |= added
            try:
                await self._tell_servers(pb.PARTIAL_ADD, names, option)
            except BaseException:
                self._lite_topics -= added
                self._tell_all_soon(self._sessions)  # some servers may have it
                raise

    def _checked_new(self, names: Sequence[str]) -> set[str]:
        for name in names:
            check_lite_topic(name, self._lite_bytes_max)
        new = set(names) - self._lite_topics
        count = len(self._lite_topics) + len(new)
        if new and 0 < self._lite_quota < count:  # a server that knows no lite topics tells none
            raise LiteSubscriptionQuotaExceeded(
                pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"a client of group {self.group} may subscribe {self._lite_quota} lite topics of {self.topic}, "
                f"not {count}",
            )
        return new

    async def _lite_servers(self) -> list[Endpoints]:
        return (await self._routes.get(self.topic)).endpoints

    async def _tell_servers(
        self, action: "pb.LiteSubscriptionAction", names: Collection[str], option: pb.OffsetOption | None = None
    ) -> None:
        """One server of several may be away, all of them may not, nor one that is to move the group."""
        servers = await self._lite_servers()
        outcomes = await asyncio.gather(*(self._told(one, action, names, option) for one in servers))
        failures = [error for error in outcomes if error is not None]
        failures.sort(key=lambda error: isinstance(error, TransportError))  # a refusal must be seen
        if failures and (
            len(failures) == len(servers) or option is not None or not isinstance(failures[0], TransportError)
        ):
            raise failures[0]
        self._tell_all_soon([one for one, error in zip(servers, outcomes, strict=True) if error is not None])

    async def _told(
        self,
        endpoints: Endpoints,
        action: "pb.LiteSubscriptionAction",
        names: Collection[str],
        option: pb.OffsetOption | None = None,
    ) -> ClientError | None:
        """Why one server could not be told, or does not take it."""
        request = rpc.SyncLiteSubscriptionRequest(
            action=action,
            topic=pb.Resource(name=self.topic),
            group=pb.Resource(name=self.group),
            lite_topic_set=names,
            offset_option=option,
        )
        try:
            response = await self._call(endpoints, calls.SYNC_LITE_SUBSCRIPTION, request)
            check(response.status)
        except ClientError as error:
            return error
        return None

    def _tell_all_soon(self, servers: Iterable[Endpoints]) -> None:
        self._untold.update(servers)
        if self._untold:
            self._has_untold.set()

    async def _tell_all_again(self) -> None:
        self._tell_all_soon(self._sessions)

    async def _tell_untold(self) -> None:
        failures = 0
        while True:
            await self._has_untold.wait()
            async with self._turn_to_tell:
                is_done = await self._tell_all()
            failures = 0 if is_done else failures + 1
            if failures:
                await asyncio.sleep(RECONNECT_BACKOFF.delay_s(failures))

    async def _tell_all(self) -> bool:
        """Tell those that are to be told; False if some of them have to be told again."""
        self._has_untold.clear()
        servers = self._untold & set(await self._lite_servers())
        self._untold.clear()
        names = sorted(self._lite_topics)
        again: list[Endpoints] = []
        for endpoints in servers:
            error = await self._told(endpoints, pb.COMPLETE_ADD, names)
            if error is not None:
                text = "%s: %s was not told the lite topics: %s"
                logger.log(level_of(error), text, self.client_id, endpoints, error)
                if error.retryable:
                    again.append(endpoints)
        self._tell_all_soon(again)
        return not again
