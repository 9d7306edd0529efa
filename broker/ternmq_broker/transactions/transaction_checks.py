"""Transaction checks of open half messages; messages whose checks stay unanswered are discarded.

The watcher decides which producer to ask, and how (`MessageService.watch_orphans`): it returns whether there was one.
Only checks that reached a producer count. They are noted in the log, so that a restart goes on counting.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.consumption.queue_reader import stored_message
from ternmq_broker.store.index.half_index import encode_checks
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.pacing.backoff import RETRY_S
from ternmq_common.shard.model import NewMessage, OrphanedTransaction, QueueRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.store.index.half_index import WaitingHalf
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.clock import SystemClock

_log = logging.getLogger(__name__)
_BATCH = 64


class TransactionChecks(BackgroundLoop):
    """The transaction checks of one broker."""

    def __init__(
        self, transactions: "Transactions", store: "MessageStore", clock: "SystemClock", *, broker: str
    ) -> None:
        super().__init__(self._check_or_sleep, name="orphans", what="transaction checks are late")
        self._transactions = transactions
        self._store = store
        self._clock = clock
        self._broker = broker
        self._ask_producer: Callable[[OrphanedTransaction], Awaitable[bool]] | None = None
        self._changed = transactions.check_is_sooner
        clock.on_jump(self._changed.set)

    def set_watcher(self, ask: "Callable[[OrphanedTransaction], Awaitable[bool]]") -> None:
        self._ask_producer = ask

    async def _check_or_sleep(self) -> None:
        if not await self._check_due():
            await self._sleep_until_due()

    async def _check_due(self) -> bool:
        """Handle some of the due half messages; returns whether there were any. A lost one does not delay the
        others."""
        self._changed.clear()
        due = self._transactions.checks.take_due(self._clock.now_ms(), _BATCH)
        for half in due:
            if self._transactions.checks.is_exhausted(half, self._clock.now_ms()):
                await self._transactions.discard_half(half)
            elif await self._begin_check(half):
                self._note_check(half)
        return bool(due)

    async def _sleep_until_due(self) -> None:
        next_ms = self._transactions.checks.next_due_ms()
        seconds = RETRY_S
        if next_ms is not None:
            seconds = min(seconds, max(0, next_ms - self._clock.now_ms()) / 1000)
        handle = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            handle.cancel()

    async def _begin_check(self, half: "WaitingHalf") -> bool:
        if self._ask_producer is None:
            return False
        try:
            record = await self._transactions.read_half(half)
        except MessagingError as lost:
            _log.error("%s; no producer is connected to check it", lost.message)
            return False
        queue = QueueRef(half.topic, self._broker, record.queue_id)
        orphan = OrphanedTransaction(
            transaction_id=str(self._transactions.id_of(half)),
            topic=half.topic,
            sender=half.sender,
            message=stored_message(queue, record),
        )
        return await self._ask_producer(orphan)

    def _note_check(self, half: "WaitingHalf") -> None:
        """Write one more check to the log, unless the transaction ended meanwhile; the store counts it."""
        if self._transactions.halves.waiting.get(half.log_offset) is half:
            operation = NewMessage(0, b"", encode_checks(half.checks + 1), ())
            origin = RecordOrigin(half.log_offset)
            draft = RecordDraft(RecordKind.OPERATION, half.topic, 0, operation, origin=origin)
            self._store.writer.append_drafts([draft], self._clock.now_ms())
