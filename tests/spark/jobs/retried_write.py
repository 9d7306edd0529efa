"""A job that writes numbers to a topic, and whose tasks fail the first time, in the middle of what they send.

Arguments: endpoint, topic, rows.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ternmq.pull.offset_reader import OffsetReader
from tests.support.spark import QUICK_SETTINGS

# Large enough that Spark's buffers between the two sides of a task hold less than a batch.
BODY_CHARACTERS, BATCH_ROWS = 4000, 100
PARTITIONS = 2


class Failing(DataSource):
    """Numbers, in two partitions, the first attempt of which ends when some of them are in the topic."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def schema(self) -> str:
        return "body string"

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return FailingReader(self.options["endpoint"], self.options["topic"], int(self.options["rows"]))


class FailingReader(DataSourceReader):
    def __init__(self, endpoint: str, topic: str, rows: int) -> None:
        self.endpoint, self.topic, self.rows = endpoint, topic, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        share = self.rows // PARTITIONS
        for start in range(partition.value * share, (partition.value + 1) * share, BATCH_ROWS):
            if start == partition.value * share + 3 * BATCH_ROWS and context.attemptNumber() == 0:
                wait_for_messages(self.endpoint, self.topic)
                raise RuntimeError("the first attempt fails")
            bodies = [str(number).zfill(BODY_CHARACTERS) for number in range(start, start + BATCH_ROWS)]
            yield pa.RecordBatch.from_arrays([pa.array(bodies)], names=["body"])


def main(endpoint: str, topic: str, rows: str) -> None:
    # Without the second number local mode tries no task again.
    settings = {**QUICK_SETTINGS, "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS}
    spark = SparkSession.builder.master("local[2,2]").appName("retried").config(map=settings).getOrCreate()
    spark.dataSource.register(Failing)
    told = {"endpoint": endpoint, "topic": topic}
    numbers = spark.read.format("failing").options(rows=rows, **told).load()
    numbers.write.format("ternmq").mode("append").options(**told).save()
    spark.stop()


def wait_for_messages(endpoint: str, topic: str) -> None:
    """Return once there are some."""
    with OffsetReader(endpoint) as reader:
        queues = reader.queues(topic)
        while not sum(reader.offsets(queues, "latest")):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
