"""Exports the messages of a store, read from its log in the order in which they were stored; damaged ones are left out.

It needs neither indexes nor a start, so it works where a broker refuses to start. Messages that retention or a deletion
removed are left out where the low watermarks (file `floors`) say so.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import BadRecord, RecordKind
from ternmq_broker.store_tools.checking.log_walk import CheckedLogWalk
from ternmq_broker.store_tools.checking.side_check import LOW_WATERMARKS
from ternmq_broker.store_tools.checking.side_content import read_side_content
from ternmq_broker.store_tools.progress import Progress, ProgressSteps, no_progress
from ternmq_broker.store_tools.store_view import open_view
from ternmq_common.errors import StartupError
from ternmq_common.names import DEAD_LETTER_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store_tools.store_view import StoreView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """A selection of messages: of these topics, or of all but retries and dead letters; from `since_ms` on, and before
    `until_ms`.
    """

    topics: frozenset[str] = frozenset()
    since_ms: int = 0
    until_ms: int = 1 << 62

    def includes_record(self, record: "Record") -> bool:
        is_topic = record.topic in self.topics if self.topics else not record.topic.startswith(_OF_GROUPS)
        return is_topic and self.since_ms <= record.stored_ms < self.until_ms


_OF_GROUPS = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


@dataclass(slots=True)
class SkippedRecords:
    """The records that could not be read: damaged places of the log, and messages whose bytes are in such a place."""

    places: "list[Range]" = field(default_factory=list)
    messages: int = 0


def export_messages(
    directory: "Path", wanted: ExportSelection, skipped: SkippedRecords, progress: Progress = no_progress
) -> "Iterator[Record]":
    """Yield the messages, each with the rest that it may share with another. StartupError, NewerFormat, OSError."""
    with open_view(directory) as view:
        if view.format is None and view.format_problem is not None:
            raise StartupError(f"in {view.path} {view.format_problem}, and no record has its content")
        stepping = ProgressSteps(progress, view.log_bytes)
        walk = CheckedLogWalk(view)
        low_watermarks = _read_low_watermarks(view)
        since = _first_needed(walk.log, wanted)
        for placed in walk.walk_records(since):
            stepping.set_done(placed.log_offset - walk.log.log_start)
            record = placed.record
            is_held = record.queue_offset >= low_watermarks.get((record.topic, record.queue_id), 0)
            if record.kind is RecordKind.MESSAGE and is_held and wanted.includes_record(record):
                if _complete_record(placed, walk.log):
                    yield record
                else:
                    skipped.messages += 1
        skipped.places = [
            place for place in (*walk.places.accepted_places, *walk.places.found_places) if place[1] > since
        ]
        stepping.finish_steps()


def _first_needed(log: "CommitLog", wanted: ExportSelection) -> int:
    """Return the segment to begin with: those before have only older messages, by the first one of the next segment."""
    needed = log.log_start
    for base in log.segment_bases[1:]:
        try:
            if base >= log.log_end or log.head_at(base).stored_ms >= wanted.since_ms:
                break
        except BadRecord:
            break
        needed = base
    return needed


def _complete_record(placed: "PlacedRecord", log: "CommitLog") -> bool:
    """Give the record the rest that it shares with another one; False if that is gone."""
    reference = placed.record.reference
    if reference is not None:
        try:
            placed.record.rest = log.record_at(reference.log_offset).rest
        except BadRecord:
            return False
    return True


def _read_low_watermarks(view: "StoreView") -> dict[tuple[str, int], int]:
    content = read_side_content(view.folders.index, LOW_WATERMARKS)
    return (
        {(topic, queue_id): low_watermark for topic, queue_id, low_watermark, _ in content}
        if isinstance(content, list)
        else {}
    )
