"""Compares the runs of the timer index with the log.

Runs        Every block must have its checksum, and every entry a TIMER record of that due time, size and id.
Pending     The index must have the same pending timers as the log: as many, and with the same sum of their log offsets,
            since there may be too many to keep. It is not compared where records are damaged.
Unfinished  A merge or spill that was cut short leaves a file that is not whole. That is no damage where other runs
            cover its part of the log, or where a broker is writing it.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.log.record import BadRecord, RecordKind
from ternmq_broker.store.timers.timer_jobs import BEHIND_ALL
from ternmq_broker.store.timers.timer_run import ROW, BadRun, RunName, TimerRun, id_hash
from ternmq_broker.store.timers.timer_runs import TimerRuns
from ternmq_broker.store_tools.checking.findings import StoreFinding, StoreFindings, StorePart

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import StoreFile
    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.timers.timer_run import RunRow
    from ternmq_broker.store_tools.checking.damaged_places import DamagedPlaces
    from ternmq_broker.store_tools.progress import ProgressSteps
    from ternmq_broker.store_tools.store_view import StoreView

_AT_ONCE = 1 << 15
_SCAN = 1 << 16
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class PendingTimers:
    """A count and a sum of log offsets, equal for equal sets of timers."""

    def __init__(self) -> None:
        self.count = self._sum = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingTimers) and (self.count, self._sum) == (other.count, other._sum)

    __hash__ = None  # type: ignore[assignment]

    def add_timer(self, log_offset: int, count: int = 1) -> None:
        self.count += count
        self._sum = (self._sum + count * ((log_offset + 1) * _MIX ^ log_offset)) & _MASK

    def count_record(self, placed: "PlacedRecord", log_start: int) -> None:
        """Count the timer that a record of the log adds, or settles."""
        record = placed.record
        if record.kind is RecordKind.TIMER:
            self.add_timer(placed.log_offset)
        if record.origin is not None and record.origin.due_ms and record.origin.log_offset >= log_start:
            self.add_timer(record.origin.log_offset, -1)


def check_runs(
    view: "StoreView", log: "CommitLog", places: "DamagedPlaces", findings: StoreFindings, stepping: "ProgressSteps"
) -> int:
    """Check every run that a start would use; return how many entries they have."""
    runs = TimerRuns(view.folders.timers)
    files = {
        name: view.folders.timers.open(str(name))
        for name in map(RunName.parse_name, view.folders.timers.names())
        if name
    }
    runs.load_chain(log_start=log.log_start, log_end=log.log_end)
    in_use = [run.name for run in runs.run_chain]
    for name, file in files.items():
        is_obsolete = any(used.log_from <= name.log_from and name.log_to <= used.log_to for used in in_use)
        if name not in in_use and name.log_to > log.log_start and not is_obsolete:
            _check_unused(name, file, log.log_end, findings, is_running=view.is_running)
    entries = 0
    for run in runs.run_chain:
        waiting: list[RunRow] = []
        for rows in run.read_pieces((0, 0), BEHIND_ALL):
            waiting += rows
            entries += len(rows)
            if len(waiting) >= _AT_ONCE:
                _check_entries(run, waiting, log, places, findings)
                stepping.add_bytes(len(waiting) * ROW.size)
                waiting = []
        _check_entries(run, waiting, log, places, findings)
        stepping.add_bytes(len(waiting) * ROW.size)
    return entries


def _check_unused(name: RunName, file: "StoreFile", log_end: int, findings: StoreFindings, *, is_running: bool) -> None:
    """Report a run that a start would remove, and whose part of the log no other run covers."""
    try:
        run = TimerRun(name, file)
        run.check_blocks()
        reason = f"the run covers the log up to {run.relies_on_log_to}, which ends at {log_end}"
        if run.relies_on_log_to <= log_end:
            reason = "the run does not begin where those before it end"
    except BadRun as error:
        if is_running:
            return
        reason = str(error).partition(": ")[2]
    findings.add_finding(StoreFinding(StorePart.TIMERS, f"timers/{name}", reason))


def _check_entries(
    run: TimerRun, rows: "list[RunRow]", log: "CommitLog", places: "DamagedPlaces", findings: StoreFindings
) -> None:
    for due_ms, log_offset, size, wanted_hash in sorted(rows, key=lambda row: row[1]):
        if not size or log_offset < log.log_start or places.place_holding(log_offset) is not None:
            continue
        try:
            placed = log.placed_at(log_offset) if log_offset < log.log_end else None
        except BadRecord as error:
            findings.add_finding(
                StoreFinding(StorePart.TIMERS, f"timers/{run.name}", f"its record {error}", log_offset, size)
            )
            continue
        if placed is None or placed.record.kind is not RecordKind.TIMER:
            reason = "the run has a timer where the log has none"
        elif (placed.record.due_ms, placed.size) != (due_ms, size):
            reason = "the run has another due time or size for this timer"
        elif id_hash(keys_of(placed.record.system)[0]) != wanted_hash:
            reason = "the run has another message id for this timer"
        else:
            continue
        findings.add_finding(StoreFinding(StorePart.TIMERS, f"timers/{run.name}", reason, log_offset, size))


def count_pending(store: "MessageStore") -> PendingTimers:
    """Count what a start would find pending."""
    pending = PendingTimers()
    start = None
    while True:
        job = store.indexes.timers.prepare_scan(store.log.log_end, start=start, limit=_SCAN)
        job.run_job()
        found, start = store.indexes.timers.finish_scan(job)
        for entry in found:
            pending.add_timer(entry.log_offset)
        if start is None:
            return pending


def check_pending(
    by_log: PendingTimers, store: "MessageStore", places: "DamagedPlaces", findings: StoreFindings
) -> PendingTimers:
    """Report whether index and log disagree; return what is pending by the index."""
    by_index = count_pending(store)
    began = store.indexes.timers.checkpoint_content()["log_start"]
    assert isinstance(began, int)
    if by_index != by_log and not places.has_any and began <= store.log.log_start:
        reason = f"{by_log.count} timers are pending by the log, and {by_index.count} by the timer index"
        if by_log.count == by_index.count:
            reason = f"{by_log.count} timers are pending, and the timer index has others than the log"
        findings.add_finding(StoreFinding(StorePart.TIMERS, "timers", reason))
    return by_index
