"""One storage broker: store, consumption, timers, transactions and flusher, run by the event loop.

All methods run on the event loop's thread. Reads from the disk that would block, syncs and journal writes run in
threads.
"""

import asyncio
import contextlib
import functools
import gc
import logging
from typing import TYPE_CHECKING, Protocol

from ternmq_broker.broker_figures import BrokerFigureSource
from ternmq_broker.broker_history import BrokerHistory
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.consumption.popping import PopBatch
from ternmq_broker.consumption.pulls import PullCalls
from ternmq_broker.consumption.queue_locks import QueueLocks
from ternmq_broker.consumption.redelivery import Redelivery
from ternmq_broker.consumption.turn_clock import TurnClock
from ternmq_broker.delivery.check_schedule import CheckRules
from ternmq_broker.delivery.lite_subscriptions import LiteSubscriptions
from ternmq_broker.disk_room import DiskErrors
from ternmq_broker.housekeeping import BrokerHousekeeping
from ternmq_broker.key_searches import KeySearches
from ternmq_broker.lite_topics import LiteTopics
from ternmq_broker.log_upkeep import LogUpkeep
from ternmq_broker.message_statuses import MessageStatuses
from ternmq_broker.queries import BrokerQueries
from ternmq_broker.sending.flusher import LogFlusher
from ternmq_broker.sending.message_appender import MessageAppender
from ternmq_broker.store.files import WouldBlock
from ternmq_broker.store_opening import OpenedStore, open_store
from ternmq_broker.timer_pages import TimerPages
from ternmq_broker.timers import TimerDelivery
from ternmq_broker.topic_contents import TopicContents
from ternmq_broker.transactions.transaction_checks import TransactionChecks
from ternmq_broker.transactions.transactions import Transactions
from ternmq_common.cluster import FlushMode
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import QUEUES_MAX
from ternmq_common.model import (
    RETRY_QUEUE_ID,
    AppendedMessage,
    DeliveredMessage,
    HistoryOf,
    PopOrder,
    PulledMessages,
    QueueRef,
    SettleOutcome,
    group_by_settled_topic,
)
from ternmq_common.names import is_lite_queue, lite_parent, lite_wait_key, retry_topic
from ternmq_common.poll_queues import PollQueues
from ternmq_common.shard.shard import DONE, DoneResult
from ternmq_runtime.clock_watch import ClockWatch, catch_up_clock
from ternmq_runtime.observability.tracing import child_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ternmq_common.clock import SystemClock
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import (
        ConsumerGroup,
        FigureHistory,
        HalfMessage,
        HeldTopic,
        NewMessage,
        QueueBounds,
        QueueReaderId,
        TimedMessage,
        Topic,
        TopicSubscription,
        TransactionResolution,
    )
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.poll_queues import Watcher
    from ternmq_common.recall_handle import RecallHandle
    from ternmq_common.receipt_handle import ReceiptHandle
    from ternmq_common.transaction_id import TransactionId

_log = logging.getLogger(__name__)
# Timers and half messages wait for replicas by the shard's replication mode, whatever their topic's mode is.
_WAITS_FOR_REPLICAS = ""


class ReplicationGate(Protocol):
    """What the replication of a shard allows its leader; `server/replication/leader.py` implements it."""

    def check_serves(self) -> None:
        """Raise MessagingError while messages may not be delivered."""

    def check_sends(self, topic: str) -> None:
        """Raise MessagingError while messages of the topic may not be accepted."""


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
        self.store = self._store = store
        self.gate: ReplicationGate | None = None
        """A leader with followers checks this before it accepts or delivers messages."""
        self._room = opened.room
        self.watch_file, self.keep_file = opened.live.watch_file, opened.live.keep_file
        """Watch a file beside the store for its removal; or save it with the store too. Call both in a thread."""
        self._writing = DiskErrors(opened.room)
        self._clock = clock
        self._journal = journal
        self._flusher = LogFlusher(store, settings.flush, worker=opened.disk.sync_worker)
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
        self._pulls = PullCalls(self._consumption, self._pollers, self._queue_locks)
        self._timers = TimerDelivery(
            store, self._flusher, self._pollers, clock, may_merge=lambda: not opened.room.refuses
        )
        self._transactions = Transactions(
            store,
            self._flusher,
            self._pollers,
            clock,
            broker=settings.name,
            rules=_check_rules(settings),
            open_max=settings.transactions_max,
        )
        self.orphans = TransactionChecks(self._transactions, store, clock, broker=settings.name)
        self._clock_watch = ClockWatch(clock)
        self._turn_clock = TurnClock(clock)
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
        self._lite = LiteTopics(store, self._consumption, self._pollers, clock, self._housekeeping.forget_lite)
        self.sync_lite, self.watch_lite = self._lite.sync_subscriptions, self._lite.add_listener
        self.lite_clients = self._lite.subscribed_clients
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
        self._counts = self.figures.counts
        self._appending = MessageAppender(
            store, self._flusher, self._pollers, clock, self._writing, self._counts.sent, self._check_accepts
        )
        self._appending.lite_refusal = self._lite.check_new_topic
        self.append_nowait = self._appending.append_nowait
        self.processor_s = opened.disk.processor_s
        self._history = BrokerHistory(
            self.figures, clock.now_ms, seconds=opened.disk.monotonic_s, processor_s=self.processor_s
        )
        self.content = TopicContents(settings.name, store, self._consumption, self._history).describe_topic
        searches = KeySearches(store.reader)
        self.standings = MessageStatuses(store, searches, self._consumption, clock.now_ms).find_statuses
        self.timers = TimerPages(settings.name, store, self._timers).list_timers
        queries = BrokerQueries(
            settings.name, store, searches, self._consumption, self._pulls, self._timers, self._transactions
        )
        self.progress, self.find_by_key = queries.query_progress, queries.find_by_key
        self.dead_letters, self.remaining = queries.read_dead_letters, queries.unfinished_work
        self.transactions, self.transaction = self._transactions.list_page, self._transactions.describe_transaction
        self.wait_for_more = self._pulls.wait_for_more
        self.name = settings.name

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
        self._clock_watch.start_watching()
        self._redelivery.start()
        self._timers.start()
        self.orphans.start()
        self._lite.start()
        self._history.start()
        self._housekeeping.start()
        self.log_upkeep.start()

    def abandon_files(self) -> None:
        """Close the files of a broker that was never started, and write nothing; blocks."""
        self._store.abandon_files()
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
        """What an operator should look at although the broker stores and delivers messages; None if nothing."""
        return self._store.damage.degraded_reason or self._consumption.reader.degraded

    async def close(self) -> None:
        """Make everything durable, unless the disk has failed; answer waiting sends, and close the files."""
        await self.stop_background()
        await self.stop()
        self._lock.release()

    async def stop_background(self) -> None:
        """Stop all background work of the broker's own; stored messages still become durable."""
        await self._clock_watch.stop_watching()
        await self._history.stop()
        await self._lite.stop()
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

        self._lite.ttl_of = lite_ttl_of
        self._appending.flush_of = flush_of
        self._housekeeping.retention_of = retention_of

    def wake_when_readable(self, log_end: int) -> None:
        """Wake all polls as soon as the log up to `log_end` may be read."""
        self._flusher.when_readable(log_end, self._wake_all)

    def _wake_after_repair(self, begin: int, end: int) -> None:
        """Let readers that waited for this part of the log try again."""
        if not self._store.damage.has_damage_within(begin, end):
            self._consumption.resume_after_repair(begin, end)
        self._wake_all()

    def _wake_all(self) -> None:
        self._pollers.wake_all(1)
        self._lite.mark_all()

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
                await self._room.with_reserve(lambda: asyncio.to_thread(self._store.close), may_use_all=True)
            except OSError as error:
                _log.error("the indexes could not be written, so that the next start takes longer: %s", error)
            else:
                return
        await asyncio.to_thread(self._store.abandon_files)

    # --- sending

    def _check_accepts(self, topic: str) -> None:
        if self._flusher.failure is not None:
            raise self._flusher.failure
        if self._room.refuses:
            raise self._room.create_refusal()
        if self.gate is not None:
            self.gate.check_sends(topic)

    async def append(self, queue: QueueRef, messages: "Sequence[NewMessage]") -> list[AppendedMessage]:
        """Store the messages, in order, and return when they may be acknowledged."""
        with child_span("append", lite_parent(queue.topic)):
            first = await self._appending.append(queue, messages)
        return [AppendedMessage(message.message_id, first + number) for number, message in enumerate(messages)]

    async def schedule(self, queue: QueueRef, messages: "Sequence[TimedMessage]") -> list[AppendedMessage]:
        """Store messages that become visible in the queue at their times; return when they may be acknowledged.

        HA_NOT_AVAILABLE while the clock can't be relied on.
        """
        self._check_accepts(_WAITS_FOR_REPLICAS)
        if problem := self._clock.find_problem():
            raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"broker {self.name}: {problem}")
        with child_span("append", queue.topic), self._writing:
            appended = await self._timers.store_timers(queue.topic, queue.queue_id, messages)
        self._counts.sent.add_count(queue.topic, len(messages))
        return [AppendedMessage(each.message_id, each.queue_offset, broker=self.name) for each in appended]

    async def recall(self, handle: "RecallHandle") -> None:
        """Take back a timed message; see `Timers.recall_message`."""
        if self._flusher.failure is not None:
            raise self._flusher.failure
        with self._writing:
            await self._timers.recall_message(handle)

    async def begin_transaction(self, queue: QueueRef, half: "HalfMessage") -> AppendedMessage:
        """Store a half message; see `Transactions.begin_transaction`."""
        self._check_accepts(_WAITS_FOR_REPLICAS)
        with child_span("append", queue.topic), self._writing:
            appended = await self._transactions.begin_transaction(queue.topic, queue.queue_id, half)
        self._counts.sent.add_count(queue.topic)
        return appended

    async def end_transaction(
        self,
        topic: str,
        transaction: "TransactionId",
        resolution: "TransactionResolution",
        *,
        by_operator: bool = False,
    ) -> None:
        """Commit or roll back; see `Transactions.end`."""
        with self._writing:
            await self._transactions.end_transaction(topic, transaction, resolution, by_operator=by_operator)

    # --- receiving

    async def pop(self, order: PopOrder, poll_s: float, room: "AnswerRoom | None" = None) -> list[DeliveredMessage]:
        """Deliver the messages that are there, or wait up to `poll_s` seconds for some; [] if none came.

        Nothing is claimed without a place in `room`; the place is kept if messages were claimed.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        woken, place = False, None
        while True:
            if room is not None:
                if woken and not room.is_open:
                    self._pollers.wake_group(order.group, order.wait_key, 1)  # for a poll that has room
                if not await room.enter_room(end - loop.time()):
                    return []
            pop = await self._pop_available(order, room)
            if pop.deliveries:
                self._follow_up_pop(order, pop)
                return pop.deliveries
            if pop.more:
                await asyncio.sleep(0)
                continue
            if place is None:
                place = self._pollers.next_place()
            woken = await self._pollers.wait_for_messages(order.group, order.wait_key, max(0, end - loop.time()), place)
            if not woken:
                return []

    async def _pop_available(self, order: PopOrder, room: "AnswerRoom | None" = None) -> PopBatch:
        """Deliver the messages that are there; if there are none, the place in `room` is given back."""
        found = False
        if self.gate is not None:
            self.gate.check_serves()
        try:
            pop = await run_when_read(lambda: self._consumption.pop(order, self._clock.now_ms()))
            found = bool(pop.deliveries)
            return pop
        finally:
            if room is not None and not found:
                room.leave_room()

    def urgency(self, group: str, topic: str, queues: range, *, lowest_first: bool) -> DoneResult[int]:
        """How many queues of a PRIORITY topic come before the first one that may have something for the group."""
        if len(queues) > QUEUES_MAX:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"no topic has {len(queues)} queues")
        return DoneResult(
            self._consumption.count_before_waiting(group, topic, queues if lowest_first else queues[::-1])
        )

    async def pop_or_watch(self, order: PopOrder, watcher: "Watcher | None") -> list[DeliveredMessage]:
        """Deliver the messages that are there; if there are none, notify the watcher when there may be some."""
        while True:
            deliveries = self.pop_or_watch_nowait(order, watcher)
            if deliveries is not None:
                return deliveries
            pop = await self._pop_available(order)
            if pop.deliveries:
                self._follow_up_pop(order, pop)
                return pop.deliveries
            await asyncio.sleep(0)

    def pop_or_watch_nowait(self, order: PopOrder, watcher: "Watcher | None") -> list[DeliveredMessage] | None:
        """Do `pop_or_watch` if it needs no wait, which is nearly always; else return None."""
        if self.gate is not None:
            self.gate.check_serves()
        try:
            pop = self._consumption.pop(order, self._clock.now_ms())
        except WouldBlock:
            return None
        if pop.deliveries:
            self._follow_up_pop(order, pop)
        elif pop.more:
            return None
        elif watcher is not None:
            self._pollers.add_watcher(order.group, order.wait_key, watcher)
        return pop.deliveries

    def remove_watcher(self, watcher: "Watcher") -> None:
        """Forget the watcher."""
        self._pollers.remove_watcher(watcher)

    def _follow_up_pop(self, order: PopOrder, pop: PopBatch) -> None:
        """Plan for the end of the claims of a pop, and wake the next poll if there may be more messages."""
        self._counts.delivered.add_count(order.topic, len(pop.deliveries))
        for topic in group_by_settled_topic(order.topic, pop.deliveries):
            self._redelivery.note_claims(order.group, topic, pop.deadline_ms)
        if pop.more and self._pollers.has_waiting(order.group, order.wait_key):
            self._pollers.wake_group(order.group, order.wait_key, 1)

    def acknowledge(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]"
    ) -> DoneResult[list[SettleOutcome]]:
        """Finish messages; returns one outcome for each handle."""
        now = self._turn_clock.checked_ms()
        settle = self._consumption.acknowledge_message
        outcomes = [settle(group, topic, handle, now) for handle in handles]
        self._counts.acknowledged.add_count(lite_parent(topic), outcomes.count(SettleOutcome.DONE))
        self._wake_for_open_lanes(group, topic)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DoneResult(outcomes)

    def _wake_for_open_lanes(self, group: str, topic: str) -> None:
        """Wake a poll that waits for messages of a message group whose batch was settled."""
        if is_lite_queue(topic) or (
            self._pollers.has_waiting(group, topic) and self._consumption.has_open_lanes(group, topic)
        ):
            self._pollers.wake_group(group, topic, 1)

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", *, attempts: int = 0) -> SettleOutcome:
        """Make a message a dead letter because its consumer asked for it; see `Redelivery.dead_letter`."""
        return await self._redelivery.dead_letter(group, topic, handle, attempts)

    async def change_invisible(
        self, group: str, topic: str, handle: "ReceiptHandle", invisible_ms: int, *, counts: bool
    ) -> "ReceiptHandle":
        """Return the handle that replaces `handle`; with 0 ms the message is ready at once.

        INVALID_RECEIPT_HANDLE if the handle is not in force.
        """
        now = self._clock.checked_ms()
        changed = self._consumption.change_invisible(
            group, topic, handle, now_ms=now, deadline_ms=now + invisible_ms, counts=counts
        )
        if invisible_ms:
            self._redelivery.watch_claims(group, topic)
        else:
            await self._redelivery.end_expired_claims(group, topic)
        if changed is None:
            raise MessagingError(
                ErrorCode.INVALID_RECEIPT_HANDLE,
                "the receipt handle is not in force: the message was settled, its invisible time has passed, "
                "or a later handle replaced this one",
            )
        return changed

    def prolong(
        self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", invisible_ms: int
    ) -> DoneResult[list[bool]]:
        """Move the ends of claims and keep their handles; False for each handle that is not in force."""
        now = self._clock.checked_ms()
        return DoneResult(
            [
                self._consumption.prolong_claim(group, topic, handle, now_ms=now, deadline_ms=now + invisible_ms)
                for handle in handles
            ]
        )

    def release(self, group: str, topic: str, handles: "Sequence[ReceiptHandle]", *, counts: bool) -> DoneResult[None]:
        """Make messages ready for other consumers; with `counts` false no attempt is counted."""
        now = self._clock.checked_ms()
        released = [
            self._consumption.release_claim(group, topic, handle, now_ms=now, counts=counts) for handle in handles
        ]
        self._redelivery.watch_claims(group, topic)
        self._pollers.wake_group(group, topic, sum(released))
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    def subscribed(self, subscriptions: "Sequence[TopicSubscription]") -> DoneResult[None]:
        """Note that these groups subscribe these topics, also where they have never been."""
        for each in subscriptions:
            self._consumption.add_subscription(each.group, each.topic)
        return DONE

    # --- reading by offset

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> PulledMessages:
        """Read from `offset` on without claims; see `Pulls.pull_messages`."""
        pulled = await self._pulls.pull_messages(
            queue, offset, passing, limit=batch, poll_s=poll_s, reader=reader, room=room
        )
        self._counts.delivered.add_count(queue.topic, len(pulled.messages))
        return pulled

    # --- offsets

    def bounds(self, queue: QueueRef) -> "DoneResult[QueueBounds]":
        return DoneResult(self._consumption.queue_bounds(queue.topic, queue.queue_id))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> int:
        """The first offset stored at or after that time; the end of the queue if there is none."""
        return await asyncio.to_thread(self._store.reader.find_offset_at, queue.topic, queue.queue_id, time_ms)

    def committed(self, group: str, queue: QueueRef) -> DoneResult[int | None]:
        """Where the group is in the queue; None if it never was there."""
        return DoneResult(self._consumption.committed_offset(group, queue.topic, queue.queue_id))

    def set_committed(
        self, group: str, queue: QueueRef, offset: int, *, reader: "QueueReaderId | None" = None
    ) -> DoneResult[None]:
        """Set the group's committed offset. FORBIDDEN if another member than `reader` has the queue lock.

        Without `reader` an operator sets it.
        """
        queue = QueueRef(queue.topic, self.name, queue.queue_id)
        if reader is None:
            self._queue_locks.reset_offset(group, queue, offset)
        elif reader.lock_hold_ms:
            self._queue_locks.move_offset(reader, queue, offset)
        else:
            self._queue_locks.unlock_queue(group, queue)
        self._consumption.set_committed(group, queue.topic, queue.queue_id, offset)
        self._pollers.wake_group(group, queue.topic, 1)
        self._consumption.in_flight.wake_for_freed(group, queue.topic, self._pollers)
        return DONE

    def skip(self, group: str, queue: QueueRef, offset: int) -> DoneResult[None]:
        """Finish the message at that offset, whoever has it; BAD_REQUEST if the group has not reached it yet."""
        topic, queue_id = queue.topic, queue.queue_id
        if not self._consumption.skip_message(group, topic, queue_id, offset):
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"group {group!r} has not reached offset {offset} of queue {queue_id} of topic {topic!r} yet",
            )
        self._pollers.wake_group(group, topic, 1)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    def leave(self, group: str, client_id: str) -> DoneResult[None]:
        """Release the queue locks of a member that has left the group."""
        self._queue_locks.release_member(group, client_id)
        return DONE

    def drop_retries(self, group: str, topic: str) -> DoneResult[None]:
        """Finish all messages of the topic that wait in the group's retry queue."""
        self._consumption.drop_retries(group, topic)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    # --- dead letters

    async def retry(self, group: str, topic: str, messages: "Sequence[NewMessage]") -> None:
        """Deliver messages of the topic to this group only, with all their attempts, as if they had failed there."""
        stored = await self.append(QueueRef(retry_topic(group), self.name, 0), messages)
        for appended in stored:
            self._consumption.find_or_create_retries(group, topic).place_copy(appended.queue_offset, 0)
        self._consumption.mark_changed(group, topic, RETRY_QUEUE_ID)
        self._pollers.wake_group(group, topic, len(stored))

    # --- figures

    def history(self, of: HistoryOf, name: str) -> "DoneResult[FigureHistory]":
        """The recorded figures of the topic or group of that name, or of the broker."""
        return DoneResult(self._history.find_history(of, name))

    @property
    def is_used(self) -> bool:
        """Whether anything was ever stored."""
        return self._store.log.log_end > 0

    def held_topics(self) -> "dict[str, HeldTopic]":
        """All topics with messages in queues, whether or not the registry knows them."""
        return self._store.indexes.queues.held_topics()

    # --- deletions

    async def forget_topic(self, topic: str, *, version: int = 0) -> None:
        """Remove all messages of the topic; their disk space is freed with their segments.

        `version` is for `server/deletion_log.py`.
        """
        self._pollers.forget_deleted(topic=topic)
        self._consumption.forget_topic(topic)
        self._consumption.losses.forget_topic(topic)
        self._consumption.in_flight.wake_all(self._pollers)
        await self._lite.forget_topic(topic)
        with self._writing:
            self._transactions.forget_topic(topic)
            remember = self._store.deletions.forget_topic(topic, version)
            await self._room.with_reserve(lambda: asyncio.to_thread(remember), may_use_all=True)
        self._counts.forget_topic(topic)  # sends under way were counted meanwhile
        await self._wait_for_replicas()

    async def purge(self, queue: QueueRef, below: int, *, retries: bool) -> None:
        """Remove the messages below an offset; see `Storage.purge_queue`. Claims on them end as after retention."""
        await self._purge_queue(queue, below, retries=retries, by_operator=True)

    async def _purge_queue(self, queue: QueueRef, below: int, *, retries: bool, by_operator: bool) -> None:
        with self._writing:
            origin = self._store.indexes.queues.queue_origin(queue.topic, queue.queue_id)
            remember = self._store.deletions.purge_queue(queue.topic, queue.queue_id, below)
            # No lambda: what mypyc makes of one here fails when it is called.
            await self._room.with_reserve(functools.partial(asyncio.to_thread, remember), may_use_all=True)
            self._consumption.move_past_purge(queue.topic, queue.queue_id, origin=origin, by_operator=by_operator)
            if retries:
                self._consumption.forget_topic(queue.topic)
            self._consumption.in_flight.wake_all(self._pollers)
            await self._room.with_reserve(self._housekeeping.write_journal, may_use_all=True)
        await self._wait_for_replicas()

    async def _purge_expired(self, topic: str, queue_id: int, below: int) -> None:
        await self._purge_queue(QueueRef(topic, self.name, queue_id), below, retries=False, by_operator=False)

    async def _wait_for_replicas(self) -> None:
        """Wait until the replicas hold the last operation of the log: only then does it last."""
        if self._store.deletions.is_replicated:
            await self._flusher.wait_until_durable(self._store.log.log_end)

    async def forget_group(self, group: str, *, version: int = 0) -> None:
        """Drop the group's progress and its retries; its dead letters stay."""
        self._pollers.forget_deleted(group=group)
        self._queue_locks.forget_group(group)
        with self._writing:
            self._store.deletions.forget_group(group, version)
            await self._room.with_reserve(lambda: self._housekeeping.forget_group(group), may_use_all=True)
        self._consumption.in_flight.wake_all(self._pollers)
        await self.forget_topic(retry_topic(group))
        self._redelivery.dead_letters.forget_name(group)

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


def _check_rules(settings: BrokerSettings) -> CheckRules:
    return CheckRules(
        first_check_ms=settings.transaction_timeout_ms,
        interval_ms=settings.transaction_check_interval_ms,
        checks_max=settings.transaction_check_max,
        age_max_ms=settings.retention_ms,
    )
