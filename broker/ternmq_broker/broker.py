"""One storage broker: store, consumption, timers, transactions and flusher, run by the event loop.

All methods run on the event loop's thread. Reads from the disk that would block, syncs and journal writes run in
threads.
"""

import asyncio
import contextlib
import gc
import logging
import time
from typing import TYPE_CHECKING

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.consumption.locks.client_locks import ClientLocks
from ternmq_broker.consumption.locks.queue_locks import QueueLocks
from ternmq_broker.consumption.pulls import PullCalls
from ternmq_broker.consumption.redelivery import Redelivery
from ternmq_broker.consumption.retry_handover import RetryHandover
from ternmq_broker.consumption.turn_clock import TurnClock
from ternmq_broker.delivery.check_schedule import CheckRules
from ternmq_broker.delivery.joining_ways import JoiningWays
from ternmq_broker.delivery.lite_subscriptions import LiteSubscriptions
from ternmq_broker.delivery.offset_resets import OffsetResets
from ternmq_broker.delivery.queue_readers import QueueReaders
from ternmq_broker.inspecting.broker_figures import BrokerFigureSource
from ternmq_broker.inspecting.broker_history import BrokerHistory
from ternmq_broker.inspecting.key_searches import KeySearches
from ternmq_broker.inspecting.message_statuses import MessageStatuses
from ternmq_broker.inspecting.queries import BrokerQueries
from ternmq_broker.inspecting.queue_holders import QueueHolders
from ternmq_broker.inspecting.timer_pages import TimerPages
from ternmq_broker.inspecting.topic_contents import TopicContents
from ternmq_broker.lite_topics import LiteTopics
from ternmq_broker.sending.flusher import LogFlusher
from ternmq_broker.sending.message_appender import MessageAppender
from ternmq_broker.shard.administering import BrokerAdministering
from ternmq_broker.shard.admission import Admission
from ternmq_broker.shard.consuming import BrokerConsuming
from ternmq_broker.shard.inspecting import BrokerInspecting
from ternmq_broker.shard.reading import BrokerReading
from ternmq_broker.shard.sending import BrokerSending
from ternmq_broker.store_opening import OpenedStore, open_store
from ternmq_broker.timers import TimerDelivery
from ternmq_broker.transactions.transaction_checks import TransactionChecks
from ternmq_broker.transactions.transaction_queries import TransactionQueries
from ternmq_broker.transactions.transactions import Transactions
from ternmq_broker.upkeep.disk_room import DiskErrors
from ternmq_broker.upkeep.housekeeping import BrokerHousekeeping
from ternmq_broker.upkeep.log_upkeep import LogUpkeep
from ternmq_common.catalog.cluster import FlushMode
from ternmq_common.errors import MessagingError
from ternmq_common.names import lite_wait_key
from ternmq_common.receiving.poll_queues import PollQueues
from ternmq_runtime.clock_watch import ClockWatch, catch_up_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ternmq_common.clock import SystemClock
    from ternmq_common.shard.model import (
        ConsumerGroup,
        Topic,
    )

_log = logging.getLogger(__name__)


class Broker:
    """Stores messages and delivers them to consumer groups: a `Shard`. `open` creates one, in a thread."""

    def __init__(
        self,
        settings: BrokerSettings,
        opened: "OpenedStore",
        rules: "Callable[[str], ConsumerGroup]",
        clock: "SystemClock",
    ) -> None:
        store, journal = opened.store, opened.journal
        self._lock = opened.lock
        self.name = settings.name
        self.store = store
        self.live_files = opened.live
        """Watches files beside the store for their removal, or saves them with the store too."""
        self._room = opened.room
        self._writing = DiskErrors(opened.room)
        self._clock = clock
        self._journal = journal
        self._flusher = LogFlusher(store, settings.flush, worker=opened.disk.sync_worker)
        self.admission = Admission(self._flusher, opened.room)
        self._pollers = PollQueues()
        self._consumption = Consumption(
            store,
            journal,
            broker=settings.name,
            readable_end=lambda: self._flusher.readable_end,
            rules=rules,
            now_ms=clock.now_ms,
            lite=LiteSubscriptions(self._is_waiting),
        )
        self._redelivery = Redelivery(
            self._consumption,
            store,
            self._flusher,
            self._pollers,
            clock,
            copy_again_after_ms=settings.retention_ms // 2,
        )
        self._queue_locks = QueueLocks(clock.now_ms)
        client_locks = ClientLocks(_monotonic_ms)
        handover = RetryHandover(self._consumption, self._pollers, settings.name)
        resets = OffsetResets(time.monotonic)
        readers = QueueReaders(clock.now_ms)
        self._holders = QueueHolders(settings.name, readers, client_locks, self._queue_locks, clock.now_ms)
        self._pulls = PullCalls(self._consumption, self._pollers, self._queue_locks, resets)
        self._timers = TimerDelivery(
            store,
            self._flusher,
            self._pollers,
            clock,
            may_merge=lambda: not opened.room.refuses,
            on_retries=handover.note_arrived,
        )
        self._transactions = Transactions(
            store,
            self._flusher,
            self._pollers,
            clock,
            broker=settings.name,
            rules=_check_rules(settings),
            open_max=settings.transactions_max,
            make_refusal=self._writing.make_refusal,
        )
        self.orphans = TransactionChecks(self._transactions, store, clock, broker=settings.name)
        self._clock_watch = ClockWatch(clock)
        self._housekeeping = BrokerHousekeeping(
            settings,
            store,
            self._consumption,
            journal,
            clock,
            opened.room,
            before_removal=self._save_pending_below,
            purge=self._purge_expired,
        )
        self.log_upkeep = LogUpkeep(
            store, scrub_days=settings.store_scrub_days, may_write=lambda: opened.room.lost is None
        )
        """Finds and repairs damage of the log; the leader sets the replicas to read from."""
        self.log_upkeep.on_repaired = self._wake_after_repair
        self.lite = LiteTopics(store, self._consumption, self._pollers, clock, self._housekeeping.forget_lite)
        """Lite topics and their subscriptions; a listener hears of subscriptions that were dropped."""
        self.figures = BrokerFigureSource(
            store,
            self._flusher,
            self._consumption,
            self._redelivery,
            self._pollers,
            self._timers,
            self._transactions,
            opened.room,
            journal,
            clock.now_ms,
        )
        self._appending = MessageAppender(
            store,
            self._flusher,
            self._pollers,
            clock,
            self._writing,
            self.figures.counts.sent,
            self.admission.check_accepts,
        )
        self._transactions.on_begun = self.figures.counts.sent.add_count
        self._appending.lite_refusal = self.lite.check_new_topic
        self.processor_s = opened.disk.processor_s
        self._history = BrokerHistory(
            self.figures, clock.now_ms, seconds=opened.disk.monotonic_s, processor_s=self.processor_s
        )
        self.sending = BrokerSending(
            self.name,
            self._appending,
            self._timers,
            self._transactions,
            self.admission,
            self._writing,
            self.figures.counts.sent,
            clock,
        )
        self.consuming = BrokerConsuming(
            self._consumption,
            self._redelivery,
            self._pollers,
            self.lite,
            self._queue_locks,
            client_locks,
            readers,
            JoiningWays(_monotonic_ms),
            handover,
            self.admission,
            self.figures.counts,
            clock,
            TurnClock(clock),
        )
        self.reading = BrokerReading(
            self.name,
            store.reader,
            self._consumption,
            self._pulls,
            resets,
            readers,
            self._queue_locks,
            handover,
            self._pollers,
            self.figures.counts.delivered,
        )
        self.inspecting = self._create_inspecting(clock)
        self.administering = BrokerAdministering(
            self.name,
            store,
            self.sending,
            self._consumption,
            self._redelivery,
            self._pollers,
            self.lite,
            self._queue_locks,
            client_locks,
            resets,
            readers,
            self._transactions,
            self._flusher,
            self._room,
            self._writing,
            self._housekeeping,
            self.figures.counts,
        )

    def _create_inspecting(self, clock: "SystemClock") -> BrokerInspecting:
        store, consumption = self.store, self._consumption
        searches = KeySearches(store.reader)
        return BrokerInspecting(
            store.indexes.queues,
            TransactionQueries(self._transactions, store, broker=self.name),
            BrokerQueries(
                self.name,
                store,
                searches,
                consumption,
                self._pulls,
                self._timers,
                self._transactions,
                self._holders,
            ),
            MessageStatuses(store, searches, consumption, clock.now_ms),
            TopicContents(self.name, store, consumption, self._history),
            TimerPages(self.name, store, self._timers),
            self._history,
            self.lite,
        )

    async def _purge_expired(self, topic: str, queue_id: int, below: int) -> None:
        await self.administering.purge_expired(topic, queue_id, below)

    def _is_waiting(self, group: str, topic: str, client_id: str) -> bool:
        return self._pollers.has_waiting(group, lite_wait_key(topic, client_id))

    @classmethod
    def open(cls, settings: BrokerSettings, rules: "Callable[[str], ConsumerGroup]", clock: "SystemClock") -> "Broker":
        """Open or create the store, and recover it; blocks. Raises StartupError with the reason if that fails.

        `rules` returns the settings of a consumer group, or defaults for an unknown one.
        """
        with _without_garbage_collection():
            return cls.create(open_store(settings), settings, rules, clock)

    @classmethod
    def create(
        cls,
        opened: "OpenedStore",
        settings: BrokerSettings,
        rules: "Callable[[str], ConsumerGroup]",
        clock: "SystemClock",
    ) -> "Broker":
        """Create a broker over an opened store; see `open`."""
        catch_up_clock(clock, opened.store.writer.last_stored_ms)
        broker = cls(settings, opened, rules, clock)
        broker._transactions.restore_waiting()
        return broker

    def start(self) -> None:
        """Start the background tasks. Needs the running event loop."""
        self._flusher.start()
        self._appending.start()
        self._room.start()
        self._clock_watch.start()
        self._redelivery.start()
        self._timers.start()
        self.orphans.start()
        self.lite.start()
        self._history.start()
        self._housekeeping.start()
        self.log_upkeep.start()

    def abandon_files(self) -> None:
        """Close the files of a broker that was never started, and write nothing; blocks."""
        self.store.abandon_files()
        self._journal.close()
        self._lock.release()

    def end_polls(self) -> None:
        """Answer all waiting polls, and all later ones, with the messages that are there."""
        self._queue_locks.end_polls()
        self._pollers.close()

    @property
    def problem(self) -> str | None:
        """Why new messages are refused now, or None: the disk failed or is too full, or files of the store are gone."""
        return self._room.problem if self._flusher.failure is None else str(self._flusher.failure)

    @property
    def refuses_for_room(self) -> bool:
        """Whether new messages are refused because the disk is too full, or files of the store are gone."""
        return self._room.refuses

    @property
    def disk_failure(self) -> MessagingError | None:
        """Why stored messages can't become durable any more, or None; also set after `give_up`."""
        return self._flusher.failure

    @property
    def degraded(self) -> str | None:
        """The problem for an operator, although the broker stores and delivers messages; None if there is none."""
        return self.store.damage.degraded_reason or self._consumption.reader.degraded

    async def close(self) -> None:
        """Make everything durable, unless the disk has failed; answer waiting sends, and close the files."""
        await self.stop_background()
        await self.stop()
        self._lock.release()

    async def stop_background(self) -> None:
        """Stop all background work of the broker's own; stored messages still become durable."""
        await self._clock_watch.stop()
        await self._history.stop()
        await self.lite.stop()
        await self.orphans.stop()
        await self._timers.stop()
        await self._redelivery.stop()
        await self.log_upkeep.stop()
        await self._housekeeping.stop()

    async def stop(self) -> None:
        """Close the files of a broker that is quiet (`stop_background`) as `close` does, but keep the lock."""
        await self._flusher.stop()
        await self._room.stop()
        await self._close_store()
        self._journal.close()

    # --- one of several replicas

    def limit_readable(self, log_offset: int) -> None:
        """Note that other replicas hold the log below `log_offset`: what is beyond may not be acknowledged or read
        yet."""
        self._flusher.raise_limit(log_offset)

    def set_answers_alone(self, is_alone: "Callable[[str], bool]") -> None:
        """Set for which topics sends are answered without waiting for other replicas."""
        self._appending.answers_alone = is_alone

    def set_topic_lookup(self, find: "Callable[[str], Topic | None]") -> None:
        """Set where to find the settings of a topic: flush mode, retention, time to live of lite topics."""

        def flush_of(name: str) -> FlushMode | None:
            topic = find(name)
            return None if topic is None else topic.flush

        def retention_of(name: str) -> int:
            topic = find(name)
            return 0 if topic is None else topic.retention_ms

        def lite_ttl_of(name: str) -> int:
            topic = find(name)
            return 0 if topic is None else topic.lite_ttl_ms

        self.lite.ttl_of = lite_ttl_of
        self._appending.flush_of = flush_of
        self._housekeeping.retention_of = retention_of

    def wake_when_readable(self, log_end: int) -> None:
        """Wake all polls as soon as the log up to `log_end` may be read."""
        self._flusher.when_readable(log_end, self._wake_all)

    def _wake_after_repair(self, begin: int, end: int) -> None:
        """Let readers that waited for this part of the log try again."""
        if not self.store.damage.has_damage_within(begin, end):
            self._consumption.resume_after_repair(begin, end)
        self._wake_all()

    def _wake_all(self) -> None:
        self._pollers.wake_all(1)
        self.lite.mark_all()

    def give_up(self, error: MessagingError) -> None:
        """Acknowledge nothing any more; waiting sends fail with `error`."""
        self._flusher.give_up(error)

    async def follow_journal(self, listener: "Callable[[list[bytes]], None]") -> list[bytes]:
        """Return all lines of the consumption journal; `listener` is called with each later one."""
        return await self._housekeeping.follow_journal(listener)

    def unfollow_journal(self, listener: "Callable[[list[bytes]], None]") -> None:
        self._housekeeping.unfollow_journal(listener)

    async def _close_store(self) -> None:
        if self._flusher.failure is None and self._room.lost is None:
            try:
                await self._room.with_reserve(lambda: asyncio.to_thread(self.store.close), may_use_all=True)
            except OSError as error:
                _log.error("the indexes could not be written, so that the next start takes longer: %s", error)
            else:
                return
        await asyncio.to_thread(self.store.abandon_files)

    @property
    def is_used(self) -> bool:
        """Whether anything was ever stored."""
        return self.store.log.log_end > 0

    async def _save_pending_below(self, log_start: int) -> None:
        """Save what waits in the log below `log_start` before that is removed: relocate timers, discard
        transactions."""
        relocated = await self._timers.relocate_below(log_start)
        if relocated:
            _log.info(
                "%d timed messages were relocated, since retention removes the segments that they are in", relocated
            )
        await self._transactions.discard_below(log_start)


@contextlib.contextmanager
def _without_garbage_collection() -> "Iterator[None]":
    """Turn garbage collection off: it took half of the time while a million claims were restored."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _check_rules(settings: BrokerSettings) -> CheckRules:
    return CheckRules(
        first_check_ms=settings.transaction_timeout_ms,
        interval_ms=settings.transaction_check_interval_ms,
        checks_max=settings.transaction_check_max,
        age_max_ms=settings.retention_ms,
    )
