"""QueryMessage: messages of a topic, by id, by key, or all of a time that pass a filter."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import QueueRef
from ternmq_common.names import lite_parent
from ternmq_common.printable import cut_text
from ternmq_common.tag_filter import ALL, TagFilter
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.admin_pb2 import ListMessageRequest, ListMessageResponse
from ternmq_proxy.fronts.grpc.activities.published_admin.message_pages import Page, asked_page
from ternmq_proxy.fronts.grpc.activities.published_admin.message_walk import Span, Walk
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_lite_queue, named_topic
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form

if TYPE_CHECKING:
    from ternmq_common.model import StoredMessage, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# As QueryMessages finds.
FOUND_MAX = 64


async def query_message(request: ListMessageRequest, call: "Call", services: "Services") -> ListMessageResponse:
    """A page of messages, as consumers get them: the newest first if they were asked for by id or key, else queue by
    queue, the oldest first."""
    del call
    topic = await named_topic(request.topic, services)
    kind = request.WhichOneof("search_key")
    queues = _queues(request, topic, services)
    if kind == "lite_topic":
        queues = _lite_queues(request.lite_topic, topic, queues)
    span = _span(request)
    page = asked_page(request)
    if kind in ("message_id", "message_key"):
        await _fill_by_key(page, request, topic, queues, span, services)
    else:
        passing = TagFilter.parse_expression(request.subscription) if kind == "subscription" else ALL
        steps_max = services.answer_limits.walk_steps_max
        await Walk(queues, span, passing, services.messages, steps_max=steps_max).fill(page)
    return ListMessageResponse(
        status=OK,
        messages=[
            delivered_form(stored, topic=lite_parent(stored.queue.topic), store_host=services.store_host)
            for stored in page.messages
        ],
        scroll_id=page.following,
    )


def _queues(request: ListMessageRequest, topic: "Topic", services: "Services") -> list[QueueRef]:
    """Those that the request is about; BAD_REQUEST for one that is not the topic's."""
    brokers = services.messages.find_route(topic).brokers
    if request.HasField("broker_name"):
        if request.broker_name not in brokers:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} is not on broker {cut_text(request.broker_name)!r}, but on {', '.join(brokers)}",
            )
        brokers = (request.broker_name,)
    ids = range(topic.queues)
    if request.HasField("queue_id"):
        if request.queue_id not in ids:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not {request.queue_id}",
            )
        ids = range(request.queue_id, request.queue_id + 1)
    return [QueueRef(topic.name, broker, queue_id) for broker in sorted(brokers) for queue_id in ids]


def _lite_queues(name: str, topic: "Topic", queues: list[QueueRef]) -> list[QueueRef]:
    """That of the lite topic, on each of the brokers; BAD_REQUEST if the topic has no lite topics."""
    queue_topic = named_lite_queue(name, topic)
    return [QueueRef(queue_topic, broker, 0) for broker in sorted({queue.broker for queue in queues})]


def _span(request: ListMessageRequest) -> Span:
    begin_ms = time_ms(request.begin_timestamp) if request.HasField("begin_timestamp") else None
    end_ms = time_ms(request.end_timestamp) if request.HasField("end_timestamp") else None
    return Span(begin_ms, end_ms)


async def _fill_by_key(
    page: Page,
    request: ListMessageRequest,
    topic: "Topic",
    queues: list[QueueRef],
    span: Span,
    services: "Services",
) -> None:
    """What is found by a key may have it for its id too: a message says which it is."""
    asked = request.message_id or request.message_key
    if not asked:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names an empty id or key")
    found = await services.messages.find_by_key(topic.name, asked, FOUND_MAX)
    wanted = set(queues)
    left = page.start_number(len(found))
    matching = [
        stored for stored in found if stored.queue in wanted and stored.stored_ms in span and _has(stored, request)
    ]
    for number, stored in enumerate(matching[left:], left):
        if not page.takes(stored):
            page.following = str(number)
            break


def _has(stored: "StoredMessage", request: ListMessageRequest) -> bool:
    properties = definition_pb2.SystemProperties.FromString(stored.system)
    if request.message_id:
        return properties.message_id == request.message_id
    return request.message_key in properties.keys
