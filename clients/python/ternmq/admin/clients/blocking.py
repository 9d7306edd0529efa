"""`ternmq.blocking.Admin`, the client of the admin service without `async`."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ternmq.admin.audit import AuditEntry
from ternmq.admin.clients.client import Admin as AsyncAdmin
from ternmq.admin.messages import OpenTransaction
from ternmq.admin.requests.call import CALL_TIMEOUT_S
from ternmq.admin.requests.words import OpenState
from ternmq.admin.timers import WaitingTimer
from ternmq.admin.users import User
from ternmq.background import run_and_wait
from ternmq.connections.credentials import CredentialsSource
from ternmq.connections.tls import Tls
from ternmq.messages.message_view import MessageView
from ternmq.times.durations import Seconds

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


def _create_blocking(
    method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, ResultT]],
) -> "Callable[Concatenate[Admin, P], ResultT]":
    """Return the blocking form of a method."""

    @functools.wraps(method)
    def waiting(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return run_and_wait(method(self._admin, *args, **kwargs))

    return waiting


def _iterate_blocking(found: AsyncIterator[ResultT]) -> Iterator[ResultT]:
    while (one := run_and_wait(_next_or_none(found))) is not None:
        yield one


async def _next_or_none(found: AsyncIterator[ResultT]) -> ResultT | None:
    return await anext(found, None)


class Admin:
    """Administers topics, groups, brokers, users and stored messages; `ternmq.Admin` explains arguments and methods.

    with Admin("127.0.0.1:8081") as admin:
        admin.create_topic("orders", "fifo", queues=8)
    """

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: CredentialsSource | None = None,
        tls: Tls = False,
        request_timeout: Seconds = CALL_TIMEOUT_S,
    ) -> None:
        self._admin = AsyncAdmin(endpoint, credentials=credentials, tls=tls, request_timeout=request_timeout)

    @property
    def client_id(self) -> str:
        """The name by which the server knows this client."""
        return self._admin.client_id

    def start(self) -> Self:
        """Open the channel; it connects at the first call."""
        run_and_wait(self._admin.start())
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def list_transactions(
        self, state: OpenState = "pending", *, topic: str = "", message_id: str = ""
    ) -> Iterator[OpenTransaction]:
        """List open transactions, the oldest first: those that wait for their producer, or that no producer ended; only
        of a topic or a message if one is named."""
        return _iterate_blocking(self._admin.list_transactions(state, topic=topic, message_id=message_id))

    def list_timers(self, *, topic: str = "") -> Iterator[WaitingTimer]:
        """List delayed messages that wait, by broker and time; those of one topic if it is named."""
        return _iterate_blocking(self._admin.list_timers(topic=topic))

    def list_dead_letters(self, group: str, *, broker: str = "") -> Iterator[MessageView]:
        """List the dead letters of a group, by broker and offset; they stay where they are."""
        return _iterate_blocking(self._admin.list_dead_letters(group, broker=broker))

    def list_users(self) -> Iterator[User]:
        """List all users by name."""
        return _iterate_blocking(self._admin.list_users())

    def list_audit_entries(
        self,
        *,
        user: str = "",
        call: str = "",
        resource: str = "",
        allowed: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[AuditEntry]:
        """List what the server that answers wrote to its audit log, the newest first; for super users."""
        entries = self._admin.list_audit_entries(
            user=user, call=call, resource=resource, allowed=allowed, since=since, until=until
        )
        return _iterate_blocking(entries)

    close = _create_blocking(AsyncAdmin.close)
    create_topic = _create_blocking(AsyncAdmin.create_topic)
    list_topics = _create_blocking(AsyncAdmin.list_topics)
    describe_topic = _create_blocking(AsyncAdmin.describe_topic)
    update_topic = _create_blocking(AsyncAdmin.update_topic)
    delete_topic = _create_blocking(AsyncAdmin.delete_topic)
    purge_topic = _create_blocking(AsyncAdmin.purge_topic)
    create_group = _create_blocking(AsyncAdmin.create_group)
    list_groups = _create_blocking(AsyncAdmin.list_groups)
    describe_group = _create_blocking(AsyncAdmin.describe_group)
    update_group = _create_blocking(AsyncAdmin.update_group)
    delete_group = _create_blocking(AsyncAdmin.delete_group)
    reset_offsets = _create_blocking(AsyncAdmin.reset_offsets)
    skip_message = _create_blocking(AsyncAdmin.skip_message)
    find_messages = _create_blocking(AsyncAdmin.find_messages)
    describe_message = _create_blocking(AsyncAdmin.describe_message)
    history = _create_blocking(AsyncAdmin.history)
    resend_dead_letters = _create_blocking(AsyncAdmin.resend_dead_letters)
    describe_transaction = _create_blocking(AsyncAdmin.describe_transaction)
    resolve_transaction = _create_blocking(AsyncAdmin.resolve_transaction)
    put_quota = _create_blocking(AsyncAdmin.put_quota)
    delete_quota = _create_blocking(AsyncAdmin.delete_quota)
    list_quotas = _create_blocking(AsyncAdmin.list_quotas)
    list_brokers = _create_blocking(AsyncAdmin.list_brokers)
    list_proxies = _create_blocking(AsyncAdmin.list_proxies)
    list_clients = _create_blocking(AsyncAdmin.list_clients)
    update_broker = _create_blocking(AsyncAdmin.update_broker)
    remove_broker = _create_blocking(AsyncAdmin.remove_broker)
    broker_remaining = _create_blocking(AsyncAdmin.broker_remaining)
    move_leader = _create_blocking(AsyncAdmin.move_leader)
    elect_replica = _create_blocking(AsyncAdmin.elect_replica)
    add_replica = _create_blocking(AsyncAdmin.add_replica)
    remove_replica = _create_blocking(AsyncAdmin.remove_replica)
    server_info = _create_blocking(AsyncAdmin.server_info)
    advance_clock = _create_blocking(AsyncAdmin.advance_clock)
    create_user = _create_blocking(AsyncAdmin.create_user)
    update_user = _create_blocking(AsyncAdmin.update_user)
    delete_user = _create_blocking(AsyncAdmin.delete_user)
    describe_user = _create_blocking(AsyncAdmin.describe_user)
    rotate_secret = _create_blocking(AsyncAdmin.rotate_secret)
    put_policy = _create_blocking(AsyncAdmin.put_policy)
    delete_policy = _create_blocking(AsyncAdmin.delete_policy)
    reseal_secrets = _create_blocking(AsyncAdmin.reseal_secrets)
    audit_page = _create_blocking(AsyncAdmin.audit_page)
