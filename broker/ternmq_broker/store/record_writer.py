"""Appends records to the commit log and enters them into the indexes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.index.queue_index import MessageLocation, QueueIndex
from ternmq_broker.store.log.record import Record, RecordKind, to_unplaced, with_reference
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_common.shard.model import NewMessage

if TYPE_CHECKING:
    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.record import RestReference, UnplacedRecord
    from ternmq_broker.store.operations.applied_operations import AppliedOperations
    from ternmq_broker.store.operations.store_operation import StoreOperation

_MESSAGE: Final = RecordKind.MESSAGE.value


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """The place of a stored batch: the queue offset of its first message, and the log's end behind its last."""

    first_offset: int
    log_end: int


class AppendBatch:
    """Messages of one request, for one queue."""

    __slots__ = ("messages", "queue_id", "topic")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[NewMessage],
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.messages = messages


class RecordWriter:
    """Appends messages, records and operations; what it wrote is durable once `CommitLog.synced` has passed it."""

    def __init__(
        self, log: "CommitLog", indexes: "DerivedIndexes", operations: "AppliedOperations", last_stored_ms: int
    ) -> None:
        """`last_stored_ms` is when the log's newest record was stored."""
        self._log = log
        self._indexes = indexes
        self._queues = indexes.queues
        self._operations = operations
        self.last_stored_ms = last_stored_ms
        """When the newest record was stored; no later one is stored earlier."""

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        messages: "Sequence[NewMessage]",
        now_ms: int,
        references: "Sequence[RestReference | None]" = (),
    ) -> AppendedBatch:
        """Store the messages at the end of the queue. OSError: none of them was stored.

        A message with a reference shares the rest of an earlier record; its own rest is empty.
        """
        [first] = self.append_batches([AppendBatch(topic, queue_id, messages)], now_ms, references)
        return AppendedBatch(first, self._log.log_end)

    def append_batches(
        self, batches: "Sequence[AppendBatch]", now_ms: int, references: "Sequence[RestReference | None]" = ()
    ) -> list[int]:
        """Store batches, each at the end of its queue, in one write, and return the queue offset of each batch's first
        message.

        `references` has one entry for each message of all batches, or is empty. OSError: nothing was stored.
        """
        stored_ms = self.last_stored_ms = max(now_ms, self.last_stored_ms)
        firsts: list[int] = []
        ends: dict[QueueIndex, int] = {}
        records: list[UnplacedRecord] = []
        for batch in batches:
            queue_id = batch.queue_id
            queue = self._queues.get_queue(batch.topic, queue_id)
            first = offset = ends.get(queue, queue.end)
            name = queue.topic_bytes
            queue.last_ms = stored_ms
            for message in batch.messages:
                system, rest = message.system, message.rest
                records.append(
                    (_MESSAGE, queue_id, offset, stored_ms, message.tag_hash, len(name), 0, name, system, rest)
                )
                offset += 1
            firsts.append(first)
            ends[queue] = offset
        if references:
            records = [with_reference(*pair) for pair in zip(records, references, strict=True)]
        self._index_batches(batches, self._log.append_records(records))
        return firsts

    def _index_batches(self, batches: "Sequence[AppendBatch]", began: list[int]) -> None:
        """Enter the messages of the batches into the index."""
        began.append(self._log.log_end)
        number = 0
        for batch in batches:
            following = number + len(batch.messages)
            queue = self._queues.get_queue(batch.topic, batch.queue_id)
            self._queues.add_messages(queue, batch.messages, began[number : following + 1])
            number = following

    def append_drafts(self, drafts: "Sequence[RecordDraft]", now_ms: int) -> list[MessageLocation]:
        """Store records of any kind, of any queues, in order, and return where each is. OSError: none of them was
        stored.
        """
        stored_ms = self.last_stored_ms = max(now_ms, self.last_stored_ms)
        ends: dict[tuple[str, int], int] = {}
        records = [self._record_of_draft(draft, stored_ms, ends) for draft in drafts]
        began = self._log.append_records([to_unplaced(record) for record in records])
        began.append(self._log.log_end)
        located: list[MessageLocation] = []
        for number in range(len(records)):
            record, log_offset = records[number], began[number]
            size = began[number + 1] - log_offset
            if record.kind is RecordKind.MESSAGE:
                queue = self._queues.get_queue(record.topic, record.queue_id)
                self._queues.add_message(queue, log_offset, size, record.tag_hash, drafts[number].message.keys)
            self._indexes.note_record(record, log_offset, size)
            located.append(MessageLocation(log_offset, size, record.tag_hash))
        return located

    def _record_of_draft(self, draft: RecordDraft, stored_ms: int, ends: dict[tuple[str, int], int]) -> Record:
        place = draft.due_ms
        if draft.kind is RecordKind.MESSAGE:
            key = (draft.topic, draft.queue_id)
            place = ends.get(key) or self._queues.get_queue(*key).end
            ends[key] = place + 1
        message = draft.message
        return Record(
            draft.kind,
            draft.topic,
            draft.queue_id,
            place,
            stored_ms,
            message.tag_hash,
            message.system,
            message.rest,
            draft.origin,
            draft.sender,
        )

    def write_operation(self, operation: "StoreOperation") -> None:
        """Write the operation to the log, and apply it."""
        [location] = self.append_drafts([operation.to_draft()], self.last_stored_ms)
        self._operations.apply_operation(operation, location.log_offset, self._log.log_end, self._queues)
