"""QueryTimeSpan: the times of the messages that queues hold, and of those that a group has finished in them."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import retry_topic
from ternmq_common.tag_filter import ALL
from ternmq_protos.v2.admin_pb2 import QueryTimeSpanRequest, QueryTimeSpanResponse
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_group, topics_of
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.model import QueueProgress, QueueRef
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_Span = QueryTimeSpanResponse.QueueTimeSpan
_AT_ONCE = 32


async def query_time_span(request: QueryTimeSpanRequest, call: "Call", services: "Services") -> QueryTimeSpanResponse:
    """Each queue with messages of the topics that the request names, or of all that the group has to do with.

    The retry topic is left out: it is of all topics together. BAD_REQUEST for too many queues.
    """
    del call
    group = await named_group(request.group, services)
    topics = await topics_of(group.name, request.topics, services)
    named, of_all = set(topics), retry_topic(group.name)
    rows = [
        row
        for row in await services.messages.inspecting.progress(group.name, topics)
        if row.queue.topic != of_all and (not request.topics or row.queue.topic in named)
    ]
    if len(rows) > (queues_max := services.answer_limits.span_queues_max):
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"these are {len(rows)} queues; {queues_max} are allowed, so name fewer topics"
        )
    now_ms = services.clock.now_ms()
    answer = QueryTimeSpanResponse(status=OK)
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        spans = await asyncio.gather(*(_span(group.name, row, now_ms, services) for row in some))
        answer.queue_time_span_list.extend(spans)
    return answer


async def _span(group: str, row: "QueueProgress", now_ms: int, services: "Services") -> _Span:
    queue = row.queue
    span = _Span(message_queue={"topic": {"name": queue.topic}, "id": queue.queue_id, "broker": {"name": queue.broker}})
    bounds = await services.messages.reading.bounds(queue)
    committed = await services.messages.reading.committed(group, queue)
    if bounds.minimum < bounds.maximum:
        span.min_timestamp = await _stored_ms(queue, bounds.minimum, services)
        span.max_timestamp = await _stored_ms(queue, bounds.maximum - 1, services)
    if committed is not None and bounds.minimum < committed <= bounds.maximum:
        span.consume_timestamp = await _stored_ms(queue, committed - 1, services)
    if row.oldest_ms is not None:
        span.delay_time_ms = max(0, now_ms - row.oldest_ms)
    return span


async def _stored_ms(queue: "QueueRef", queue_offset: int, services: "Services") -> int:
    """When that message was stored; 0, which is unset, if it can't be read any more."""
    pulled = await services.messages.reading.pull(queue, queue_offset, ALL, batch=1, poll_s=0.0)
    return pulled.messages[0].stored_ms if pulled.messages else 0
