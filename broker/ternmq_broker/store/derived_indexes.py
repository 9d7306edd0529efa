"""The indexes that are derived from the commit log: where messages are, pending timers, waiting half messages.

Each part says up to which log offset its files cover the log. Recovery reads the log again from the lowest of these
offsets on, and each part takes what it lacks.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ternmq_broker.store.index.half_index import HalfIndex, decode_checks
from ternmq_broker.store.index.log_index import BlockSpill, LogIndex
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.timers.timer_index import TimerIndex
from ternmq_broker.store.timers.timer_jobs import TimerSpill
from ternmq_broker.store.timers.timer_run import TimerEntry, id_hash
from ternmq_common.names import DISCARD_TOPIC
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.log.commit_log import PlacedRecord
    from ternmq_broker.store.log.record import Record

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexSpill:
    """Index entries to be written so that memory can release them: `write` in a thread, then
    `DerivedIndexes.finish_spill`, or `give_up_spill` after an error.
    """

    log_to: int
    index: BlockSpill | None
    timers: TimerSpill | None

    def write(self) -> None:
        """Write both parts; OSError: neither counts."""
        # The index comes last: a block of it that was written must be finished too, but a run of timers can be undone.
        if self.timers is not None:
            self.timers.write_run()
        if self.index is not None:
            try:
                self.index.write_block()
            except OSError:
                if self.timers is not None:
                    self.timers.delete_written()
                raise


class DerivedIndexes:
    """The indexes of one commit log, opened, replayed and spilled together."""

    def __init__(self, index_folder: "Folder", timer_folder: "Folder") -> None:
        self.queues = LogIndex(index_folder)
        self.timers = TimerIndex(timer_folder)
        self.halves = HalfIndex()
        self.spill_limit = 0
        """The log offset up to which index, checkpoint and side files may describe the log. In a store with replicas it
        is what was acknowledged, and the owner raises it."""

    def load_files(self, checkpoint: dict[str, Any], segments: "Sequence[int]", log_end: int) -> None:
        """Open the files; the caller replays the log from `covered_offset` on."""
        self.queues.load_files(segments, log_end)
        for problem in self.timers.load_runs(checkpoint.get("timers"), log_start=segments[0], log_end=log_end):
            _log.warning("rebuilding a part of the timer index: %s", problem)
        self.halves.load_checkpoint(checkpoint.get("halves", {}), log_start=segments[0], log_end=log_end)

    @property
    def covered_offset(self) -> int:
        return min(self.queues.covered_offset, self.timers.covered_offset, self.halves.covered_offset)

    @property
    def durable_offset(self) -> int:
        """Up to where the log was durable once, as the files imply."""
        return max(
            self.highest_covered, self.queues.durable_offset, self.timers.durable_offset, self.halves.durable_offset
        )

    @property
    def highest_covered(self) -> int:
        """The highest log offset that one of the parts covers."""
        return max(self.queues.covered_offset, self.timers.covered_offset, self.halves.covered_offset)

    def find_contradiction(self, placed: "PlacedRecord", lost_max: int) -> str | None:
        """Return why a record that was found in the log can't be there, if at most `lost_max` messages were lost before
        it; None if it can.
        """
        record = placed.record
        if record.kind is not RecordKind.MESSAGE or placed.log_offset < self.queues.covered_offset:
            return None
        return self.queues.find_contradiction(record.topic, record.queue_id, record.queue_offset, lost_max)

    def replay_record(self, placed: "PlacedRecord") -> None:
        """Add a record that was found in the log; called in the log's order."""
        record = placed.record
        if record.kind is RecordKind.MESSAGE and placed.log_offset >= self.queues.covered_offset:
            self.queues.prepare_recovered(record.topic, record.queue_id, record.queue_offset, placed.log_offset)
            queue = self.queues.get_queue(record.topic, record.queue_id)
            self.queues.add_message(queue, placed.log_offset, placed.size, record.tag_hash, keys_of(record.system))
        self.note_record(record, placed.log_offset, placed.size)

    def note_record(self, record: "Record", log_offset: int, size: int) -> None:
        """Apply what a new record of the log says about timers and half messages."""
        if record.kind is RecordKind.TIMER and log_offset >= self.timers.covered_offset:
            message_id = keys_of(record.system)[0]
            self.timers.add_timer(TimerEntry(record.due_ms, log_offset, size, id_hash(message_id)))
        elif record.kind is RecordKind.HALF_MESSAGE and log_offset >= self.halves.covered_offset:
            self.halves.add_half(log_offset, size)
        origin = record.origin
        if origin is None:
            return
        checks = decode_checks(record.rest) if record.kind is RecordKind.OPERATION else None
        if origin.due_ms and log_offset >= self.timers.covered_offset:
            self.timers.settle_timer(origin.due_ms, origin.log_offset, log_offset)
        elif not origin.due_ms and log_offset >= self.halves.covered_offset:
            if checks is None:
                self.halves.settle_half(origin.log_offset, log_offset, discards=record.topic == DISCARD_TOPIC)
            else:
                self.halves.set_checks(origin.log_offset, checks)

    @staticmethod
    def remove_files(index_folder: "Folder", timer_folder: "Folder") -> None:
        """Remove the index files, so that the next `load` finds nothing and all is rebuilt from the log."""
        for folder in (index_folder, timer_folder):
            for name in folder.names():
                if name[:1].isdigit():
                    folder.remove(name)
            folder.sync_names()

    # --- moving to disk

    @property
    def entries_in_memory(self) -> int:
        return self.queues.entries_in_memory + self.timers.entries_in_memory + self.halves.uncovered

    def prepare_spill(self, segments: "Sequence[int]", synced: int) -> IndexSpill | None:
        """Return what is to be written; None if the files cover the log up to `synced`."""
        index = self.queues.prepare_spill(segments, synced)
        log_to = synced if index is None else index.log_to
        return IndexSpill(log_to, index, self.timers.prepare_spill(log_to)) if self.covered_offset < log_to else None

    def finish_spill(self, spill: IndexSpill) -> "Iterator[None]":
        """Release the memory of a written spill, in steps of about a millisecond. Run all steps before the next
        spill.
        """
        if spill.index is not None:
            yield from self.queues.finish_spill(spill.index)
        if spill.timers is not None:
            self.timers.finish_spill(spill.timers)
        self.halves.cover_to(spill.log_to)

    def give_up_spill(self, spill: IndexSpill) -> None:
        """Give up a spill that could not be written; another one will be prepared."""
        if spill.timers is not None:
            self.timers.release_job(spill.timers)

    def checkpoint_content(self) -> dict[str, Any]:
        """Return what `load` must know beside the files."""
        return {
            "index": self.queues.covered_offset,
            "timers": self.timers.checkpoint_content(),
            "halves": self.halves.checkpoint_content(),
        }

    def drop_before(self, log_start: int) -> list[tuple[str, int]]:
        """Drop what lies below the log's new start, and return what `LogIndex.drop_before` returns.
        `LogIndex.prepare_drop` has made that durable before.
        """
        self.timers.forget_below(log_start)
        self.halves.forget_below(log_start)
        return self.queues.drop_before(log_start)

    def close(self) -> None:
        self.queues.close()
        self.timers.close()


def keys_of(system: bytes) -> tuple[str, ...]:
    """Return the texts by which a message can be found: its id and its keys."""
    properties = definition_pb2.SystemProperties.FromString(system)
    return (properties.message_id, *properties.keys)
