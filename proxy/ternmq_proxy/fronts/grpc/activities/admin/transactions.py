"""Calls of `ternmq.admin.v1.Admin` about transactions: those that nobody ended, and their outcomes."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import TransactionState
from ternmq_common.names import check_topic_name
from ternmq_common.transaction_id import transaction_handle, transaction_of_handle
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.end_transaction import RESOLUTIONS
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.handles import find_transaction

if TYPE_CHECKING:
    from ternmq_common.model import OpenTransaction
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_LISTED_DEFAULT = 64
_LISTED_MAX = 1000
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
    """Pending or discarded transactions, page by page, the oldest first. Those of another message than the one that is
    asked for are left out of their page."""
    del call
    state = _LISTED_STATES.get(request.state)
    if state is None:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, "only transactions in the states PENDING and DISCARDED can be listed"
        )
    topic = (await services.catalog.existing_topic(check_topic_name(request.topic))).name if request.topic else ""
    limit = min(max(1, request.limit or _LISTED_DEFAULT), _LISTED_MAX)
    page = await services.messages.transactions(state, topic=topic, start=request.page, limit=limit)
    return admin_pb2.ListTransactionsResponse(
        status=OK,
        transactions=[
            _transaction(each, services) for each in page.transactions if request.message_id in ("", each.message_id)
        ],
        next_page=page.following,
    )


async def get_transaction(
    request: admin_pb2.GetTransactionRequest, call: "Call", services: "Services"
) -> admin_pb2.GetTransactionResponse:
    """The outcome of a transaction, and its message as consumers get it, or would; INVALID_TRANSACTION_ID if there is
    none."""
    del call
    transaction, stored = await find_transaction(request.transaction_id, services)
    message = delivered_form(stored, topic=transaction.topic, store_host=services.store_host)
    if transaction.stored_ms is None:
        message.system_properties.ClearField("store_timestamp")
    return admin_pb2.GetTransactionResponse(status=OK, transaction=_transaction(transaction, services), message=message)


async def resolve_transaction(
    request: admin_pb2.ResolveTransactionRequest, call: "Call", services: "Services"
) -> admin_pb2.ResolveTransactionResponse:
    """Commit or roll back in the place of the producer, a discarded transaction too.

    INVALID_TRANSACTION_ID for one that was ended otherwise."""
    del call
    resolution = RESOLUTIONS.get(request.resolution)
    if resolution is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the resolution must be COMMIT or ROLLBACK")
    before, _ = await find_transaction(request.transaction_id, services)
    transaction_id = transaction_of_handle(request.transaction_id)
    await services.messages.end_transaction(before.topic, transaction_id, resolution, by_operator=True)
    services.orphans.forget_transaction(str(transaction_id))
    after, _ = await services.messages.transaction(transaction_id)
    return admin_pb2.ResolveTransactionResponse(status=OK, transaction=_transaction(after, services))


def _transaction(transaction: "OpenTransaction", services: "Services") -> admin_pb2.Transaction:
    answer = admin_pb2.Transaction(
        transaction_id=transaction_handle(transaction.transaction_id, transaction.topic, services.handles.keys),
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
