"""Calls of `ternmq.admin.v1.Admin` about transactions (`operations/admin/messages/transactions.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import TransactionState
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.end_transaction import RESOLUTIONS
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.operations.admin.messages import transactions

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.messages.transactions import ListedTransaction
    from ternmq_proxy.services import Services

_LISTED_STATES = {
    admin_pb2.TRANSACTION_STATE_UNSPECIFIED: TransactionState.PENDING,
    admin_pb2.PENDING: TransactionState.PENDING,
    admin_pb2.DISCARDED: TransactionState.DISCARDED,
}
_SHOWN_STATES = {
    TransactionState.PENDING: admin_pb2.PENDING,
    TransactionState.COMMITTED: admin_pb2.COMMITTED,
    TransactionState.ROLLED_BACK: admin_pb2.ROLLED_BACK,
    TransactionState.DISCARDED: admin_pb2.DISCARDED,
}


async def list_transactions(
    request: admin_pb2.ListTransactionsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTransactionsResponse:
    """Return pending or discarded transactions, page by page."""
    listed, following = await transactions.list_transactions(
        _LISTED_STATES.get(request.state),
        call,
        services,
        topic_name=request.topic,
        message_id=request.message_id,
        page=request.page,
        limit=request.limit,
    )
    return admin_pb2.ListTransactionsResponse(status=OK, transactions=map(_transaction, listed), next_page=following)


async def get_transaction(
    request: admin_pb2.GetTransactionRequest, call: "Call", services: "Services"
) -> admin_pb2.GetTransactionResponse:
    """Return the outcome of a transaction, and its message as consumers get it, or would."""
    listed, stored = await transactions.describe_transaction(request.transaction_id, call, services)
    transaction = listed.transaction
    message = delivered_form(stored, topic=transaction.topic, store_host=services.store_host)
    if transaction.stored_ms is None:
        message.system_properties.ClearField("store_timestamp")
    return admin_pb2.GetTransactionResponse(status=OK, transaction=_transaction(listed), message=message)


async def resolve_transaction(
    request: admin_pb2.ResolveTransactionRequest, call: "Call", services: "Services"
) -> admin_pb2.ResolveTransactionResponse:
    """Commit or roll back in the place of the producer."""
    resolution = RESOLUTIONS.get(request.resolution)
    ended = await transactions.end_transaction(request.transaction_id, resolution, call, services)
    return admin_pb2.ResolveTransactionResponse(status=OK, transaction=_transaction(ended))


def _transaction(listed: "ListedTransaction") -> admin_pb2.Transaction:
    transaction = listed.transaction
    answer = admin_pb2.Transaction(
        transaction_id=listed.handle,
        topic=transaction.topic,
        message_id=transaction.message_id,
        state=_SHOWN_STATES[transaction.state],
        checks=transaction.checks,
        sender=transaction.sender,
    )
    if transaction.stored_ms is not None:
        answer.stored.FromMilliseconds(transaction.stored_ms)
    if transaction.next_check_ms is not None:
        answer.next_check.FromMilliseconds(transaction.next_check_ms)
    return answer
