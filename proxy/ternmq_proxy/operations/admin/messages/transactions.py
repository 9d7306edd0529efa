"""Lists open transactions, and the outcomes of ended ones."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import OpenTransaction, StoredMessage, TransactionState
from ternmq_common.shard.transaction_id import transaction_handle, transaction_of_handle
from ternmq_proxy.access.needs import TOPIC_GET, TOPIC_UPDATE
from ternmq_proxy.handles import found_transaction
from ternmq_proxy.operations.admin.messages.bodies import hide_bodies
from ternmq_proxy.operations.admin.named import find_topic

if TYPE_CHECKING:
    from ternmq_common.shard.model import TransactionResolution
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_LISTED_DEFAULT = 64
_LISTED_MAX = 1000
_LISTED_STATES = (TransactionState.PENDING, TransactionState.DISCARDED)


class ListedTransaction(NamedTuple):
    """A transaction, and the id by which clients know it."""

    transaction: OpenTransaction
    handle: str


async def list_transactions(
    state: TransactionState | None,
    call: "Call",
    services: "Services",
    *,
    topic_name: str = "",
    message_id: str = "",
    page: str = "",
    limit: int = 0,
) -> tuple[list[ListedTransaction], str]:
    """Return a page of pending or discarded transactions, the oldest first, and where the next one begins, empty at the
    end; BAD_REQUEST for another state, or None.

    An empty topic is all that the caller may see. Transactions of another message than the requested one are
    left out of their page.
    """
    asked = [(TOPIC_GET, topic_name)] if topic_name else []
    services.access.require_all("ListTransactions", call, *asked)
    if state not in _LISTED_STATES:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, "only transactions in the states PENDING and DISCARDED can be listed"
        )
    topic = (await find_topic(topic_name, services)).name if topic_name else ""
    limit = min(max(1, limit or _LISTED_DEFAULT), _LISTED_MAX)
    found = await services.messages.inspecting.transactions(state, topic=topic, start=page, limit=limit)
    may = services.access.has_right
    listed = [
        _list_transaction(each, services)
        for each in found.transactions
        if message_id in ("", each.message_id) and may(call, TOPIC_GET, each.topic)
    ]
    return listed, found.following


async def describe_transaction(
    handle: str, call: "Call", services: "Services"
) -> tuple[ListedTransaction, StoredMessage]:
    """Return the outcome of a transaction, and its message, without its body if the caller may not receive it;
    INVALID_TRANSACTION_ID if there is none."""
    transaction, stored = await found_transaction(handle, services)
    services.access.require_all("GetTransaction", call, (TOPIC_GET, transaction.topic))
    [message] = hide_bodies([stored], transaction.topic, call, services)
    return _list_transaction(transaction, services), message


async def end_transaction(
    handle: str, resolution: "TransactionResolution | None", call: "Call", services: "Services"
) -> ListedTransaction:
    """Commit or roll back in the place of the producer, a discarded transaction too.

    INVALID_TRANSACTION_ID for one that was ended otherwise; BAD_REQUEST without a resolution."""
    before, _ = await found_transaction(handle, services)
    services.access.require_change("ResolveTransaction", call, (TOPIC_UPDATE, before.topic))
    if resolution is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the resolution must be COMMIT or ROLLBACK")
    transaction_id = transaction_of_handle(handle)
    await services.messages.sending.end_transaction(before.topic, transaction_id, resolution, by_operator=True)
    services.orphans.forget_transaction(str(transaction_id))
    after, _ = await services.messages.inspecting.transaction(transaction_id)
    return _list_transaction(after, services)


def _list_transaction(transaction: OpenTransaction, services: "Services") -> ListedTransaction:
    handle = transaction_handle(transaction.transaction_id, transaction.topic, services.handles.keys)
    return ListedTransaction(transaction, handle)
