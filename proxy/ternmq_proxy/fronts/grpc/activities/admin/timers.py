"""ListTimers of `ternmq.admin.v1.Admin` (`operations/admin/messages/timers.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.messages import timers

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.messages.timers import ListedTimer
    from ternmq_proxy.services import Services


async def list_timers(
    request: admin_pb2.ListTimersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTimersResponse:
    """Return timed messages that wait, page by page."""
    listed, following = await timers.list_timers(request.topic, request.page, request.limit, call, services)
    return admin_pb2.ListTimersResponse(status=OK, timers=map(_timer, listed), next_page=following)


def _timer(listed: "ListedTimer") -> admin_pb2.Timer:
    timer, names = listed.timer, listed.names
    answer = admin_pb2.Timer(
        topic=timer.queue.topic,
        broker=timer.queue.broker,
        queue_id=timer.queue.queue_id,
        message_id=names.message_id,
        tag=names.tag,
        keys=names.keys,
        bytes=timer.size,
        recall_handle=listed.recall_handle,
    )
    answer.stored.FromMilliseconds(timer.stored_ms)
    answer.due.FromMilliseconds(timer.due_ms)
    return answer
