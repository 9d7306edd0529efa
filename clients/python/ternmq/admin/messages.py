"""Stored messages by key, dead letters, open transactions, and their admin calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import INT64_MAX, check_choice, check_text, check_whole, check_wholes
from ternmq.admin.requests.words import OPEN_STATES, RESOLUTIONS, STATES, OpenState, Resolution, read_moment, word_of
from ternmq.errors import ClientError, create_error
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq.messages.message_view import MessageView

FOUND_MAX = 32
# Resending a batch of dead letters takes as many writes to a disk.
RESEND_TIMEOUT_S = 60.0
TRANSACTIONS_PAGE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ResentDeadLetter:
    """The result for the dead letter at `offset`: where it is now, or the `error` with which it was refused."""

    offset: int
    topic: str
    message_id: str
    error: ClientError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that its producer has not ended. `state` is `pending` or `discarded`, or its new state after it was
    resolved; `checks` is the number of transaction checks, `next_check` None if there will be none; `sender` is
    the producer's client id, empty if it is not known any more."""

    transaction_id: str
    topic: str
    message_id: str
    state: str
    stored: datetime | None
    checks: int
    next_check: datetime | None
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPage:
    """Some transactions; `next_page` is empty at the end."""

    transactions: tuple[OpenTransaction, ...]
    next_page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transaction and its message."""

    transaction: OpenTransaction
    message: "MessageView"


def find_messages(topic: str, key: str, *, limit: int = FOUND_MAX) -> "AdminCall[list[MessageView]]":
    """Find messages of a topic by key or message id, the newest first; also in `%RETRY%group` and `%DLQ%group`."""
    request = admin_pb2.QueryMessagesRequest(
        topic=check_text("topic", topic), key=check_text("key", key), limit=check_whole("limit", limit, least=1)
    )
    return AdminCall(request, _read_found)


def resend_dead_letters(
    group: str, queue_offsets: Iterable[int], *, broker: str = "", to_topic: str = ""
) -> AdminCall[list[ResentDeadLetter]]:
    """Deliver dead letters of a group again, named by their offsets in `%DLQ%group` on one broker.

    They go to this group alone, with all their attempts. Those of a FIFO group, and all with `to_topic`, are sent
    to a topic instead, for all of its groups. What is resent twice is delivered twice.
    """
    request = admin_pb2.ResendDeadLettersRequest(
        group=check_text("group", group),
        broker=check_text("broker", broker),
        offsets=check_wholes("queue_offsets", queue_offsets, most=INT64_MAX),
        to_topic=check_text("to_topic", to_topic),
    )
    return AdminCall(request, _read_resent, at_least_s=RESEND_TIMEOUT_S)


def list_transactions(
    state: OpenState, *, topic: str = "", message_id: str = "", page: str = "", limit: int = TRANSACTIONS_PAGE
) -> AdminCall[TransactionPage]:
    """List one page, the oldest first; `page` is `next_page` of the page before."""
    request = admin_pb2.ListTransactionsRequest(
        state=OPEN_STATES[check_choice("state", state, list(OPEN_STATES))],
        topic=check_text("topic", topic),
        message_id=check_text("message_id", message_id),
        limit=limit,
        page=page,
    )
    return AdminCall(request, _read_page)


def describe_transaction(transaction_id: str) -> AdminCall[TransactionDescription]:
    """Describe a transaction and its message."""
    request = admin_pb2.GetTransactionRequest(transaction_id=check_text("transaction_id", transaction_id))
    return AdminCall(request, _read_description)


def resolve_transaction(transaction_id: str, resolution: Resolution) -> AdminCall[OpenTransaction]:
    """Commit or roll back an open transaction instead of its producer; returns the transaction with its new
    state."""
    request = admin_pb2.ResolveTransactionRequest(
        transaction_id=check_text("transaction_id", transaction_id),
        resolution=RESOLUTIONS[check_choice("resolution", resolution, list(RESOLUTIONS))],
    )
    return AdminCall(request, lambda answer: _read_transaction(answer.transaction))


def _read_found(answer: admin_pb2.QueryMessagesResponse) -> "list[MessageView]":
    return [create_view(message, broker) for broker, message in zip(answer.brokers, answer.messages, strict=True)]


def _read_resent(answer: admin_pb2.ResendDeadLettersResponse) -> list[ResentDeadLetter]:
    return [
        ResentDeadLetter(
            offset=letter.offset,
            topic=letter.topic,
            message_id=letter.message_id,
            error=None if letter.status.code == pb.OK else create_error(letter.status.code, letter.status.message),
        )
        for letter in answer.letters
    ]


def _read_page(answer: admin_pb2.ListTransactionsResponse) -> TransactionPage:
    return TransactionPage(transactions=tuple(map(_read_transaction, answer.transactions)), next_page=answer.next_page)


def _read_description(answer: admin_pb2.GetTransactionResponse) -> TransactionDescription:
    return TransactionDescription(
        transaction=_read_transaction(answer.transaction), message=create_view(answer.message)
    )


def _read_transaction(transaction: admin_pb2.Transaction) -> OpenTransaction:
    return OpenTransaction(
        transaction_id=transaction.transaction_id,
        topic=transaction.topic,
        message_id=transaction.message_id,
        state=word_of(transaction.state, STATES),
        stored=read_moment(transaction.stored),
        checks=transaction.checks,
        next_check=read_moment(transaction.next_check),
        sender=transaction.sender,
    )


def create_view(message: pb.Message, broker: str = "") -> "MessageView":
    """Create the view of a stored message. It is not a delivery: it is not acknowledged, so it needs no address."""
    from ternmq.connections.endpoints import Endpoints  # here, since transactions are listed without messages
    from ternmq.messages.message_view import MessageView

    return MessageView(message, broker=broker, endpoints=Endpoints(scheme=pb.ADDRESS_SCHEME_UNSPECIFIED, addresses=()))
