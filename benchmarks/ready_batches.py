"""The limit that a source in Python can reach: existing batches, with the same columns as messages.

A module of its own, since Spark's workers have to import it.
"""

import json
import os
import time
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.columns import ColumnBuilder
from pyspark_ternmq.source.reading import BATCH_ROWS
from ternmq import Message
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch

BODY_BYTES = 300
QUEUES = 4


class ReadyBatches(DataSource):
    """A source that reads and creates nothing: it has batches of the same columns."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]), schema)


class ReadyReader(DataSourceReader):
    def __init__(self, rows: int, schema: StructType) -> None:
        self._rows = rows
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(queue) for queue in range(QUEUES)]

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        yield from build_batches(self._rows // QUEUES, self._schema.json())


@cache
def build_batches(rows: int, schema: str) -> "tuple[RecordBatch, ...]":
    """Return the batches of one task, created once in a worker. All rows differ: Parquet stores repeated values only
    once."""
    columns = ColumnBuilder(StructType.fromJson(json.loads(schema)), "source", "broker-0/0")
    batches = []
    for start in range(0, rows, BATCH_ROWS):
        columns.add_responses([stored(number) for number in range(start, min(start + BATCH_ROWS, rows))])
        batches.append(columns.build_batch())
    return tuple(batches)


def message(topic: str, number: int) -> Message:
    """Create a message to send."""
    return Message(
        topic, os.urandom(BODY_BYTES), tag=f"t{number % 3}", keys=(f"key-{number}",), properties={"n": str(number)}
    )


def stored(number: int) -> bytes:
    """Create the same message, as a broker returns it."""
    now = Timestamp(seconds=int(time.time()), nanos=number * 1000)
    system = pb.SystemProperties(
        message_id=f"{number:034X}", tag=f"t{number % 3}", keys=[f"key-{number}"], queue_offset=number
    )
    system.born_timestamp.CopyFrom(now)
    system.store_timestamp.CopyFrom(now)
    message = pb.Message(body=os.urandom(BODY_BYTES), user_properties={"n": str(number)}, system_properties=system)
    return rpc.PullMessageResponse(message=message).SerializeToString()
