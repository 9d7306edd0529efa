"""One ReceiveMessage call, for simple and push consumers."""

import logging
from typing import Protocol, TypeVar

from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue
from ternmq.errors import InternalError, TransportError, create_error
from ternmq.messages.message_view import MessageView
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


ViewT = TypeVar("ViewT", bound=MessageView)
ViewT_co = TypeVar("ViewT_co", bound=MessageView, covariant=True)


class CreateView(Protocol[ViewT_co]):
    """Creates the view that the consumer hands out: its class, or a function that sets more of it."""

    def __call__(self, message: pb.Message, *, broker: str, endpoints: Endpoints) -> ViewT_co: ...


async def receive_messages(
    connection: GrpcConnection,
    request: rpc.ReceiveMessageRequest,
    queue: RouteQueue,
    make_view: CreateView[ViewT],
    *,
    timeout_s: float,
    keep_partial: bool = True,
) -> list[ViewT]:
    """Return the messages of one poll; empty if the server had none in time.

    If the connection breaks in the middle, the messages that arrived are returned, unless `keep_partial` is False: for
    calls that are repeated with the same attempt id and get them again.
    """
    views: list[ViewT] = []
    status = pb.Status()
    try:
        async for parts in connection.call_streaming(calls.RECEIVE_MESSAGE, request, timeout_s=timeout_s):
            for part in parts:
                kind = part.WhichOneof("content")
                if kind == "message":
                    views.append(make_view(part.message, broker=queue.broker, endpoints=queue.endpoints))
                elif kind == "status":
                    status = part.status
    except TransportError as error:
        if not views or not keep_partial:
            raise
        logger.log(log_level_of(error), "a receive broke after %d messages: %s", len(views), error)
    if views or status.code in {pb.OK, pb.MESSAGE_NOT_FOUND}:
        return views
    if status.code == pb.CODE_UNSPECIFIED:
        raise InternalError(pb.INTERNAL_ERROR, f"{connection.endpoints} ended a receive without a status")
    raise create_error(status.code, status.message)
