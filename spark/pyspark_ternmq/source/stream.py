"""`spark.readStream`: Spark keeps the offsets in its checkpoint; this says how far there is something to read.

Queues that were added are read from their beginning. A queue that is not in the route, as while its broker is away,
keeps its offset and is read when it is back. A queue that ends before the offset of the checkpoint was made anew, or
its broker lost messages: with `failOnDataLoss` the query ends with an error, without it the queue is read from its
beginning.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.options import stream_options
from pyspark_ternmq.source.places import Offsets, QueuesByTopic, offsets_at
from pyspark_ternmq.source.planning import partitions_of
from pyspark_ternmq.source.reading import DataLoss, opened, read
from pyspark_ternmq.source.splitting import RangePartition, limited
from ternmq import ClientError, ConnectionFailed

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from ternmq.offset_reader import OffsetReader

_log = logging.getLogger(__name__)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side keeps a connection; what travels to the executors has none."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(options, schema)
        self._reader: OffsetReader | None = None
        self._queues: QueuesByTopic = {}
        self._target: Offsets | None = None
        self._latest: Offsets | None = None

    # --- on the driver

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's names, here and below
        reader = self._opened()
        self._queues = self._options.subscription.queues(reader)
        return self._options.start.offsets(reader, self._queues)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """How far the next micro-batch reads; `start` if there is nothing new."""
        self._latest = self._target if self._target is not None else self._ends()
        known = {
            topic: {name: start.get(topic, {}).get(name, 0) for name in of_topic}
            for topic, of_topic in self._latest.items()
        }
        end = {
            topic: {name: self._end(topic, name, known[topic][name], stop) for name, stop in of_topic.items()}
            for topic, of_topic in self._latest.items()
        }
        if isinstance(limit, ReadMaxRows):
            end = limited(known, end, limit.max_rows)
        return _with_absent(start, end)

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return self._latest

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        wanted = {
            topic: {name: stop for name, stop in of_topic.items() if stop != start.get(topic, {}).get(name, 0)}
            for topic, of_topic in end.items()
        }
        if _missing(wanted, self._queues):
            # A batch of before a restart, whose brokers may not all be back yet.
            self._queues = self._opened().patiently(lambda: self._queues_of(wanted))
        begin = {
            topic: {
                name: self._begin(topic, name, start.get(topic, {}).get(name, 0), stop)
                for name, stop in of_topic.items()
            }
            for topic, of_topic in wanted.items()
        }
        return list(partitions_of(self._options, self._queues, begin, wanted))

    def commit(self, end: Offsets) -> None:
        """Tell the group, if there is one, how far the query has come. Its progress is in the checkpoint, so a group
        that can't be told for a moment is told the next time."""
        group = self._options.group
        if group is None:
            return
        progress = [
            (queue, end[topic][name])
            for topic, of_topic in self._queues.items()
            for name, queue in of_topic.items()
            if name in end.get(topic, {})
        ]
        try:
            self._opened().commit(group, progress)
        except ClientError as error:
            if not error.retryable:
                raise
            _log.warning("group %s could not be told the progress: %s", group, error)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()

    # --- on the executors

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        assert isinstance(partition, RangePartition)
        return read(self._options.reading, partition)

    # --- inside

    def _opened(self) -> "OffsetReader":
        if self._reader is None:
            reader = opened(self._options.reading)
            self._options.subscription.check(reader)
            self._reader = reader
        return self._reader

    def _ends(self) -> Offsets:
        """The end of every queue that can be reached. The route is asked for again when one can't be: a broker that is
        away leaves it after some seconds."""
        reader = self._opened().without_patience()

        def ends() -> Offsets:
            self._queues = self._options.subscription.queues(reader)
            return offsets_at(reader, self._queues, "latest")

        return self._opened().patiently(ends)

    def _queues_of(self, wanted: Offsets) -> QueuesByTopic:
        """The route, in which these queues must be."""
        queues = self._options.subscription.queues(self._opened().without_patience())
        if away := _missing(wanted, queues):
            raise ConnectionFailed(self._options.reading.connection.endpoint, f"not in the route: {', '.join(away)}")
        return queues

    def _end(self, topic: str, name: str, start: int, stop: int) -> int:
        """The end of a queue; one that lies before the start is told, or is an error."""
        if stop < start:
            what = (
                f"topic {topic}, queue {name} ends at offset {stop}, and this query has read up to {start}: "
                "the topic was made anew, or its broker lost messages"
            )
            if self._options.reading.fail_on_data_loss:
                raise DataLoss(f"{what}. To read what is there from its beginning set failOnDataLoss to false")
            _log.warning("%s; it is read from its beginning", what)
        return stop

    def _begin(self, topic: str, name: str, start: int, stop: int) -> int:
        if stop >= start:
            return start
        return self._opened().offset(self._queues[topic][name], "earliest")


class RefusedReader(DataSourceStreamReader):
    """Says at the first question why there is nothing to read: what goes wrong while a reader is made, PySpark 4.3
    hides behind an error of its own."""

    def __init__(self, refusal: WrongOption) -> None:
        self._refusal = refusal

    def initialOffset(self) -> Offsets:  # noqa: N802
        raise self._refusal

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        raise self._refusal

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        raise self._refusal

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        raise self._refusal


def _with_absent(start: Offsets, end: Offsets) -> Offsets:
    """The end, and the offsets of queues that are not there now."""
    return {topic: {**start.get(topic, {}), **end.get(topic, {})} for topic in dict.fromkeys((*start, *end))}


def _missing(offsets: Offsets, queues: QueuesByTopic) -> list[str]:
    return [
        f"topic {topic}, queue {name}"
        for topic, of_topic in offsets.items()
        for name in of_topic
        if name not in queues.get(topic, {})
    ]
