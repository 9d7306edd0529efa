"""What a broker does by the clock: write the consumption journal, move index entries to disk, drop old segments."""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.consumption import Consumption
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.progress_journal import ProgressJournal
    from ternmq_common.clock import Clock

_log = logging.getLogger(__name__)
# A restart after a crash reads again what is not in the index files: about this many messages, a fraction of a second.
_SPILL_ENTRIES = 16_384
_SPILL_CHECK_S = 0.2


class Housekeeping:
    """Three loops, each with its own pace; files are written in threads."""

    def __init__(
        self,
        settings: "BrokerSettings",
        store: "MessageStore",
        consumption: "Consumption",
        journal: "ProgressJournal",
        clock: "Clock",
        *,
        before_removal: "Callable[[int], Awaitable[None]]",
    ) -> None:
        """`before_removal` saves what is still needed of the log below an offset."""
        self._settings = settings
        self._store = store
        self._consumption = consumption
        self._journal = journal
        self._clock = clock
        self._before_removal = before_removal
        self._journal_turn = asyncio.Lock()
        self._spill_turn = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._steps: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        every_ms = self._settings.consumption_flush_interval_ms, self._settings.retention_check_interval_ms
        self._tasks = [
            asyncio.create_task(self._repeat(self.write_journal, every_ms[0] / 1000), name="journal"),
            asyncio.create_task(self._repeat(self._spill, _SPILL_CHECK_S), name="index spill"),
            asyncio.create_task(self._repeat(self.remove_expired, every_ms[1] / 1000), name="retention"),
        ]

    async def stop(self) -> None:
        """End the loops, in no middle of a step, and write the journal a last time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._steps, return_exceptions=True)
        await self.write_journal()

    async def _repeat(self, step: "Callable[[], Coroutine[None, None, None]]", seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            running = asyncio.ensure_future(step())
            self._steps.add(running)
            running.add_done_callback(self._steps.discard)
            try:
                await asyncio.shield(running)
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                # A full disk passes, and so must not end the loop; nor may a bug, unseen.
                _log.exception("housekeeping failed; it is tried again in %g s", seconds)

    async def write_journal(self) -> None:
        async with self._journal_turn:
            now_ms = self._clock.now_ms()
            changed = [
                (key, state.record(whole=self._journal.wants_snapshot(key)))
                for key, state in self._consumption.take_changes()
            ]
            if not changed:
                return
            try:
                await asyncio.to_thread(self._journal.write, changed, now_ms)
            except OSError:
                self._consumption.changed_again(key for key, _ in changed)
                raise

    async def forget_group(self, group: str) -> None:
        async with self._journal_turn:
            self._consumption.forget_group(group)
            await asyncio.to_thread(self._journal.drop, group)

    async def _spill(self, entries_min: int = _SPILL_ENTRIES) -> None:
        async with self._spill_turn:
            while job := self._store.prepare_spill(entries_min=entries_min):
                try:
                    await asyncio.to_thread(job.write)
                except OSError:
                    self._store.give_up_spill(job)
                    raise
                self._store.finish_spill(job)
                await asyncio.to_thread(self._store.prepare_checkpoint())

    async def remove_expired(self) -> None:
        """Drop the segments in which every message is older than the retention."""
        before_ms = self._clock.now_ms() - self._settings.retention_ms
        if self._store.end > self._store.start and self._store.last_stored_ms < before_ms:
            self._store.roll()  # all that is there is old, so the segment that grows is replaced too
        count = await asyncio.to_thread(self._store.expired_segments, before_ms)
        if count:
            await self._before_removal(self._store.segment_end(count))
            await self._spill(entries_min=1)  # the index files must speak of all that goes
            finish = self._store.remove_segments(count)
            await asyncio.to_thread(finish)
            _log.info("retention removed %d segments; the log begins at %d", count, self._store.start)
