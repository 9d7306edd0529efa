"""Messages that a query had not read when they went: how many, where and why; pure.

Found    when a micro-batch is planned, by the first offset of each queue that has something to read. So a query that
         goes on begins there, and spends no micro-batch on offsets that are gone.
Why      retention, or a purge by an operator, as far as the server tells (`purged_below`).
Once     a range counts when it is found first, also if the micro-batch behind it has to wait.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark_ternmq.source.offsets.places import Offsets

QUEUES_SHOWN_MAX = 20
"""A line of the log names so many queues; the rest is a number."""


class DataLoss(RuntimeError):
    """Messages that should be there are not."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets `start` up to, not including, `stop` of one queue. `purged` of them went by a purge, None: the server
    does not tell."""

    topic: str
    queue: str
    start: int
    stop: int
    purged: int | None = None

    @property
    def messages(self) -> int:
        return self.stop - self.start

    def explain_range(self, purged_below: int) -> "LostRange":
        """The same where the last purge of the queue took all below that offset."""
        return replace(self, purged=min(max(purged_below - self.start, 0), self.messages))

    def __str__(self) -> str:
        """`topic orders, queue broker-0/0: 30 from offset 10 on (purged)`."""
        lost = f"{self.messages:,} from offset {self.start:,} on ({self._describe_cause})"
        return f"topic {self.topic}, queue {self.queue}: {lost}"

    @property
    def _describe_cause(self) -> str:
        if self.purged is None:
            return "retention or a purge"
        if self.purged == 0:
            return "retention"
        return "purged" if self.purged == self.messages else f"{self.purged:,} purged, the others by retention"


class LossLedger:
    """The losses of one query: which are new, and those of the micro-batch that is planned, or waits to be."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}  # up to where the losses of a queue were counted
        self.of_batch: dict[str, dict[str, int]] = {}
        """How many messages were found lost for this micro-batch, by topic and queue."""

    def begin_batch(self) -> None:
        self.of_batch = {}

    def find_lost(self, at: Offsets, firsts: Offsets) -> list[LostRange]:
        """Find the ranges between the query's offsets and the first offsets of queues, without those counted before."""
        found = []
        for topic, of_topic in at.items():
            for queue, offset in of_topic.items():
                start, first = max(offset, self._known.get((topic, queue), 0)), firsts[topic][queue]
                if first > start:
                    found.append(LostRange(topic, queue, start, first))
        return found

    def count_lost(self, lost: Iterable[LostRange]) -> None:
        for each in lost:
            self._known[each.topic, each.queue] = each.stop
            of_topic = self.of_batch.setdefault(each.topic, {})
            of_topic[each.queue] = of_topic.get(each.queue, 0) + each.messages


def explain_ranges(lost: Iterable[LostRange], purged_below: Mapping[str, Mapping[str, int]]) -> list[LostRange]:
    """The ranges with what is known of purges, by topic and queue; queues that are not there stay unexplained."""
    return [
        each if (below := purged_below.get(each.topic, {}).get(each.queue)) is None else each.explain_range(below)
        for each in lost
    ]


def describe_lost(lost: list[LostRange]) -> str:
    """All of them in one line."""
    total = sum(each.messages for each in lost)
    parts = [str(each) for each in lost[:QUEUES_SHOWN_MAX]]
    if len(lost) > QUEUES_SHOWN_MAX:
        rest = sum(each.messages for each in lost[QUEUES_SHOWN_MAX:])
        parts.append(f"{len(lost) - QUEUES_SHOWN_MAX} other queues: {rest:,}")
    were = "message was" if total == 1 else "messages were"
    return f"{total:,} {were} lost before this query read {'it' if total == 1 else 'them'}: {'; '.join(parts)}"
