"""Orphan checks: a producer is asked what is to become of a transaction that nobody ended (`producer.md` 8.3).

The broker says when to ask, and counts. Asked is a producer that publishes to the topic and has a Telemetry stream: the
sender of the half message if it is there, else the others in turn. When one goes away before an answer came, another is
asked at once; without another, the broker asks again at its next interval. Nothing else depends on what is remembered
here: a question that was forgotten is one that can't be passed on.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import MessagingError
from ternmq_common.model import OrphanedTransaction, TransactionState
from ternmq_common.transaction_id import TransactionId
from ternmq_protos.v2.service_pb2 import RecoverOrphanedTransactionCommand, TelemetryCommand
from ternmq_proxy.processors.delivered_form import delivered_form

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from ternmq_proxy.message_service.interface import MessageService
    from ternmq_proxy.processors.clients import Client, ClientRegistry

_log = logging.getLogger(__name__)
QUESTIONS_MAX = 10_000
QUESTION_AGE_MAX_S = 300.0


class _Question(NamedTuple):
    client_id: str
    topic: str
    asked_s: float


class OrphanChecks:
    """Asks producers, and remembers whom it asked. `now` is a monotonic clock in seconds."""

    def __init__(
        self, messages: "MessageService", clients: "ClientRegistry", now: "Callable[[], float]", *, store_host: str
    ) -> None:
        self._messages = messages
        self._clients = clients
        self._now = now
        self._store_host = store_host
        self._turns: dict[str, int] = {}
        self._questions: dict[str, _Question] = {}  # by transaction id, the oldest first
        self._asked: dict[str, dict[str, None]] = {}  # by client id, the transactions it was asked about, in order
        self._passing_on: set[asyncio.Task[None]] = set()

    async def ask(self, orphan: OrphanedTransaction) -> bool:
        """Send the question to a producer; whether there was one that could be sent it."""
        tried: set[str] = set()
        while (client := self._candidate(orphan, tried)) is not None:
            tried.add(client.client_id)
            # Who said good-bye meanwhile will not answer.
            if await client.push(self._question(orphan, client)) and self._clients.find(client.client_id) is client:
                self._remember(orphan, client)
                return True
        return False

    def answered(self, transaction_id: str) -> None:
        """Somebody said what becomes of the transaction, or that it is still open."""
        question = self._questions.pop(transaction_id, None)
        if question is not None:
            asked = self._asked[question.client_id]
            del asked[transaction_id]
            if not asked:
                del self._asked[question.client_id]

    def left(self, client_id: str) -> None:
        """The client is gone, or no command reaches it any more: others are asked what it was asked."""
        self._forget_old()
        open_questions = {name: self._questions[name].topic for name in self._asked.get(client_id, ())}
        for transaction_id in open_questions:
            self.answered(transaction_id)
        if open_questions:
            task = asyncio.create_task(self._pass_on(open_questions), name=f"questions of {client_id}")
            self._passing_on.add(task)
            task.add_done_callback(self._passing_on.discard)

    async def close(self) -> None:
        """Ask nobody any more."""
        for task in self._passing_on:
            task.cancel()
        await asyncio.gather(*self._passing_on, return_exceptions=True)

    def _candidate(self, orphan: OrphanedTransaction, tried: "AbstractSet[str]") -> "Client | None":
        candidates = [client for client in self._clients.publishers(orphan.topic) if client.client_id not in tried]
        sender = next((client for client in candidates if client.client_id == orphan.sender), None)
        if sender is not None or orphan.sender_only or not candidates:
            return sender
        turn = self._turns[orphan.topic] = self._turns.get(orphan.topic, -1) + 1
        return candidates[turn % len(candidates)]

    def _question(self, orphan: OrphanedTransaction, client: "Client") -> TelemetryCommand:
        message = delivered_form(orphan.message, topic=orphan.topic, store_host=self._store_host)
        named = client.named_topic(orphan.topic)
        if named is not None:
            message.topic.CopyFrom(named)
        message.system_properties.delivery_attempt = 1
        return TelemetryCommand(
            recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
                message=message, transaction_id=orphan.transaction_id
            )
        )

    def _remember(self, orphan: OrphanedTransaction, client: "Client") -> None:
        self.answered(orphan.transaction_id)
        self._questions[orphan.transaction_id] = _Question(client.client_id, orphan.topic, self._now())
        self._asked.setdefault(client.client_id, {})[orphan.transaction_id] = None
        self._forget_old()

    def _forget_old(self) -> None:
        too_old_s = self._now() - QUESTION_AGE_MAX_S
        while self._questions:
            oldest = next(iter(self._questions))
            if self._questions[oldest].asked_s >= too_old_s and len(self._questions) <= QUESTIONS_MAX:
                return
            self.answered(oldest)

    async def _pass_on(self, topics: dict[str, str]) -> None:
        """Ask others about transactions, given with their topics. What became of each is looked up first: it may have
        been ended through another proxy, and its message is not kept here."""
        try:
            for transaction_id, topic in topics.items():
                if self._clients.publishers(topic):
                    await self._ask_again(transaction_id)
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("questions about transactions could not be passed on; the broker will ask again")

    async def _ask_again(self, transaction_id: str) -> None:
        try:
            transaction, message = await self._messages.transaction(TransactionId.parse(transaction_id))
        except MessagingError as error:
            _log.debug("transaction %s is not asked about again: %s", transaction_id, error)
            return
        if transaction.state is TransactionState.PENDING:
            orphan = OrphanedTransaction(
                transaction_id=transaction_id, topic=transaction.topic, sender=transaction.sender, message=message
            )
            await self.ask(orphan)
