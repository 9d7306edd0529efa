"""Heartbeat and NotifyClientTermination as gRPC has them (`operations/client_life.py`)."""

from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode
from ternmq_protos.v2.service_pb2 import (
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
)
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.client_life import forget_client, keep_alive, keep_alive_nowait

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.activities.send_message import AnswerCallback
    from ternmq_proxy.services import Services

_ALIVE: Final = HeartbeatResponse(status=OK).SerializeToString()


def begin_heartbeat(data: bytes, call: "Call", services: "Services", answer: "AnswerCallback") -> bool:
    """Keep a client alive whose group, if it has one, is known here. Return False, with nothing done, for others.
    `data` is the request; `call` has a checked client id."""
    request = HeartbeatRequest.FromString(data)
    if not keep_alive_nowait(request.client_type, request.group.name, call, services):
        return False
    answer(_ALIVE, ErrorCode.OK)
    return True


async def heartbeat(request: HeartbeatRequest, call: "Call", services: "Services") -> HeartbeatResponse:
    """Keep the client alive."""
    await keep_alive(request.client_type, request.group.name, call, services)
    return HeartbeatResponse(status=OK)


async def notify_client_termination(
    request: NotifyClientTerminationRequest, call: "Call", services: "Services"
) -> NotifyClientTerminationResponse:
    """Forget the client."""
    await forget_client(request.group.name, call, services)
    return NotifyClientTerminationResponse(status=OK)
