"""Appends half messages and the ends of transactions: those of one turn of the event loop are one write to the log.

Each record is stored or refused by itself if they can't be stored together. A record that waits for the end of its turn
is not in the store's indexes yet: `is_begun` and `is_ending` know it, and `store_gathered` stores it at once.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.sending.message_appender import GATHERED_BYTES_MAX
from ternmq_broker.store.disk.files import WriteNotUndone
from ternmq_broker.store.log.record import RecordKind
from ternmq_common.event_loop.callbacks import call_back
from ternmq_common.event_loop.turn_end import turn_end

if TYPE_CHECKING:
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.record_drafts import RecordDraft
    from ternmq_broker.transactions.gathered_records import GatheredRecord
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues

MessageKey = tuple[str, str, str]
"""A half message's topic, message id and sender."""


class TransactionAppender:
    """Appends to the log of one broker. `make_refusal` turns an error of the store into one for producers."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "LogFlusher",
        pollers: "PollQueues",
        clock: "SystemClock",
        make_refusal: Callable[[Exception], Exception],
    ) -> None:
        self._log = store.log
        self._writer = store.writer
        self._flusher = flusher
        self._pollers = pollers
        self._clock = clock
        self._make_refusal = make_refusal
        self._gathered: list[GatheredRecord] = []
        self._bytes = 0
        self._begun: set[MessageKey] = set()
        self._ending: set[int] = set()

    @property
    def begun_count(self) -> int:
        """How many half messages wait for the end of this turn."""
        return len(self._begun)

    def is_begun(self, key: MessageKey) -> bool:
        """Tell whether a half message of that key waits for the end of this turn."""
        return key in self._begun

    def is_ending(self, log_offset: int) -> bool:
        """Tell whether the end of the transaction whose half message is there waits for the end of this turn."""
        return log_offset in self._ending

    def gather_half(self, record: "GatheredRecord", key: MessageKey) -> None:
        """Store a half message by the end of this turn; none of that key may be begun."""
        self._begun.add(key)
        self._gather_record(record)

    def gather_end(self, record: "GatheredRecord", log_offset: int) -> None:
        """Store the end of the transaction whose half message is there, by the end of this turn; only one may."""
        self._ending.add(log_offset)
        self._gather_record(record)

    def _gather_record(self, record: "GatheredRecord") -> None:
        if not self._gathered:
            turn_end().add_work(self.store_gathered)
        self._gathered.append(record)
        self._bytes += len(record.draft.message.rest)
        if self._bytes > GATHERED_BYTES_MAX:
            self.store_gathered()

    def store_gathered(self) -> None:
        """Store what waits for the end of this turn."""
        if self._gathered:
            gathered, self._gathered, self._bytes = self._gathered, [], 0
            self._begun.clear()
            self._ending.clear()
            self._store_together(gathered)

    def append_draft(self, draft: "RecordDraft") -> None:
        """Store a record now, behind what waits for the end of this turn. OSError: it was not stored."""
        self.store_gathered()
        if self._flusher.failure is not None:
            raise self._flusher.failure
        self._writer.append_drafts([draft], self._clock.now_ms())
        if draft.kind is RecordKind.MESSAGE:
            self._flusher.when_readable(
                self._log.log_end, lambda: self._pollers.wake_queue(draft.topic, draft.queue_id, 1)
            )

    def _store_together(self, gathered: "list[GatheredRecord]") -> None:
        if self._flusher.failure is not None:
            self._answer_all(gathered, self._flusher.failure)
            return
        before = self._log.log_end
        try:
            located = self._writer.append_drafts([each.draft for each in gathered], self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - the callers get it, and log it if unexpected
            is_undone = not isinstance(error, WriteNotUndone) and self._log.log_end == before
            self._refuse_all(gathered, self._make_refusal(error), apart=is_undone)
            return
        log_end = self._log.log_end
        for record, location in zip(gathered, located, strict=True):
            call_back(record.note_stored, location, log_end)
        self._flusher.when_acknowledged(log_end, partial(self._answer_all, gathered))

    def _refuse_all(self, gathered: "list[GatheredRecord]", error: Exception, *, apart: bool) -> None:
        """Refuse what could not be stored together; with `apart`, when nothing was written, first try each by itself:
        the disk may have room for one, and an error in one must not fail the others."""
        if apart and len(gathered) > 1:
            for record in gathered:
                self._store_together([record])
        else:
            self._answer_all(gathered, error)

    def _answer_all(self, gathered: "list[GatheredRecord]", error: Exception | None) -> None:
        for record in gathered:
            call_back(record.answer_call, error)
        if error is None:
            for record in gathered:
                draft = record.draft
                if draft.kind is RecordKind.MESSAGE:
                    self._pollers.wake_queue(draft.topic, draft.queue_id, 1)
