"""From offsets to tasks, for batch and stream alike."""

from collections.abc import Callable, Iterator

from pyspark_ternmq.source.options import SourceOptions
from pyspark_ternmq.source.places import Offsets, QueuesByTopic
from pyspark_ternmq.source.splitting import QueueRange, RangePartition, split


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
    pieces = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    for piece in pieces:
        yield RangePartition(piece, queues[piece.topic][piece.queue].proto.SerializeToString())
