"""What operators ask of transactions: one of them, or a page of those that are pending or discarded."""

import asyncio
import re
from typing import TYPE_CHECKING, Final

from ternmq_broker.transactions.transaction_outcomes import discarded_from
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import OpenTransaction, QueueRef, StoredMessage, TransactionPage, TransactionState

if TYPE_CHECKING:
    from ternmq_broker.store.index.half_index import WaitingHalf
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.shard.transaction_id import TransactionId

_PAGE: Final = re.compile(r"[0-9a-f]{1,16}", re.ASCII)


class TransactionQueries:
    """Answers for the transactions of one broker."""

    def __init__(self, transactions: "Transactions", store: "MessageStore", *, broker: str) -> None:
        self._transactions = transactions
        self._store = store
        self._broker = broker

    async def describe_transaction(self, transaction: "TransactionId") -> tuple[OpenTransaction, StoredMessage]:
        """The outcome of a transaction, and its half message; INVALID_TRANSACTION_ID if there was none of that id."""
        outcome = await self._transactions.find_outcome(transaction)
        described = OpenTransaction(
            transaction_id=str(transaction),
            topic=outcome.topic,
            message_id=transaction.message_id,
            state=outcome.state,
            stored_ms=outcome.stored_ms,
            checks=outcome.checks,
            next_check_ms=outcome.next_check_ms,
            sender=outcome.sender,
        )
        queue = QueueRef(outcome.topic, self._broker, outcome.queue_id)
        message = outcome.message
        return described, StoredMessage(queue, 0, outcome.stored_ms or 0, message.system, message.rest)

    async def list_page(self, state: TransactionState, *, topic: str, start: str, limit: int) -> TransactionPage:
        """A page of pending transactions from a log offset on, or of discarded ones from an offset of the discard
        topic on."""
        first = _first_of_page(start)
        if state is TransactionState.PENDING:
            halves = [
                half
                for half in self._transactions.halves.waiting_in_order()
                if half.log_offset >= first and topic in ("", half.topic)
            ]
            following = f"{halves[limit].log_offset:x}" if len(halves) > limit else ""
            return TransactionPage([self._pending_row(half) for half in halves[:limit]], following)
        page = await asyncio.to_thread(discarded_from, self._store, self._broker, topic, first, limit)
        return TransactionPage(page.found, "" if page.following is None else f"{page.following:x}")

    def _pending_row(self, half: "WaitingHalf") -> OpenTransaction:
        return OpenTransaction(
            transaction_id=str(self._transactions.id_of(half)),
            topic=half.topic,
            message_id=half.message_id,
            state=TransactionState.PENDING,
            stored_ms=half.stored_ms,
            checks=half.checks,
            next_check_ms=half.next_check_ms,
            sender=half.sender,
        )


def _first_of_page(start: str) -> int:
    if not start:
        return 0
    if not _PAGE.fullmatch(start):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{start[:100]!r} is no page; give what next_page was")
    return int(start, 16)
