"""QueryTimeSpan (`operations/admin/groups/time_spans.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import QueryTimeSpanRequest, QueryTimeSpanResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.groups.time_spans import find_time_spans

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.groups.time_spans import QueueTimeSpan
    from ternmq_proxy.services import Services


async def query_time_span(request: QueryTimeSpanRequest, call: "Call", services: "Services") -> QueryTimeSpanResponse:
    """Each queue with messages of the topics that the request names, or of all that the group has to do with."""
    topics = [topic.name for topic in request.topics]
    spans = await find_time_spans(request.group.name, topics, call, services)
    return QueryTimeSpanResponse(status=OK, queue_time_span_list=map(_span, spans))


def _span(span: "QueueTimeSpan") -> QueryTimeSpanResponse.QueueTimeSpan:
    queue = span.queue
    return QueryTimeSpanResponse.QueueTimeSpan(
        message_queue={"topic": {"name": queue.topic}, "id": queue.queue_id, "broker": {"name": queue.broker}},
        min_timestamp=span.first_ms,
        max_timestamp=span.last_ms,
        consume_timestamp=span.finished_ms,
        delay_time_ms=span.delay_ms,
    )
