"""Ends transactions that their producers name by the place of the half message, as those of RocketMQ 4.x do.

No proxy needs to have seen the half message. A repetition is no error, whichever proxy takes it.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_proxy.access.needs import TOPIC_PUB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.shard.model import OpenTransaction, StoredMessage, TransactionResolution
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_RPC = "EndTransaction"


class FoundTransaction(NamedTuple):
    """A transaction, where its half message is, and that message."""

    id: TransactionId
    transaction: "OpenTransaction"
    message: "StoredMessage"


async def find_transaction(
    message_id: str, places: "Iterable[tuple[str, int]]", call: "Call", services: "Services"
) -> FoundTransaction | None:
    """Return the transaction of the half message with that id at one of the places, which are brokers and offsets in
    their logs; None if there is none. Raises UNAUTHORIZED unless the user may send to its topic."""
    for broker, log_offset in places:
        named = TransactionId(message_id, broker, log_offset)
        try:
            transaction, message = await services.messages.inspecting.transaction(named)
        except MessagingError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_ID:
                raise
            continue
        services.access.require_right(_RPC, call, TOPIC_PUB, transaction.topic)
        return FoundTransaction(named, transaction, message)
    return None


async def end_found(
    found: FoundTransaction, resolution: "TransactionResolution", call: "Call", services: "Services"
) -> None:
    """Commit it, or roll it back. Raises INVALID_TRANSACTION_ID for what contradicts an earlier decision."""
    call.require_client()
    await services.messages.sending.end_transaction(found.transaction.topic, found.id, resolution)
    services.orphans.forget_transaction(str(found.id))
