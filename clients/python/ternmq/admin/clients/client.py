"""`Admin`, the asyncio client of the admin service."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, Unpack

from ternmq.admin import (
    audit,
    brokers,
    groups,
    history,
    message_status,
    messages,
    proxies,
    quotas,
    shards,
    timers,
    topics,
    users,
)
from ternmq.admin.dead_letters import DeadLetterReader
from ternmq.admin.requests.call import CALL_TIMEOUT_S, SERVICE, AdminCall, ValueT
from ternmq.admin.requests.checks import check_text
from ternmq.admin.requests.words import OpenState, Permission, Resolution, TopicType
from ternmq.client import ClientLife
from ternmq.clock_jumps import report_jump
from ternmq.connections.connection import GrpcConnection, RpcMethod
from ternmq.connections.credentials import CredentialsSource
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.identity import ClientIdentity
from ternmq.connections.tls import Tls, tls_options
from ternmq.errors import InternalError, NotRunning, check_status
from ternmq.messages.message_view import MessageView
from ternmq.process.forks import fork_count
from ternmq.process.own_loop import OwnEventLoop
from ternmq.times.durations import Seconds, seconds_above_0
from ternmq_protos.v2 import definition_pb2 as pb


class Admin:
    """Administers topics, groups, brokers, users and stored messages of TernMQ; other servers answer `Unsupported`.

        async with Admin("127.0.0.1:8081") as admin:
            await admin.create_topic("orders", "fifo", queues=8)
            for progress in (await admin.describe_group("billing")).progress:
                print(progress.topic, progress.queue_id, progress.lag)

    A refusal of the server raises its error: `NotFound`, `BadRequest`, `Forbidden` and so on, with its code. Nothing is
    repeated. `request_timeout` is seconds for one call. A call to a server that can't be reached fails with
    `ConnectionFailed`; starting an `Admin` sends nothing.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: CredentialsSource | None = None,
        tls: Tls = False,
        request_timeout: Seconds = CALL_TIMEOUT_S,
    ) -> None:
        self._endpoints = Endpoints.parse(endpoint)
        self._identity = ClientIdentity(credentials)
        self._tls = tls_options(tls)
        self._request_timeout_s = seconds_above_0("request_timeout", request_timeout)
        self._life = ClientLife.NEW
        self._own_loop = OwnEventLoop()
        self._forks = fork_count()
        self._connection: GrpcConnection | None = None

    @property
    def client_id(self) -> str:
        """The name by which the server knows this client."""
        return self._identity.client_id

    async def start(self) -> Self:
        """Open the channel; it connects at the first call."""
        self._check_process()
        if self._life is not ClientLife.NEW:
            raise NotRunning(f"this Admin {self._life.value}; create a new one")
        self._own_loop.bind_loop()
        self._connection = GrpcConnection(self._endpoints, self._identity, self._tls)
        self._life = ClientLife.RUNNING
        return self

    async def close(self) -> None:
        """Close the connection; calls in progress fail with `NotRunning`. May be called twice."""
        if self._forks != fork_count():  # the connection is the parent's
            return
        if self._life is ClientLife.RUNNING:
            self._own_loop.check_loop(self)
        self._life = ClientLife.CLOSED
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Topics.

    async def create_topic(
        self,
        name: str,
        type: TopicType = "normal",  # noqa: A002 - it is called so everywhere
        queues: int | None = None,
        *,
        brokers: Iterable[str] = (),
        **settings: Unpack[topics.TopicSettings],
    ) -> bool:
        """Create a topic; False if it exists with the same settings, `BadRequest` if with others.

        `queues` is how many message queues it has on each of its brokers. Omitted settings have the server's default; a
        topic is on all brokers of a cluster unless some are named.
        """
        return await self._send_call(topics.create_topic(name, type, queues, brokers=brokers, **settings))

    async def list_topics(self, names: Iterable[str] = (), *, search: str = "") -> list[topics.Topic]:
        """List all topics by name, or those of `names` that exist, including retry and dead letter topics. With
        `search` only those whose name contains it, in any case."""
        return await self._send_call(topics.list_all(names, search=search))

    async def describe_topic(self, name: str, *, contents: bool = False) -> topics.TopicDescription:
        """Describe a topic and its queues. `contents` adds sizes, ages, groups and rates, which cost more."""
        return await self._send_call(topics.describe_topic(name, contents=contents))

    async def update_topic(
        self,
        name: str,
        *,
        queues: int | None = None,
        add_brokers: Iterable[str] = (),
        remove_brokers: Iterable[str] = (),
        **settings: Unpack[topics.TopicSettings],
    ) -> topics.Topic:
        """Change a topic; what is left out stays. Queues can be added but not removed. Returns the changed topic.

        A broker can be removed when it is draining, or no client can write to the topic: its messages are lost.
        """
        change = topics.update_topic(
            name, queues=queues, add_brokers=add_brokers, remove_brokers=remove_brokers, **settings
        )
        return await self._send_call(change)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages."""
        await self._send_call(topics.delete_topic(name))

    async def purge_topic(
        self, name: str, *, before: datetime | None = None, dry_run: bool = False
    ) -> list[topics.PurgedQueue]:
        """Remove a topic's messages, all or those that were stored before a time, and keep the topic. Groups continue
        with what is left; delayed and half messages stay."""
        return await self._send_call(topics.purge_topic(name, before=before, dry_run=dry_run))

    # Groups.

    async def create_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> bool:
        """Create a consumer group; False if it exists with the same settings, `BadRequest` if with others."""
        return await self._send_call(groups.create_group(name, settings))

    async def list_groups(self, *, search: str = "") -> list[groups.Group]:
        """List all consumer groups by name; with `search` only those whose name contains it, in any case."""
        return await self._send_call(groups.list_all(search=search))

    async def describe_group(self, name: str) -> groups.GroupDescription:
        """Describe a group: its settings, its progress in each queue, and its connected members."""
        return await self._send_call(groups.describe_group(name))

    async def update_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> groups.Group:
        """Change settings of a group; what is left out stays. Returns the changed group.

        This makes two calls: if two callers change a group at the same moment, one may undo the other's change.
        Connected clients learn of it within five minutes.
        """
        there = await self.describe_group(name)
        return await self._send_call(groups.update_group(there.group, settings))

    async def delete_group(self, name: str, *, with_dead_letters: bool = False) -> None:
        """Delete a group and its progress. Its dead letters stay for a group that is created with this name, unless
        they are deleted too."""
        await self._send_call(groups.delete_group(name, with_dead_letters=with_dead_letters))

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: groups.Target | None = None,
        *,
        shift: int | None = None,
        queue_ids: Iterable[int] = (),
        broker: str = "",
        dry_run: bool = False,
    ) -> list[groups.OffsetMove]:
        """Move a group in a topic: to an end of its queues, a time, an offset, or by so many messages (`shift`).

        It moves in all queues unless some are named, on all brokers unless one is. `to="latest"` skips the backlog.
        Claims in these queues end; if all queues move, messages that wait for a retry are dropped too. With `dry_run`
        the moves are returned, and nothing changes.
        """
        move = groups.reset_offsets(group, topic, to, shift=shift, queue_ids=queue_ids, broker=broker, dry_run=dry_run)
        return await self._send_call(move)

    async def skip_message(
        self, group: str, topic: str, queue_id: int, queue_offset: int, *, broker: str = ""
    ) -> list[groups.OffsetMove]:
        """Finish one message for a group: a FIFO group stops at one that can't be read, and continues then."""
        return await self._send_call(groups.skip_message(group, topic, queue_id, queue_offset, broker=broker))

    # Stored messages.

    async def find_messages(self, topic: str, key: str, *, limit: int = messages.FOUND_MAX) -> list[MessageView]:
        """Find messages of a topic by key or message id, the newest first; also in `%RETRY%group` and `%DLQ%group`."""
        return await self._send_call(messages.find_messages(topic, key, limit=limit))

    async def describe_message(
        self, topic: str, queue_id: int, offset: int, *, broker: str = "", lite_topic: str = ""
    ) -> message_status.MessageDescription:
        """Describe a message by its offset, and its status in each group: finished, in flight, waiting. A lite topic
        has one queue, 0."""
        call = message_status.describe_message(topic, queue_id, offset, broker=broker, lite_topic=lite_topic)
        return await self._send_call(call)

    async def list_timers(self, *, topic: str = "") -> AsyncIterator[timers.WaitingTimer]:
        """List delayed messages that wait, by broker and time; those of one topic if it is named."""
        page = ""
        while True:
            found = await self._send_call(timers.list_timers(topic=topic, page=page))
            for timer in found.timers:
                yield timer
            page = found.next_page
            if not page:
                return

    async def history(self, *, topic: str = "", group: str = "") -> history.History:
        """Return the figures of the last hours: of a topic, of a group, or of the server."""
        return await self._send_call(history.get_history(topic=topic, group=group))

    async def list_dead_letters(self, group: str, *, broker: str = "") -> AsyncIterator[MessageView]:
        """List the dead letters of a group, by broker and offset; they stay where they are.

        `NotFound` if the group does not exist. `resend_dead_letters` takes the `offset` and `broker` of a view.
        """
        await self.describe_group(group)
        letters = DeadLetterReader(self._check_open(), group, timeout_s=self._request_timeout_s)
        async for view in letters.read_letters(check_text("broker", broker)):
            yield view

    async def resend_dead_letters(
        self, group: str, queue_offsets: Iterable[int], *, broker: str = "", to_topic: str = ""
    ) -> list[messages.ResentDeadLetter]:
        """Deliver dead letters of a group again, named by their offsets in `%DLQ%group` on one broker.

        They go to this group alone, with all their attempts. Those of a FIFO group, and all with `to_topic`, are sent
        to a topic instead, for all of its groups. A letter that is resent twice is delivered twice.
        """
        return await self._send_call(
            messages.resend_dead_letters(group, queue_offsets, broker=broker, to_topic=to_topic)
        )

    async def list_transactions(
        self, state: OpenState = "pending", *, topic: str = "", message_id: str = ""
    ) -> AsyncIterator[messages.OpenTransaction]:
        """List open transactions, the oldest first: those that wait for their producer, or that no producer ended; only
        of a topic or a message if one is named."""
        page = ""
        while True:
            found = await self._send_call(
                messages.list_transactions(state, topic=topic, message_id=message_id, page=page)
            )
            for transaction in found.transactions:
                yield transaction
            page = found.next_page
            if not page:
                return

    async def describe_transaction(self, transaction_id: str) -> messages.TransactionDescription:
        """Describe a transaction and its message."""
        return await self._send_call(messages.describe_transaction(transaction_id))

    async def resolve_transaction(self, transaction_id: str, resolution: Resolution) -> messages.OpenTransaction:
        """Commit or roll back an open transaction instead of its producer; returns the transaction with its new
        state."""
        return await self._send_call(messages.resolve_transaction(transaction_id, resolution))

    # Quotas.

    async def put_quota(self, kind: quotas.QuotaKindName, name: str, **limits: Unpack[quotas.QuotaLimits]) -> bool:
        """Set the quota of a user, topic, group or client to these limits and no others; True if there was none.

        The name `*` is the default of its kind. A quota applies to all proxies together.
        """
        return await self._send_call(quotas.put_quota(kind, name, limits))

    async def delete_quota(self, kind: quotas.QuotaKindName, name: str) -> None:
        """Remove a quota."""
        await self._send_call(quotas.delete_quota(kind, name))

    async def list_quotas(self) -> quotas.QuotaList:
        """List all quotas, and the names that use most of them at the server that answers."""
        return await self._send_call(quotas.list_all())

    # Brokers and the server.

    async def list_brokers(self) -> list[brokers.Broker]:
        """List all brokers by name."""
        return await self._send_call(brokers.list_all())

    async def list_proxies(self) -> proxies.ProxyList:
        """List the proxies of the cluster by name, or the server itself if it is its own broker."""
        return await self._send_call(proxies.list_all())

    async def list_clients(self, *, group: str = "", topic: str = "") -> proxies.ClientList:
        """List the clients that are connected to any proxy: members of the group, and those that publish or subscribe
        to the topic, if one is named."""
        found: list[proxies.ConnectedClient] = []
        silent: dict[str, None] = {}
        page = ""
        while True:
            answer = await self._send_call(proxies.list_clients(group=group, topic=topic, page=page))
            found.extend(answer.clients)
            silent.update(dict.fromkeys(answer.silent))
            page = answer.next_page
            if not page:
                return proxies.ClientList(clients=tuple(found), silent=tuple(silent))

    async def update_broker(
        self, name: str, *, permission: Permission | None = None, draining: bool | None = None
    ) -> brokers.Broker:
        """Set what clients may do with a broker's queues, or drain it: it delivers what it has and accepts nothing
        new."""
        return await self._send_call(brokers.update_broker(name, permission=permission, draining=draining))

    async def remove_broker(self, name: str, *, force: bool = False) -> brokers.RemovedBroker:
        """Remove a broker. It must be draining and have nothing left, as it reports or last reported, unless `force`
        gives that up; the result has what is known to be lost."""
        return await self._send_call(brokers.remove_broker(name, force=force))

    async def broker_remaining(self, name: str) -> brokers.BrokerRemaining:
        """Return what would be lost with a broker."""
        return await self._send_call(brokers.broker_remaining(name))

    async def move_leader(self, broker: str, replica: str) -> brokers.Broker:
        """Ask the leader of a broker with replicas to hand over to this replica, which must be live and in sync.
        Returns the broker as it is now; `list_brokers` shows when the handover has happened."""
        return await self._send_call(shards.move_leader(broker, replica))

    async def elect_replica(self, broker: str, replica: str) -> shards.UncleanElection:
        """Elect a replica that is not in sync while no leader is live: the messages that it lacks are lost."""
        return await self._send_call(shards.elect_replica(broker, replica))

    async def add_replica(self, broker: str) -> brokers.Broker:
        """Allow a broker with replicas one more, which is then to be started."""
        return await self._send_call(shards.add_replica(broker))

    async def remove_replica(self, broker: str, replica: str) -> brokers.Broker:
        """Remove a replica that does not lead, and allow the broker one less."""
        return await self._send_call(shards.remove_replica(broker, replica))

    async def server_info(self) -> brokers.ServerInfo:
        """Return the server's version, start, memory and time."""
        return await self._send_call(brokers.server_info())

    async def advance_clock(self, by: timedelta | float) -> datetime:
        """Move the clock of a server with a test clock; `Forbidden` at every other. Returns the server's new time."""
        now = await self._send_call(brokers.advance_clock(by))
        report_jump(self._endpoints, by)
        return now

    # Users.

    async def create_user(self, name: str, secret: str = "", *, is_super: bool = False) -> users.UserSecret:
        """Create a user, whose access key is the name; `BadRequest` if it exists. Without a secret the server creates
        one, which is returned here and never again."""
        return await self._send_call(users.create_user(name, secret, is_super=is_super))

    async def update_user(self, name: str, *, is_super: bool | None = None, enabled: bool | None = None) -> users.User:
        """Make a user a super user or not, enabled or not; the last enabled super user can't be changed."""
        return await self._send_call(users.update_user(name, is_super=is_super, enabled=enabled))

    async def delete_user(self, name: str) -> None:
        """Delete a user, with all secrets and policies."""
        await self._send_call(users.delete_user(name))

    async def describe_user(self, name: str) -> users.User:
        """Describe a user with its policies, and the ages of its secrets."""
        return await self._send_call(users.describe_user(name))

    async def list_users(self) -> AsyncIterator[users.User]:
        """List all users by name."""
        page = ""
        while True:
            found = await self._send_call(users.list_users(page))
            for user in found.users:
                yield user
            page = found.next_page
            if not page:
                return

    async def rotate_secret(self, name: str, secret: str = "", *, overlap: timedelta | None = None) -> users.UserSecret:
        """Give a user another secret; the server creates it if it is left out. The previous one stays valid for the
        overlap, a day by default; any older one ends."""
        return await self._send_call(users.rotate_secret(name, secret, overlap=overlap))

    async def put_policy(
        self, name: str, resource: str, actions: str, *, deny: bool = False, sources: Iterable[str] = ()
    ) -> users.User:
        """Allow a user something, or with `deny` forbid it: `put_policy("alice", "Topic:orders-*", "Pub,Sub")`. It
        replaces the policy with the same resource and decision. Returns the changed user."""
        return await self._send_call(users.put_policy(name, resource, actions, deny=deny, sources=sources))

    async def delete_policy(self, name: str, resource: str, *, deny: bool = False) -> users.User:
        """Remove a policy; `NotFound` if the user has none with that resource and decision."""
        return await self._send_call(users.delete_policy(name, resource, deny=deny))

    async def reseal_secrets(self) -> users.Resealed:
        """Encrypt all secrets with the current key, after another key became the first."""
        return await self._send_call(users.reseal_secrets())

    # The audit log.

    async def list_audit_entries(
        self,
        *,
        user: str = "",
        call: str = "",
        resource: str = "",
        allowed: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[audit.AuditEntry]:
        """List what the server that answers wrote to its audit log, the newest first; for super users.

        Filters: one user, one call (`DeleteTopic`), a part of the resource (`Topic:orders`), allowed or refused, not
        before `since`, and before `until`. `audit_page` also reports damaged lines.
        """
        page = ""
        while True:
            found = await self.audit_page(
                page, user=user, call=call, resource=resource, allowed=allowed, since=since, until=until
            )
            for entry in found.entries:
                yield entry
            page = found.next_page
            if not page:
                return

    async def audit_page(
        self,
        page: str = "",
        *,
        user: str = "",
        call: str = "",
        resource: str = "",
        allowed: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = audit.PAGE,
    ) -> audit.AuditPage:
        """Return a page of `list_audit_entries`, which may be empty although more follow; `page` is `next_page` of the
        page before."""
        return await self._send_call(
            audit.list_page(
                page,
                user=user,
                call=call,
                resource=resource,
                allowed=allowed,
                since=since,
                until=until,
                limit=limit,
            )
        )

    async def _send_call(self, call: AdminCall[ValueT]) -> ValueT:
        connection = self._check_open()
        method = RpcMethod(call.name, type(call.request), call.response, f"/{SERVICE}/")
        timeout_s = max(self._request_timeout_s, call.at_least_s)
        answer = await connection.call_unary(method, call.request, timeout_s=timeout_s)
        check_status(answer.status)
        try:
            return call.read_value(answer)
        except ValueError as error:
            raise InternalError(pb.INTERNAL_ERROR, f"{self._endpoints}: {error}") from None

    def _check_open(self) -> GrpcConnection:
        self._check_process()
        if self._life is not ClientLife.RUNNING or self._connection is None:
            raise NotRunning(f"this Admin {self._life.value}")
        self._own_loop.check_loop(self)
        return self._connection

    def _check_process(self) -> None:
        if self._forks != fork_count():
            raise NotRunning("this Admin was created before the process was forked; create a new one in the child")
