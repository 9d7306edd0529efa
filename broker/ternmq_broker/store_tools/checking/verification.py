"""Verifies a store: every record, all that is derived from the log, and the files beside it.

Log         Each record's checksums; where none is whole, what a start would do there (`log_walk`).
References  A record that shares the rest of an earlier one: that must be whole, if the log still has it.
Index       Each row and key against its record, each message against the index (`index_check`).
Timers      Each entry of a run against its record, and what is pending in all (`timer_check`).
Halves      Which half messages wait by the log, and by what a start would know.
Beside      Side files, journal, and that no group is beyond the end of its queue (`side_check`).
Memory      What a start needs, a block of the index, and a megabyte of the log at a time.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.disk.checked_file import NewerFormat
from ternmq_broker.store.index.half_index import HalfIndex, decode_checks
from ternmq_broker.store.log.record import BadRecord, RecordKind
from ternmq_broker.store_tools.checking.findings import MessagePlace, StoreFinding, StoreFindings, StorePart
from ternmq_broker.store_tools.checking.index_check import IndexCheck
from ternmq_broker.store_tools.checking.log_walk import CheckedLogWalk
from ternmq_broker.store_tools.checking.side_check import check_journal, check_progress, check_side_files
from ternmq_broker.store_tools.checking.timer_check import PendingTimers, check_pending, check_runs
from ternmq_broker.store_tools.progress import Progress, ProgressSteps, no_progress
from ternmq_broker.store_tools.store_view import open_view
from ternmq_common.names import DISCARD_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store_tools.store_view import StoreView


@dataclass(slots=True)
class VerificationResult:
    """The result of a verification: counts, and the findings.

    `newer_from` is where records of a newer layout begin, if there are any; `index_to` is up to where there is an
    index.
    """

    is_running: bool
    findings: StoreFindings = field(default_factory=StoreFindings)
    log_start: int = 0
    log_end: int = 0
    segments: int = 0
    records: int = 0
    messages: int = 0
    index_to: int = 0
    index_rows: int = 0
    index_keys: int = 0
    timer_entries: int = 0
    pending_timers: int = 0
    waiting_halves: int = 0
    journal_lines: int = 0
    torn_bytes: int = 0
    messages_lost: int = 0
    newer_from: int | None = None
    damage: "list[Range]" = field(default_factory=list)
    accepted: "list[Range]" = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)


def verify_store(directory: "Path", progress: Progress = no_progress, *, is_ours: bool = False) -> VerificationResult:
    """Verify the store of that directory; `is_ours`: the caller has its lock. StartupError, NewerFormat (of a side
    file), OSError.
    """
    with open_view(directory, is_ours=is_ours) as view:
        result = VerificationResult(view.is_running, set_aside=view.folders.set_aside.names())
        timers_bytes = sum(view.folders.timers.open(name).size for name in view.folders.timers.names())
        stepping = ProgressSteps(progress, view.log_bytes + timers_bytes)
        check_side_files(view, result.findings)
        if view.format is None and view.format_problem is not None:
            return result  # records can't be recognized, and check_side_files has reported that
        result.journal_lines = check_journal(view, result.findings)
        _VerificationRun(view, result, stepping).run()
        stepping.finish_steps()
        return result


class _VerificationRun:
    """One walk over the log, then the checks that need all of it."""

    def __init__(self, view: "StoreView", result: VerificationResult, stepping: ProgressSteps) -> None:
        self._view = view
        self._result = result
        self._findings = result.findings
        self._stepping = stepping
        self._walk = CheckedLogWalk(view)
        self._index = IndexCheck(view, self._walk.places, result.findings)
        self._timers = PendingTimers()
        self._halves = HalfIndex()

    def run(self) -> None:
        result, walk, log = self._result, self._walk, self._walk.log
        result.log_start, result.segments = log.log_start, len(log.segment_bases)
        for placed in walk.walk_records():
            self._check_record(placed, log)
        self._index.finish_check()
        result.log_end, result.index_to = walk.end, self._index.covered
        result.index_rows, result.index_keys = self._index.rows, self._index.keys
        result.torn_bytes = walk.torn_bytes
        if walk.newer_records is not None:
            result.newer_from, reason = walk.newer_records
            self._findings.add_finding(
                StoreFinding(StorePart.LOG, f"log offset {result.newer_from}", reason, result.newer_from)
            )
        result.timer_entries = check_runs(self._view, log, walk.places, self._findings, self._stepping)
        if walk.newer_records is None:
            self._check_recovered()
        walk.places.report_to(self._findings, log.log_start)
        result.accepted = walk.places.accepted_places
        result.damage = walk.places.found_places
        result.messages_lost = walk.places.count_lost_messages()

    def _check_record(self, placed: "PlacedRecord", log: "CommitLog") -> None:
        record, log_offset = placed.record, placed.log_offset
        self._result.records += 1
        is_message = record.kind is RecordKind.MESSAGE
        self._result.messages += is_message
        self._index.check_record(placed, keys_of(record.system) if is_message else ())
        if record.reference is not None:
            self._check_reference(placed, log)
        self._timers.count_record(placed, log.log_start)
        self._track_half(placed)
        self._stepping.set_done(log_offset - log.log_start)

    def _check_reference(self, placed: "PlacedRecord", log: "CommitLog") -> None:
        record = placed.record
        assert record.reference is not None
        if record.reference.log_offset < log.log_start:
            return
        reason = None
        try:
            found = log.placed_at(record.reference.log_offset)
            if found.size != record.reference.size:
                reason = f"is {found.size} bytes, and not {record.reference.size}"
        except BadRecord as error:
            reason = str(error)
        if reason is not None:
            message = MessagePlace(record.topic, record.queue_id, record.queue_offset)
            self._findings.add_finding(
                StoreFinding(
                    StorePart.LOG,
                    f"log offset {placed.log_offset}",
                    f"the rest of this record is that of the one at {record.reference.log_offset}, which {reason}",
                    placed.log_offset,
                    placed.size,
                    (message,) if record.kind is RecordKind.MESSAGE else (),
                    accepted=self._walk.places.is_accepted(record.reference.log_offset),
                )
            )

    def _track_half(self, placed: "PlacedRecord") -> None:
        """Track half messages as `DerivedIndexes.note_record` does."""
        record, log_offset = placed.record, placed.log_offset
        if record.kind is RecordKind.HALF_MESSAGE:
            self._halves.add_half(log_offset, placed.size)
        if record.origin is not None and not record.origin.due_ms:
            checks = decode_checks(record.rest) if record.kind is RecordKind.OPERATION else None
            if checks is None:
                discards = record.topic == DISCARD_TOPIC
                self._halves.settle_half(record.origin.log_offset, log_offset, discards=discards)
                self._halves.cover_to(log_offset + 1)  # so that it does not keep the settled one

    def _check_recovered(self) -> None:
        """Check what a start would recover."""
        places = self._walk.places
        try:
            store = self._view.recover_store()
        except NewerFormat as error:
            self._findings.add_finding(StoreFinding(StorePart.LOG, "the log", str(error)))
            return
        self._result.pending_timers = check_pending(self._timers, store, places, self._findings).count
        waiting = store.indexes.halves.waiting
        self._result.waiting_halves = len(waiting)
        if not places.has_any and waiting.keys() != self._halves.waiting.keys():
            reason = f"{len(self._halves.waiting)} wait by the log, and {len(waiting)} by the checkpoint"
            self._findings.add_finding(StoreFinding(StorePart.HALVES, "checkpoint", reason))
        check_progress(self._view, store, self._findings)
