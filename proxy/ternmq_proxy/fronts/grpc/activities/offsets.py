"""UpdateOffset, GetOffset and QueryOffset as gRPC has them (`operations/offsets.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import (
    GetOffsetRequest,
    GetOffsetResponse,
    QueryOffsetRequest,
    QueryOffsetResponse,
    UpdateOffsetRequest,
    UpdateOffsetResponse,
)
from ternmq_proxy.fronts.grpc.activities.message_queue import read_queue
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.operations.offsets import OffsetPolicy, commit_offset, find_committed_offset, find_offset

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_POLICIES = {
    definition_pb2.BEGINNING: OffsetPolicy.BEGINNING,
    definition_pb2.END: OffsetPolicy.END,
    definition_pb2.TIMESTAMP: OffsetPolicy.TIMESTAMP,
}


async def update_offset(request: UpdateOffsetRequest, call: "Call", services: "Services") -> UpdateOffsetResponse:
    """Commit an offset for the group."""
    await commit_offset(request.group.name, read_queue(request.message_queue), request.offset, call, services)
    return UpdateOffsetResponse(status=OK)


async def get_offset(request: GetOffsetRequest, call: "Call", services: "Services") -> GetOffsetResponse:
    """Return the group's committed offset."""
    offset = await find_committed_offset(request.group.name, read_queue(request.message_queue), call, services)
    return GetOffsetResponse(status=OK, offset=offset)


async def query_offset(request: QueryOffsetRequest, call: "Call", services: "Services") -> QueryOffsetResponse:
    """Return the queue's first offset, its last, or that of a time."""
    policy = _POLICIES.get(request.query_offset_policy)
    when = time_ms(request.timestamp) if request.HasField("timestamp") else None
    offset = await find_offset(read_queue(request.message_queue), policy, when, call, services)
    return QueryOffsetResponse(status=OK, offset=offset)
