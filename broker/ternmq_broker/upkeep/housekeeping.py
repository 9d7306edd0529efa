"""Periodic work of a broker: writes the consumption journal, moves index entries to disk, removes old segments.

All of it has to write, even what frees disk space: when the disk is full it gets space of the reserve (`disk_room`). A
failed step is repeated until it works. While files of the store are gone nothing is written or removed, so that what
is left can be saved.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.upkeep.store_upkeep import SPILL_ENTRIES, StoreUpkeep
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.store.journal.progress_journal import ProgressJournal
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.upkeep.disk_room import DiskSpaceWatch
    from ternmq_common.clock import SystemClock

_log = logging.getLogger(__name__)
# While the log grows, and while it does not.
_SPILL_CHECK_S, _IDLE_SPILL_CHECK_S = 0.2, 1.0
_SHORT_RETENTION_CHECK_S = 1.0
# About a millisecond; then other tasks get their turn.
_LITE_A_TURN = 500


class BrokerHousekeeping:
    """Runs three loops, each with its own interval; files are written in threads."""

    def __init__(
        self,
        settings: "BrokerSettings",
        store: "MessageStore",
        consumption: "Consumption",
        journal: "ProgressJournal",
        clock: "SystemClock",
        room: "DiskSpaceWatch",
        *,
        before_removal: "Callable[[int], Awaitable[None]]",
        purge: "Callable[[str, int, int], Awaitable[None]]",
        short_check_s: float = _SHORT_RETENTION_CHECK_S,
    ) -> None:
        """`before_removal` saves what is still needed of the log below an offset; `purge` removes a queue's messages.

        While disk space is short, retention runs at least every `short_check_s` seconds.
        """
        self._short_check_s = short_check_s
        self._settings = settings
        self._store = store
        self._consumption = consumption
        self._journal = journal
        self._clock = clock
        self._room = room
        self._before_removal = before_removal
        self._purge = purge
        self.retention_of: Callable[[str], int] = _use_broker_retention
        """For how many milliseconds the topic's messages are kept; 0: by the broker's settings."""
        self._journal_turn = asyncio.Lock()
        self._journal_listeners: list[Callable[[list[bytes]], None]] = []
        self._new_lines: list[bytes] = []
        journal.on_written = self._new_lines.extend
        self._upkeep = StoreUpkeep(store)
        self._loops: list[BackgroundLoop] = []
        self._steps = BackgroundTasks()
        self._spill_loop = self._create_loop(
            self._spill_index, _SPILL_CHECK_S, "index spill", "the index could not be written"
        )
        self._checked_end = -1

    def start(self) -> None:
        journal_s = self._settings.consumption_flush_interval_ms / 1000
        retention_s = min(self._settings.retention_check_interval_ms / 1000, self._short_check_s)
        self._next_retention_s = asyncio.get_running_loop().time() + self._settings.retention_check_interval_ms / 1000
        self._loops = [
            self._create_loop(self.write_journal, journal_s, "journal", "the progress of groups could not be written"),
            self._spill_loop,
            self._create_loop(
                self._retain_if_due, retention_s, "retention", "old messages could not be removed", makes_room=True
            ),
        ]
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """End the loops after their current steps, and write the journal a last time."""
        for loop in self._loops:
            await loop.stop()
        await self._steps.wait_until_done()
        if self._room.lost is not None:
            _log.error("the last progress of groups is not written, as the store is gone: messages are delivered again")
            return
        try:
            await self._room.with_reserve(self.write_journal, may_use_all=True)
            await asyncio.to_thread(self._journal.note_size)
        except OSError as error:
            _log.error("the last progress of groups could not be written; messages are delivered again: %s", error)

    def _create_loop(
        self,
        step: "Callable[[], Coroutine[None, None, None]]",
        every_s: float,
        name: str,
        what: str,
        *,
        makes_room: bool = False,
    ) -> BackgroundLoop:
        async def to_the_end() -> None:
            if self._room.lost is not None:
                return
            await self._steps.run_to_end(self._room.with_reserve(step, may_use_all=makes_room))

        return BackgroundLoop(to_the_end, name=name, what=what, every_s=every_s)

    async def write_journal(self) -> None:
        """Write the changes of the groups' progress to the consumption journal."""
        async with self._journal_turn:
            now_ms = self._clock.now_ms()
            changed = [
                (key, state.record_changes(whole=self._journal.wants_snapshot(key)))
                for key, state in self._consumption.take_changes()
            ]
            marks = self._consumption.losses.take_changes()
            if not changed and not marks:
                return
            try:
                await asyncio.to_thread(self._journal.write_progress, changed, now_ms, marks)
            except OSError:
                self._consumption.restore_changes(key for key, _ in changed)
                self._consumption.losses.restore_changes(marks)
                raise
            self._consumption.confirm_changes(key for key, _ in changed)
            self._notify_listeners()

    async def forget_group(self, group: str) -> None:
        """Drop a deleted group from consumption and journal."""
        async with self._journal_turn:
            self._consumption.forget_group(group)
            await asyncio.to_thread(self._journal.drop_group, group)
            self._notify_listeners()

    async def forget_lite(self, topics: "Sequence[str]") -> None:
        """Drop the progress of all groups in these lite topics."""
        async with self._journal_turn:
            pairs = self._consumption.forget_lite(topics)
            if pairs:
                await asyncio.to_thread(self._journal.drop_groups, pairs)
                self._notify_listeners()

    def _notify_listeners(self) -> None:
        lines, self._new_lines[:] = list(self._new_lines), []
        for listener in self._journal_listeners:
            listener(lines)

    async def follow_journal(self, listener: "Callable[[list[bytes]], None]") -> list[bytes]:
        """See `Broker.follow_journal`."""
        async with self._journal_turn:
            self._journal_listeners.append(listener)
            return self._journal.live_lines()

    def unfollow_journal(self, listener: "Callable[[list[bytes]], None]") -> None:
        if listener in self._journal_listeners:
            self._journal_listeners.remove(listener)

    async def _spill_index(self, entries_min: int = SPILL_ENTRIES) -> None:
        if not self._room.is_short:
            self._store.checkpoints.mark_durable()
        before, self._checked_end = self._checked_end, self._store.log.log_end
        self._spill_loop.every_s = _IDLE_SPILL_CHECK_S if self._checked_end == before else _SPILL_CHECK_S
        await self._upkeep.spill_index(entries_min)

    async def _retain_if_due(self) -> None:
        """Remove expired messages when it is time, and always while disk space is short."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_retention_s or self._room.is_short:
            self._next_retention_s = now_s + self._settings.retention_check_interval_ms / 1000
            await self.remove_expired()

    async def remove_expired(self) -> None:
        """Remove the segments in which every message is older than the retention.

        Nothing is removed while the clock can't be relied on: a clock that is days ahead would have all of them
        removed.
        """
        await asyncio.to_thread(self._store.deletions.delete_removed)  # what could not be deleted the last time
        if self._clock.find_problem() is not None:
            return
        before_ms = self._clock.now_ms() - self._settings.retention_ms
        if self._store.log.log_end > self._store.log.log_start and self._store.writer.last_stored_ms < before_ms:
            self._store.log.roll_segment()  # every message is old, so the growing segment is replaced too
        while count := await asyncio.to_thread(self._store.deletions.expired_segments, before_ms):
            # When space is short, one removed segment has to make space for what waits in the next.
            await self._remove_segments(1 if self._room.is_short else count)
        await self._purge_topics()  # this writes, so freeing space comes first

    async def _purge_topics(self) -> None:
        """Purge older messages of topics with a retention of their own; the space is freed with their segments."""
        now_ms = self._clock.now_ms()
        for topic in self._store.indexes.queues.topic_names():
            retention_ms = self.retention_of(topic)
            for queue_id in list(self._store.indexes.queues.queue_ids(topic)) if retention_ms else ():
                first, _ = self._store.indexes.queues.queue_bounds(topic, queue_id)
                after = await asyncio.to_thread(
                    self._store.reader.find_offset_at, topic, queue_id, now_ms - retention_ms
                )
                if after > first:
                    await self._purge(topic, queue_id, after)

    async def _remove_segments(self, count: int) -> None:
        await self._before_removal(self._store.log.segment_end(count))
        expired = await self._upkeep.remove_segments(count)
        for start in range(0, len(expired), _LITE_A_TURN):
            self._consumption.expire_lite_topics(expired[start : start + _LITE_A_TURN])
            await asyncio.sleep(0)
        _log.info("retention removed %d segments; the log begins at %d", count, self._store.log.log_start)
        await self._room.check_and_renew()


def _use_broker_retention(_topic: str) -> int:
    return 0
