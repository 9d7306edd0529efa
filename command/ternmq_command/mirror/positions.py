"""Maps messages of the source to their copies in the target, and finds where a consumer group may begin; pure.

Run          messages that follow each other in a queue of the source and in a queue of the target.
Gap          messages between runs in the target: those of its own producers, and copies that are no longer known.
Next offset  of a queue of the source is behind the last message of it that is in the target.
Begin        of a group in a queue of the target: it moves over messages that the group has consumed at the source, and
             never over a gap, as its messages may be new to the group. So nothing is skipped; what is behind a gap, and
             was consumed at the source, comes twice.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

RUNS_MAX = 20_000
"""Of a queue of the target. The oldest are forgotten first: groups that are still there stay where they are."""


class Queue(NamedTuple):
    """A message queue of either cluster."""

    broker: str
    topic: str
    queue_id: int


@dataclass(slots=True)
class Run:
    """`count` messages from offset `begin` on in the target, and from `source_begin` on in the `source`."""

    begin: int
    count: int
    source: Queue
    source_begin: int

    @property
    def end(self) -> int:
        """The offset behind the last message, in the target."""
        return self.begin + self.count

    @property
    def source_end(self) -> int:
        """The offset behind the last message, in the source."""
        return self.source_begin + self.count


class TargetQueue:
    """The runs in a queue of the target, by their begin. `end` is the offset behind the last one."""

    __slots__ = ("_runs",)

    def __init__(self, runs: "list[Run] | None" = None) -> None:
        self._runs: list[Run] = runs or []

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return self._runs

    @property
    def end(self) -> int:
        """The offset behind the last message that was copied; 0 if none was."""
        return self._runs[-1].end if self._runs else 0

    def add(self, begin: int, count: int, source: Queue, source_begin: int) -> None:
        """Add messages behind all that is known, which is forgotten if the queue of the target was created again."""
        if begin < self.end:
            self._runs.clear()
        last = self._runs[-1] if self._runs else None
        if last and last.end == begin and last.source == source and last.source_end == source_begin:
            last.count += count
            return
        self._runs.append(Run(begin, count, source, source_begin))
        if len(self._runs) > RUNS_MAX:
            del self._runs[: RUNS_MAX // 10]

    def forget_source(self, source: Queue) -> None:
        """Make gaps of what came from that queue: its offsets have begun again."""
        self._runs = [run for run in self._runs if run.source != source]

    def begin_of_group(self, start: int, consumed: Mapping[Queue, int]) -> int:
        """Return where a group that is at `start` may begin, if it has consumed each queue of the source up to the
        offset in `consumed`."""
        at = bisect_right(self._runs, start, key=lambda run: run.begin) - 1
        if at < 0 or self._runs[at].end <= start:
            return start
        for run in self._runs[at:]:
            if run.begin > start:
                break  # a gap
            done = run.begin + min(run.count, consumed.get(run.source, 0) - run.source_begin)
            if done < run.end:
                return max(start, done)
            start = run.end
        return start

    def count_behind(self, start: int, consumed: Mapping[Queue, int]) -> int:
        """Return how many copies from `start` on are consumed, which a group that is there would get again."""
        first = max(0, bisect_right(self._runs, start, key=lambda run: run.begin) - 1)
        count = 0
        for run in self._runs[first:]:
            done = min(run.count, consumed.get(run.source, 0) - run.source_begin)
            count += max(0, done - max(0, start - run.begin))
        return count


class Position(NamedTuple):
    """The position in a queue of the source: the next offset to copy, when the message before it was stored there, and
    the queue of the target that has its messages."""

    next_offset: int
    stored_ms: int
    target: Queue


@dataclass(slots=True)
class TopicPositions:
    """The positions of one topic of the target. `doubles` are messages found in it twice."""

    queues: dict[Queue, TargetQueue] = field(default_factory=dict)
    sources: dict[Queue, Position] = field(default_factory=dict)
    doubles: int = 0

    def note_copied(self, target: Queue, begin: int, source: Queue, source_begin: int, stored_ms: list[int]) -> None:
        """Note messages that are in the target from `begin` on, and when each was stored in the source.

        One that was there before is a double, and a gap: it may as well be a dead letter that was sent again. One that
        the source stored after a later one is of another queue by that name.
        """
        before = self.sources.get(source)
        if before is not None and source_begin < before.next_offset:
            if stored_ms[0] > before.stored_ms:
                self.begin_again(source, source_begin)
            else:
                known = min(before.next_offset - source_begin, len(stored_ms))
                self.doubles += known
                begin, source_begin, stored_ms = begin + known, source_begin + known, stored_ms[known:]
        if stored_ms:
            self.queues.setdefault(target, TargetQueue()).add(begin, len(stored_ms), source, source_begin)
            self.sources[source] = Position(source_begin + len(stored_ms), stored_ms[-1], target)

    def note_passed(self, source: Queue, next_offset: int, stored_ms: int, target: Queue) -> None:
        """Note that the queue is copied up to there, though its last messages are not to be copied, or are lost."""
        before = self.sources.get(source)
        if before is None or before.next_offset < next_offset:
            self.sources[source] = Position(next_offset, stored_ms or (before.stored_ms if before else 0), target)

    def begin_again(self, source: Queue, offset: int) -> None:
        """Begin the queue again at that offset: the source has another queue by that name."""
        before = self.sources[source]
        for known in self.queues.values():
            known.forget_source(source)
        self.sources[source] = before._replace(next_offset=offset)


def choose_target(source: Queue, brokers: list[str], queues: list[Queue]) -> Queue:
    """Return the queue of the target for a queue of the source, whose brokers are `brokers`: each its own, as long as
    there are enough."""
    same = [each for each in brokers if each == source.broker]
    first = brokers.index(source.broker) if same else 0
    per_broker = max(1, len(queues) // max(1, len(brokers)))
    return queues[(first * per_broker + source.queue_id) % len(queues)]
