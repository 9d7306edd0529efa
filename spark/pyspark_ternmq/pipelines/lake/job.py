"""The lake pipeline as a Spark query: from the source to a committed batch.

Batch again     Spark runs a batch again unless it knows that it ended. A batch that was committed before is not written
                a second time, but its rows are computed once more if ids are remembered: the next batch needs what this
                one remembers, and how much of it a killed run had kept is Spark's own affair.
One pass        a batch is computed once: a second action would run its state twice. So all kinds are written together,
                and counted on the way.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.lake import compaction
from pyspark_ternmq.pipelines.lake.classification import (
    PARTITION,
    TAKEN,
    checked_schema,
    classify_messages,
    drop_duplicates,
)
from pyspark_ternmq.pipelines.lake.commits import BESIDE, KINDS, BatchCommits, LakeBroken, last_taken_ms
from pyspark_ternmq.pipelines.lake.lock import FolderLock, Locked, LockLost, LockOwner, checkpoint_lock
from pyspark_ternmq.pipelines.lake.options import MALFORMED_MIN, LakeOptions, LakeReport
from pyspark_ternmq.pipelines.lake.options import Format as LakeFormat
from pyspark_ternmq.pipelines.lake.subject_schema import settle_format
from pyspark_ternmq.pipelines.lake.tables.opening import opened_tables
from pyspark_ternmq.pipelines.progress import BatchErrors, ProgressLine, follow_query
from pyspark_ternmq.pipelines.sessions.settings import PARQUET_SETTINGS, session_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyspark_ternmq.decoding.columns import BodyFormat

NAME = "lake"
REASONS_MAX = 3
# A batch without rows would only make Spark forget ids; the next one with rows does that as well.
QUERY_SETTINGS = {"spark.sql.streaming.noDataMicroBatches.enabled": "false", **PARQUET_SETTINGS}


class TooManyMalformed(Exception):
    """More of a batch is malformed than the options allow, as if the schema were another one."""


def run(spark: "SparkSession", options: LakeOptions, *, line: ProgressLine | None = None) -> LakeReport:
    """Run until what is there is in the lake, or for ever with a trigger; `line` shows how far it is.

    Locked if another process has the checkpoint. ValueError for a schema that is none, and for a folder or tables
    of another format or with other types. RegistryFailed if a subject's schema can't be looked up. TooManyMalformed,
    LakeBroken and LockLost if a batch is not written.
    """
    if options.json_schema is not None:
        checked_schema(options.json_schema)
    files = HadoopFiles(spark)
    report = LakeReport()
    with line or ProgressLine(NAME) as shown:
        with checkpoint_lock(files, options.checkpoint_folder) as lock:
            _run_query(spark, options, files, lock, report, shown)
        if options.compaction is not None:
            _compact_lake(spark, options, report, shown)
    return report


def _run_query(
    spark: "SparkSession",
    options: LakeOptions,
    files: HadoopFiles,
    lock: FolderLock,
    report: LakeReport,
    line: ProgressLine,
) -> None:
    root = files.qualify_path(options.out)
    decoding = settle_format(files, root, options.decoding)
    rows = _source_rows(spark, options, decoding, not_before_ms=last_taken_ms(files, root))
    tables = opened_tables(files, root, options, rows, line.print_line)
    if options.format == "parquet":
        _heal_compaction(files, root)
    writer = _BatchWriter(spark, options, report, line)
    query = _start_query(spark, options, rows, writer)
    try:
        commits = BatchCommits(files, root, str(query.id), lock, tables)
        commits.finish_commits()
    except BaseException as error:
        writer.commits.set_exception(error)
        query.stop()
        raise
    writer.commits.set_result(commits)
    with writer.errors.raise_errors():
        follow_query(
            query, line, rows=lambda: writer.rows_in, on_report=writer.count_duplicates, on_look=lock.renew_if_due
        )


def _source_rows(
    spark: "SparkSession", options: LakeOptions, decoding: "BodyFormat | None", *, not_before_ms: int
) -> "DataFrame":
    messages = spark.readStream.format("ternmq").options(**source_options(options)).load()
    rows = classify_messages(
        messages,
        event_time=options.event_time,
        lateness=options.lateness,
        json_schema=options.json_schema,
        decoding=decoding,
    )
    return drop_duplicates(rows, options.dedup_window, not_before_ms=not_before_ms)


def _start_query(
    spark: "SparkSession", options: LakeOptions, rows: "DataFrame", writer: "_BatchWriter"
) -> "StreamingQuery":
    stream = rows.writeStream.foreachBatch(writer.write)
    # One session may have several, each with a name of its own.
    stream = stream.queryName(f"{NAME} {options.out}").option("checkpointLocation", options.checkpoint_folder)
    if options.trigger is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{round(options.trigger.total_seconds() * 1000)} milliseconds")
    with session_settings(spark, QUERY_SETTINGS):
        return stream.start()


def source_options(options: LakeOptions) -> dict[str, str]:
    """The options of the source."""
    own = {
        "subscribe": ",".join(options.topics),
        "startingOffsets": options.starting,
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "tag": options.tag,
        "filter": options.filter,
        "group": options.group,
    }
    given = {name: str(value) for name, value in own.items() if value is not None}
    return {**options.connection.options(), **given, **options.source_options}


class _BatchWriter:
    """Writes and commits one batch at a time, in the thread that Spark calls for it."""

    def __init__(self, spark: "SparkSession", options: LakeOptions, report: LakeReport, line: ProgressLine) -> None:
        self._spark, self._options, self._report, self._line = spark, options, report, line
        self._written = set[int]()
        self.errors = BatchErrors(LakeBroken, LockLost, TooManyMalformed)
        # The query's id is known once it runs, and it may call before.
        self.commits: Future[BatchCommits] = Future()

    @property
    def rows_in(self) -> int:
        report = self._report
        return report.rows + report.late + report.malformed + report.duplicates

    def write(self, batch: "DataFrame", number: int) -> None:
        """Write a batch; Spark calls it again for a batch that was unfinished when the last run ended."""
        with self.errors.note_errors():
            self._commit_batch(batch, number)

    def _commit_batch(self, batch: "DataFrame", number: int) -> None:
        commits = self.commits.result()
        if commits.is_committed(number):
            if self._options.dedup_window:
                batch.write.format("noop").mode("overwrite").save()
            return
        self._written.add(number)
        manifest = commits.commit(number, lambda folder: self._write_batch(batch, number, folder))
        report, rows = self._report, manifest.rows
        report.rows += rows["data"]
        report.late += rows["late"]
        report.malformed += rows["malformed"]
        report.batches += 1
        report.files += len(manifest.moves)
        is_due = report.batches % self._options.compact_every_batches == 0
        if self._options.compaction is not None and self._options.trigger is not None and is_due:
            _compact_lake(self._spark, self._options, report, self._line)

    def _write_batch(self, batch: "DataFrame", number: int, folder: str) -> tuple[dict[str, int], int]:
        rows, taken_ms = _write_rows(batch, folder, self._options.format)
        if is_too_much(rows, self._options):
            raise TooManyMalformed(
                f"{rows['malformed']:,} of {sum(rows.values()):,} rows of batch {number} are malformed, more than "
                f"{self._options.max_malformed:g} of them: nothing of the batch was written. "
                f"{_frequent_reasons(self._spark, folder)}. Mend the schema, or allow more (--max-malformed)"
            )
        return rows, taken_ms

    def count_duplicates(self, progress: Mapping[str, Any]) -> None:
        """Count the duplicates of a finished batch, unless an earlier run had written it."""
        if progress["batchId"] in self._written:
            self._written.discard(progress["batchId"])
            for operator in progress["stateOperators"]:
                if lost := operator["numRowsDroppedByWatermark"]:
                    raise LakeBroken(
                        f"batch {progress['batchId']} lacks {lost} rows: the clock of this machine went back by more "
                        "than half of the dedup window as the pipeline ran; read them again with a new checkpoint"
                    )
                self._report.duplicates += operator["customMetrics"].get("numDroppedDuplicateRows", 0)


def is_too_much(rows: Mapping[str, int], options: LakeOptions) -> bool:
    """Whether more of a batch is malformed than may be."""
    malformed = rows["malformed"]
    if options.trigger is not None and malformed < MALFORMED_MIN:
        return False
    return malformed > options.max_malformed * sum(rows.values())


def _frequent_reasons(spark: "SparkSession", folder: str) -> str:
    """Return the most frequent reasons of malformed rows in a staged batch."""
    rows = spark.read.parquet(f"{folder}/kind=malformed").groupBy("reason").count()
    found = rows.orderBy(F.desc("count"), "reason").limit(REASONS_MAX).collect()
    return "Most often: " + "; ".join(f"{row['count']:,} x {row['reason']}" for row in found)


def _write_rows(batch: "DataFrame", folder: str, table_format: LakeFormat) -> tuple[dict[str, int], int]:
    """All rows of a batch below a folder, by kind and partition; how many there are of each kind, and their time."""
    observation = Observation()
    counts = [F.count_if(F.col("kind") == kind).alias(kind) for kind in KINDS]
    time = F.max(F.unix_millis(TAKEN)) if TAKEN in batch.columns else F.lit(0)
    observed = batch.observe(observation, *counts, time.alias("taken_ms")).drop(TAKEN)
    partition: tuple[str, ...] = PARTITION
    if table_format == "iceberg":
        observed, partition = _with_partition_columns(observed)
    writer = observed.write.partitionBy(*partition).option("compression", "zstd")
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
    found = observation.get
    return {kind: found[kind] for kind in KINDS}, found["taken_ms"] or 0


def _with_partition_columns(rows: "DataFrame") -> tuple["DataFrame", tuple[str, ...]]:
    """Rows whose files will have the columns that they are parted by, and what they are parted by."""
    kind, *parted = PARTITION
    copies = {f"{BESIDE}{name}": F.col(name) for name in parted}
    typed = {"date": F.to_date("date"), "hour": F.col("hour").cast("int")}
    return rows.withColumns(copies).withColumns(typed), (kind, *copies)


def _heal_compaction(files: HadoopFiles, root: str) -> None:
    """Finish the committed swaps of a killed compaction; a live one does it itself."""
    with suppress(Locked), compaction.open_compaction(files, root, LockOwner.this_process()):
        pass


def _compact_lake(spark: "SparkSession", options: LakeOptions, report: LakeReport, line: ProgressLine) -> None:
    """Compact the lake, unless another process compacts it already."""
    assert options.compaction is not None
    try:
        report.compacted_files += compaction.run(spark, options.out, options.compaction).removed
    except Locked as locked:
        line.print_line(f"not compacted: {locked}")
