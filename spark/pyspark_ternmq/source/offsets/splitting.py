"""From the offsets that are to be read to Spark's partitions, and from a rate limit to offsets; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from pyspark_ternmq.source.offsets.places import Offsets


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets of one queue, `start` up to, not including, `stop`."""

    topic: str
    queue: str
    start: int
    stop: int

    @property
    def range_size(self) -> int:
        return self.stop - self.start


class RangePartition(InputPartition):
    """One task's share: a range, and the queue as the server names it (a serialized MessageQueue)."""

    def __init__(self, wanted: QueueRange, queue: bytes) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.queue = queue


def split_ranges(
    ranges: Sequence[QueueRange], *, min_partitions: int | None, max_records: int | None
) -> list[QueueRange]:
    """Cut ranges so that there are at least so many, and none is larger than that; each becomes one task.

    A longer range is cut into more pieces, so that all tasks have about the same to do.
    """
    whole = [wanted for wanted in ranges if wanted.range_size > 0]
    if max_records is not None:
        whole = [piece for wanted in whole for piece in _cut_range(wanted, -(-wanted.range_size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(wanted.range_size for wanted in whole)
    cut: list[QueueRange] = []
    for wanted in whole:
        # Rounded up, for "at least".
        cut += _cut_range(wanted, -(-wanted.range_size * min_partitions // total))
    return cut


def _cut_range(wanted: QueueRange, count: int) -> Iterable[QueueRange]:
    count = max(1, min(count, wanted.range_size))
    edges = [wanted.start + wanted.range_size * number // count for number in range(count + 1)]
    for start, stop in pairwise(edges):
        yield QueueRange(wanted.topic, wanted.queue, start, stop)


def limit_end(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Return the end of a micro-batch of at most so many rows.

    Each queue that has something gives one row, so that none is forgotten beside larger ones, and of the rest its share
    of what there is. A limit below the number of such queues goes to the longest of them.
    """
    sizes = {
        (topic, queue): offset - start[topic][queue]
        for topic, queues in end.items()
        for queue, offset in queues.items()
        if offset > start[topic][queue]
    }
    if sum(sizes.values()) <= rows_max:
        return end
    shares = _share_rows(sizes, rows_max)
    return {
        topic: {
            queue: start[topic][queue] + shares[topic, queue] if (topic, queue) in shares else offset
            for queue, offset in queues.items()
        }
        for topic, queues in end.items()
    }


def _share_rows(sizes: dict[tuple[str, str], int], rows_max: int) -> dict[tuple[str, str], int]:
    """How much each gives; together `rows_max`, which is less than there is."""
    longest = sorted(sizes, key=lambda place: -sizes[place])
    if rows_max <= len(sizes):
        return dict.fromkeys(sizes, 0) | dict.fromkeys(longest[:rows_max], 1)
    rest, total = rows_max - len(sizes), sum(sizes.values()) - len(sizes)
    shares = {place: 1 + (size - 1) * rest // total for place, size in sizes.items()}
    # The rest of rounding is less than one row for each queue, and so for each that has more than it gives.
    left = rows_max - sum(shares.values())
    for place in [place for place in longest if shares[place] < sizes[place]][:left]:
        shares[place] += 1
    return shares
