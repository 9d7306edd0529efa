"""`spark.read`: the offsets are settled once, when Spark plans the query."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_ternmq.source.bounds import checked_range
from pyspark_ternmq.source.options import batch_options
from pyspark_ternmq.source.places import offsets_at
from pyspark_ternmq.source.planning import check_filter, partitions_of
from pyspark_ternmq.source.reading import opened, read
from pyspark_ternmq.source.splitting import QueueRange, RangePartition
from pyspark_ternmq.source.topics import queues_of

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
        options.start.check_passed(datetime.now(UTC))
        with opened(options.reading) as reader:
            identities = options.subscription.identities(reader)
            queues = queues_of(reader, identities)
            ends = offsets_at(reader, queues, "latest")
            start = options.start.offsets(reader, queues, ends)
            stop = options.end.offsets(reader, queues, ends)
            check_filter(options.reading, reader, queues)
        for places in (options.start, options.end):
            places.check_identities(identities)
        strict = options.reading.fail_on_data_loss
        start, stop = checked_range(options.start, options.end, start, stop, ends, strict=strict)
        return list(partitions_of(options, queues, start, stop, cut=cut))

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        # Spark makes a partition of its own when there is none.
        return read(self._options.reading, partition) if isinstance(partition, RangePartition) else iter(())
