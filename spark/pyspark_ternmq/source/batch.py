"""`spark.read`: the offsets are settled once, when Spark plans the query."""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.source.offsets.bounds import checked_range
from pyspark_ternmq.source.offsets.loss import DataLoss, LossLedger, describe_lost
from pyspark_ternmq.source.offsets.places import Offsets, offsets_at
from pyspark_ternmq.source.offsets.splitting import QueueRange, RangePartition
from pyspark_ternmq.source.options import batch_options
from pyspark_ternmq.source.planning import check_filter, partitions_of
from pyspark_ternmq.source.reading import opened, read

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


class TopicReader(DataSourceReader):
    """Reads what was there when the query was planned."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._options = batch_options(options, schema)

    @in_one_line()
    def partitions(self) -> list[InputPartition]:
        return self._plan_partitions(lambda wanted: wanted)

    def _plan_partitions(
        self,
        cut: "Callable[[QueueRange], QueueRange]",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[InputPartition]:
        """The tasks for what `cut` leaves of the offsets, and for what was stored between these times."""
        log_as_spark()
        options = self._options
        options.start.check_passed(datetime.now(UTC))
        with opened(options.reading) as reader:
            identities = options.subscription.find_identities(reader)
            queues = options.subscription.find_queues(reader, identities, strict=True)
            first, last = options.start.name_queues(queues), options.end.name_queues(queues)
            ends = offsets_at(reader, queues, "latest")
            start = first.find_offsets(reader, queues, ends)
            stop = last.find_offsets(reader, queues, ends)
            firsts = {} if first.each is None else offsets_at(reader, queues, "earliest")
            begin = {} if since is None else offsets_at(reader, queues, since)
            behind = {} if until is None else offsets_at(reader, queues, until)
            check_filter(options.reading, reader, queues)
        for places in (first, last):
            places.check_identities(identities)
        strict = options.reading.fail_on_data_loss
        start, stop = checked_range(first, last, start, stop, ends, strict=strict)
        start = self._offsets_there(start, stop, firsts)
        start, stop = _choose_offsets(max, start, begin), _choose_offsets(min, stop, behind)
        return list(partitions_of(options, queues, start, stop, cut=cut))

    def _offsets_there(self, start: Offsets, stop: Offsets, firsts: Offsets) -> Offsets:
        """Return where reading can begin in queues that begin at `firsts`. Raises DataLoss if losses are errors."""
        there = {
            topic: {
                name: max(offset, min(firsts.get(topic, {}).get(name, 0), stop[topic][name]))
                for name, offset in of_topic.items()
            }
            for topic, of_topic in start.items()
        }
        if lost := LossLedger().find_lost(start, there):
            if self._options.reading.fail_on_data_loss:
                raise DataLoss(f"{describe_lost(lost)}. To go on without them set the option failOnDataLoss to false")
            _log.warning("%s; it begins with the first that are there", describe_lost(lost))
        return there

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        # Spark makes a partition of its own when there is none.
        return read(self._options.reading, partition) if isinstance(partition, RangePartition) else iter(())


def _choose_offsets(choose: "Callable[[int, int], int]", offsets: Offsets, others: Offsets) -> Offsets:
    """Return what `choose` returns for two offsets of each queue; the first where there is no other."""
    return {
        topic: {name: choose(offset, others.get(topic, {}).get(name, offset)) for name, offset in of_topic.items()}
        for topic, of_topic in offsets.items()
    }
