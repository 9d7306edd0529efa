"""Stored messages by key, dead letters, open transactions, and the calls about them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ternmq.admin.call import AdminCall
from ternmq.admin.checks import INT64_MAX, choice, text, whole, wholes
from ternmq.admin.words import OPEN_STATES, RESOLUTIONS, STATES, OpenState, Resolution, moment_of, word_of
from ternmq.errors import ClientError, error_of
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq.message_view import MessageView

FOUND_MAX = 32
# A batch of resent dead letters is that many writes to a disk.
RESEND_TIMEOUT_S = 60.0
TRANSACTIONS_PAGE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ResentDeadLetter:
    """What became of the letter at `offset`: where it is now, or the `error` that it was refused with."""

    offset: int
    topic: str
    message_id: str
    error: ClientError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that its producer has not ended. `state` is `pending` or `discarded`, and what it became after
    it was resolved; `checks` is how often a producer was asked about it, `next_check` None when none will be; `sender`
    is the producer's client id, empty where it isn't known any more."""

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


def find(topic: str, key: str, *, limit: int = FOUND_MAX) -> "AdminCall[list[MessageView]]":
    """Messages with that key or message id, the newest first."""
    request = admin_pb2.QueryMessagesRequest(
        topic=text("topic", topic), key=text("key", key), limit=whole("limit", limit, least=1)
    )
    return AdminCall("QueryMessages", request, admin_pb2.QueryMessagesResponse, _found)


def resend_dead_letters(
    group: str, queue_offsets: Iterable[int], *, broker: str = "", to_topic: str = ""
) -> AdminCall[list[ResentDeadLetter]]:
    """What became of each."""
    request = admin_pb2.ResendDeadLettersRequest(
        group=text("group", group),
        broker=text("broker", broker),
        offsets=wholes("queue_offsets", queue_offsets, most=INT64_MAX),
        to_topic=text("to_topic", to_topic),
    )
    answer = admin_pb2.ResendDeadLettersResponse
    return AdminCall("ResendDeadLetters", request, answer, _resent, at_least_s=RESEND_TIMEOUT_S)


def list_transactions(
    state: OpenState, *, topic: str = "", message_id: str = "", page: str = "", limit: int = TRANSACTIONS_PAGE
) -> AdminCall[TransactionPage]:
    """One page, the oldest first; `page` is what the page before this gave as `next_page`."""
    request = admin_pb2.ListTransactionsRequest(
        state=OPEN_STATES[choice("state", state, list(OPEN_STATES))],
        topic=text("topic", topic),
        message_id=text("message_id", message_id),
        limit=limit,
        page=page,
    )
    return AdminCall("ListTransactions", request, admin_pb2.ListTransactionsResponse, _page)


def describe_transaction(transaction_id: str) -> AdminCall[TransactionDescription]:
    request = admin_pb2.GetTransactionRequest(transaction_id=text("transaction_id", transaction_id))
    return AdminCall("GetTransaction", request, admin_pb2.GetTransactionResponse, _described)


def resolve_transaction(transaction_id: str, resolution: Resolution) -> AdminCall[OpenTransaction]:
    """The transaction as it is then."""
    request = admin_pb2.ResolveTransactionRequest(
        transaction_id=text("transaction_id", transaction_id),
        resolution=RESOLUTIONS[choice("resolution", resolution, list(RESOLUTIONS))],
    )
    answer = admin_pb2.ResolveTransactionResponse
    return AdminCall("ResolveTransaction", request, answer, lambda answer: _transaction(answer.transaction))


def _found(answer: admin_pb2.QueryMessagesResponse) -> "list[MessageView]":
    return [view_of(message, broker) for broker, message in zip(answer.brokers, answer.messages, strict=True)]


def _resent(answer: admin_pb2.ResendDeadLettersResponse) -> list[ResentDeadLetter]:
    return [
        ResentDeadLetter(
            offset=letter.offset,
            topic=letter.topic,
            message_id=letter.message_id,
            error=None if letter.status.code == pb.OK else error_of(letter.status.code, letter.status.message),
        )
        for letter in answer.letters
    ]


def _page(answer: admin_pb2.ListTransactionsResponse) -> TransactionPage:
    return TransactionPage(transactions=tuple(map(_transaction, answer.transactions)), next_page=answer.next_page)


def _described(answer: admin_pb2.GetTransactionResponse) -> TransactionDescription:
    return TransactionDescription(transaction=_transaction(answer.transaction), message=view_of(answer.message))


def _transaction(transaction: admin_pb2.Transaction) -> OpenTransaction:
    return OpenTransaction(
        transaction_id=transaction.transaction_id,
        topic=transaction.topic,
        message_id=transaction.message_id,
        state=word_of(transaction.state, STATES),
        stored=moment_of(transaction.stored),
        checks=transaction.checks,
        next_check=moment_of(transaction.next_check),
        sender=transaction.sender,
    )


def view_of(message: pb.Message, broker: str = "") -> "MessageView":
    """A stored message. Not a delivery: nobody settles it, so it needs no address."""
    from ternmq.endpoints import Endpoints  # not for transactions, which are listed without messages
    from ternmq.message_view import MessageView

    return MessageView(message, broker=broker, endpoints=Endpoints(scheme=pb.ADDRESS_SCHEME_UNSPECIFIED, addresses=()))
