"""Heartbeat and NotifyClientTermination: clients come, stay and go (`overview.md, Heartbeats and termination`)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import LiteAction, LiteSync
from ternmq_common.names import checked_group
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import (
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
)
from ternmq_proxy.access.needs import GROUP_SUB
from ternmq_proxy.fronts.grpc.activities.group_creation import may_create_group
from ternmq_proxy.fronts.grpc.activities.lite_groups import LITE_TYPES
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import ClientType
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.activities.send_message import Answer
    from ternmq_proxy.processors.clients import CommandStream, ConnectedClient
    from ternmq_proxy.services import Services

_ALIVE = HeartbeatResponse(status=OK).SerializeToString()
_PRODUCERS = {definition_pb2.PRODUCER}
_CONSUMERS = {
    definition_pb2.PUSH_CONSUMER,
    definition_pb2.SIMPLE_CONSUMER,
    definition_pb2.PULL_CONSUMER,
    definition_pb2.LITE_PUSH_CONSUMER,
    definition_pb2.LITE_SIMPLE_CONSUMER,
}


def begin_heartbeat(data: bytes, call: "Call", services: "Services", answer: "Answer") -> bool:
    """Keep a client alive whose group, if it has one, is known here; False: nothing was done, for the others. `data` is
    the request; `call` is that of a client whose id was checked."""
    kind, group = _told(HeartbeatRequest.FromString(data), services.clients.find(call.client_id))
    if kind in _CONSUMERS and services.catalog.has_group(group):
        services.access.require("Heartbeat", call, GROUP_SUB, group)
        services.clients.seen(call.client_id, group, kind, user=call.user, joined=True)
    elif kind in _PRODUCERS:
        services.clients.seen(call.client_id, user=call.user)
    else:
        return False
    answer(_ALIVE, ErrorCode.OK)
    return True


async def heartbeat(request: HeartbeatRequest, call: "Call", services: "Services") -> HeartbeatResponse:
    """Keep the client alive. One that is unknown here, after a restart, is taken as it describes itself, since no
    client sends its settings again because a heartbeat was refused."""
    client_id = call.require_client()
    kind, group = _told(request, services.clients.find(client_id))
    if kind in _CONSUMERS:
        may_create = may_create_group(call, group, services)
        topics = services.subscriptions.topics(group)
        await services.catalog.group_of(checked_group(group), topics, may_create=may_create)
        joined = services.catalog.has_group(group)
        services.clients.seen(client_id, group, kind, user=call.user, joined=joined)
    elif kind in _PRODUCERS:
        services.clients.seen(client_id, user=call.user)
    else:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE,
            "the client's type is unknown: it sent no settings, and its heartbeat names no type",
        )
    return HeartbeatResponse(status=OK)


def _told(request: HeartbeatRequest, known: "ConnectedClient | None") -> "tuple[ClientType, str]":
    """The client's type, and its group, as far as it ever told."""
    kind = known.settings.client_type if known is not None and known.settings is not None else request.client_type
    return kind, request.group.name or (known.group if known is not None else "")


async def depart(client: "ConnectedClient", services: "Services") -> None:
    """A client is gone, with or without a word: others get what it held, the queues that it had for itself, and the
    transaction checks that it did not answer."""
    services.orphans.left(client.client_id)
    await services.renewal.release(client.client_id)
    services.subscriptions.forget(client.client_id)
    if client.group:
        await services.messages.leave(client.group, client.client_id)


def detach(client_id: str, stream: "CommandStream", services: "Services") -> bool:
    """A Telemetry stream of the client ended; whether it was its last. With that no command reaches it; what it holds
    stays its own."""
    was_last = services.clients.detach(client_id, stream)
    if was_last:
        services.orphans.left(client_id)
    return was_last


async def _unsubscribe(group_name: str, client_id: str, services: "Services") -> None:
    """The client subscribes no lite topics any more. Of one that says nothing brokers forget it by themselves: it may
    be connected elsewhere."""
    group = services.catalog.rules(group_name)
    if group.lite is not None:
        await services.messages.sync_lite(LiteSync(group_name, group.lite.bind, client_id, LiteAction.COMPLETE_REMOVE))


async def notify_client_termination(
    request: NotifyClientTerminationRequest, call: "Call", services: "Services"
) -> NotifyClientTerminationResponse:
    """Forget the client and show the messages that it holds to others at once."""
    client_id = call.require_client()
    client = services.clients.find(client_id)
    if client is None:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE, "the client is not known here; it has ended before, or never began"
        )
    services.clients.forget(client_id)
    await depart(client, services)
    if client.client_type in LITE_TYPES and client.group:
        await _unsubscribe(client.group, client_id, services)
    if client.settings is not None and client.settings.client_type in _CONSUMERS:
        checked_group(request.group.name or client.group)
    return NotifyClientTerminationResponse(status=OK)
