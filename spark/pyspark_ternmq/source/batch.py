"""`spark.read`: the offsets are settled once, when Spark plans the query."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_ternmq.source.options import batch_options
from pyspark_ternmq.source.planning import partitions_of
from pyspark_ternmq.source.reading import opened, read
from pyspark_ternmq.source.splitting import QueueRange, RangePartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


class TopicReader(DataSourceReader):
    """Reads what was there when the query was planned."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._options = batch_options(options, schema)

    def partitions(self) -> list[InputPartition]:
        return self._planned(lambda wanted: wanted)

    def _planned(self, cut: "Callable[[QueueRange], QueueRange]") -> list[InputPartition]:
        """The tasks for what `cut` leaves of the offsets."""
        options = self._options
        with opened(options.reading) as reader:
            options.subscription.check(reader)
            queues = options.subscription.queues(reader)
            end = options.end.offsets(reader, queues)
            start = options.start.offsets(reader, queues)
        return list(partitions_of(options, queues, start, end, cut=cut))

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        # Spark makes a partition of its own when there is none.
        return read(self._options.reading, partition) if isinstance(partition, RangePartition) else iter(())
