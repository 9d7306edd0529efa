"""`Admin` on asyncio."""

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
from ternmq.admin.call import CALL_TIMEOUT_S, SERVICE, AdminCall, ValueT
from ternmq.admin.checks import text
from ternmq.admin.dead_letters import DeadLetters
from ternmq.admin.words import Flush, OpenState, Permission, Replication, Resolution, TopicType
from ternmq.client import Life
from ternmq.clock_jumps import jumped
from ternmq.connection import Connection, Method
from ternmq.credentials import CredentialsSource
from ternmq.durations import Seconds, seconds_above_0
from ternmq.endpoints import Endpoints
from ternmq.errors import InternalError, NotRunning, check
from ternmq.forks import forks
from ternmq.identity import Identity
from ternmq.message_view import MessageView
from ternmq.own_loop import OwnLoop
from ternmq.tls import Tls, tls_options
from ternmq_protos.v2 import definition_pb2 as pb


class Admin:
    """Topics, groups, brokers, users and what is stored, of TernMQ; other servers answer `Unsupported`.

        async with Admin("127.0.0.1:8081") as admin:
            await admin.create_topic("orders", "fifo", queues=8)
            for progress in (await admin.describe_group("billing")).progress:
                print(progress.topic, progress.queue_id, progress.lag)

    A server that refuses raises what it means: `NotFound`, `BadRequest`, `Forbidden` and so on, with its code. Nothing
    is repeated. `request_timeout` is seconds for one call. A call to a server that is not there fails with
    `ConnectionFailed`; to start an `Admin` asks nothing.
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
        self._identity = Identity(credentials)
        self._tls = tls_options(tls)
        self._request_timeout_s = seconds_above_0("request_timeout", request_timeout)
        self._life = Life.NEW
        self._own_loop = OwnLoop()
        self._forks = forks()
        self._connection: Connection | None = None

    @property
    def client_id(self) -> str:
        """The name under which the server knows this client."""
        return self._identity.client_id

    async def start(self) -> Self:
        """Open the channel; it connects with the first call."""
        self._check_process()
        if self._life is not Life.NEW:
            raise NotRunning(f"this Admin {self._life.value}; make a new one")
        self._own_loop.take()
        self._connection = Connection(self._endpoints, self._identity, self._tls)
        self._life = Life.RUNNING
        return self

    async def close(self) -> None:
        """Close the connection; calls under way fail with `NotRunning`. May be called twice."""
        if self._forks != forks():  # the connection is the parent's
            return
        if self._life is Life.RUNNING:
            self._own_loop.check(self)
        self._life = Life.CLOSED
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
        permission: Permission | None = None,
        brokers: Iterable[str] = (),
        replication: Replication | None = None,
        flush: Flush | None = None,
        retention: timedelta | None = None,
        lite_ttl: timedelta | None = None,
    ) -> bool:
        """Make a topic; False if it was there with the same settings, `BadRequest` if with others.

        `queues` is how many message queues it has on each of its brokers. What is left out is the server's default; a
        topic is on all brokers of a cluster unless some are named. `replication` says when sends to brokers with
        replicas are answered: when all in-sync replicas have the message, or the leader; or as each shard has it.
        `flush` is the same of a broker's disk. Messages older than `retention` are gone. In a topic of type lite a lite
        topic to which nothing was sent for `lite_ttl`, at least 15 minutes, is dropped.
        """
        made = topics.create(
            name,
            type,
            queues,
            permission=permission,
            brokers=brokers,
            replication=replication,
            flush=flush,
            retention=retention,
            lite_ttl=lite_ttl,
        )
        return await self._ask(made)

    async def list_topics(self, names: Iterable[str] = (), *, search: str = "") -> list[topics.Topic]:
        """All topics, by their names; or those of `names` that are there, retry and dead letter topics included. Of
        `search`, if that is not empty, those with it in their name, in any case."""
        return await self._ask(topics.list_all(names, search=search))

    async def describe_topic(self, name: str, *, contents: bool = False) -> topics.TopicDescription:
        """A topic, and what its queues hold; with `contents` also their sizes, ages, groups and rates, which cost more
        to know."""
        return await self._ask(topics.describe(name, contents=contents))

    async def update_topic(
        self,
        name: str,
        *,
        queues: int | None = None,
        permission: Permission | None = None,
        add_brokers: Iterable[str] = (),
        remove_brokers: Iterable[str] = (),
        replication: Replication | None = None,
        flush: Flush | None = None,
        retention: timedelta | None = None,
        lite_ttl: timedelta | None = None,
    ) -> topics.Topic:
        """Change a topic; what is left out stays. Queues can be added and not taken away; the topic as it is then.

        A broker can be removed when it is draining, or nobody can write to the topic: what is there is lost. A
        `retention` of 0 is that of each broker, a `lite_ttl` of 0 none.
        """
        change = topics.update(
            name,
            queues=queues,
            permission=permission,
            add_brokers=add_brokers,
            remove_brokers=remove_brokers,
            replication=replication,
            flush=flush,
            retention=retention,
            lite_ttl=lite_ttl,
        )
        return await self._ask(change)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages."""
        await self._ask(topics.delete(name))

    async def purge_topic(
        self, name: str, *, before: datetime | None = None, dry_run: bool = False
    ) -> list[topics.PurgedQueue]:
        """Remove a topic's messages, all or those that were stored before a time, and keep the topic. Groups go on with
        what is left; what is timed or half stays."""
        return await self._ask(topics.purge(name, before=before, dry_run=dry_run))

    # Groups.

    async def create_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> bool:
        """Make a consumer group; False if it was there with the same settings, `BadRequest` if with others."""
        return await self._ask(groups.create(name, settings))

    async def list_groups(self, *, search: str = "") -> list[groups.Group]:
        """All consumer groups, by their names; of `search`, if that is not empty, those with it in their name, in any
        case."""
        return await self._ask(groups.list_all(search=search))

    async def describe_group(self, name: str) -> groups.GroupDescription:
        """A group, how far it is in each queue, and its connected members."""
        return await self._ask(groups.describe(name))

    async def update_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> groups.Group:
        """Change settings of a group; what is left out stays. The group as it is then.

        These are two calls: of two callers that change a group at the same moment, one may undo what the other did.
        Clients that are connected learn of it within five minutes.
        """
        there = await self.describe_group(name)
        return await self._ask(groups.update(there.group, settings))

    async def delete_group(self, name: str, *, with_dead_letters: bool = False) -> None:
        """Delete a group and its progress. Its dead letters stay for a group that is created with this name, unless
        they are to be deleted too."""
        await self._ask(groups.delete(name, with_dead_letters=with_dead_letters))

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

        All queues unless some are named, on all brokers unless one is. `to="latest"` skips the backlog. Claims under
        way in these queues end; with all queues, also what waits for a retry is dropped. With `dry_run` nothing
        changes, and the moves are told.
        """
        move = groups.reset_offsets(group, topic, to, shift=shift, queue_ids=queue_ids, broker=broker, dry_run=dry_run)
        return await self._ask(move)

    async def skip_message(
        self, group: str, topic: str, queue_id: int, queue_offset: int, *, broker: str = ""
    ) -> list[groups.OffsetMove]:
        """Have one message finished for a group: a FIFO group stops at one that can't be read, and goes on then."""
        return await self._ask(groups.skip_message(group, topic, queue_id, queue_offset, broker=broker))

    # What is stored.

    async def find_messages(self, topic: str, key: str, *, limit: int = messages.FOUND_MAX) -> list[MessageView]:
        """Messages of a topic with a key or message id, the newest first; also of `%RETRY%group` and `%DLQ%group`."""
        return await self._ask(messages.find(topic, key, limit=limit))

    async def describe_message(
        self, topic: str, queue_id: int, offset: int, *, broker: str = "", lite_topic: str = ""
    ) -> message_status.MessageDescription:
        """A message by its place, and which groups have finished it, have it now, or wait for it. A lite topic has one
        queue, 0."""
        call = message_status.describe_message(topic, queue_id, offset, broker=broker, lite_topic=lite_topic)
        return await self._ask(call)

    async def list_timers(self, *, topic: str = "") -> AsyncIterator[timers.WaitingTimer]:
        """Timed messages that wait, of each broker in the order of their times; of one topic, if it is named."""
        page = ""
        while True:
            found = await self._ask(timers.list_timers(topic=topic, page=page))
            for timer in found.timers:
                yield timer
            page = found.next_page
            if not page:
                return

    async def history(self, *, topic: str = "", group: str = "") -> history.History:
        """Figures of the last hours: of a topic, of a group, or of the server."""
        return await self._ask(history.get_history(topic=topic, group=group))

    async def list_dead_letters(self, group: str, *, broker: str = "") -> AsyncIterator[MessageView]:
        """The dead letters of a group, broker by broker in the order of their offsets; they stay where they are.

        `NotFound` for a group that is not there. `resend_dead_letters` takes the `offset` and `broker` of a view.
        """
        await self.describe_group(group)
        letters = DeadLetters(self._opened(), group, timeout_s=self._request_timeout_s)
        async for view in letters.read(text("broker", broker)):
            yield view

    async def resend_dead_letters(
        self, group: str, queue_offsets: Iterable[int], *, broker: str = "", to_topic: str = ""
    ) -> list[messages.ResentDeadLetter]:
        """Deliver dead letters of a group again, named by their offsets in `%DLQ%group` on one broker.

        They go back to this group alone, with all their attempts; those of a FIFO group, and all with `to_topic`, are
        sent to a topic, for all of its groups. What is resent twice is delivered twice.
        """
        return await self._ask(messages.resend_dead_letters(group, queue_offsets, broker=broker, to_topic=to_topic))

    async def list_transactions(
        self, state: OpenState = "pending", *, topic: str = "", message_id: str = ""
    ) -> AsyncIterator[messages.OpenTransaction]:
        """Open transactions, the oldest first: those that wait for their producer, or that no producer ended; of one
        topic, or of one message, if it is named."""
        page = ""
        while True:
            found = await self._ask(messages.list_transactions(state, topic=topic, message_id=message_id, page=page))
            for transaction in found.transactions:
                yield transaction
            page = found.next_page
            if not page:
                return

    async def describe_transaction(self, transaction_id: str) -> messages.TransactionDescription:
        """A transaction and its message."""
        return await self._ask(messages.describe_transaction(transaction_id))

    async def resolve_transaction(self, transaction_id: str, resolution: Resolution) -> messages.OpenTransaction:
        """Commit or roll back an open transaction in the place of its producer; the transaction as it is then."""
        return await self._ask(messages.resolve_transaction(transaction_id, resolution))

    # Quotas.

    async def put_quota(self, kind: quotas.QuotaKindName, name: str, **limits: Unpack[quotas.QuotaLimits]) -> bool:
        """Have a quota of a user, topic, group or client, with these limits and no others; whether there was none.

        The name `*` is the default of its kind. It holds for all proxies together.
        """
        return await self._ask(quotas.put(kind, name, limits))

    async def delete_quota(self, kind: quotas.QuotaKindName, name: str) -> None:
        """Remove a quota."""
        await self._ask(quotas.delete(kind, name))

    async def list_quotas(self) -> quotas.QuotaList:
        """All quotas, and who takes most of them at the server that is asked."""
        return await self._ask(quotas.list_all())

    # Brokers and the server.

    async def list_brokers(self) -> list[brokers.Broker]:
        """All brokers, by their names."""
        return await self._ask(brokers.list_all())

    async def list_proxies(self) -> proxies.ProxyList:
        """The proxies of the cluster, by their names; the server itself where that is its own broker."""
        return await self._ask(proxies.list_all())

    async def update_broker(
        self, name: str, *, permission: Permission | None = None, draining: bool | None = None
    ) -> brokers.Broker:
        """Say what clients may do with a broker's queues, or let it give out what it has and take nothing new."""
        return await self._ask(brokers.update(name, permission=permission, draining=draining))

    async def remove_broker(self, name: str, *, force: bool = False) -> brokers.RemovedBroker:
        """Forget a broker. It must be draining and have nothing left, by what it says or said last, unless `force`
        gives that up; what is known to be lost then."""
        return await self._ask(brokers.remove(name, force=force))

    async def broker_remaining(self, name: str) -> brokers.BrokerRemaining:
        """What would be lost with a broker."""
        return await self._ask(brokers.remaining(name))

    async def move_leader(self, broker: str, replica: str) -> brokers.Broker:
        """Ask the leader of a broker with replicas to hand over to this one, which must be live and in sync. The broker
        as it is now; `list_brokers` says when it has happened."""
        return await self._ask(shards.move_leader(broker, replica))

    async def elect_replica(self, broker: str, replica: str) -> shards.UncleanElection:
        """Make a replica leader though it is not in sync, while no leader is live: what it has not is lost."""
        return await self._ask(shards.elect(broker, replica))

    async def add_replica(self, broker: str) -> brokers.Broker:
        """Let a broker with replicas have one more, which is then to be started."""
        return await self._ask(shards.add(broker))

    async def remove_replica(self, broker: str, replica: str) -> brokers.Broker:
        """Forget a replica that does not lead, and let the broker have one less."""
        return await self._ask(shards.remove(broker, replica))

    async def server_info(self) -> brokers.ServerInfo:
        """The server's version, start, memory and time."""
        return await self._ask(brokers.server_info())

    async def advance_clock(self, by: timedelta | float) -> datetime:
        """Let time pass at a server with a test clock, `Forbidden` at every other; the time that it has then."""
        now = await self._ask(brokers.advance_clock(by))
        jumped(self._endpoints, by)
        return now

    # Users.

    async def create_user(self, name: str, secret: str = "", *, is_super: bool = False) -> users.UserSecret:
        """Make a user, whose access key is the name; `BadRequest` if there is one. Without a secret the server makes
        one, which is told here and never again."""
        return await self._ask(users.create(name, secret, is_super=is_super))

    async def update_user(self, name: str, *, is_super: bool | None = None, enabled: bool | None = None) -> users.User:
        """Make a user a super user or not, enabled or not; the last super user who is enabled stays that."""
        return await self._ask(users.update(name, is_super=is_super, enabled=enabled))

    async def delete_user(self, name: str) -> None:
        """Delete a user, with all secrets and policies."""
        await self._ask(users.delete(name))

    async def describe_user(self, name: str) -> users.User:
        """A user with its policies; of its secrets their ages."""
        return await self._ask(users.describe(name))

    async def list_users(self) -> AsyncIterator[users.User]:
        """All users, by their names."""
        page = ""
        while True:
            found = await self._ask(users.list_page(page))
            for user in found.users:
                yield user
            page = found.next_page
            if not page:
                return

    async def rotate_secret(self, name: str, secret: str = "", *, overlap: timedelta | None = None) -> users.UserSecret:
        """Give a user another secret, of the server's making if it is left out. The one before stays valid for the
        overlap, a day if it is left out; any older one ends."""
        return await self._ask(users.rotate_secret(name, secret, overlap=overlap))

    async def put_policy(
        self, name: str, resource: str, actions: str, *, deny: bool = False, sources: Iterable[str] = ()
    ) -> users.User:
        """Let a user do something, or with `deny` never: `put_policy("alice", "Topic:orders-*", "Pub,Sub")`. It takes
        the place of the policy with the same resource and decision. The user as it is then."""
        return await self._ask(users.put_policy(name, resource, actions, deny=deny, sources=sources))

    async def delete_policy(self, name: str, resource: str, *, deny: bool = False) -> users.User:
        """Take a policy away; `NotFound` if the user has none with that resource and decision."""
        return await self._ask(users.delete_policy(name, resource, deny=deny))

    async def reseal_secrets(self) -> users.Resealed:
        """Encrypt all secrets with the key that encrypts now, after another became the first."""
        return await self._ask(users.reseal_secrets())

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
        """What the server that is asked wrote to its audit log, the newest first; for super users.

        Of one user, of one call (`DeleteTopic`), with a part of the resource (`Topic:orders`), allowed or refused, not
        before `since`, and before `until`. `audit_page` tells what lies between too: lines that are no entries.
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
        """A page of `list_audit_entries`, which may be empty although more follow; `page` is `next_page` of the one
        before."""
        return await self._ask(
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

    async def _ask(self, call: AdminCall[ValueT]) -> ValueT:
        connection = self._opened()
        method = Method(call.name, type(call.request), call.response, f"/{SERVICE}/")
        timeout_s = max(self._request_timeout_s, call.at_least_s)
        answer = await connection.unary(method, call.request, timeout_s=timeout_s)
        check(answer.status)
        try:
            return call.value(answer)
        except ValueError as error:
            raise InternalError(pb.INTERNAL_ERROR, f"{self._endpoints}: {error}") from None

    def _opened(self) -> Connection:
        self._check_process()
        if self._life is not Life.RUNNING or self._connection is None:
            raise NotRunning(f"this Admin {self._life.value}")
        self._own_loop.check(self)
        return self._connection

    def _check_process(self) -> None:
        if self._forks != forks():
            raise NotRunning("this Admin was made before the process was forked; make a new one in the child")
