"""One ReceiveMessage call, as simple and push consumers make it."""

import logging

from ternmq import connection as calls
from ternmq.connection import Connection
from ternmq.errors import InternalError, TransportError, error_of
from ternmq.message_view import MessageView
from ternmq.reachability import level_of
from ternmq.route import Queue
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


async def receive(
    connection: Connection,
    request: rpc.ReceiveMessageRequest,
    queue: Queue,
    *,
    timeout_s: float,
    keep_partial: bool = True,
) -> list[MessageView]:
    """The messages of one poll; an empty list when the server had none in time.

    When the connection breaks in the middle, the messages that came are as good as any: they are returned, unless
    `keep_partial` is False, which is for calls that are repeated with the same attempt id and get them again.
    """
    views: list[MessageView] = []
    status = pb.Status()
    try:
        async for part in connection.stream(calls.RECEIVE_MESSAGE, request, timeout_s=timeout_s):
            kind = part.WhichOneof("content")
            if kind == "message":
                views.append(MessageView(part.message, broker=queue.broker, endpoints=queue.endpoints))
            elif kind == "status":
                status = part.status
    except TransportError as error:
        if not views or not keep_partial:
            raise
        logger.log(level_of(error), "a receive broke after %d messages: %s", len(views), error)
    if views or status.code in {pb.OK, pb.MESSAGE_NOT_FOUND}:
        return views
    if status.code == pb.CODE_UNSPECIFIED:
        raise InternalError(pb.INTERNAL_ERROR, f"{connection.endpoints} ended a receive without a status")
    raise error_of(status.code, status.message)
