"""Planning of the driver for batch and stream: splits offsets into tasks, and checks the filter before."""

from collections.abc import Callable, Iterator

from pyspark_ternmq.source.offsets.places import Offsets, QueuesByTopic
from pyspark_ternmq.source.offsets.splitting import QueueRange, RangePartition, split_ranges
from pyspark_ternmq.source.options import Reading, SourceOptions
from ternmq.pull.offset_reader import OffsetReader


def check_filter(reading: Reading, reader: OffsetReader, queues: QueuesByTopic) -> None:
    """`BadRequest` with the broker's words if it can't read the filter: a task would fail of it, and of an empty topic
    it would go unnoticed."""
    any_queue = next((queue for of_topic in queues.values() for queue in of_topic.values()), None)
    if reading.passing is not None and any_queue is not None:
        reader.check(any_queue, reading.passing)


def partitions_of(
    options: SourceOptions,
    queues: QueuesByTopic,
    start: Offsets,
    end: Offsets,
    *,
    cut: Callable[[QueueRange], QueueRange] = lambda wanted: wanted,
) -> Iterator[RangePartition]:
    """The tasks that read from `start` up to `end`, or what `cut` leaves; queues that `start` lacks begin at 0."""
    ranges = [
        cut(QueueRange(topic, name, start.get(topic, {}).get(name, 0), stop))
        for topic, of_topic in end.items()
        for name, stop in of_topic.items()
    ]
    pieces = split_ranges(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    for piece in pieces:
        yield RangePartition(piece, queues[piece.topic][piece.queue].proto.SerializeToString())
