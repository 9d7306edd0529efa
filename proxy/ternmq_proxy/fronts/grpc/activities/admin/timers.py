"""The call of `ternmq.admin.v1.Admin` that lists timed messages."""

from typing import TYPE_CHECKING

from ternmq_common.names import check_topic_name
from ternmq_common.recall_handle import RecallHandle
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2.definition_pb2 import SystemProperties
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.model import WaitingTimer
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_LISTED_DEFAULT = 64
_LISTED_MAX = 500


async def list_timers(
    request: admin_pb2.ListTimersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTimersResponse:
    """Timed messages that wait, page by page, each broker's by their times."""
    del call
    topic = (await services.catalog.existing_topic(check_topic_name(request.topic))).name if request.topic else ""
    limit = min(max(1, request.limit or _LISTED_DEFAULT), _LISTED_MAX)
    page = await services.messages.inspecting.timers(topic=topic, start=request.page, limit=limit)
    return admin_pb2.ListTimersResponse(
        status=OK, timers=[_timer(each, services) for each in page.timers], next_page=page.following
    )


def _timer(timer: "WaitingTimer", services: "Services") -> admin_pb2.Timer:
    properties = SystemProperties.FromString(timer.system)
    handle = RecallHandle(timer.queue.topic, timer.queue.broker, timer.due_ms, properties.message_id)
    answer = admin_pb2.Timer(
        topic=timer.queue.topic,
        broker=timer.queue.broker,
        queue_id=timer.queue.queue_id,
        message_id=properties.message_id,
        tag=properties.tag,
        keys=properties.keys,
        bytes=timer.size,
        recall_handle=handle.encode_handle(services.handles.keys),
    )
    answer.stored.FromMilliseconds(timer.stored_ms)
    answer.due.FromMilliseconds(timer.due_ms)
    return answer
