"""Ends a transaction with the outcome that its producer reports (`sending.md, EndTransaction`)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name
from ternmq_common.shard.model import TransactionResolution
from ternmq_common.shard.transaction_id import TransactionId, check_handle, transaction_of_handle
from ternmq_proxy.access.needs import TOPIC_PUB

if TYPE_CHECKING:
    from ternmq_common.shard.model import TransactionEnded
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def resolve_transaction(
    topic: str,
    transaction_id: str,
    message_id: str,
    resolution: TransactionResolution | int | None,
    call: "Call",
    services: "Services",
) -> None:
    """Commit or roll back a transaction. A repetition succeeds, and any producer may do it, on its own or after a
    check.

    `transaction_id` is what the send answered, `message_id` is checked against it unless it is empty. A `resolution` of
    None leaves the transaction open; a number is an unknown resolution, which is a BAD_REQUEST after all other checks.
    Raises UNAUTHORIZED unless the user may send to the topic.
    """
    name, transaction = _find_transaction(topic, transaction_id, message_id, call, services)
    if resolution is None:
        await services.messages.inspecting.transaction(transaction)  # it must be there
    elif isinstance(resolution, TransactionResolution):
        await services.messages.sending.end_transaction(name, transaction, resolution)
    else:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"resolution {resolution} is unknown")
    services.orphans.forget_transaction(str(transaction))


def begin_resolution(
    topic: str,
    transaction_id: str,
    message_id: str,
    resolution: TransactionResolution,
    call: "Call",
    services: "Services",
    done: "TransactionEnded",
) -> bool:
    """Begin to commit or to roll back like `resolve_transaction`; `done` is called at the end. Return False, with
    nothing done, if that has to wait for more than the log. Raises the errors of checks."""
    name, transaction = _find_transaction(topic, transaction_id, message_id, call, services)

    def note_end(error: Exception | None) -> None:
        if error is None:
            services.orphans.forget_transaction(str(transaction))
        done(error)

    return services.messages.sending.end_transaction_nowait(name, transaction, resolution, note_end)


def _find_transaction(
    topic: str, transaction_id: str, message_id: str, call: "Call", services: "Services"
) -> tuple[str, TransactionId]:
    """Return the checked topic and the transaction."""
    services.access.require_right("EndTransaction", call, TOPIC_PUB, topic)
    call.require_client()
    name = check_topic_name(topic)
    transaction = transaction_of_handle(transaction_id)
    check_handle(transaction_id, name, services.handles.keys)
    if message_id and message_id != transaction.message_id:
        raise MessagingError(
            ErrorCode.INVALID_TRANSACTION_ID,
            f"the transaction is that of message {transaction.message_id!r}, not of {message_id!r}",
        )
    return name, transaction
