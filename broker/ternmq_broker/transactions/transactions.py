"""Transactions: half messages that are hidden until their producers commit them or roll them back.

A commit appends the message to its queue with the half message as its origin: one record that is both, so that after a
crash a transaction is committed with its message there, or pending. A rollback appends an operation. The outcome of a
transaction is known for as long as its message is kept: the latest from memory, others from the log, which has a
message that came of the half message, or a copy in the discard topic.

Waiting  the store knows what waits (`store/half_index.py`); each appended record updates it
Threads  everything runs on the event loop; reads far back in the log run in threads.
"""

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_broker.cold_reads import NotRepaired, records_at
from ternmq_broker.delivery.check_schedule import NEXT, NEXT_BY_OPERATOR, CheckSchedule
from ternmq_broker.message_copies import copy_message, create_discarded
from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_broker.store.index.half_index import ROLLBACK
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_broker.transactions.gathered_records import BegunHalf, EndedHalf
from ternmq_broker.transactions.recent_halves import RecentHalves
from ternmq_broker.transactions.transaction_appender import MessageKey, TransactionAppender
from ternmq_broker.transactions.transaction_outcomes import TransactionOutcome, outcome_of
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.callbacks import wait_until_ended, wait_until_placed
from ternmq_common.names import DISCARD_TOPIC
from ternmq_common.shard.model import AppendedMessage, NewMessage, TransactionResolution, TransactionState
from ternmq_common.shard.transaction_id import TransactionId, format_id
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.delivery.check_schedule import CheckRules
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.index.half_index import WaitingHalf
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import HalfMessage, Placed, TransactionEnded

_log: Final = logging.getLogger(__name__)
# The outcomes of so many transactions are in memory, since a producer repeats its call soon.
_ENDS_KEPT: Final = 10_000


class _TransactionEnd:
    """How a transaction ended, and where the log ended with that."""

    def __init__(self, state: TransactionState, topic: str, message_id: str, log_end: int) -> None:
        self.state = state
        self.topic = topic
        self.message_id = message_id
        self.log_end = log_end


class Transactions:
    """The transactions of one broker."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "LogFlusher",
        pollers: "PollQueues",
        clock: "SystemClock",
        *,
        broker: str,
        rules: "CheckRules",
        open_max: int,
        make_refusal: "Callable[[Exception], Exception]",
    ) -> None:
        """`make_refusal` turns an error of the store into one for producers."""
        self._store = store
        self._flusher = flusher
        self._clock = clock
        self._broker = broker
        self._open_max = open_max
        self.halves = store.indexes.halves
        """Which half messages wait."""
        self.checks = CheckSchedule(store.indexes.halves, rules)
        self.check_is_sooner = asyncio.Event()
        """Set when a check is due earlier than planned."""
        self.on_begun: Callable[[str], None] = _ignore_topic
        """A callback with the topic of each half message that was stored."""
        self._appender = TransactionAppender(store, flusher, pollers, clock, make_refusal)
        self._recent = RecentHalves()
        self._ends: OrderedDict[int, _TransactionEnd] = OrderedDict()

    def restore_waiting(self) -> None:
        """Load what waited when the store was opened; reads, so call it in a thread."""
        now_ms = self._clock.now_ms()
        for half in self.halves.waiting_in_order():
            record = self._store.reader.read_record_at(half.log_offset)
            if record is None:
                _log.error("the half message at log offset %d can't be read any more, it is lost", half.log_offset)
                self.halves.give_up_half(half)
                continue
            self.halves.describe_half(
                half,
                topic=record.topic,
                message_id=keys_of(record.system)[0],
                sender=record.sender,
                stored_ms=record.stored_ms,
            )
            self.checks.restore_half(half, _recovery_ms(record.system), now_ms)

    # --- for producers

    async def begin_transaction(self, topic: str, queue_id: int, half: "HalfMessage") -> AppendedMessage:
        """Store a half message, and return when it may be acknowledged. Raises MessagingError if it was not stored.

        A half message that waits already is not stored again: its producer missed the answer, and repeats the call.
        """
        while True:
            first = await self._find_repeated(topic, half)
            if first is not None:
                await self._flusher.wait_until_acknowledged(self._store.log.log_end, _do_nothing)
                return self.describe_begun(first)
            key = (topic, half.message.keys[0], half.sender)
            if not self._appender.is_begun(key):
                return await wait_until_placed(partial(self._begin_half, topic, queue_id, half, key))
            self._appender.store_gathered()

    def begin_transaction_nowait(self, topic: str, queue_id: int, half: "HalfMessage", done: "Placed") -> bool:
        """Store a half message like `begin_transaction`; `done` is called when it may be acknowledged. Return False,
        with nothing done, if there is one with its id, which must be read."""
        key = (topic, half.message.keys[0], half.sender)
        if self._appender.is_begun(key) or self.halves.find_by_message(*key) is not None:
            return False
        self._begin_half(topic, queue_id, half, key, done)
        return True

    def _begin_half(self, topic: str, queue_id: int, half: "HalfMessage", key: MessageKey, done: "Placed") -> None:
        open_count = len(self.halves.waiting) + self._appender.begun_count
        if open_count >= self._open_max:
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"{open_count} transactions are open, as many as may be (transactions_max)",
            )
        draft = RecordDraft(RecordKind.HALF_MESSAGE, topic, queue_id, half.message, sender=half.sender)
        self._appender.gather_half(BegunHalf(draft, half.recovery_ms, self, done), key)

    def note_begun(self, draft: RecordDraft, recovery_ms: int | None, location: MessageLocation) -> "WaitingHalf":
        """Note that this half message was stored, and schedule its first check."""
        log_offset, topic = location.log_offset, draft.topic
        waiting = self.halves.waiting[log_offset]
        stored_ms = self._store.writer.last_stored_ms  # later than now, if the clock was set back
        self.halves.describe_half(
            waiting, topic=topic, message_id=draft.message.keys[0], sender=draft.sender, stored_ms=stored_ms
        )
        self._recent.add_half(log_offset, draft)
        self.checks.add_half(waiting, recovery_ms)
        if self.checks.next_due_ms() == waiting.next_check_ms:
            self.check_is_sooner.set()
        self.on_begun(topic)
        return waiting

    def describe_begun(self, half: "WaitingHalf") -> AppendedMessage:
        """Return the answer for the producer of a half message."""
        transaction_id = format_id(half.message_id, self._broker, half.log_offset)
        return AppendedMessage(half.message_id, half.log_offset, transaction_id)

    async def _find_repeated(self, topic: str, half: "HalfMessage") -> "WaitingHalf | None":
        """The waiting half message that `half` repeats; another message under the same id is none."""
        first = self.halves.find_by_message(topic, half.message.message_id, half.sender)
        if first is None:
            return None
        try:
            record = await self.read_half(first)
        except NotRepaired:
            raise
        except MessagingError:  # it can't be committed either, but the repetition can
            return None
        still_waits = self.halves.waiting.get(first.log_offset) is first
        return first if still_waits and record.rest == half.message.rest else None

    async def end_transaction(
        self, topic: str, transaction: TransactionId, resolution: TransactionResolution, *, by_operator: bool
    ) -> None:
        """Commit or roll back, and return when that may be acknowledged; see `MessageSending.end_transaction`."""
        while True:
            half = self._pending_half(topic, transaction)
            if half is None:
                await self._end_again(topic, transaction, resolution, by_operator=by_operator)
                return
            if resolution is TransactionResolution.ROLLBACK:
                draft: RecordDraft | None = self._rollback_draft(half.topic, half.log_offset)
            else:
                draft = self._recent_commit(half)
            if draft is None:
                record = await self.read_half(half)
                if self._pending_half(topic, transaction) is not half:
                    continue  # another call was faster
                draft = _commit_draft(half, record.queue_id, copy_message(record))
            await wait_until_ended(partial(self._end_half, half, resolution, draft))
            return

    def end_transaction_nowait(
        self, topic: str, transaction: TransactionId, resolution: TransactionResolution, done: "TransactionEnded"
    ) -> bool:
        """Commit or roll back like `end_transaction`; `done` is called when that may be acknowledged. Return False,
        with nothing done, if the transaction has ended before, or if its half message must be waited for."""
        half = self._pending_half(topic, transaction)
        if half is None:
            return False
        draft: RecordDraft | None
        if resolution is TransactionResolution.ROLLBACK:
            draft = self._rollback_draft(topic, half.log_offset)
        else:
            draft = self._recent_commit(half)
            if draft is None:
                draft = self._read_commit(half)
            if draft is None:
                return False
        self._end_half(half, resolution, draft, done)
        return True

    def _end_half(
        self, half: "WaitingHalf", resolution: TransactionResolution, draft: RecordDraft, done: "TransactionEnded"
    ) -> None:
        state = NEXT[TransactionState.PENDING, resolution]
        self._appender.gather_end(EndedHalf(draft, half, state, self, done), half.log_offset)

    def _recent_commit(self, half: "WaitingHalf") -> RecordDraft | None:
        """Return the commit of a half message that is still in memory."""
        recent = self._recent.find_half(half.log_offset)
        return None if recent is None else _commit_draft(half, recent.queue_id, recent.message)

    def _read_commit(self, half: "WaitingHalf") -> RecordDraft | None:
        """Return the commit of a half message that can be read without waiting for the disk."""
        try:
            [record] = self._store.reader.read_records([_location_of(half)], may_block=False)
        except (WouldBlock, AwaitsRepair):
            return None
        return None if record is None else _commit_draft(half, record.queue_id, copy_message(record))

    def _pending_half(self, topic: str, transaction: TransactionId) -> "WaitingHalf | None":
        """The half message if it waits; None if another one is at its log offset."""
        if self._appender.is_ending(transaction.log_offset):
            self._appender.store_gathered()
        half = self.halves.waiting.get(transaction.log_offset)
        if half is None or half.message_id != transaction.message_id or transaction.broker != self._broker:
            return None
        if half.topic != topic:
            raise unknown_transaction(transaction, f"it is of topic {half.topic!r}, not {topic!r}")
        return half

    async def _end_again(
        self, topic: str, transaction: TransactionId, resolution: TransactionResolution, *, by_operator: bool
    ) -> None:
        """Answer for a transaction that does not wait: does the resolution repeat its outcome, or may it change it?"""
        while True:
            known = self._ends.get(transaction.log_offset)
            outcome: TransactionOutcome | None = None
            if known is not None and known.message_id == transaction.message_id and not by_operator:
                state, its_topic = known.state, known.topic
            else:
                outcome = await self.find_outcome(transaction)
                state, its_topic = outcome.state, outcome.topic
            if self._ends.get(transaction.log_offset) is known:
                break  # else another call has decided meanwhile
        if its_topic != topic:
            raise unknown_transaction(transaction, f"it is of topic {its_topic!r}, not {topic!r}")
        following = (NEXT_BY_OPERATOR if by_operator else NEXT).get((state, resolution))
        if following is None:
            raise unknown_transaction(
                transaction, f"it was {state.value} before, and {resolution.value} contradicts that"
            )
        if following is not state and outcome is not None:
            self._resolve_late(transaction, outcome, following)
        await self._wait_until_ended(transaction.log_offset)

    def _resolve_late(
        self, transaction: TransactionId, outcome: TransactionOutcome, following: TransactionState
    ) -> None:
        """Commit or roll back a discarded transaction for an operator."""
        draft = self._rollback_draft(outcome.topic, transaction.log_offset)
        if following is TransactionState.COMMITTED:
            origin = RecordOrigin(transaction.log_offset)
            draft = RecordDraft(RecordKind.MESSAGE, outcome.topic, outcome.queue_id, outcome.message, origin=origin)
        self._appender.append_draft(draft)
        self._remember_end(
            transaction.log_offset,
            _TransactionEnd(following, outcome.topic, transaction.message_id, self._store.log.log_end),
        )

    def _rollback_draft(self, topic: str, log_offset: int) -> RecordDraft:
        operation = NewMessage(0, b"", ROLLBACK, ())
        return RecordDraft(RecordKind.OPERATION, topic, 0, operation, origin=RecordOrigin(log_offset))

    def _settle_half(self, half: "WaitingHalf", state: TransactionState, draft: RecordDraft) -> None:
        """Settle a half message that still waits, now."""
        self._appender.append_draft(draft)
        self.note_settled(half, state, self._store.log.log_end)

    def note_settled(self, half: "WaitingHalf", state: TransactionState, log_end: int) -> None:
        """Note that the record that settles a half message was stored; the log then ended at `log_end`."""
        assert half.log_offset not in self.halves.waiting
        self._recent.drop_half(half.log_offset)
        self._remember_end(half.log_offset, _TransactionEnd(state, half.topic, half.message_id, log_end))

    def _still_waits(self, half: "WaitingHalf") -> bool:
        self._appender.store_gathered()
        return self.halves.waiting.get(half.log_offset) is half

    def _remember_end(self, log_offset: int, end: _TransactionEnd) -> None:
        self._ends[log_offset] = end
        self._ends.move_to_end(log_offset)
        if len(self._ends) > _ENDS_KEPT:
            self._ends.popitem(last=False)

    async def _wait_until_ended(self, log_offset: int) -> None:
        """Wait until the end of that transaction is durable."""
        end = self._ends.get(log_offset)
        await self._flusher.wait_until_acknowledged(
            self._store.log.log_end if end is None else end.log_end, _do_nothing
        )

    # --- discarding

    async def discard_half(self, half: "WaitingHalf") -> None:
        """Move the half message to the discard topic, where only operators find it.

        If its record is lost the transaction ends: it would hold up retention for ever.
        """
        try:
            record = await self.read_half(half)
        except NotRepaired as damaged:
            _log.warning("transaction %s can't be discarded yet: %s", self.id_of(half), damaged.message)
            return
        except MessagingError as lost:
            _log.error("%s; it ends", lost.message)
            if self._still_waits(half):
                self._settle_half(half, TransactionState.ROLLED_BACK, self._rollback_draft(half.topic, half.log_offset))
            return
        if not self._still_waits(half):
            return
        _log.warning(
            "transaction %s of topic %s is discarded: its producer did not resolve it within %d transaction checks",
            self.id_of(half),
            half.topic,
            half.checks,
        )
        message = create_discarded(record, checks=half.checks)
        draft = RecordDraft(RecordKind.MESSAGE, DISCARD_TOPIC, 0, message, origin=RecordOrigin(half.log_offset))
        self._settle_half(half, TransactionState.DISCARDED, draft)

    async def discard_below(self, log_offset: int) -> None:
        """Discard what waits in the log below `log_offset`, which retention is about to remove; waits until that is
        durable."""
        for half in self.halves.waiting_below(log_offset):
            await self.discard_half(half)
        await self._flusher.wait_until_durable(self._store.log.log_end)

    def forget_topic(self, topic: str) -> None:
        """End the transactions of a deleted topic."""
        self._appender.store_gathered()
        for half in self.halves.waiting_of_topic(topic):
            self._settle_half(half, TransactionState.ROLLED_BACK, self._rollback_draft(topic, half.log_offset))

    def id_of(self, half: "WaitingHalf") -> TransactionId:
        return TransactionId(half.message_id, self._broker, half.log_offset)

    async def find_outcome(self, transaction: TransactionId) -> TransactionOutcome:
        """The outcome of a transaction; INVALID_TRANSACTION_ID if there was none of that id."""
        half = self.halves.waiting.get(transaction.log_offset)
        if half is not None and self.id_of(half) == transaction:
            record = await self.read_half(half)
            return TransactionOutcome(
                state=TransactionState.PENDING,
                topic=half.topic,
                queue_id=record.queue_id,
                message=copy_message(record),
                stored_ms=half.stored_ms,
                sender=half.sender,
                checks=half.checks,
                next_check_ms=half.next_check_ms,
            )
        outcome = None
        if transaction.broker == self._broker:
            outcome = await asyncio.to_thread(outcome_of, self._store, transaction)
        if outcome is None:
            raise unknown_transaction(transaction, "there is no such transaction here, or none that is kept any more")
        return outcome

    async def read_half(self, half: "WaitingHalf") -> "Record":
        """Read the half message's record; INTERNAL_SERVER_ERROR if it is lost. NotRepaired."""
        [record] = await records_at(self._store, [_location_of(half)])
        if record is None:
            raise MessagingError(
                ErrorCode.INTERNAL_SERVER_ERROR,
                f"the half message of transaction {self.id_of(half)} can't be read any more",
            )
        return record


def _commit_draft(half: "WaitingHalf", queue_id: int, message: NewMessage) -> RecordDraft:
    """Return the record that commits a half message."""
    origin = RecordOrigin(half.log_offset)
    return RecordDraft(RecordKind.MESSAGE, half.topic, queue_id, message, origin=origin)


def _location_of(half: "WaitingHalf") -> MessageLocation:
    return MessageLocation(half.log_offset, half.size, 0)


def unknown_transaction(transaction: TransactionId, why: str) -> MessagingError:
    return MessagingError(
        ErrorCode.INVALID_TRANSACTION_ID, f"transaction {str(transaction)[:200]!r} can't be ended: {why}"
    )


def _recovery_ms(system: bytes) -> int | None:
    """The half message's own time without transaction checks, if it has one."""
    properties = definition_pb2.SystemProperties.FromString(system)
    duration: int = properties.orphaned_transaction_recovery_duration.ToMilliseconds()
    return duration if duration > 0 else None


def _do_nothing() -> None:
    pass


def _ignore_topic(_topic: str) -> None:
    pass
