"""Writes statistics of topics by windows of time: number, size and latency of messages.

    stats.run(spark, StatsOptions(connection=..., topics=["orders"], out="/data/stats"))

Window      by the time of storing. It is written once, when a message was seen that was stored later than its end and
            `delay` after it; until then it is open, and in the checkpoint. So the last windows of a quiet topic wait
            for more; the report counts their rows.
By          topic, tag or key. A message with several keys counts for each of them; without one, for null.
Latency     from birth to storing, in milliseconds: below 0 where a producer's clock is ahead. Percentiles are within
            one in ten thousand of their rank.
Dropped     messages that are older than what was written already. Spark drops them; their number is in a warning and in
            the report. It is a lower bound: a task's partial sum counts as one. Queues that are read to their end in
            one batch drop nothing; with `max_offsets_per_trigger`, a queue that is read sooner to its end can close
            windows of the others.
To files    each window once, also after a kill: `out/windows/date=...`, committed like the lake's batches.
To a topic  at least once: a window that is sent again has the id that it had, since its id is derived from what it is
            about. A run over the same messages with another checkpoint makes the same ids too.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.lake.commits import BatchCommits, LakeBroken
from pyspark_ternmq.pipelines.lake.lock import FolderLock, LockLost, checkpoint_lock
from pyspark_ternmq.pipelines.progress import BatchErrors, ProgressLine, follow_query
from pyspark_ternmq.pipelines.sending import derived_id, in_lanes, send, tasks_of
from pyspark_ternmq.pipelines.sessions.settings import PARQUET_SETTINGS, session_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from pyspark_ternmq.pipelines.connection import PipelineConnection

Dimension = Literal["topic", "tag", "key"]
DIMENSIONS: tuple[Dimension, ...] = ("topic", "tag", "key")
NAME = "stats"
KIND = "windows"
SOURCE_COLUMNS = (
    "topic string, keys array<string>, tag string, body binary, born_timestamp timestamp, store_timestamp timestamp"
)
JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "timeZone": "UTC"}
DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUERY_ID = "sql.streaming.queryId"
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """`out` is a folder, `to` a topic: at least one of them. Without `trigger` the run ends with what is there now."""

    connection: "PipelineConnection"
    topics: Sequence[str]
    checkpoint: str
    out: str | None = None
    to: str | None = None
    to_tag: str = "stats"
    window: timedelta = timedelta(minutes=1)
    by: Sequence[Dimension] = ("topic", "tag")
    delay: timedelta = timedelta(minutes=10)
    starting: str = "earliest"
    max_offsets_per_trigger: int | None = None
    trigger: timedelta | None = None
    source_options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topics or not all(self.topics):
            raise ValueError("at least one topic is needed, and none may be empty")
        if not self.out and not self.to:
            raise ValueError("out, to or both must say where the windows go")
        if self.to in self.topics:
            raise ValueError(f"to={self.to!r} is one of the topics: the windows would be counted themselves")
        if not self.by or len(set(self.by)) < len(self.by) or not set(self.by) <= set(DIMENSIONS):
            raise ValueError(f"by={','.join(self.by)} must be some of {', '.join(DIMENSIONS)}, each once")
        if self.window < timedelta(milliseconds=1) or self.delay < timedelta(0):
            raise ValueError("window must be at least a millisecond, and delay not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReport:
    """The result of one run: `windows` rows, which are about `messages` messages (by key: about so many keys).

    `waiting` rows are of windows that are still open. A message that is stored at `closes_at` or later lets all of them
    be written.
    """

    windows: int
    messages: int
    batches: int
    dropped: int
    waiting: int = 0
    closes_at: datetime | None = None


def run(spark: "SparkSession", options: StatsOptions, *, line: ProgressLine | None = None) -> StatsReport:
    """Count until all that was there is counted; with a trigger, until the query is stopped.

    Locked if another process works with the same checkpoint.
    """
    files = HadoopFiles(spark)
    with line or ProgressLine(NAME) as shown, checkpoint_lock(files, options.checkpoint) as lock:
        output = _WindowOutput(files, options, shown, lock)
        with session_settings(spark, PARQUET_SETTINGS):
            query = _start_query(spark, options, output)
        with output.errors.raise_errors():
            follow_query(query, shown, on_report=output.count_dropped, on_look=lock.renew_if_due)
    waiting, last_end = _open_windows(spark, files, options.checkpoint)
    return output.make_report(waiting, last_end and last_end + options.delay)


def _open_windows(spark: "SparkSession", files: HadoopFiles, checkpoint: str) -> tuple[int, datetime | None]:
    """How many rows of windows are in the checkpoint and not written yet, and when the last of the windows ends."""
    if not files.files_below(f"{checkpoint}/commits"):
        return 0, None
    state = spark.read.format("statestore").load(checkpoint)
    found = state.agg(f.count(f.lit(1)), f.max(f.unix_micros("key.window.end"))).first()
    assert found is not None, "sums have one row"
    rows, end_us = found
    return rows, None if end_us is None else _EPOCH + timedelta(microseconds=end_us)


def _start_query(spark: "SparkSession", options: StatsOptions, output: "_WindowOutput") -> "StreamingQuery":
    source = spark.readStream.format("ternmq").schema(SOURCE_COLUMNS).options(**options.connection.options())
    source = source.options(**options.source_options).option("subscribe", ",".join(options.topics))
    source = source.option("startingOffsets", options.starting)
    if options.max_offsets_per_trigger is not None:
        source = source.option("maxOffsetsPerTrigger", str(options.max_offsets_per_trigger))
    windows = aggregate_messages(source.load(), window=options.window, by=options.by, delay=options.delay)
    writer: DataStreamWriter = windows.writeStream.outputMode("append").foreachBatch(output.write)
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=_span_text(options.trigger)).start()


def aggregate_messages(
    messages: "DataFrame", *, window: timedelta, by: Sequence[Dimension], delay: timedelta
) -> "DataFrame":
    """One row for each window and what `by` names; the same for a batch and for a stream."""
    if "key" in by:
        messages = messages.withColumn("key", f.explode_outer("keys"))
    latency = f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp")
    messages = messages.withColumn("latency_ms", latency).withWatermark("store_timestamp", _span_text(delay))
    percentiles = f.percentile_approx("latency_ms", list(_PERCENTILES.values()))
    counted = messages.groupBy(f.window("store_timestamp", _span_text(window)), *by).agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum(f.length("body").cast("bigint")).alias("body_bytes"),
        f.min("latency_ms").alias("latency_min_ms"),
        f.avg("latency_ms").alias("latency_avg_ms"),
        percentiles.alias("percentiles"),
        f.max("latency_ms").alias("latency_max_ms"),
    )
    return counted.select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        *by,
        "messages",
        "body_bytes",
        "latency_min_ms",
        "latency_avg_ms",
        *(f.col("percentiles")[place].alias(f"latency_{name}_ms") for place, name in enumerate(_PERCENTILES)),
        "latency_max_ms",
    )


def as_messages(windows: "DataFrame", *, by: Sequence[Dimension], tag: str) -> "DataFrame":
    """A message for each window: JSON, with times in ISO 8601, under the topic that it is about as key."""
    subject = [f.col(name) for name in DIMENSIONS if name in by]
    # Numbers: how a timestamp looks depends on the session.
    window = [f.unix_micros(name) for name in ("window_start", "window_end")]
    message_id = derived_id("stats", f.lit(",".join(sorted(by))), *window, *subject)
    key = f.col("topic") if "topic" in by else f.lit(None).cast("string")
    return windows.select(
        message_id.alias("message_id"),
        f.to_json(f.struct(*windows.columns), JSON).alias("body"),
        key.alias("keys"),
        f.lit(tag).alias("tag"),
        f.lit(None).cast("string").alias("message_group"),
    )


class _WindowOutput:
    """Writes batches of windows, and counts what this run wrote."""

    def __init__(self, files: HadoopFiles, options: StatsOptions, line: ProgressLine, lock: FolderLock) -> None:
        self._files, self._options, self._line, self._lock = files, options, line, lock
        self._commits: BatchCommits | None = None
        self._windows = self._messages = self._batches = self._dropped = 0
        self.errors = BatchErrors(LakeBroken, LockLost)

    def write(self, batch: "DataFrame", number: int) -> None:
        """Write a batch; Spark calls it again for a batch that was unfinished when the last run ended."""
        with self.errors.note_errors():
            self._write_batch(batch, number)

    def _write_batch(self, batch: "DataFrame", number: int) -> None:
        batch.persist()
        try:
            windows, messages = batch.agg(f.count(f.lit(1)), f.coalesce(f.sum("messages"), f.lit(0))).first()  # type: ignore[misc]
            if windows:
                self._write_files(batch, number, windows)
                self._send_batch(batch)
        finally:
            batch.unpersist()
        self._windows += windows
        self._messages += messages
        self._batches += 1

    def count_dropped(self, progress: Mapping[str, Any]) -> None:
        """Count the dropped rows in Spark's report of a batch."""
        dropped = sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"])
        if dropped:
            self._dropped += dropped
            self._line.print_line(
                f"WARNING: at least {dropped:,} messages of batch {progress['batchId']} are in no window: they came "
                f"later than {self._options.delay} after others; choose a longer delay"
            )

    def make_report(self, waiting: int, closes_at: datetime | None) -> StatsReport:
        return StatsReport(
            windows=self._windows,
            messages=self._messages,
            batches=self._batches,
            dropped=self._dropped,
            waiting=waiting,
            closes_at=closes_at,
        )

    def _write_files(self, batch: "DataFrame", number: int, windows: int) -> None:
        if self._options.out is None:
            return
        commits = self._commits_of(batch, self._options.out)
        if commits.is_committed(number):
            return

        def write(folder: str) -> tuple[dict[str, int], int]:
            rows = batch.withColumn("kind", f.lit(KIND)).withColumn("date", _date_column("window_start"))
            writer = rows.coalesce(1).write.partitionBy("kind", "date").option("compression", "zstd")
            writer.parquet(folder)
            return {KIND: windows}, time.time_ns() // 1_000_000

        commits.commit(number, write)

    def _commits_of(self, batch: "DataFrame", out: str) -> BatchCommits:
        """Known with the first batch: a new query gets its id when it starts."""
        if self._commits is None:
            query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
            assert query is not None, "Spark tells the id of the query in every batch"
            self._commits = BatchCommits(self._files, self._files.qualify_path(out), query, self._lock)
            self._commits.finish_commits()
        return self._commits

    def _send_batch(self, batch: "DataFrame") -> None:
        if self._options.to is None:
            return
        messages = as_messages(batch, by=self._options.by, tag=self._options.to_tag)
        lanes = in_lanes(messages, order=["message_id"], tasks=tasks_of(batch)).drop("message_group")
        send(lanes, self._options.connection, topic=self._options.to)


def _date_column(moment: str) -> "Column":
    """Convert to UTC from the session's zone."""
    return f.date_from_unix_date(f.floor(f.unix_seconds(moment) / DAY_S).cast("int"))


def _span_text(span: timedelta) -> str:
    return f"{span // timedelta(milliseconds=1)} milliseconds"
