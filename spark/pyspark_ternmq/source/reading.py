"""One task's share of a read: messages from the broker, columns for Spark. Runs on the executors.

Offsets follow each other without a gap, so messages that should have come and did not were removed by retention, or
lost with a disk. With `failOnDataLoss` that ends the task with an error; without it a line in the log says what is
missing. Behind a filter nobody can tell a message that it kept out from one that is gone, so it counts as gone if the
queue begins behind it by now.
"""

import logging
from typing import TYPE_CHECKING

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.source.columns import ColumnBuilder
from pyspark_ternmq.source.loss import DataLoss
from pyspark_ternmq.source.options import Reading
from pyspark_ternmq.source.splitting import QueueRange, RangePartition
from ternmq import BadRequest, NotFound
from ternmq.endpoints import Endpoints
from ternmq.offset_reader import OffsetReader
from ternmq.route import Queue
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch

_log = logging.getLogger(__name__)
BATCH_ROWS = 4096
BATCH_BYTES = 8 << 20
# Columns that are made of bodies; without any of them the broker leaves bodies out.
_OF_BODIES = frozenset({"body", "value", "corrupt"})


def opened(reading: Reading, *, bodies: bool = True) -> OffsetReader:
    """The reader for these options."""
    connection = reading.connection
    return OffsetReader(
        connection.endpoint,
        patience=connection.retry_timeout_s,
        kind="spark",
        bodies=bodies,
        **connection.client_options(),
    )


def read(reading: Reading, partition: RangePartition) -> "Iterator[RecordBatch]":
    """The messages of the range as batches of some thousand rows: small ones cost Spark five times as much a row."""
    with in_one_line():
        yield from _read(reading, partition)


def _read(reading: Reading, partition: RangePartition) -> "Iterator[RecordBatch]":
    log_as_spark()
    wanted = partition.wanted
    columns = ColumnBuilder(reading.schema, wanted.topic, wanted.queue)
    with opened(reading, bodies=not _OF_BODIES.isdisjoint(reading.columns)) as reader:
        queue = Queue.from_proto(
            pb.MessageQueue.FromString(partition.queue), Endpoints.parse(reading.connection.endpoint)
        )
        expected, rows = wanted.start, 0
        try:
            for part in reader.read(queue, wanted.start, wanted.stop, passing=reading.passing):
                _check_complete(reading, reader, queue, wanted, expected, part.messages, part.next_offset)
                expected = part.next_offset
                columns.add(part.messages)
                if columns.rows >= BATCH_ROWS or columns.bytes >= BATCH_BYTES:
                    rows += columns.rows
                    yield columns.batch()
        except BadRequest as error:
            if error.code != pb.ILLEGAL_OFFSET:
                raise
            _lost(reading, f"{_name(wanted)} ends before offset {expected}: {error.message}")
        except NotFound as error:
            if reading.fail_on_data_loss:
                raise
            _lost(reading, f"{_name(wanted)} can't be read from offset {expected} on: {error}")
        if columns.rows:
            yield columns.batch()


def _check_complete(
    reading: Reading,
    reader: OffsetReader,
    queue: Queue,
    wanted: QueueRange,
    expected: int,
    messages: list[pb.Message],
    next_offset: int,
) -> None:
    """Tell of messages between `expected` and `next_offset` that did not come."""
    if len(messages) == next_offset - expected:
        return
    missing = next_offset - expected - len(messages)
    if reading.passing is not None:
        if messages:
            return
        begin = reader.offset(queue, "earliest")
        missing = min(begin, next_offset) - expected
        if missing <= 0:
            return
    _lost(
        reading,
        f"{_name(wanted)}: {missing} messages from offset {expected} up to {next_offset} are not there any more; "
        "retention removed them before they were read, or they are lost",
    )


def _lost(reading: Reading, what: str) -> None:
    if reading.fail_on_data_loss:
        raise DataLoss(f"{what}. To go on without them set the option failOnDataLoss to false")
    _log.warning("%s", what)


def _name(wanted: QueueRange) -> str:
    return f"topic {wanted.topic}, queue {wanted.queue}"
