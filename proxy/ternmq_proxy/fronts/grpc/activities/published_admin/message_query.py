"""QueryMessage (`operations/admin/messages/message_query.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.names import lite_parent
from ternmq_protos.v2.admin_pb2 import ListMessageRequest, ListMessageResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.operations.admin.messages.message_pages import MessagePageQuery
from ternmq_proxy.operations.admin.messages.message_query import MessageQuery, SearchKey, query_messages
from ternmq_proxy.operations.admin.messages.message_walk import TimeSpan

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_KEYS = {
    "message_id": SearchKey.ID,
    "message_key": SearchKey.KEY,
    "lite_topic": SearchKey.LITE_TOPIC,
    "subscription": SearchKey.TAGS,
}


async def query_message(request: ListMessageRequest, call: "Call", services: "Services") -> ListMessageResponse:
    """A page of messages, as consumers get them."""
    found = await query_messages(_read(request), call, services)
    return ListMessageResponse(
        status=OK,
        messages=[
            delivered_form(stored, topic=lite_parent(stored.queue.topic), store_host=services.store_host)
            for stored in found.messages
        ],
        scroll_id=found.following,
    )


def _read(request: ListMessageRequest) -> MessageQuery:
    name = request.WhichOneof("search_key")
    begin_ms = time_ms(request.begin_timestamp) if request.HasField("begin_timestamp") else None
    end_ms = time_ms(request.end_timestamp) if request.HasField("end_timestamp") else None
    return MessageQuery(
        topic=request.topic.name,
        key=None if name is None else _KEYS[name],
        text="" if name is None else getattr(request, name),
        span=TimeSpan(begin_ms, end_ms),
        broker=request.broker_name if request.HasField("broker_name") else None,
        queue_id=request.queue_id if request.HasField("queue_id") else None,
        page=_read_page(request),
    )


def _read_page(request: ListMessageRequest) -> MessagePageQuery:
    sizes = [request.page_size if request.HasField("page_size") else 0, request.max_message_nums]
    number = request.page_num if request.HasField("page_num") else None
    return MessagePageQuery(min(filter(None, sizes), default=0), number, request.scroll_id)
