"""RecallMessage: recall a DELAY message before it is delivered (`sending.md, Recall`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.service_pb2 import RecallMessageRequest, RecallMessageResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.recall import recall_timed_message

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def recall_message(request: RecallMessageRequest, call: "Call", services: "Services") -> RecallMessageResponse:
    """Recall a message before it is delivered."""
    message_id = await recall_timed_message(request.topic.name, request.recall_handle, call, services)
    return RecallMessageResponse(status=OK, message_id=message_id)
