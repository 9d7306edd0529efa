"""Dead letters of a group: what they are, and, repaired by a function of the user, back to the topics they came from.

    dlq.run(spark, DlqOptions(connection=..., group="billing"))                                    look
    dlq.run(spark, DlqOptions(connection=..., group="billing", repair=add_currency))               rehearse
    dlq.run(spark, DlqOptions(connection=..., group="billing", repair=add_currency, send=True, checkpoint="..."))

Once        a letter is handled once by a checkpoint: sent, left or failed. The decisions are stored before the first
            message is sent, so that a run that goes on sends the same and asks the function no second time.
Ids         a letter that is sent is a new message, with an id derived from the letter's place and id. A step that was
            killed sends its letters again with the same ids; so does another checkpoint.
Letters     stay in the dead letter topic, which is a log. Unlike `ternmq dlq resend`, this sends to the topic that a
            letter came from, for all of its groups: a message that was changed can't go to the retry topic.
Refused     letters for topics that are not there, or take messages of another type, fail one by one; any other error of
            a broker refuses ends the run with its words, and the next run goes on with that step.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.administration import PipelineAdministrator
from pyspark_ternmq.pipelines.dead_letters.dlq_repair import (
    FAILED,
    LEFT,
    OUTCOME_SCHEMA,
    READY,
    SENT,
    Letter,
    Repair,
    load_repair,
    repair_letters,
    send_unchanged,
)
from pyspark_ternmq.pipelines.dead_letters.dlq_report import (
    Analysis,
    LetterFailure,
    analysis_of,
    failures_of,
    write_report,
)
from pyspark_ternmq.pipelines.dead_letters.dlq_topics import checked_topics
from pyspark_ternmq.pipelines.journal import StepJournal
from pyspark_ternmq.pipelines.journal_stores import journal_at
from pyspark_ternmq.pipelines.progress import ProgressLine, QueryPosition
from pyspark_ternmq.pipelines.sending import derived_id, in_lanes, send, tasks_of
from pyspark_ternmq.pipelines.sessions.settings import PARQUET_SETTINGS, session_settings
from pyspark_ternmq.source.offsets.splitting import limit_end
from pyspark_ternmq.source.topics import queue_name
from ternmq import NotFound
from ternmq_common.names import dead_letter_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.pipelines.connection import PipelineConnection

__all__ = ["DlqOptions", "DlqReport", "Letter", "run"]

NAME = "dlq"
STEP_ROWS = 10_000
# More are in the report that is written to files.
FAILURES_MAX = 100
COLUMNS = (
    "broker string, queue_id int, offset bigint, message_id string, keys array<string>, tag string, "
    "message_group string, body binary, properties map<string,string>, born_timestamp timestamp, "
    "store_timestamp timestamp, corrupt string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqOptions:
    """`repair` is a function or its name, `module:function`; `limit` the most letters of one run, the oldest first."""

    connection: "PipelineConnection"
    group: str
    repair: Repair | str | None = None
    send: bool = False
    report: str | None = None
    checkpoint: str | None = None
    limit: int | None = None
    step_rows: int = STEP_ROWS

    def __post_init__(self) -> None:
        if self.send and self.checkpoint is None:
            raise ValueError("send needs a checkpoint: it knows which letters were sent")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit={self.limit} must be at least 1")
        if self.step_rows < 1:
            raise ValueError(f"step_rows={self.step_rows} must be at least 1")

    @property
    def topic(self) -> str:
        return dead_letter_topic(self.group)

    def repair_function(self) -> Repair | None:
        return load_repair(self.repair) if isinstance(self.repair, str) else self.repair


@dataclass(slots=True, kw_only=True)
class DlqReport:
    """The result of one run; `ready` letters would be sent. `missing` were gone when they were to be read.

    `failures` are the first letters of those that `failed`, with the reason.
    """

    letters: int = 0
    sent: int = 0
    ready: int = 0
    left: int = 0
    failed: int = 0
    missing: int = 0
    analysis: Analysis = field(default_factory=Analysis)
    failures: list[LetterFailure] = field(default_factory=list)

    def add_letters(self, letters: "DataFrame") -> dict[str | None, int]:
        """Count letters with their outcomes; how many there are of each."""
        outcomes, analysis = analysis_of(letters)
        if outcomes.get(FAILED):
            self.failures += failures_of(letters, FAILURES_MAX - len(self.failures))
        self.letters += sum(outcomes.values())
        self.sent += outcomes.get(SENT, 0)
        self.ready += outcomes.get(READY, 0)
        self.left += outcomes.get(LEFT, 0)
        self.failed += outcomes.get(FAILED, 0)
        self.analysis.update(analysis)
        return outcomes

    def merge_step(self, step: "DlqReport") -> None:
        """Add what a step did, once it is done."""
        for name in ("letters", "sent", "ready", "left", "failed", "missing"):
            setattr(self, name, getattr(self, name) + getattr(step, name))
        self.analysis.update(step.analysis)
        self.failures += step.failures[: FAILURES_MAX - len(self.failures)]


def run(spark: "SparkSession", options: DlqOptions, *, line: ProgressLine | None = None) -> DlqReport:
    """Read the letters, and send them if `options` say so."""
    repair = options.repair_function()
    with (
        PipelineAdministrator.at(options.connection) as admin,
        session_settings(spark, PARQUET_SETTINGS),
        line or ProgressLine(NAME) as shown,
    ):
        if not options.send:
            return _count_letters(spark, options, admin, repair)
        assert options.checkpoint is not None
        with journal_at(spark, options.checkpoint) as journal:
            return _LetterSending(spark, options, admin, journal, shown, repair or send_unchanged).run()


def _letter_ranges(admin: PipelineAdministrator, options: DlqOptions) -> tuple[dict[str, int], dict[str, int]]:
    """Return the range of the letters at each broker; none if no letter ever came. Raises `NotFound` without such a
    group."""
    try:
        queues = admin.queues(options.topic)
    except NotFound:
        admin.describe_group(options.group)
        return {}, {}
    names = [queue_name(queue) for queue in queues]
    starts, ends = admin.offsets(queues, "earliest"), admin.offsets(queues, "latest")
    return dict(zip(names, starts, strict=True)), dict(zip(names, ends, strict=True))


def _read_letters(
    spark: "SparkSession", options: DlqOptions, starts: Mapping[str, int], ends: Mapping[str, int]
) -> "DataFrame":
    source = spark.read.format("ternmq").schema(COLUMNS).options(**options.connection.options())
    letters = source.options(
        subscribe=options.topic,
        startingOffsets=json.dumps({options.topic: dict(starts)}),
        endingOffsets=json.dumps({options.topic: dict(ends)}),
        failOnDataLoss="false",
    ).load()
    place = [f.col(name) for name in ("broker", "queue_id", "offset", "message_id")]
    return letters.withColumn("new_message_id", derived_id("dlq", f.lit(options.group), *place))


def _count_letters(
    spark: "SparkSession", options: DlqOptions, admin: PipelineAdministrator, repair: Repair | None
) -> DlqReport:
    """Read all letters and send none."""
    report = DlqReport()
    starts, ends = _letter_ranges(admin, options)
    if options.limit is not None and ends:
        ends = limit_end({options.topic: starts}, {options.topic: ends}, options.limit)[options.topic]
    if starts == ends:
        return report
    decided = repair_letters(_read_letters(spark, options, starts, ends), repair or send_unchanged).persist()
    try:
        outcomes = _letters_undecided(decided) if repair is None else checked_topics(decided, admin)
        report.add_letters(outcomes)
        if options.report is not None:
            write_report(outcomes, options.report, uuid.uuid4().hex[:8])
    finally:
        decided.unpersist()
    report.missing = sum(ends.values()) - sum(starts.values()) - report.letters
    return report


def _letters_undecided(letters: "DataFrame") -> "DataFrame":
    """Report the letters only, since there is no repair function."""
    none = f.lit(None).cast("string")
    return letters.withColumns(dict.fromkeys(("outcome", "why", "to_topic", "new_message_id"), none))


class _LetterSending:
    """Works through the letters in steps. Invariant: what a step decided is kept before its first message is sent."""

    def __init__(
        self,
        spark: "SparkSession",
        options: DlqOptions,
        admin: PipelineAdministrator,
        journal: StepJournal,
        line: ProgressLine,
        repair: Repair,
    ) -> None:
        self._spark, self._options, self._admin, self._line = spark, options, admin, line
        self._journal, self._repair = journal, repair
        self._report = DlqReport()

    def run(self) -> DlqReport:
        identity = {"pipeline": "dlq", "group": self._options.group}
        run_id = self._journal.load_plan(identity, lambda: uuid.uuid4().hex[:8])
        # A kill may have come between the end of a step and the removal of what it had kept.
        self._journal.store.remove_folder(self._staging_folder(self._journal.done - 1))
        firsts, ends = _letter_ranges(self._admin, self._options)
        positions = self._start_positions(firsts)
        if self._options.limit is not None and ends:
            ends = self._limit_ends(positions, ends, self._options.limit)
        # A step that was begun before is done as it was settled, even if it goes beyond this run's limit.
        while self._journal.kept_value(self._range_name()) or any(positions[name] < end for name, end in ends.items()):
            positions = self._send_step(run_id, positions, ends)
        if self._report.missing:
            self._line.print_line(f"{self._report.missing:,} letters were not there any more when they were to be read")
        return self._report

    def _start_positions(self, firsts: Mapping[str, int]) -> dict[str, int]:
        """Return where the last finished step ended; new brokers begin at their first letter."""
        done = self._journal.kept_value(self._range_name(self._journal.done - 1)) or {"ends": {}}
        return {name: max(first, done["ends"].get(name, first)) for name, first in firsts.items()}

    def _limit_ends(self, starts: Mapping[str, int], ends: Mapping[str, int], rows_max: int) -> dict[str, int]:
        topic = self._options.topic
        return limit_end({topic: dict(starts)}, {topic: dict(ends)}, rows_max)[topic]

    def _range_name(self, step: int | None = None) -> str:
        return f"step-{self._journal.done if step is None else step:06}.json"

    def _send_step(self, run_id: str, positions: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        """Decide, send, report, and then call it done; where the next one begins."""
        started_s = time.monotonic()
        settled = self._journal.keep_value(
            self._range_name(),
            lambda: {"starts": dict(positions), "ends": self._limit_ends(positions, ends, self._options.step_rows)},
        )
        staged = self._stage_outcomes(settled)
        outcomes = checked_topics(staged, self._admin)
        self._send_letters(outcomes)
        handled = outcomes.withColumn("outcome", f.when(f.col("outcome") == READY, SENT).otherwise(f.col("outcome")))
        step = DlqReport()
        counts = step.add_letters(handled)
        if self._options.report is not None:
            write_report(handled, self._options.report, f"{run_id}-{self._journal.done:06}")
        expected = sum(settled["ends"].values()) - sum(settled["starts"].values())
        self._finish_step()
        self._report.merge_step(step)
        self._report.missing += expected - sum(counts.values())
        self._show_progress(settled["ends"], ends, expected / (time.monotonic() - started_s))
        return {**positions, **settled["ends"]}

    def _stage_outcomes(self, settled: Mapping[str, Mapping[str, int]]) -> "DataFrame":
        """The decisions of the repair function about the letters of a step; it is called once."""
        store = self._journal.store
        folder = store.folder_of(self._staging_folder())
        if not store.has_folder(self._staging_folder()):
            starts, ends = self._all_queues(settled)
            letters = _read_letters(self._spark, self._options, starts, ends)
            repair_letters(letters, self._repair).write.mode("overwrite").parquet(folder)
        return self._spark.read.schema(OUTCOME_SCHEMA).parquet(folder)

    def _all_queues(self, settled: Mapping[str, Mapping[str, int]]) -> tuple[dict[str, int], dict[str, int]]:
        """The source also wants offsets for brokers that were added after the step was decided."""
        names = [queue_name(queue) for queue in self._admin.queues(self._options.topic)]
        starts, ends = settled["starts"], settled["ends"]
        return {name: starts.get(name, 0) for name in names}, {name: ends.get(name, 0) for name in names}

    def _staging_folder(self, step: int | None = None) -> str:
        return f"step-{self._journal.done if step is None else step:06}"

    def _send_letters(self, outcomes: "DataFrame") -> None:
        ready = outcomes.where(f.col("outcome") == READY).select(
            f.col("new_message_id").alias("message_id"),
            f.col("to_topic").alias("topic"),
            f.col("new_body").alias("body"),
            f.col("new_keys").alias("keys"),
            f.col("new_tag").alias("tag"),
            f.col("new_message_group").alias("message_group"),
            f.col("new_properties").alias("properties"),
            f.col("new_delivery_timestamp").alias("delivery_timestamp"),
            "broker",
            "queue_id",
            "offset",
        )
        lanes = in_lanes(ready, order=["broker", "queue_id", "offset"], tasks=tasks_of(ready))
        send(lanes.drop("broker", "queue_id", "offset"), self._options.connection)

    def _finish_step(self) -> None:
        staging, before = self._staging_folder(), self._range_name(self._journal.done - 1)
        self._journal.step_is_done()
        # The decisions are in the report, and the range of this step says where the next one begins.
        self._journal.store.remove_folder(staging)
        self._journal.remove_value(before)

    def _show_progress(self, position: Mapping[str, int], ends: Mapping[str, int], rate: float) -> None:
        lag = sum(max(0, end - position.get(name, 0)) for name, end in ends.items())
        self._line.update(
            QueryPosition(rows=self._report.letters, rows_per_second=rate, batch=self._journal.done - 1, lag=lag)
        )
