"""The offsets that a server knows: the ends of a queue, the offset of a time, the progress of a group."""

from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from ternmq.connections import connection as calls
from ternmq.connections.connection import RequestT, ResponseT, RpcMethod
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue
from ternmq.errors import check_status
from ternmq.times.wire_time import to_nanos, to_timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

StartFrom: TypeAlias = Literal["latest", "earliest"] | datetime
"""A place in a queue: its end, its first message, or the first message that was stored at or after a time."""


class EndpointCall(Protocol):
    """Sends one request to one endpoint."""

    async def __call__(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT, timeout_s: float = 0.0
    ) -> ResponseT: ...


class OffsetStore(Protocol):
    """A store of a group's progress."""

    async def open_store(self) -> None:
        """Prepare the store; called once, before all else."""

    async def load_offset(self, queue: RouteQueue) -> int | None:
        """Return the committed offset of the group; None if it never read this queue."""

    async def store_offset(self, queue: RouteQueue, queue_offset: int) -> None:
        """Store that everything before the offset is done."""


class GroupOffsets:
    """The progress of a group, kept by the server."""

    def __init__(self, group: str, call: EndpointCall) -> None:
        self._group = pb.Resource(name=group)
        self._call = call

    async def open_store(self) -> None:
        """Do nothing: there is nothing to open."""

    async def load_offset(self, queue: RouteQueue) -> int | None:
        request = rpc.GetOffsetRequest(group=self._group, message_queue=queue.proto)
        response = await self._call(queue.endpoints, calls.GET_OFFSET, request)
        if response.status.code == pb.OFFSET_NOT_FOUND:
            return None
        check_status(response.status)
        return response.offset

    async def store_offset(self, queue: RouteQueue, queue_offset: int) -> None:
        request = rpc.UpdateOffsetRequest(group=self._group, message_queue=queue.proto, offset=queue_offset)
        response = await self._call(queue.endpoints, calls.UPDATE_OFFSET, request)
        check_status(response.status)


def check_start(place: StartFrom) -> StartFrom:
    """Return the place if it is valid; a time without a zone is ambiguous."""
    if isinstance(place, datetime):
        if place.tzinfo is None:
            raise ValueError(f"{place!r} has no time zone; write datetime(..., tzinfo=UTC)")
    elif place not in {"latest", "earliest"}:
        raise ValueError(f"{place!r} is neither 'latest' nor 'earliest' nor a datetime")
    return place


def offset_request(queue: RouteQueue, place: StartFrom) -> rpc.QueryOffsetRequest:
    """Create the query for the offset of a place."""
    request = rpc.QueryOffsetRequest(message_queue=queue.proto)
    if isinstance(place, datetime):
        request.query_offset_policy = pb.TIMESTAMP
        request.timestamp.CopyFrom(to_timestamp(to_nanos(place)))
    else:
        request.query_offset_policy = pb.BEGINNING if place == "earliest" else pb.END
    return request


async def find_offset(call: EndpointCall, queue: RouteQueue, place: StartFrom) -> int:
    """Return the offset of a place."""
    response = await call(queue.endpoints, calls.QUERY_OFFSET, offset_request(queue, place))
    check_status(response.status)
    return response.offset
