"""Replay: rows of a lake or of files become messages of a topic again, in the order of their times.

    replay.run(spark, ReplayOptions(paths=["lake/data"], to="orders-again", connection=..., rows_per_second=5000))

Rows        those of a table are the live ones of the version that it has when the replay is planned. Files are those
            that a path names at that moment. A run that goes on reads the same, and is refused where it can't.
Steps       the rows are cut by time into slices, and each slice is one write of the sink; what is done is in the
            checkpoint. A step that was killed is sent again with the same ids, so it may repeat messages, each with
            the id that it had, and loses none.
Order       by time from slice to slice. Within a slice each message group is in order; others are sent side by side.
Pace        `speed` 1.0 sends at the pace of the times, 2.0 twice as fast: slices as wide as `tick` wait for their end,
            so no message is sent before its time, and none later than a tick and the time that sending takes.
Ids         new ones, derived from the replay's id and the place that the row came from; `keep_ids` keeps the rows' own.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.journal import StepJournal
from pyspark_ternmq.pipelines.journal_stores import journal_at
from pyspark_ternmq.pipelines.progress import ProgressLine, QueryPosition
from pyspark_ternmq.pipelines.replaying.replay_plan import (
    ReplayPlan,
    make_plan,
    read_plan,
    reopen_snapshots,
    sendable_rows,
    to_micros,
)
from pyspark_ternmq.pipelines.replaying.replay_source import (
    COLUMNS,
    TIME_COLUMNS,
    TIME_US,
    Order,
    WrongRows,
    make_messages,
    without_doubles,
)
from pyspark_ternmq.pipelines.replaying.slices import SlicePace, TimeSlice, join_slices
from pyspark_ternmq.pipelines.sending import in_lanes, send, tasks_of
from pyspark_ternmq.pipelines.snapshots.opening import FORMATS, FileFormat, SourceSnapshots, count_files
from pyspark_ternmq.pipelines.snapshots.snapshot import SourceSnapshot, TableSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.pipelines.connection import PipelineConnection

NAME = "replay"
STEP_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """`since` and `until` (not included) are times by which `order` orders. Neither rate nor speed: as fast as it goes.

    A path in a Delta or Iceberg table is read as that table, for which `tables` has what it takes to open it. Without a
    `checkpoint`, a replay that was stopped can't be continued.
    """

    paths: Sequence[str]
    to: str
    connection: "PipelineConnection"
    file_format: FileFormat | None = None
    tables: TableSettings = field(default_factory=TableSettings)
    order: Order = "stored"
    since: datetime | None = None
    until: datetime | None = None
    rows_per_second: float | None = None
    speed: float | None = None
    tick: timedelta = timedelta(seconds=1)
    step_rows: int = STEP_ROWS
    keep_ids: bool = False
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("paths is empty: name the files or the folder to replay")
        if self.order not in TIME_COLUMNS:
            raise ValueError(f"order={self.order!r} is neither born nor stored")
        if self.file_format not in (None, *FORMATS):
            raise ValueError(f"file_format={self.file_format!r} is none of {', '.join(FORMATS)}")
        self._check_rates()
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name} needs a time zone")

    def _check_rates(self) -> None:
        if self.rows_per_second is not None and self.speed is not None:
            raise ValueError("rows_per_second and speed exclude each other")
        for name in ("rows_per_second", "speed"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name}={value} must be above 0")
        if self.tick < timedelta(milliseconds=100):
            raise ValueError(f"tick={self.tick} must be at least 100 ms: each one is a job of Spark's")
        if self.step_rows < 1:
            raise ValueError(f"step_rows={self.step_rows} must be at least 1")

    def identity(self) -> dict[str, object]:
        """Return the values with which a checkpoint must agree; the rate may change between runs."""
        return {
            "pipeline": "replay",
            "from": list(self.paths),
            "to": self.to,
            "order": self.order,
            "since": to_micros(self.since),
            "until": to_micros(self.until),
            "keep ids": self.keep_ids,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The result of this run: rows sent, out of `steps` in all; `skipped` rows can't be sent, `doubles` are there more
    than once.

    Times are seconds behind the pace.
    """

    replay_id: str
    sent: int
    skipped: int
    doubles: int = 0
    steps: int
    steps_before: int
    latest_s: float | None = None


def run(
    spark: "SparkSession",
    options: ReplayOptions,
    *,
    line: ProgressLine | None = None,
    now_s: Callable[[], float] = time.monotonic,
    wait_s: Callable[[float], None] = time.sleep,
) -> ReplayReport:
    """Send all that the options name and that was not sent before; returns when all of it is stored.

    WrongSource and WrongRows for paths that can't be replayed, JournalError for a checkpoint of something else.
    """
    snapshots = SourceSnapshots(HadoopFiles(spark), options.tables, COLUMNS, options.file_format)
    with _open_journal(spark, options.checkpoint) as journal, line or ProgressLine(NAME) as shown:
        found = list[SourceSnapshot]()

        def make_journal_plan() -> dict[str, Any]:
            found.extend(snapshots.take_now(options.paths))
            return make_plan(spark, options, found).as_json()

        plan = read_plan(journal.load_plan(options.identity(), make_journal_plan), journal)
        _print_plan(plan, shown)
        # The files of a finished plan are not read any more: they may be gone.
        if not found and journal.done < len(plan.slices):
            found = reopen_snapshots(snapshots, plan, journal)
        rows = sendable_rows(spark, options, plan.file_format, found) if found else None
        return _ReplayRun(rows, options, plan, journal, shown, now_s, wait_s).run()


def _print_plan(plan: ReplayPlan, line: ProgressLine) -> None:
    for source in plan.sources:
        if source.table is not None:
            line.print_line(f"from {source.table.text()}, {count_files(source)}")
    if plan.skipped:
        line.print_line(f"{plan.skipped:,} rows can't be sent and are left out: no body, no time, or a corrupt body")
    if plan.doubles:
        line.print_line(f"{plan.doubles:,} rows are of messages that are there more than once, and are left out")


@contextmanager
def _open_journal(spark: "SparkSession", checkpoint: str | None) -> Iterator[StepJournal]:
    if checkpoint is not None:
        with journal_at(spark, checkpoint) as journal:
            yield journal
        return
    with tempfile.TemporaryDirectory(prefix="ternmq-replay-") as folder, journal_at(spark, folder) as journal:
        yield journal


class _ReplayRun:
    """Sends the slices that are left. Invariant: a slice is done in the journal only when all of it is stored."""

    def __init__(
        self,
        rows: "DataFrame | None",
        options: ReplayOptions,
        plan: ReplayPlan,
        journal: StepJournal,
        line: ProgressLine,
        now_s: Callable[[], float],
        wait_s: Callable[[float], None],
    ) -> None:
        self._rows, self._options, self._plan, self._open_journal, self._line = rows, options, plan, journal, line
        self._now_s, self._wait_s = now_s, wait_s
        self._sent, self._latest_s = 0, 0.0

    def run(self) -> ReplayReport:
        before = self._open_journal.done
        left = self._plan.slices[before:]
        pace = self._pace_of(left)
        for group in join_slices(left, self._options.step_rows):
            self._send_group(group, pace)
        return ReplayReport(
            replay_id=self._plan.replay_id,
            sent=self._sent,
            skipped=self._plan.skipped,
            doubles=self._plan.doubles,
            steps=len(self._plan.slices),
            steps_before=before,
            latest_s=self._latest_s if pace else None,
        )

    def _pace_of(self, left: Sequence[TimeSlice]) -> SlicePace | None:
        """A replay that goes on does so with its next slice, not after the time for which it was away."""
        if self._options.speed is None or not left:
            return None
        return SlicePace(self._options.speed, left[0].start_us, self._now_s())

    def _send_group(self, group: Sequence[TimeSlice], pace: SlicePace | None) -> None:
        """Slices that are read at once: reading files for each of many small ones would cost more than sending."""
        assert self._rows is not None, "a plan that is not done has rows"
        # Rows of one message have one time, so each step finds all of them.
        rows = without_doubles(self._rows_between(self._rows, group[0].start_us, group[-1].end_us))
        if len(group) > 1:
            rows = rows.persist()
        try:
            for one in group:
                self._send_slice(rows, one, pace)
        finally:
            if len(group) > 1:
                rows.unpersist()

    def _send_slice(self, rows: "DataFrame", one: TimeSlice, pace: SlicePace | None) -> None:
        prepared = self._prepare_rows(self._rows_between(rows, one.start_us, one.end_us))
        if pace is not None:
            self._wait_for(pace.due_s(one))
        started_s = self._now_s()
        limit = self._options.rows_per_second
        sent = send(
            prepared,
            self._options.connection,
            topic=self._options.to,
            # The steps share one seed, and with it one limit, so that none of them begins with a burst.
            options={} if limit is None else {"rowsPerSecond": str(limit), "idSeed": self._plan.replay_id},
        )
        if sent != one.rows:
            raise WrongRows(
                f"a step sent {sent:,} messages and was planned with {one.rows:,}: files were written over as they "
                "were read; replay what is there now with a new checkpoint"
            )
        self._open_journal.step_is_done()
        if pace is not None:
            self._latest_s = max(self._latest_s, self._now_s() - pace.due_s(one))
        self._show_progress(one, sent, self._now_s() - started_s)

    def _prepare_rows(self, rows: "DataFrame") -> "DataFrame":
        have_places, keep_ids = self._plan.all_have_places, self._options.keep_ids
        ready = make_messages(rows, self._plan.replay_id, keep_ids=keep_ids, all_have_places=have_places)
        lanes = in_lanes(ready, order=[TIME_US, "broker", "queue_id", "offset", "message_id"], tasks=tasks_of(rows))
        return lanes.select("message_id", "body", "keys", "tag", "message_group", "properties")

    def _wait_for(self, due_s: float) -> None:
        wait_s = due_s - self._now_s()
        if wait_s > 0:
            self._wait_s(wait_s)

    def _show_progress(self, one: TimeSlice, sent: int, duration_s: float) -> None:
        self._sent += sent
        steps_left = sum(later.rows for later in self._plan.slices[self._open_journal.done :])
        rate = sent / duration_s if duration_s > 0 else 0.0
        self._line.update(
            QueryPosition(rows=self._sent, rows_per_second=rate, batch=self._open_journal.done - 1, lag=steps_left)
        )

    @staticmethod
    def _rows_between(rows: "DataFrame", start_us: int, end_us: int) -> "DataFrame":
        return rows.where(f.col(TIME_US).between(start_us, end_us - 1))
