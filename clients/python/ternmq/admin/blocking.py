"""`ternmq.blocking.Admin`, the client of the admin service without `async`."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ternmq.admin.audit import AuditEntry
from ternmq.admin.call import CALL_TIMEOUT_S
from ternmq.admin.client import Admin as AsyncAdmin
from ternmq.admin.messages import OpenTransaction
from ternmq.admin.timers import WaitingTimer
from ternmq.admin.users import User
from ternmq.admin.words import OpenState
from ternmq.background import wait
from ternmq.credentials import CredentialsSource
from ternmq.durations import Seconds
from ternmq.message_view import MessageView
from ternmq.tls import Tls

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


def _waiting(
    method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, ResultT]],
) -> "Callable[Concatenate[Admin, P], ResultT]":
    """Return the blocking form of a method."""

    @functools.wraps(method)
    def waiting(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return wait(method(self._admin, *args, **kwargs))

    return waiting


def _each(found: AsyncIterator[ResultT]) -> Iterator[ResultT]:
    while (one := wait(_next(found))) is not None:
        yield one


async def _next(found: AsyncIterator[ResultT]) -> ResultT | None:
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
        wait(self._admin.start())
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
        return _each(self._admin.list_transactions(state, topic=topic, message_id=message_id))

    def list_timers(self, *, topic: str = "") -> Iterator[WaitingTimer]:
        """List delayed messages that wait, by broker and time; those of one topic if it is named."""
        return _each(self._admin.list_timers(topic=topic))

    def list_dead_letters(self, group: str, *, broker: str = "") -> Iterator[MessageView]:
        """List the dead letters of a group, by broker and offset; they stay where they are."""
        return _each(self._admin.list_dead_letters(group, broker=broker))

    def list_users(self) -> Iterator[User]:
        """List all users by name."""
        return _each(self._admin.list_users())

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
        return _each(entries)

    close = _waiting(AsyncAdmin.close)
    create_topic = _waiting(AsyncAdmin.create_topic)
    list_topics = _waiting(AsyncAdmin.list_topics)
    describe_topic = _waiting(AsyncAdmin.describe_topic)
    update_topic = _waiting(AsyncAdmin.update_topic)
    delete_topic = _waiting(AsyncAdmin.delete_topic)
    purge_topic = _waiting(AsyncAdmin.purge_topic)
    create_group = _waiting(AsyncAdmin.create_group)
    list_groups = _waiting(AsyncAdmin.list_groups)
    describe_group = _waiting(AsyncAdmin.describe_group)
    update_group = _waiting(AsyncAdmin.update_group)
    delete_group = _waiting(AsyncAdmin.delete_group)
    reset_offsets = _waiting(AsyncAdmin.reset_offsets)
    skip_message = _waiting(AsyncAdmin.skip_message)
    find_messages = _waiting(AsyncAdmin.find_messages)
    describe_message = _waiting(AsyncAdmin.describe_message)
    history = _waiting(AsyncAdmin.history)
    resend_dead_letters = _waiting(AsyncAdmin.resend_dead_letters)
    describe_transaction = _waiting(AsyncAdmin.describe_transaction)
    resolve_transaction = _waiting(AsyncAdmin.resolve_transaction)
    put_quota = _waiting(AsyncAdmin.put_quota)
    delete_quota = _waiting(AsyncAdmin.delete_quota)
    list_quotas = _waiting(AsyncAdmin.list_quotas)
    list_brokers = _waiting(AsyncAdmin.list_brokers)
    list_proxies = _waiting(AsyncAdmin.list_proxies)
    update_broker = _waiting(AsyncAdmin.update_broker)
    remove_broker = _waiting(AsyncAdmin.remove_broker)
    broker_remaining = _waiting(AsyncAdmin.broker_remaining)
    move_leader = _waiting(AsyncAdmin.move_leader)
    elect_replica = _waiting(AsyncAdmin.elect_replica)
    add_replica = _waiting(AsyncAdmin.add_replica)
    remove_replica = _waiting(AsyncAdmin.remove_replica)
    server_info = _waiting(AsyncAdmin.server_info)
    advance_clock = _waiting(AsyncAdmin.advance_clock)
    create_user = _waiting(AsyncAdmin.create_user)
    update_user = _waiting(AsyncAdmin.update_user)
    delete_user = _waiting(AsyncAdmin.delete_user)
    describe_user = _waiting(AsyncAdmin.describe_user)
    rotate_secret = _waiting(AsyncAdmin.rotate_secret)
    put_policy = _waiting(AsyncAdmin.put_policy)
    delete_policy = _waiting(AsyncAdmin.delete_policy)
    reseal_secrets = _waiting(AsyncAdmin.reseal_secrets)
    audit_page = _waiting(AsyncAdmin.audit_page)
