"""Redelivers messages, or makes them dead letters, when their claims end, whether or not anybody polls.

First failure   a copy goes into the group's retry topic and is ready there at once; its message is finished. The copy
                refers to the body where it is, for as long as that is not old
Later failures  the copy is ready again in place; a new copy is written only when it has become old, so that retention
                can't remove what is still to be delivered
Last attempt    a copy goes to the group's dead letters, and the message is finished
FIFO group      redelivery is in place and in order; only the last attempt writes a copy. Lite topics do the same

A message is finished after its copy is durable, and not before: a crash in between leaves a second copy, and loses
nothing. There is one timer for each (group, topic) that has messages in flight, and one for all lite topics.
"""

import asyncio
import itertools
import logging
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.delivery.due_times import DueTimes
from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
from ternmq_broker.message_copies import copy_by_reference, copy_message, create_dead_letter
from ternmq_common.dead_letters import DeadLetterReason
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import dead_letter_topic, is_lite_queue, lite_parent, retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID, NewMessage, SettleOutcome
from ternmq_runtime.observability.name_counts import NameCounts

if TYPE_CHECKING:
    from ternmq_broker.consumption.consumption import Consumption, QueueState
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.log.record import Record, RestReference
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.receipt_handle import ReceiptHandle

_log = logging.getLogger(__name__)
# So many messages are copied before other tasks get their turn on the loop, and before a sync.
_BATCH = 64
# call_later takes no longer delay; claims that end later are examined again then.
_TIMER_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class _PendingMove:
    """A message that no consumer can get until a copy of it is in the retry topic, or among the dead letters."""

    group: str
    topic: str
    queue_id: int
    state: "QueueState"
    offset: int
    attempts: int
    reason: DeadLetterReason | None
    """Why it becomes a dead letter; None for a retry."""


class Redelivery:
    """Handles ended claims; runs on the event loop."""

    def __init__(
        self,
        consumption: "Consumption",
        store: "MessageStore",
        flusher: "LogFlusher",
        pollers: "PollQueues",
        clock: "SystemClock",
        *,
        copy_again_after_ms: int,
    ) -> None:
        self._consumption = consumption
        self._store = store
        self._flusher = flusher
        self._pollers = pollers
        self._clock = clock
        self._copy_again_after_ms = copy_again_after_ms
        self._timers: dict[tuple[str, str], tuple[int, asyncio.TimerHandle]] = {}
        self._lite_due = DueTimes()
        self._lite_timer: tuple[int, asyncio.TimerHandle] | None = None
        self._moves: deque[_PendingMove] = deque()
        self._has_moves = asyncio.Event()
        self._worker, self._shielded = BackgroundTasks(), BackgroundTasks()
        self.retries = 0
        self.dead_letters = NameCounts()
        """The number of copies: retries, and dead letters by group."""
        clock.on_set(consumption.rebase_claims)
        clock.on_jump(self._replan_timers)

    def start(self) -> None:
        self._worker.start(self._move_batches(), name="redelivery")
        for group, topic in self._consumption.group_topic_pairs():
            self.watch_claims(group, topic)

    async def stop(self) -> None:
        """End. Messages that still wait to be moved are found again after the restart."""
        for _, timer in self._timers.values():
            timer.cancel()
        if self._lite_timer is not None:
            self._lite_timer[1].cancel()
        await self._worker.stop()

    # --- time

    def watch_claims(self, group: str, topic: str) -> None:
        """Set the timer to the end of the first claim; call it after claims were given or changed."""
        due_ms = self._consumption.next_deadline_ms(group, topic)
        if due_ms is None:
            return
        key = (group, topic)
        if is_lite_queue(topic):
            self._lite_due.plan_due(key, due_ms)
            self._plan_lite()
            return
        planned = self._timers.get(key)
        if planned is not None:
            if planned[0] <= due_ms:
                return
            planned[1].cancel()
        delay_s = min(_TIMER_MAX_S, max(0, due_ms - self._clock.now_ms()) / 1000)
        self._timers[key] = (due_ms, asyncio.get_running_loop().call_later(delay_s, self._timer_ended, key))

    def note_claims(self, group: str, topic: str, deadline_ms: int) -> None:
        """Set the timer after claims were given that end at `deadline_ms`. Mostly an earlier claim ends first.

        Then not all claims need be examined.
        """
        planned = self._timers.get((group, topic))
        if planned is None or planned[0] > deadline_ms:
            self.watch_claims(group, topic)

    def _plan_lite(self) -> None:
        """Set the one timer of all lite topics: there may be as many of them as messages in flight."""
        due_ms = self._lite_due.first_ms
        if due_ms is None or (self._lite_timer is not None and self._lite_timer[0] <= due_ms):
            return
        if self._lite_timer is not None:
            self._lite_timer[1].cancel()
        delay_s = min(_TIMER_MAX_S, max(0, due_ms - self._clock.now_ms()) / 1000)
        self._lite_timer = due_ms, asyncio.get_running_loop().call_later(delay_s, self._lite_timer_ended)

    def _lite_timer_ended(self) -> None:
        self._lite_timer = None
        for group, topic in self._lite_due.take_due(self._clock.now_ms()):
            self._moves += self._end_claims(group, topic)
            due_ms = self._consumption.next_deadline_ms(group, topic)
            if due_ms is not None:
                self._lite_due.plan_due((group, topic), due_ms)
        if self._moves:
            self._has_moves.set()
        self._plan_lite()

    def _replan_timers(self) -> None:
        """Plan all timers again, since the clock has jumped."""
        for key, (_, timer) in list(self._timers.items()):
            timer.cancel()
            self._timer_ended(key)
        if self._lite_timer is not None:
            self._lite_timer[1].cancel()
            self._lite_timer_ended()

    def _timer_ended(self, key: tuple[str, str]) -> None:
        del self._timers[key]
        self._moves += self._end_claims(*key)
        if self._moves:
            self._has_moves.set()
        self.watch_claims(*key)

    async def end_expired_claims(self, group: str, topic: str) -> None:
        """Handle the claims that have ended, and return when their messages can be delivered again."""
        moves = self._end_claims(group, topic)
        if moves:
            await self._move_shielded(moves)

    def _end_claims(self, group: str, topic: str) -> "list[_PendingMove]":
        """End the claims whose time has passed. Returns the messages to copy; all others are ready again."""
        attempts_max = self._consumption.rules(group).max_attempts
        now = self._clock.checked_ms()
        ready = 0
        moves: list[_PendingMove] = []
        for queue_id, state in list(self._consumption.find_states(group, topic).items()):
            if isinstance(state, OrderedConsumption):
                ended = state.take_ended(now, attempts_max)
                ready += state.has_open_lane
            else:
                ended = state.take_ended(now)
            for offset, attempts in ended:
                reason = DeadLetterReason.ATTEMPTS if attempts >= attempts_max else None
                moves.append(_PendingMove(group, topic, queue_id, state, offset, attempts, reason))
            if ended:
                self._consumption.mark_changed(group, topic, queue_id)
        if ready:
            self._pollers.wake_group(group, topic, ready)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return moves

    # --- copying

    async def _move_batches(self) -> None:
        while True:
            await self._has_moves.wait()
            batch = [self._moves.popleft() for _ in range(min(_BATCH, len(self._moves)))]
            if not self._moves:
                self._has_moves.clear()
            try:
                await self._move_or_give_back(batch)
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("%d messages could not be copied; they are delivered again where they are", len(batch))

    async def dead_letter(self, group: str, topic: str, handle: "ReceiptHandle", attempts: int) -> SettleOutcome:
        """Make a message a dead letter for its consumer, whether or not the handle's time has passed.

        `attempts` is how often its consumer reports to have tried: more than the deliveries, if it retried by itself.
        STALE if the message was settled before; EXPIRED if another consumer has it, or will.
        """
        state = self._consumption.state_to_settle(group, topic, handle)
        if state is None:
            return SettleOutcome.STALE
        claim = state.find_claim(handle.queue_offset, handle.generation)
        if claim is None:
            # After its deadline it may have been copied for a retry; then finished does not mean settled.
            in_time = self._clock.now_ms() < state.rebased_ms(handle.generation, handle.deadline_ms)
            return SettleOutcome.STALE if in_time and state.is_finished(handle.queue_offset) else SettleOutcome.EXPIRED
        state.set_aside(handle.queue_offset)
        tried = max(claim.attempt, min(attempts, self._consumption.rules(group).max_attempts))
        move = _PendingMove(
            group, topic, handle.queue_id, state, handle.queue_offset, tried, DeadLetterReason.FORWARDED
        )
        await self._move_shielded([move])
        return SettleOutcome.DONE

    async def _move_shielded(self, moves: list[_PendingMove]) -> None:
        """Move the messages to the end, even if the caller is cancelled."""
        try:
            await self._shielded.run_to_end(self._move_or_give_back(moves))
        except OSError as error:
            raise MessagingError(
                ErrorCode.INTERNAL_SERVER_ERROR, f"the broker can't write to its disk: {error.strerror}"
            ) from error

    async def _move_or_give_back(self, moves: list[_PendingMove]) -> None:
        moved = 0
        try:
            while moved < len(moves):
                await self._copy_batch(moves[moved : moved + _BATCH])
                moved += _BATCH
        except Exception:
            for move in moves[moved:]:
                if self._is_current(move):
                    self._make_ready(move)
            raise

    async def _copy_batch(self, moves: list[_PendingMove]) -> None:
        """Copy the messages, and finish each when its copy is durable; OSError, MessagingError: none was moved."""
        records = [await self._read_message(move) for move in moves]
        copies: defaultdict[str, list[tuple[_PendingMove, NewMessage, RestReference | None]]] = defaultdict(list)
        for move, found in zip(moves, records, strict=True):
            if not self._is_current(move):
                continue  # the group was moved or deleted meanwhile
            record, location = found or (None, None)
            if record is None or location is None:
                move.state.finish_offset(move.offset)  # retention has removed it, or its record was lost
                self._consumption.mark_changed(move.group, move.topic, move.queue_id)
                self._consumption.in_flight.wake_for_freed(move.group, move.topic, self._pollers)
            elif move.reason is None and move.queue_id == RETRY_QUEUE_ID and self._is_fresh(record):
                self._make_ready(move)
            elif move.reason is None:
                copy = copy_by_reference(record, location) if self._is_fresh(record) else (copy_message(record), None)
                copies[retry_topic(move.group)].append((move, *copy))
            else:
                letter = create_dead_letter(
                    record, topic=lite_parent(move.topic), attempts=move.attempts, reason=move.reason
                )
                copies[dead_letter_topic(move.group)].append((move, letter, None))
        placed: list[tuple[_PendingMove, int]] = []
        log_end = 0
        for topic, entries in copies.items():
            moved, messages, references = zip(*entries, strict=True)
            batch = self._store.writer.append_batch(topic, 0, messages, self._clock.now_ms(), references)
            placed += zip(moved, itertools.count(batch.first_offset), strict=False)
            self._count_copies(moved[0], len(moved))
            log_end = batch.log_end
        await self._flusher.wait_until_durable(log_end)
        self._finish_moved(placed)
        for topic, entries in copies.items():
            self._pollers.wake_queue(topic, 0, len(entries))

    def _count_copies(self, move: _PendingMove, copies: int) -> None:
        if move.reason is None:
            self.retries += copies
        else:
            self.dead_letters.add_count(move.group, copies)

    async def _read_message(self, move: _PendingMove) -> "tuple[Record, MessageLocation] | None":
        """Read the message and its location as soon as it may be read; None if it can't be read any more."""
        queue = self._consumption.queue_of(move.group, move.topic, move.queue_id)
        reader = self._consumption.reader
        await self._flusher.wait_until_durable(
            await run_when_read(partial(reader.readable_from, queue.topic, queue.queue_id, move.offset))
        )

        def read_located() -> "tuple[Record, MessageLocation] | None":
            located = reader.locate_offsets(queue.topic, queue.queue_id, [move.offset])
            records = reader.read_located(queue.topic, queue.queue_id, located, ALL)
            return (records[0], located[move.offset]) if records else None

        return await run_when_read(read_located)

    def _finish_moved(self, placed: list[tuple[_PendingMove, int]]) -> None:
        """Let the durable copies replace their messages, unless the group was reset meanwhile."""
        ready: defaultdict[tuple[str, str], int] = defaultdict(int)
        finished: set[tuple[str, str]] = set()
        for move, copy_offset in placed:
            if not self._is_current(move):
                continue
            move.state.finish_offset(move.offset)
            finished.add((move.group, move.topic))
            self._consumption.mark_changed(move.group, move.topic, move.queue_id)
            if move.reason is None:
                self._consumption.find_or_create_retries(move.group, move.topic).place_copy(copy_offset, move.attempts)
                self._consumption.mark_changed(move.group, move.topic, RETRY_QUEUE_ID)
            if move.reason is None or isinstance(move.state, OrderedConsumption):
                ready[move.group, move.topic] += 1
        for (group, topic), count in ready.items():
            self._pollers.wake_group(group, topic, count)
        for group, topic in finished:
            self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)

    def _is_current(self, move: _PendingMove) -> bool:
        known = self._consumption.find_states(move.group, move.topic).get(move.queue_id)
        return known is move.state and move.state.find_claim(move.offset, 0) is not None

    def _is_fresh(self, record: "Record") -> bool:
        """Whether the body of the message will be there for at least half the retention."""
        return self._clock.now_ms() - (record.rest_stored_ms or record.stored_ms) <= self._copy_again_after_ms

    def _make_ready(self, move: _PendingMove) -> None:
        """Make the message ready for redelivery in place."""
        if isinstance(move.state, OrderedConsumption):
            move.state.return_message(move.offset)
        else:
            move.state.show_again(move.offset)
        self._pollers.wake_group(move.group, move.topic, 1)
        self._consumption.in_flight.wake_for_freed(move.group, move.topic, self._pollers)
