"""Reads the offsets of one task from the broker and yields record batches for Spark. Runs on the executors.

Offsets of a queue have no gaps, so a message that is missing was removed by retention, or lost with a disk. With
`failOnDataLoss` that fails the task; without it the task logs what is missing. With a filter, a message that does not
match looks like a removed message: it counts as lost if it is below the first offset of the queue.
"""

import logging
from typing import TYPE_CHECKING

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.source.columns import ColumnBuilder
from pyspark_ternmq.source.offsets.loss import DataLoss
from pyspark_ternmq.source.offsets.splitting import QueueRange, RangePartition
from pyspark_ternmq.source.options import Reading
from ternmq import BadRequest, NotFound
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch

_log = logging.getLogger(__name__)
BATCH_ROWS = 8192
BATCH_BYTES = 8 << 20
# Columns that need bodies; without any of them the broker does not send bodies.
_OF_BODIES = frozenset({"body", "value", "corrupt"})


def opened(reading: Reading, *, bodies: bool = True) -> OffsetReader:
    """Open a reader with these options."""
    connection = reading.connection
    return OffsetReader(
        connection.endpoint,
        patience=connection.retry_timeout_s,
        kind="spark",
        bodies=bodies,
        rows=True,
        **connection.client_options(),
    )


def read(reading: Reading, partition: RangePartition) -> "Iterator[RecordBatch]":
    """Read the range in batches of some thousand rows: a row of a small batch costs Spark five times as much."""
    with in_one_line():
        yield from _read_batches(reading, partition)


def _read_batches(reading: Reading, partition: RangePartition) -> "Iterator[RecordBatch]":
    log_as_spark()
    wanted = partition.wanted
    columns = ColumnBuilder(reading.schema, wanted.topic, wanted.queue)
    with opened(reading, bodies=not _OF_BODIES.isdisjoint(reading.columns)) as reader:
        queue = RouteQueue.from_proto(
            pb.MessageQueue.FromString(partition.queue), Endpoints.parse(reading.connection.endpoint)
        )
        expected, rows = wanted.start, 0
        try:
            for part in reader.read(queue, wanted.start, wanted.stop, passing=reading.passing):
                _check_complete(reading, reader, queue, wanted, expected, len(part), part.next_offset)
                expected = part.next_offset
                if part.rows is None:
                    columns.add_responses(part.responses)
                else:
                    columns.add_rows(part.rows)
                if columns.rows >= BATCH_ROWS or columns.bytes >= BATCH_BYTES:
                    rows += columns.rows
                    yield columns.build_batch()
        except BadRequest as error:
            if error.code != pb.ILLEGAL_OFFSET:
                raise
            _report_loss(reading, f"{_queue_name(wanted)} ends before offset {expected}: {error.message}")
        except NotFound as error:
            if reading.fail_on_data_loss:
                raise
            _report_loss(reading, f"{_queue_name(wanted)} can't be read from offset {expected} on: {error}")
        if columns.rows:
            yield columns.build_batch()


def _check_complete(
    reading: Reading,
    reader: OffsetReader,
    queue: RouteQueue,
    wanted: QueueRange,
    expected: int,
    count: int,
    next_offset: int,
) -> None:
    """Report messages between `expected` and `next_offset` that the broker did not return."""
    if count == next_offset - expected:
        return
    missing = next_offset - expected - count
    if reading.passing is not None:
        if count:
            return
        begin = reader.offset(queue, "earliest")
        missing = min(begin, next_offset) - expected
        if missing <= 0:
            return
    _report_loss(
        reading,
        f"{_queue_name(wanted)}: {missing} messages from offset {expected} up to {next_offset} are not there any more; "
        "retention removed them before they were read, or they are lost",
    )


def _report_loss(reading: Reading, what: str) -> None:
    if reading.fail_on_data_loss:
        raise DataLoss(f"{what}. To go on without them set the option failOnDataLoss to false")
    _log.warning("%s", what)


def _queue_name(wanted: QueueRange) -> str:
    return f"topic {wanted.topic}, queue {wanted.queue}"
