"""Moves a store's index entries to disk and removes old segments, for the event loop of a leader or a follower."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_broker.store.message_store import MessageStore

# A restart after a crash reads again what is not in the index files: about this many messages, a fraction of a second.
SPILL_ENTRIES = 16_384


class StoreUpkeep:
    """The upkeep of one store. Files are written in threads, so each step must run to its end."""

    def __init__(self, store: "MessageStore") -> None:
        self._store = store
        self._turn = asyncio.Lock()

    async def spill_index(self, entries_min: int = SPILL_ENTRIES) -> None:
        """Write the index entries in memory to disk, if there are so many. OSError: they stay in memory."""
        store = self._store
        async with self._turn:
            while job := store.checkpoints.prepare_spill(entries_min=entries_min):
                try:
                    await asyncio.to_thread(job.write)
                except OSError:
                    store.checkpoints.give_up_spill(job)
                    raise
                for _ in store.checkpoints.finish_spill_slowly(job):
                    await asyncio.sleep(0)
                await asyncio.to_thread(store.checkpoints.prepare_checkpoint())

    async def remove_segments(self, count: int) -> list[tuple[str, int]]:
        """Remove the oldest segments, of which nothing is needed any more. OSError.

        Returns the lite topics that lost their last messages, each with the offset of its end.
        """
        store = self._store
        await self.spill_index(entries_min=1)  # the index files must cover all that is removed
        removal = store.deletions.prepare_removal(count)
        await asyncio.to_thread(removal.write)
        gone = store.deletions.finish_removal(removal)
        await asyncio.to_thread(store.deletions.delete_removed)
        return gone
