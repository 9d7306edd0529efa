"""AdvanceClock of `ternmq.admin.v1.Admin` (`operations/admin/servers/clock.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.servers import clock

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def advance_clock(
    request: admin_pb2.AdvanceClockRequest, call: "Call", services: "Services"
) -> admin_pb2.AdvanceClockResponse:
    """Move the server's clock ahead."""
    now_ms = await clock.advance_clock(request.by.ToMilliseconds(), call, services)
    answer = admin_pb2.AdvanceClockResponse(status=OK)
    answer.now.FromMilliseconds(now_ms)
    return answer
