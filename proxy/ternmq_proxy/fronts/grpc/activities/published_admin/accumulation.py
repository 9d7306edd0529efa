"""DescribeGroupAccumulation (`operations/admin/groups/accumulation.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import DescribeGroupAccumulationRequest, DescribeGroupAccumulationResponse
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.operations.admin.groups.accumulation import describe_accumulation

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.groups.accumulation import Backlog
    from ternmq_proxy.services import Services

_Accumulation = DescribeGroupAccumulationResponse.GroupAccumulation


async def describe_group_accumulation(
    request: DescribeGroupAccumulationRequest, call: "Call", services: "Services"
) -> DescribeGroupAccumulationResponse:
    """Of the topics that the request names, or of all that the group has to do with, its retry topic among them."""
    topics = [topic.name for topic in request.topics]
    lite_topic = request.lite_topic if request.HasField("lite_topic") else None
    found = await describe_accumulation(request.group.name, topics, call, services, lite_topic=lite_topic)
    total = _backlog(found.total, found.now_ms)
    return DescribeGroupAccumulationResponse(
        status=status_of_cut("topics", found.cut_at),
        accumulation=total,
        topic_accumulation={topic: _backlog(backlog, found.now_ms) for topic, backlog in found.by_topic.items()},
        lite_topic_accumulation={} if found.lite_topic is None else {found.lite_topic: total},
    )


def _backlog(backlog: "Backlog", now_ms: int) -> _Accumulation:
    answer = _Accumulation(inflight_messages=backlog.in_flight, ready_messages=backlog.ready, accumulation=backlog.all)
    if backlog.oldest_ms is not None:
        answer.deliver_delay_time.FromMilliseconds(max(0, now_ms - backlog.oldest_ms))
    return answer
