"""The writers that Spark calls: one object for a write, whose `write` runs for each partition on the executors.

Guarantee   at least once. A task returns when the broker has stored all its rows; Spark runs a failed task again,
            and a batch of a stream that wasn't committed is run again after a restart. The rows that had been stored
            before are then stored again, under the same message ids, so that readers can drop them.
Same ids    need the same rows at the same places: a batch of a stream that comes from a source whose offsets are in the
            checkpoint and is not shuffled, for example. Where rows have ids of their own, in the column `message_id`,
            those count.
Commit      no message waits for it, and there is nothing that `abort` could undo.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.sink.columns import RowColumns, checked_columns
from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.sink.ids import DerivedIds
from pyspark_ternmq.sink.options import SinkOptions, sink_options
from pyspark_ternmq.sink.pace import WritePace, remove_pace
from pyspark_ternmq.sink.plain_rows import plain_requests
from pyspark_ternmq.sink.producers import TaskProducers
from pyspark_ternmq.sink.rows import RowReader
from pyspark_ternmq.sink.sending import RequestSender

# Spark's local properties of the jobs of a streaming query.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class WriteResult(WriterCommitMessage):
    """The result of one task."""

    rows: int


@dataclass(frozen=True, slots=True)
class WritePlan:
    """All that a task has to know.

    `seed` is what ids are derived from; None in a stream without `idSeed`: only its tasks know the query's id.
    """

    options: SinkOptions
    columns: RowColumns
    seed: str | None

    @in_one_line()
    def write(self, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Send one partition; returns when all of it is stored."""
        first = next(batches, None)
        if first is None:
            return WriteResult(0)  # without a producer: most of a quiet stream's partitions are empty
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        return asyncio.run(_write_partition(self, context, first, batches))

    def forget_pace(self) -> None:
        """The end of a batch write, on the driver."""
        if self.options.rows_per_second is not None and self.seed is not None:
            remove_pace(_pace_name(self.seed, self.options))


class BatchWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteResult:
        return self._plan.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All rows are stored already; only the file of the pace is removed."""
        self._plan.forget_pace()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._plan.forget_pace()


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteResult:
        return self._plan.write(iterator)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """The writer of a batch: its ids are its own, unless option `idSeed` names what they are derived from."""
    if overwrite:
        raise WrongOption("messages can't be overwritten, only appended: use mode('append')")
    parsed = sink_options(options)
    return BatchWriter(WritePlan(parsed, _columns_of(parsed, schema), parsed.id_seed or str(uuid.uuid4())))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """The writer of a stream: its ids come from the query's id, which its checkpoint keeps, or from `idSeed`."""
    if overwrite:
        raise WrongOption(
            "messages can't be overwritten, only appended: use outputMode('append') or 'update', not 'complete'"
        )
    parsed = sink_options(options)
    return StreamWriter(WritePlan(parsed, _columns_of(parsed, schema), parsed.id_seed))


def _columns_of(parsed: SinkOptions, schema: StructType) -> RowColumns:
    return checked_columns(
        schema, topic=parsed.topic, kafka_names=parsed.kafka_names, ignores_source=parsed.ignores_source
    )


async def _write_partition(
    plan: WritePlan, context: TaskContext, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> WriteResult:
    log_as_spark()
    options, partition, seed = plan.options, context.partitionId(), _seed_of(plan, context)
    reader = RowReader(
        columns=plan.columns,
        topic=options.topic,
        partition=partition,
        ids=DerivedIds(seed, partition=partition, epoch=_batch_number(context)),
        lanes=options.max_in_flight,
        request_rows=options.batch_size,
        groups_by_key=options.groups_by_key,
    )
    rows = 0
    async with (
        TaskProducers(options) as producers,
        RequestSender(
            producers.producer_for,
            partition=partition,
            max_in_flight=options.max_in_flight,
            delivery_timeout_s=options.delivery_timeout_s,
        ) as sender,
    ):
        with _open_pace(seed, options) as pace:
            async for batch in _read_ahead(first, rest):
                for request in plain_requests(reader, batch, rows) or reader.read_requests(batch, rows):
                    if pace is not None:
                        await asyncio.sleep(pace.take_rows(len(request.rows)))
                    await sender.put(request)
                rows += batch.num_rows
    return WriteResult(rows)


async def _read_ahead(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    """The batches, each of which is read by a thread while the one before is being sent."""
    batch: pa.RecordBatch | None = first
    while batch is not None:
        reading = asyncio.create_task(asyncio.to_thread(next, rest, None))
        yield batch
        batch = await reading


def _open_pace(seed: str, options: SinkOptions) -> "closing[WritePace] | nullcontext[None]":
    if options.rows_per_second is None:
        return nullcontext()
    return closing(WritePace(_pace_name(seed, options), options.rows_per_second))


def _pace_name(seed: str, options: SinkOptions) -> str:
    return f"{seed} {options.topic}"


def _seed_of(plan: WritePlan, context: TaskContext) -> str:
    seed = plan.seed or context.getLocalProperty(QUERY_ID)
    if seed is None:
        raise WriteFailed(f"Spark gives no id of the query (local property {QUERY_ID}); set option idSeed")
    return seed


def _batch_number(context: TaskContext) -> int:
    """The number of the micro-batch, also for a batch write inside of `foreachBatch`; 0 outside of streams."""
    return int(context.getLocalProperty(BATCH_ID) or 0)
