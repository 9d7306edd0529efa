"""ResetGroupOffset: a group goes on at a time."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.admin_v1.admin_pb2 import ResetOffsetsRequest
from ternmq_protos.v2.admin_pb2 import ResetGroupOffsetRequest, ResetGroupOffsetResponse
from ternmq_proxy.fronts.grpc.activities.admin.messages import reset_offsets
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_group
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def reset_group_offset(
    request: ResetGroupOffsetRequest, call: "Call", services: "Services"
) -> ResetGroupOffsetResponse:
    """As ResetOffsets to a time in all queues of the topic."""
    group = await named_group(request.group, services)
    if not request.HasField("reset_timestamp"):
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no reset_timestamp")
    moved = ResetOffsetsRequest(group=group.name, topic=request.topic.name, time=request.reset_timestamp)
    await reset_offsets(moved, call, services)
    return ResetGroupOffsetResponse(status=OK)
