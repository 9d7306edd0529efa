"""EndTransaction: a producer says the outcome of its half message (`sending.md, EndTransaction`)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import Resolution
from ternmq_common.names import checked_topic
from ternmq_common.transaction_id import check_given, named_by
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import EndTransactionRequest, EndTransactionResponse
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

RESOLUTIONS = {definition_pb2.COMMIT: Resolution.COMMIT, definition_pb2.ROLLBACK: Resolution.ROLLBACK}


async def end_transaction(request: EndTransactionRequest, call: "Call", services: "Services") -> EndTransactionResponse:
    """Commit or roll back; saying the same again is fine, and any producer may say it, on its own or because it was
    asked. One that does not know (no resolution) leaves the transaction open."""
    call.require_client()
    topic = checked_topic(request.topic.name)
    transaction = named_by(request.transaction_id)
    check_given(request.transaction_id, topic, services.handles.keys)
    if request.message_id and request.message_id != transaction.message_id:
        raise MessagingError(
            ErrorCode.INVALID_TRANSACTION_ID,
            f"the transaction is that of message {transaction.message_id!r}, not of {request.message_id!r}",
        )
    if request.resolution in RESOLUTIONS:
        await services.messages.end_transaction(topic, transaction, RESOLUTIONS[request.resolution])
    elif request.resolution == definition_pb2.TRANSACTION_RESOLUTION_UNSPECIFIED:
        await services.messages.transaction(transaction)  # it must be there
    else:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"resolution {request.resolution} is unknown")
    services.orphans.answered(str(transaction))
    return EndTransactionResponse(status=OK)
