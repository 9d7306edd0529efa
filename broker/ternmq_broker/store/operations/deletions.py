"""Removes messages: segments by retention, topics and groups by deletion, queues by purges.

`AppliedOperations.forgotten` has the deleted topics, each with the log's end at that time: their timers below it never
appear. In a replicated store deletions are operations of the log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store.operations.store_operation import OperationKind, StoreOperation

if TYPE_CHECKING:
    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.operations.applied_operations import AppliedOperations
    from ternmq_broker.store.record_writer import RecordWriter


@dataclass(frozen=True, slots=True)
class SegmentRemoval:
    """The removal of the oldest segments, in two steps: a thread calls `write`, which makes durable that their messages
    are gone; then `Deletions.finish_removal` drops the segments.
    """

    count: int
    write: Callable[[], None]


class Deletions:
    """Removes messages of one store for good."""

    def __init__(
        self, writer: "RecordWriter", log: "CommitLog", indexes: "DerivedIndexes", operations: "AppliedOperations"
    ) -> None:
        self.is_replicated = False
        """Whether deletions are written to the log, for other replicas."""
        self._writer = writer
        self._log = log
        self._indexes = indexes
        self._operations = operations

    def expired_segments(self, before_ms: int) -> int:
        """Return how many of the oldest segments hold only messages stored before that time. Reads, so for a thread."""
        expired = 0
        for count, following in enumerate(self._log.segment_bases[1:], start=1):
            if following > self._indexes.spill_limit:
                break  # the index does not cover all that would be removed
            try:
                is_empty = following == self._log.log_end
                first_ms = self._writer.last_stored_ms if is_empty else self._log.head_at(following).stored_ms
            except BadRecord:
                continue  # the next one says whether this one is old too
            if first_ms >= before_ms:
                break
            expired = count
        return expired

    def prepare_removal(self, count: int) -> SegmentRemoval:
        """Hide the messages of the oldest segments. The segments stay until that is durable: else a queue without
        messages would begin again at 0.
        """
        return SegmentRemoval(
            count, self._indexes.queues.prepare_drop(self._log.segment_end(count), self._indexes.spill_limit)
        )

    def finish_removal(self, removal: SegmentRemoval) -> list[tuple[str, int]]:
        """Drop the segments after `removal.write` is done, and return the lite topics whose last messages went with
        them, and where their queues ended.

        Their files wait for `delete_removed`.
        """
        self._log.detach_segments(removal.count)
        return self._indexes.drop_before(self._log.log_start)

    def delete_removed(self) -> None:
        """Delete the files of what was removed. For a thread. OSError: those that are left are deleted the next time.

        The log's files go first: a start drops index files without a segment, but must read a segment without an index.
        """
        self._log.delete_detached()
        self._indexes.queues.delete_detached()

    def forget_topic(self, topic: str, version: int = 0) -> "Callable[[], None]":
        """Hide all messages of a deleted topic, and return a function that makes that durable, for a thread.

        Its timers never appear; the caller settles its half messages. `version` is the registry's. In a replicated
        store the deletion is durable as soon as the log is acknowledged up to its present end. OSError.
        """
        if self.is_replicated:
            self._writer.write_operation(StoreOperation(OperationKind.TOPIC_FORGOTTEN, version, topic))
            return _do_nothing
        finish_topic = self._operations.forget_topic(topic, self._log.log_start, self._log.log_end)
        finish_index = self._indexes.queues.forget_topic(topic)

        def finish() -> None:
            finish_topic()
            finish_index()

        return finish

    def purge_queue(self, topic: str, queue_id: int, below: int) -> "Callable[[], None]":
        """Hide all messages of the queue below that offset, and return a function that makes that durable, for a
        thread.

        Timers and half messages are in no queue yet and stay. A crash while several queues are purged leaves each
        purged or not purged. In a replicated store it is durable as with `forget_topic`.
        """
        if not self.is_replicated:
            return self._indexes.queues.purge_queue(topic, queue_id, below)
        if self._indexes.queues.queue_bounds(topic, queue_id)[0] < below:
            self._writer.write_operation(StoreOperation(OperationKind.PURGED, below, topic, queue_id))
        return _do_nothing

    def forget_group(self, group: str, version: int) -> None:
        """Write to the log of a replicated store that the group was deleted in that version of the registry, so that
        other replicas note it. OSError.
        """
        if self.is_replicated:
            self._writer.write_operation(StoreOperation(OperationKind.GROUP_FORGOTTEN, version, group))

    def is_forgotten(self, topic: str, log_offset: int) -> bool:
        """Tell whether the topic was deleted after the record at that log offset was stored for it."""
        return log_offset < self._operations.forgotten.get(topic, 0)


def _do_nothing() -> None:
    """Do nothing: the log has the operation already."""
