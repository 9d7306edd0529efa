"""A follower's store: takes the leader's bytes, makes them durable, brings everything derived of them up to date.

Nothing is written beside the log of what is not acknowledged yet (`MessageStore.spill_limit`): until then another
leader may have the log cut off before it, and whatever is cut off was in memory only.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import BackgroundLoop
from ternmq_broker.log_upkeep import LogUpkeep
from ternmq_broker.sending.flusher import Flusher
from ternmq_broker.server.replication.copy_reads import CopyReads
from ternmq_broker.store.copying import BadCopy
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store_upkeep import StoreUpkeep
from ternmq_common.cluster import Deleted
from ternmq_runtime.observability.figures import MessageCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ternmq_broker.opening import OpenedStore
    from ternmq_broker.server.deletion_notes import DeletionNotes
    from ternmq_broker.server.replication.wire import LogBytes
    from ternmq_common.errors import MessagingError
    from ternmq_common.server_settings import FlushMode
    from ternmq_runtime.observability.durations import Durations

_log = logging.getLogger(__name__)
_LOOK_S = 0.2
# No record is longer, by far; who sends so much without one sends none.
_PARTIAL_BYTES_MAX = 256 << 20


class Copy:
    """One store that is open, from `start` to `stop`. `on_held` is called whenever more of it is durable;
    `counts` has what is read of it, and nothing of topics that are deleted."""

    def __init__(
        self,
        opened: "OpenedStore",
        flush: "FlushMode",
        notes: "DeletionNotes",
        on_held: "Callable[[], None]",
        counts: "MessageCounts | None" = None,
        *,
        scrub_days: float = 0,
    ) -> None:
        self.store = opened.store
        self._journal = opened.journal
        self._room = opened.room
        self._notes = notes
        self._on_held = on_held
        self._counts = counts or MessageCounts()
        # What the leader has at hand comes in one piece.
        self._flusher = Flusher(opened.store, flush, turns=0, worker=opened.disk.sync_worker)
        self._partial = b""
        self._log_start = 0
        self._upkeep = StoreUpkeep(opened.store)
        self._running: set[asyncio.Future[None]] = set()
        self._loop = BackgroundLoop(
            self._look_after, name="copy", what="what is derived of the copied log was not written", every_s=_LOOK_S
        )
        self.log_upkeep = LogUpkeep(opened.store, scrub_days=scrub_days, may_write=lambda: opened.room.lost is None)
        """Finds and repairs damage of the log; the follower tells it how to ask the leader."""
        opened.store.damage.may_be_repaired = True
        self._is_stopped = False
        self.acknowledged = opened.store.spill_limit
        self.reads = CopyReads(opened.store, lambda: min(self.acknowledged, self.held), lambda: self._log_start)
        """For proxies, while this is known to be in sync; ended by `stop`."""

    def start(self) -> None:
        self._room.start(follows=True)
        self._flusher.start()
        self._loop.start()
        self.log_upkeep.start()

    async def stop(self) -> None:
        """Make durable what there is, and end; the store stays open, and no thread writes its files any more."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.reads.close()
        await self._room.stop()
        await self._loop.stop()
        await self.log_upkeep.stop()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._flusher.stop()

    async def _to_the_end(self, work: "Coroutine[None, None, None]") -> None:
        """Do what writes files, also for who waits no more."""
        running = asyncio.ensure_future(work)
        self._running.add(running)
        running.add_done_callback(self._ended)
        await asyncio.shield(running)

    def _ended(self, running: "asyncio.Future[None]") -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # whoever waits no more hears of a disk that fails by the next step

    @property
    def failure(self) -> "MessagingError | None":
        """Why the disk can't be relied on any more."""
        return self._flusher.failure

    @property
    def lost(self) -> str | None:
        """What of the store is not at its path any more, so that nothing is held for a restart."""
        return self._room.lost

    @property
    def syncs(self) -> "Durations":
        """How long syncs of the log took."""
        return self._flusher.syncs

    @property
    def held(self) -> int:
        """Up to where the log is held, as the flush mode has it."""
        return self._flusher.readable_end

    @property
    def wanted(self) -> int:
        """The log offset of the next byte that is wanted."""
        return self.store.end + len(self._partial)

    async def settled(self) -> int:
        """The end of the log, when all of it is durable."""
        self._partial = b""
        await self._flusher.durable(self.store.end)
        return self.store.end

    # --- taking

    async def take(self, log: "LogBytes") -> None:
        """Take the next bytes. BadCopy, BadRecord: they are none of this log, and the store is to be opened anew;
        OSError: the disk did not take them."""
        if log.position != self.wanted:
            raise BadCopy(f"bytes of log offset {log.position} came, and {self.wanted} was next")
        store = self.store
        data = self._partial + log.data if self._partial else log.data
        whole = len(data) if log.is_whole else store.whole_bytes(data)
        if not whole and len(data) > _PARTIAL_BYTES_MAX:
            raise BadRecord(f"has no end in {len(data)} bytes")
        self._partial = data[whole:]
        if whole:
            taken = store.take_copied(log.base, data[:whole] if self._partial else data)
            self._flusher.when_acknowledged(store.end, self._held)
            if taken.deletions:
                for deletion in taken.deletions:
                    if deletion.kind is Deleted.TOPIC:
                        self._counts.forget(deletion.name)
                await self._to_the_end(asyncio.to_thread(self._notes.add, *taken.deletions))

    def _held(self, error: "MessagingError | None") -> None:
        if error is None:
            self._on_held()

    def heard(self, acknowledged: int, log_start: int) -> None:
        """What the leader says of its log."""
        self.acknowledged = max(self.acknowledged, min(acknowledged, self.store.end))
        self._log_start = max(self._log_start, log_start)
        self.store.spill_limit = max(self.store.spill_limit, self.acknowledged)

    async def replace_journal(self, lines: list[bytes]) -> None:
        """Have the leader's journal instead of what was there. BadLines if it is none."""
        replacing = partial(asyncio.to_thread, self._journal.replace_all, lines)
        await self._to_the_end(self._room.with_reserve(replacing, all_of_it=False))

    async def add_to_journal(self, lines: list[bytes]) -> None:
        """Lines that the leader's journal got. BadLines if they are none."""
        await self._to_the_end(asyncio.to_thread(self._journal.take_lines, lines))

    # --- what follows from it

    async def _look_after(self) -> None:
        if self.lost is None:
            await self._to_the_end(self._derive())

    async def _derive(self) -> None:
        if count := self.store.removable_below(self._log_start):
            # Whatever is still needed of them the leader has put further on. First, as it makes room on a full disk.
            await self._room.with_reserve(partial(self._upkeep.remove, count), all_of_it=True)
            _log.info("%d segments were removed, as the leader did; the log begins at %d", count, self.store.start)
        self.store.mark_durable()
        await self._upkeep.spill()
