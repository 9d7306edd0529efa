"""ResetGroupOffset: a group goes on at a time (`operations/admin/groups/group_offsets.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import ResetGroupOffsetRequest, ResetGroupOffsetResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.operations.admin.groups.group_offsets import reset_offsets_to_time

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def reset_group_offset(
    request: ResetGroupOffsetRequest, call: "Call", services: "Services"
) -> ResetGroupOffsetResponse:
    """As ResetOffsets to a time in all queues of the topic."""
    when = time_ms(request.reset_timestamp) if request.HasField("reset_timestamp") else None
    await reset_offsets_to_time(request.group.name, request.topic.name, when, call, services)
    return ResetGroupOffsetResponse(status=OK)
