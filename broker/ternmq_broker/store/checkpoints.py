"""Moves indexes to disk, and writes down how far log and indexes are durable.

Checkpoint  says what was known durable, and what the indexes have beside their files. An absent or stale checkpoint is
            never wrong; recovery is only slower and detects less.
"""

from typing import TYPE_CHECKING, Any

from ternmq_broker.store.derived_indexes import IndexSpill
from ternmq_broker.store.disk import side_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.durable_watermarks import DurableWatermarks
    from ternmq_broker.store.operations.applied_operations import AppliedOperations
    from ternmq_broker.store.record_writer import RecordWriter

CHECKPOINT = "checkpoint"
_ROWS_FOR_QUEUE = 3
_SPILL_ENTRIES_MAX = 262_144


class Checkpoints:
    """Spills the indexes of one store, and writes its checkpoint and durable watermarks."""

    def __init__(
        self,
        root: "Folder",
        writer: "RecordWriter",
        log: "CommitLog",
        indexes: "DerivedIndexes",
        operations: "AppliedOperations",
        durable_watermarks: "DurableWatermarks",
    ) -> None:
        self._root = root
        self._writer = writer
        self._log = log
        self._indexes = indexes
        self._operations = operations
        self._durable_watermarks = durable_watermarks

    def mark_durable(self) -> None:
        """Note in the file `durable` that the whole log is synced. While nothing is appended, no later record vouches
        for the last ones.
        """
        synced = self._log.synced
        if synced == self._log.log_end and self._durable_watermarks.highest < synced <= self._indexes.spill_limit:
            self._durable_watermarks.add_watermark(synced)

    def prepare_spill(self, *, entries_min: int) -> IndexSpill | None:
        """Return what is to be written of the indexes, once at least `entries_min` entries are in memory; else None.

        Unless `entries_min` is 0 or 1, some entries for each queue are required too; blocks would else hold little more
        than the names of queues.
        """
        derived = self._indexes
        if entries_min > 1:
            entries_min = max(entries_min, min(_SPILL_ENTRIES_MAX, _ROWS_FOR_QUEUE * derived.queues.queues_in_memory))
        if derived.entries_in_memory < entries_min:
            return None
        return derived.prepare_spill(self._log.segment_bases, min(self._log.synced, self._indexes.spill_limit))

    def finish_spill(self, spill: IndexSpill) -> None:
        """Release the memory of what `spill.write` has written."""
        for _ in self._indexes.finish_spill(spill):
            pass

    def finish_spill_slowly(self, spill: IndexSpill) -> "Iterator[None]":
        """Do the same as `finish_spill`, in steps of about a millisecond, between which other tasks may run."""
        return self._indexes.finish_spill(spill)

    def give_up_spill(self, spill: IndexSpill) -> None:
        self._indexes.give_up_spill(spill)

    def prepare_checkpoint(self) -> "Callable[[], None]":
        """Return a function that writes how far the log and the indexes are durable, for a thread."""
        durable = min(self._log.synced, self._indexes.spill_limit)
        checkpoint: dict[str, Any] = {
            "durable": durable,
            "stored_ms": self._writer.last_stored_ms,
            **self._indexes.checkpoint_content(),
        }
        if self._operations.epoch_marks:
            checkpoint["epochs"] = len(self._operations.epoch_marks)
        # These are written first: no replay will reach what lies below the checkpoint.
        write_files = self._operations.prepare_files(self._indexes.queues, self._indexes.spill_limit)

        def write() -> None:
            if write_files is not None:
                write_files()
            side_files.write_side_file(self._root, CHECKPOINT, checkpoint)

        return write

    def save_checkpoint(self) -> None:
        self.prepare_checkpoint()()
