"""EndTransaction: a producer commits or rolls back its half message (`sending.md, EndTransaction`).

Most requests wait for nothing but the log: they begin without a task.
"""

from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode
from ternmq_common.shard.model import TransactionResolution
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import EndTransactionRequest, EndTransactionResponse
from ternmq_proxy.fronts.grpc.activities.status import OK, status_of
from ternmq_proxy.operations.transactions import begin_resolution, resolve_transaction

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.activities.send_message import AnswerCallback
    from ternmq_proxy.services import Services

RESOLUTIONS: Final = {
    definition_pb2.COMMIT: TransactionResolution.COMMIT,
    definition_pb2.ROLLBACK: TransactionResolution.ROLLBACK,
}
_ENDED: Final = EndTransactionResponse(status=OK).SerializeToString()


def begin_end(data: bytes, call: "Call", services: "Services", answer: "AnswerCallback") -> bool:
    """Begin to commit or to roll back, which `answer` will answer. Return False, with nothing done, if that has to wait
    for more than the log, or leaves the transaction open. Raises MessagingError like `end_transaction`, and
    DecodeError. `data` is the request; `call` has a checked client id."""
    request = EndTransactionRequest.FromString(data)
    resolution = RESOLUTIONS.get(request.resolution)
    if resolution is None:
        return False

    def done(error: Exception | None) -> None:
        if error is None:
            answer(_ENDED, ErrorCode.OK)
        else:
            status = status_of(error, "EndTransaction")
            answer(EndTransactionResponse(status=status).SerializeToString(), status.code)

    named = request.topic.name, request.transaction_id, request.message_id
    return begin_resolution(*named, resolution, call, services, done)


async def end_transaction(request: EndTransactionRequest, call: "Call", services: "Services") -> EndTransactionResponse:
    """Commit the transaction, roll it back, or leave it open."""
    number = request.resolution
    open_ = number == definition_pb2.TRANSACTION_RESOLUTION_UNSPECIFIED
    resolution = None if open_ else RESOLUTIONS.get(number, int(number))
    await resolve_transaction(
        request.topic.name, request.transaction_id, request.message_id, resolution, call, services
    )
    return EndTransactionResponse(status=OK)
