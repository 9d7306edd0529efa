"""A follower's store: takes the leader's bytes, makes them durable, and updates all that is derived of them.

Nothing that is derived of messages that are not acknowledged yet is written to disk (`DerivedIndexes.spill_limit`):
another leader may still have them cut off the log, and then what was derived from them is in memory only.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_broker.sending.flusher import LogFlusher
from ternmq_broker.server.replication.copy_reads import CopyReads
from ternmq_broker.store.copying.log_copy import BadCopy
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.upkeep.log_upkeep import LogUpkeep
from ternmq_broker.upkeep.store_upkeep import StoreUpkeep
from ternmq_common.catalog.cluster import DeletedKind
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_runtime.observability.figures import MessageCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.server.deletion_notes import DeletionNotes
    from ternmq_broker.server.replication.replica_messages import LogBytes
    from ternmq_broker.store_opening import OpenedStore
    from ternmq_common.errors import MessagingError
    from ternmq_common.server_settings import FlushMode
    from ternmq_runtime.observability.durations import DurationHistogram

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.2
# No record is longer, by far: so many bytes without a whole record are invalid.
_PARTIAL_BYTES_MAX: Final = 256 << 20


class FollowerCopy:
    """One open store of a follower, from `start` to `stop`. `on_held` is called whenever more of it is durable.

    `counts` has what proxies read of it, and nothing of deleted topics.
    """

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
        # The leader sends all that it has in one piece, so there is no need to wait.
        self._flusher = LogFlusher(opened.store, flush, turns=0, worker=opened.disk.sync_worker)
        self._partial = b""
        self._log_start = 0
        self._upkeep = StoreUpkeep(opened.store)
        self._writes = BackgroundTasks()
        self._loop = BackgroundLoop(
            self._look_after, name="copy", what="what is derived of the copied log was not written", every_s=_LOOK_S
        )
        self.log_upkeep = LogUpkeep(opened.store, scrub_days=scrub_days, may_write=lambda: opened.room.lost is None)
        """Finds and repairs damage of the log; the follower sets how to ask the leader."""
        opened.store.damage.may_be_repaired = True
        self._is_stopped = False
        self.acknowledged = opened.store.indexes.spill_limit
        self.reads = CopyReads(opened.store, lambda: min(self.acknowledged, self.held_end), lambda: self._log_start)
        """For proxies, while this is known to be in sync; ended by `stop`."""

    def start(self) -> None:
        self._room.start(follows=True)
        self._flusher.start()
        self._loop.start()
        self.log_upkeep.start()

    async def stop(self) -> None:
        """Make everything durable, and end; the store stays open, and no thread writes its files any more."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self.reads.close()
        await self._room.stop()
        await self._loop.stop()
        await self.log_upkeep.stop()
        await self._writes.wait_until_done()
        await self._flusher.stop()

    @property
    def disk_failure(self) -> "MessagingError | None":
        """Why the disk can't be relied on any more; None if it can."""
        return self._flusher.failure

    @property
    def lost_file(self) -> str | None:
        """Which file of the store is not at its path any more, so that nothing is held for a restart; None if all
        are."""
        return self._room.lost

    @property
    def sync_durations(self) -> "DurationHistogram":
        """How long syncs of the log took."""
        return self._flusher.syncs

    @property
    def held_end(self) -> int:
        """The log offset up to which the log is held, by the flush mode."""
        return self._flusher.readable_end

    @property
    def wanted_offset(self) -> int:
        """The log offset of the next byte that is wanted."""
        return self.store.log.log_end + len(self._partial)

    async def wait_until_durable(self) -> int:
        """Wait until all of the log is durable; returns its end."""
        self._partial = b""
        await self._flusher.wait_until_durable(self.store.log.log_end)
        return self.store.log.log_end

    # --- taking

    async def append_bytes(self, log: "LogBytes") -> None:
        """Append the next bytes of the leader's log.

        BadCopy, BadRecord: they don't belong to this log, and the store must be opened again; OSError: the disk
        failed.
        """
        if log.position != self.wanted_offset:
            raise BadCopy(f"bytes of log offset {log.position} came, and {self.wanted_offset} was next")
        store = self.store
        data = self._partial + log.data if self._partial else log.data
        whole = len(data) if log.is_whole else store.replica_log.whole_bytes(data)
        if not whole and len(data) > _PARTIAL_BYTES_MAX:
            raise BadRecord(f"has no end in {len(data)} bytes")
        self._partial = data[whole:]
        if whole:
            try:
                taken = store.replica_log.append_copied(log.base, data[:whole] if self._partial else data)
            except OSError as error:
                self._room.append_failed(error)
                raise
            self._flusher.when_acknowledged(store.log.log_end, self._notify_held)
            if taken.deletions:
                for deletion in taken.deletions:
                    if deletion.kind is DeletedKind.TOPIC:
                        self._counts.forget_topic(deletion.name)
                await self._writes.run_to_end(asyncio.to_thread(self._notes.add_done, *taken.deletions))

    def _notify_held(self, error: "MessagingError | None") -> None:
        if error is None:
            self._on_held()

    def note_leader_state(self, acknowledged: int, log_start: int) -> None:
        """Note how far the leader's log is acknowledged, and where it begins."""
        self.acknowledged = max(self.acknowledged, min(acknowledged, self.store.log.log_end))
        self._log_start = max(self._log_start, log_start)
        self.store.indexes.spill_limit = max(self.store.indexes.spill_limit, self.acknowledged)

    async def replace_journal(self, lines: list[bytes]) -> None:
        """Replace the journal by the leader's. BadLines if these are no journal."""
        replacing = partial(asyncio.to_thread, self._journal.replace_all, lines)
        await self._writes.run_to_end(self._room.with_reserve(replacing, may_use_all=False))

    async def add_to_journal(self, lines: list[bytes]) -> None:
        """Append lines that were added to the leader's journal. BadLines if they are invalid."""
        await self._writes.run_to_end(asyncio.to_thread(self._journal.append_copied, lines))

    # --- what is derived of the log

    async def _look_after(self) -> None:
        if self.lost_file is None:
            await self._writes.run_to_end(self._update_derived())

    async def _update_derived(self) -> None:
        if count := self.store.replica_log.count_removable(self._log_start):
            # The leader has relocated what is still needed of them. This comes first, as it frees space on a full disk.
            await self._room.with_reserve(partial(self._upkeep.remove_segments, count), may_use_all=True)
            _log.info(
                "%d segments were removed, as the leader did; the log begins at %d", count, self.store.log.log_start
            )
        self.store.checkpoints.mark_durable()
        await self._upkeep.spill_index()
