"""EndTransaction: a producer commits or rolls back its half message (`sending.md, EndTransaction`)."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import TransactionResolution
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import EndTransactionRequest, EndTransactionResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.transactions import resolve_transaction

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

RESOLUTIONS = {
    definition_pb2.COMMIT: TransactionResolution.COMMIT,
    definition_pb2.ROLLBACK: TransactionResolution.ROLLBACK,
}


async def end_transaction(request: EndTransactionRequest, call: "Call", services: "Services") -> EndTransactionResponse:
    """Commit the transaction, roll it back, or leave it open."""
    number = request.resolution
    open_ = number == definition_pb2.TRANSACTION_RESOLUTION_UNSPECIFIED
    resolution = None if open_ else RESOLUTIONS.get(number, int(number))
    await resolve_transaction(
        request.topic.name, request.transaction_id, request.message_id, resolution, call, services
    )
    return EndTransactionResponse(status=OK)
