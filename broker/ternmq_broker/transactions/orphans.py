"""Transaction checks: asks producers about half messages that nobody ended, and discards those that stay unanswered.

The watcher decides which producer to ask, and how (`MessageService.watch_orphans`): it returns whether there was one.
Only checks that reached a producer count. They are noted in the log, so that a restart goes on counting.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import BackgroundLoop
from ternmq_broker.consumption.queue_reader import stored_message
from ternmq_broker.store.drafts import Draft
from ternmq_broker.store.half_index import checked
from ternmq_broker.store.log.record import Origin, RecordKind
from ternmq_common.errors import MessagingError
from ternmq_common.model import NewMessage, OrphanedTransaction, QueueRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.store.half_index import WaitingHalf
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.clock import Clock

_log = logging.getLogger(__name__)
_BATCH = 64
# The clock may be set in between.
_LOOK_AGAIN_S = 1.0


class Orphans:
    """The transaction checks of one broker."""

    def __init__(self, transactions: "Transactions", store: "MessageStore", clock: "Clock", *, broker: str) -> None:
        self._transactions = transactions
        self._store = store
        self._clock = clock
        self._broker = broker
        self._ask: Callable[[OrphanedTransaction], Awaitable[bool]] | None = None
        self._changed = transactions.sooner
        self._loop = BackgroundLoop(self._work, name="orphans", what="transaction checks are late")
        clock.on_jump(self._changed.set)

    def watch(self, ask: "Callable[[OrphanedTransaction], Awaitable[bool]]") -> None:
        self._ask = ask

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def _work(self) -> None:
        if not await self._look():
            await self._sleep()

    async def _look(self) -> bool:
        """Handle some of the due half messages; returns whether there were any. A lost one does not delay the
        others."""
        self._changed.clear()
        due = self._transactions.checks.take_due(self._clock.now_ms(), _BATCH)
        for half in due:
            if self._transactions.checks.is_exhausted(half, self._clock.now_ms()):
                await self._transactions.discard(half)
            elif await self._begin_check(half):
                self._note(half)
        return bool(due)

    async def _sleep(self) -> None:
        next_ms = self._transactions.checks.next_due_ms()
        seconds = _LOOK_AGAIN_S
        if next_ms is not None:
            seconds = min(seconds, max(0, next_ms - self._clock.now_ms()) / 1000)
        handle = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            handle.cancel()

    async def _begin_check(self, half: "WaitingHalf") -> bool:
        if self._ask is None:
            return False
        try:
            record = await self._transactions.read(half)
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
        return await self._ask(orphan)

    def _note(self, half: "WaitingHalf") -> None:
        """Write one more check to the log, unless the transaction ended meanwhile; the store counts it."""
        if self._transactions.halves.waiting.get(half.log_offset) is half:
            operation = NewMessage(0, b"", checked(half.checks + 1), ())
            origin = Origin(half.log_offset)
            draft = Draft(RecordKind.OPERATION, half.topic, 0, operation, origin=origin)
            self._store.append_drafts([draft], self._clock.now_ms())
