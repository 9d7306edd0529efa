"""Timed messages: stored with their delivery times, moved to their queues on time, or recalled before it.

A timer is a record of the commit log. When it is due its message is appended to its queue with the timer as its
origin: one record is both the message and the end of the timer, so that after a crash there are both or neither, and
each message appears in its queue exactly once. A recall appends a tombstone in the same way.

Late     after a restart, or when the clock was set forward, due messages appear at once, in the order of their times.
Wrong    while the clock can't be relied on (`Clock.find_problem`), nothing is due.
Move     a timer in a segment that retention is about to remove is relocated: copied to the end of the log.
Threads  everything runs on the event loop; the index's files are read and merged in threads.
"""

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from ternmq_broker.cold_reads import NotRepaired, records_at
from ternmq_broker.message_copies import copy_message
from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.record_drafts import NO_MESSAGE, RecordDraft
from ternmq_broker.store.timers.timer_jobs import MergeInterrupted
from ternmq_broker.store.timers.timer_run import TimerEntry, id_hash
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.names import RETRY_PREFIX
from ternmq_common.pacing.backoff import RETRY_S
from ternmq_common.shard.model import AppendedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.timers.timer_jobs import FindJob, LoadJob, MergeJob, ScanJob
    from ternmq_broker.store.timers.timer_run import Key
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import TimedMessage
    from ternmq_common.shard.recall_handle import RecallHandle

_log = logging.getLogger(__name__)
# So many are read and appended before other tasks get their turn on the loop: a few milliseconds.
_BATCH = 128
_WAKE_EARLY_MS = 2
_AWAKE_EVERY_S = 0.05
_RELOCATE_BATCH = 1024
_WHILE_DELIVERED_S = 0.05

T = TypeVar("T")


class TimerDelivery:
    """The timers of one broker."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "LogFlusher",
        pollers: "PollQueues",
        clock: "SystemClock",
        *,
        may_merge: "Callable[[], bool]" = lambda: True,
        on_retries: "Callable[[str], None] | None" = None,
    ) -> None:
        """`may_merge`: a merge needs as much disk space as it frees, before it frees it. `on_retries` is called with
        the name of a retry topic that got messages."""
        self._on_retries = on_retries
        self._may_merge = may_merge
        self._store = store
        self._index = store.indexes.timers
        self._flusher = flusher
        self._pollers = pollers
        self._clock = clock
        self._changed = asyncio.Event()
        # Timers of one task are hidden from other tasks: a recall would miss a timer that is being copied.
        self._holding = asyncio.Lock()
        self._wakes_ms = 0
        self._stayed_awake = 0.0
        self._loops = (
            BackgroundLoop(self._deliver_due, name="timers", what="timed messages are late"),
            BackgroundLoop(self._merge_if_due, name="timer merge", what="the timer index was not merged"),
        )
        self._merging: MergeJob | None = None
        self._jobs = BackgroundTasks()
        clock.on_jump(self._changed.set)

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """End; what is due and not delivered is delivered after the restart."""
        if self._merging is not None:
            self._merging.interrupt_merge()
        for loop in self._loops:
            await loop.stop()
        await self._jobs.wait_until_done()

    # --- storing

    async def store_timers(self, topic: str, queue_id: int, timed: "Sequence[TimedMessage]") -> list[AppendedMessage]:
        """Store messages with their times, and return when they may be acknowledged; OSError: none was stored."""
        drafts = [RecordDraft(RecordKind.TIMER, topic, queue_id, each.message, due_ms=each.due_ms) for each in timed]
        located = self._store.writer.append_drafts(drafts, self._clock.now_ms())
        if min(each.due_ms for each in timed) < self._wakes_ms:
            self._changed.set()
        await self._flusher.wait_until_acknowledged(self._store.log.log_end, _do_nothing)
        return [
            AppendedMessage(each.message.message_id, location.log_offset)
            for each, location in zip(timed, located, strict=True)
        ]

    # --- delivering

    async def _deliver_due(self) -> None:
        """Deliver what is due; then sleep until the next timer is due, or until something has changed."""
        self._changed.clear()
        if self._flusher.failure is not None:
            await asyncio.sleep(RETRY_S)
            return
        now_ms = self._clock.now_ms()
        if self._index.wants_load(now_ms):
            await self._jobs.run_to_end(self._load_due(now_ms))
        now_ms = self._clock.now_ms()
        if self._clock.find_problem() is not None:  # checked after the time, which may have been set just before
            await self._sleep_until_changed(RETRY_S)
            return
        due, waiting = self._take_due(now_ms)
        if waiting and not due:
            await self._sleep_until_changed(RETRY_S)
            return
        if due:
            try:
                await self._deliver_messages(due)
            except NotRepaired as damaged:
                _log.warning("%d timers are due and wait: %s", len(due), damaged.message)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(0)
            return
        next_ms = self._index.next_due_ms()
        now_ms = self._clock.now_ms()
        latest_ms = now_ms + int(RETRY_S * 1000)
        self._wakes_ms = latest_ms if next_ms is None else min(next_ms, latest_ms)
        early_ms = _WAKE_EARLY_MS if self._wakes_ms == next_ms else 0
        wait_ms = self._wakes_ms - now_ms
        if 0 < wait_ms <= early_ms and self._may_stay_awake():
            while self._clock.now_ms() < self._wakes_ms and not self._changed.is_set():  # noqa: ASYNC110 - on purpose
                await asyncio.sleep(0)
        elif wait_ms > 0:
            await self._sleep_until_changed(max(wait_ms - early_ms, 1) / 1000)

    def _take_due(self, now_ms: int) -> tuple[list[TimerEntry], list[TimerEntry]]:
        """Take some due timers; also returns those whose records wait for a repair, which stay."""
        due = self._index.take_due(now_ms, _BATCH)
        damage = self._store.damage
        waiting = [entry for entry in due if damage.awaits_repair(entry.log_offset)] if damage.is_known else []
        if waiting:
            self._index.return_timers(waiting)
            due = [entry for entry in due if entry not in waiting]
        return due, waiting

    def _may_stay_awake(self) -> bool:
        """Whether to spin until the next timer is due, which is a millisecond faster than a wake-up.

        The answer is yes only so often that it costs a few percent of a core.
        """
        now = asyncio.get_running_loop().time()
        if now - self._stayed_awake < _AWAKE_EVERY_S:
            return False
        self._stayed_awake = now
        return True

    async def _sleep_until_changed(self, seconds: float) -> None:
        """Sleep so many seconds, or until something has changed."""
        handle = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            handle.cancel()

    async def _deliver_messages(self, due: list[TimerEntry]) -> None:
        """Put the messages into their queues; they are readable when the disk has them."""
        try:
            records = await self.read_records(due)
            drafts = [self._draft_of(entry, record) for entry, record in zip(due, records, strict=True)]
            self._store.writer.append_drafts(drafts, self._clock.now_ms())
        except BaseException:
            self._index.return_timers(due)
            raise
        arrived = Counter((draft.topic, draft.queue_id) for draft in drafts if draft.kind is RecordKind.MESSAGE)
        self._flusher.when_readable(self._store.log.log_end, lambda: self._wake_pollers(arrived))

    def _wake_pollers(self, arrived: "Counter[tuple[str, int]]") -> None:
        for (topic, queue_id), count in arrived.items():
            self._pollers.wake_queue(topic, queue_id, count)
            if self._on_retries is not None and topic.startswith(RETRY_PREFIX):
                self._on_retries(topic)

    def _draft_of(self, entry: TimerEntry, record: "Record | None") -> RecordDraft:
        """The message that the timer becomes; a tombstone if its record is lost, or its topic deleted."""
        origin = RecordOrigin(entry.log_offset, entry.due_ms)
        if record is None or self._store.deletions.is_forgotten(record.topic, entry.log_offset):
            if record is None:
                _log.error("the timer at log offset %d can't be read any more, its message is lost", entry.log_offset)
            return RecordDraft(RecordKind.TOMBSTONE, record.topic if record else "", 0, NO_MESSAGE, origin=origin)
        return RecordDraft(RecordKind.MESSAGE, record.topic, record.queue_id, copy_message(record), origin=origin)

    async def read_records(self, entries: "Sequence[TimerEntry]") -> "list[Record | None]":
        """Read the records of the entries, in their order; None where one is lost. NotRepaired."""
        in_log = sorted(entries, key=lambda entry: entry.log_offset)
        locations = [MessageLocation(entry.log_offset, entry.size, 0) for entry in in_log]
        records = await records_at(self._store, locations)
        found = {entry.log_offset: record for entry, record in zip(in_log, records, strict=True)}
        return [found[entry.log_offset] for entry in entries]

    # --- recall

    async def recall_message(self, handle: "RecallHandle") -> None:
        """Recall every timer of that topic, time and message id: a producer that repeats its send stores several.

        BAD_REQUEST when its time has come. None found is fine: it may have been recalled before.
        """
        await self._jobs.run_to_end(self._recall_held(handle))
        await self._flusher.wait_until_acknowledged(self._store.log.log_end, _do_nothing)

    async def _recall_held(self, handle: "RecallHandle") -> None:
        if handle.due_ms <= self._clock.now_ms():
            raise _too_late(handle)
        async with self._holding:
            held = await self._find_and_hold(handle.due_ms, id_hash(handle.message_id))
            await self._settle_recalled(handle, held)

    async def _settle_recalled(self, handle: "RecallHandle", held: list[TimerEntry]) -> None:
        try:
            records = await self.read_records(held)
            if handle.due_ms <= self._clock.now_ms():
                raise _too_late(handle)
            meant = [
                entry
                for entry, record in zip(held, records, strict=True)
                if record is not None and _matches_handle(record, handle)
            ]
            drafts = [
                RecordDraft(
                    RecordKind.TOMBSTONE,
                    handle.topic,
                    0,
                    NO_MESSAGE,
                    origin=RecordOrigin(entry.log_offset, entry.due_ms),
                )
                for entry in meant
            ]
            if drafts:
                self._store.writer.append_drafts(drafts, self._clock.now_ms())
        finally:
            self._index.return_timers(held)
            self._changed.set()

    async def _find_and_hold(self, due_ms: int, hashed: int) -> list[TimerEntry]:
        """Find the timers with that time and hash of an id, and hold them so that no other task takes them."""
        job = self._index.prepare_find(due_ms, hashed)
        await self._run_job(job)
        return self._index.hold_timers(self._index.finish_find(job))

    # --- listing

    async def list_pending(self, start: "Key", limit: int) -> "tuple[list[TimerEntry], Key | None]":
        """List about `limit` pending timers by their times, from that key of the index on, and the key of the next
        page."""
        job = self._index.prepare_scan(self._store.log.log_end, start=start, limit=limit)
        await self._run_job(job)
        return self._index.finish_list(job)

    # --- relocation

    async def count_pending(self, limit: int) -> int:
        """Count the pending timers, up to about `limit`."""
        total = 0
        position: Key | None = (0, 0)
        while position is not None and total < limit:
            job = self._index.prepare_scan(self._store.log.log_end, start=position, limit=_RELOCATE_BATCH)
            await self._run_job(job)
            count, position = self._index.finish_count(job)
            total += count
        return total

    async def relocate_below(self, log_offset: int) -> int:
        """Copy the pending timers with records below `log_offset` to the end of the log; returns their number.

        Waits until the copies are durable.
        """
        relocated = 0
        position: Key | None = None
        while True:
            count, position = await self._jobs.run_to_end(self._relocate_some(log_offset, position))
            relocated += count
            if position is None:
                break
            if not count:
                await asyncio.sleep(_WHILE_DELIVERED_S)
        await self._flusher.wait_until_durable(self._store.log.log_end)
        return relocated

    async def _relocate_some(self, log_offset: int, position: "Key | None") -> "tuple[int, Key | None]":
        """Copy some timers; returns how many, and where to go on."""
        async with self._holding:
            held, position = await self._scan_and_hold(log_offset, position)
            try:
                return await self._relocate_held(held), position
            finally:
                self._index.return_timers(held)
                self._changed.set()

    async def _scan_and_hold(self, log_offset: int, position: "Key | None") -> "tuple[list[TimerEntry], Key | None]":
        """Find and hold some of the timers below `log_offset`; also returns where to go on."""
        job = self._index.prepare_scan(log_offset, start=position, limit=_RELOCATE_BATCH)
        await self._run_job(job)
        found, following = self._index.finish_scan(job)
        return self._index.hold_timers(found), following

    async def _relocate_held(self, held: "Sequence[TimerEntry]") -> int:
        records = await self.read_records(held)
        drafts = [
            RecordDraft(
                RecordKind.TIMER,
                record.topic,
                record.queue_id,
                copy_message(record),
                due_ms=entry.due_ms,
                origin=RecordOrigin(entry.log_offset, entry.due_ms),
            )
            for entry, record in zip(held, records, strict=True)
            if record is not None
        ]
        if drafts:
            self._store.writer.append_drafts(drafts, self._clock.now_ms())
        return len(drafts)

    # --- the index's files

    async def _load_due(self, now_ms: int) -> None:
        job = self._index.prepare_load(now_ms)
        await self._run_job(job)
        self._index.finish_load(job)

    async def _merge_if_due(self) -> None:
        await asyncio.sleep(RETRY_S)
        if self._may_merge():
            await self._jobs.run_to_end(self._merge_some())

    async def _merge_some(self) -> None:
        job = self._merging = self._index.prepare_merge()
        if job is not None:
            try:
                await self._run_job(job)
            except MergeInterrupted:
                return  # the broker stops
            finally:
                self._merging = None
            self._index.finish_merge(job)

    async def _run_job(self, job: "LoadJob | FindJob | ScanJob | MergeJob") -> None:
        try:
            await asyncio.to_thread(job.run_job)
        except BaseException:
            self._index.release_job(job)
            raise


def _matches_handle(record: "Record", handle: "RecallHandle") -> bool:
    return record.topic == handle.topic and keys_of(record.system)[0] == handle.message_id


def _too_late(handle: "RecallHandle") -> MessagingError:
    return MessagingError(
        ErrorCode.BAD_REQUEST,
        f"message {handle.message_id} can't be recalled any more: its delivery time has come",
    )


def _do_nothing() -> None:
    pass
