"""The life of clients: heartbeat, termination, and disappearance (`overview.md, Heartbeats and termination`)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_group_name
from ternmq_common.shard.model import LiteAction, LiteSync
from ternmq_proxy.access.needs import GROUP_SUB
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.processors.client_type import CONSUMERS, LITE_CONSUMERS, ClientType

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.clients import CommandStream, ConnectedClient
    from ternmq_proxy.services import Services


def keep_alive_nowait(client_type: int, group: str, call: "Call", services: "Services") -> bool:
    """Keep a client alive whose group, if it has one, is known here. Return False, with nothing done, if `keep_alive`
    is needed. `call` has a checked client id."""
    client_type, group = _known_of(client_type, group, services.clients.find_client(call.client_id))
    if client_type in CONSUMERS and services.catalog.has_group(group):
        services.access.require_right("Heartbeat", call, GROUP_SUB, group)
        services.clients.note_call(call.client_id, group, client_type, user=call.user, joined=True)
    elif client_type == ClientType.PRODUCER:
        services.clients.note_call(call.client_id, user=call.user)
    else:
        return False
    return True


async def keep_alive(client_type: int, group: str, call: "Call", services: "Services") -> None:
    """Keep the client alive. A client that is unknown after a restart is registered as it describes itself, since no
    client sends its settings again because a heartbeat was refused."""
    client_type, group = _known_of(client_type, group, services.clients.find_client(call.client_id))
    if client_type != ClientType.PRODUCER:
        services.access.require_right("Heartbeat", call, GROUP_SUB, group)
    client_id = call.require_client()
    if client_type in CONSUMERS:
        may_create = may_create_group(call, group, services)
        topics = services.subscriptions.subscribed_topics(group)
        await services.catalog.ensure_subscribed_group(check_group_name(group), topics, may_create=may_create)
        joined = services.catalog.has_group(group)
        services.clients.note_call(client_id, group, client_type, user=call.user, joined=joined)
    elif client_type == ClientType.PRODUCER:
        services.clients.note_call(client_id, user=call.user)
    else:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE,
            "the client's type is unknown: it sent no settings, and its heartbeat names no type",
        )


def _known_of(client_type: int, group: str, known: "ConnectedClient | None") -> tuple[int, str]:
    """Return the client's type and group, as far as its settings or its heartbeat tell them."""
    if known is None:
        return client_type, group
    settings = known.settings
    return client_type if settings is None else settings.client_type, group or known.group


async def forget_client(group: str, call: "Call", services: "Services") -> None:
    """Forget a client that shuts down, and release its messages to others at once. `group` is the group that the client
    names, or empty.

    Raises UNRECOGNIZED_CLIENT_TYPE if the client is not known.
    """
    if group:
        services.access.require_right("NotifyClientTermination", call, GROUP_SUB, group)
    client_id = call.require_client()
    client = services.clients.find_client(client_id)
    if client is None:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE, "the client is not known here; it has ended before, or never began"
        )
    services.clients.forget_client(client_id)
    await release_client(client, services)
    if client.client_type in LITE_CONSUMERS and client.group:
        await _unsubscribe_lite(client.group, client_id, services)
    if client.settings is not None and client.settings.client_type in CONSUMERS:
        check_group_name(group or client.group)


async def release_client(client: "ConnectedClient", services: "Services") -> None:
    """Release what a client held that shut down or disappeared: its messages, its locked queues, and the transaction
    checks that it did not answer."""
    services.orphans.forget_client(client.client_id)
    await services.renewal.release(client.client_id)
    services.subscriptions.forget_client(client.client_id)
    if client.group:
        await services.messages.consuming.leave(client.group, client.client_id)


def detach_stream(client_id: str, stream: "CommandStream", services: "Services") -> bool:
    """Forget a stream of the client that ended; return whether it was the last. Without a stream no command reaches the
    client, but it keeps its messages."""
    was_last = services.clients.detach_stream(client_id, stream)
    if was_last:
        services.orphans.forget_client(client_id)
    return was_last


async def _unsubscribe_lite(group_name: str, client_id: str, services: "Services") -> None:
    """End the client's subscriptions to lite topics. For a client that disappeared brokers do that themselves, since it
    may be connected elsewhere."""
    group = services.catalog.group_or_default(group_name)
    if group.lite is not None:
        await services.messages.consuming.sync_lite(
            LiteSync(group_name, group.lite.bind, client_id, LiteAction.COMPLETE_REMOVE)
        )
