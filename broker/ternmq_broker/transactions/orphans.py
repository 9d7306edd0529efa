"""Transaction checks: asks producers about half messages that nobody ended, and discards those nobody answers for.

Who is asked, and how, is the watcher's business (`MessageService.watch_orphans`): it says whether there was somebody.
Only checks that reached a producer count. They are noted in the log, so that a restart does not begin to count anew.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import BackgroundLoop
from ternmq_broker.consumption.queue_reader import stored_message
from ternmq_broker.store.drafts import Draft
from ternmq_broker.store.half_index import checked
from ternmq_broker.store.log.record import Origin, RecordKind
from ternmq_common.model import NewMessage, OrphanedTransaction, QueueRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.delivery.pending_halves import PendingHalf
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.clock import Clock

_BATCH = 64
# The clock may be set while nobody looks.
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
        """Deal with some of what is due; whether there was any."""
        self._changed.clear()
        due = self._transactions.pending.take_due(self._clock.now_ms(), _BATCH)
        asked: list[PendingHalf] = []
        for half in due:
            if self._transactions.pending.is_exhausted(half, self._clock.now_ms()):
                await self._transactions.discard(half)
            elif await self._begin_check(half):
                half.checks += 1
                asked.append(half)
        self._note(asked)
        return bool(due)

    async def _sleep(self) -> None:
        next_ms = self._transactions.pending.next_due_ms()
        seconds = _LOOK_AGAIN_S
        if next_ms is not None:
            seconds = min(seconds, max(0, next_ms - self._clock.now_ms()) / 1000)
        handle = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            handle.cancel()

    async def _begin_check(self, half: "PendingHalf") -> bool:
        if self._ask is None:
            return False
        record = await self._transactions.read(half)
        queue = QueueRef(half.topic, self._broker, record.queue_id)
        orphan = OrphanedTransaction(
            transaction_id=str(self._transactions.id_of(half)),
            topic=half.topic,
            sender=half.sender,
            message=stored_message(queue, record),
        )
        return await self._ask(orphan)

    def _note(self, asked: "list[PendingHalf]") -> None:
        """Write down how many checks transactions had, of those that nobody ended meanwhile."""
        drafts = [
            Draft(
                RecordKind.OPERATION,
                half.topic,
                0,
                NewMessage(0, b"", checked(half.checks), ()),
                origin=Origin(half.log_offset),
            )
            for half in asked
            if self._transactions.pending.get(half.log_offset) is half
        ]
        if drafts:
            self._store.append_drafts(drafts, self._clock.now_ms())
