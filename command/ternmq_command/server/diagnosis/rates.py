"""Computes rates of topics and groups from two snapshots of their offsets. Pure; times in seconds.

In      messages that were stored: how far the ends of the topic's queues have moved.
Out     messages that a group has finished: its offsets have passed them, and they are not in flight. Nothing is counted
        for a queue that appeared or disappeared between the snapshots, or for a group that was moved back.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_command.group.progress import sum_progress

if TYPE_CHECKING:
    from ternmq.admin.groups import GroupDescription
    from ternmq.admin.topics import TopicDescription

Queue = tuple[str, str, int]
"""Topic, broker, number."""


_PASSED_MIN_S = 0.001


@dataclass(slots=True)
class TrafficSnapshot:
    """A snapshot of topics and groups: `ends` of queues, messages `held` by topics, what groups `finished`, their
    `lags`.

    `left_out` counts topics and groups that were not queried; `refused` is the server's last refusal.
    """

    taken_s: float
    ends: dict[Queue, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    finished: dict[str, dict[Queue, int]] = field(default_factory=dict)
    lags: dict[str, dict[str, object]] = field(default_factory=dict)
    left_out: int = 0
    refused: str | None = None

    def add_topic(self, answer: "TopicDescription") -> None:
        name = answer.topic.name
        self.held[name] = answer.messages
        self.ends |= {(name, queue.broker, queue.queue_id): queue.max_offset for queue in answer.queues}

    def add_group(self, answer: "GroupDescription") -> None:
        name = answer.group.name
        self.lags[name] = {**sum_progress(answer.progress), "members": len(answer.client_ids)}
        self.finished[name] = {
            (entry.topic, entry.broker, entry.queue_id): entry.cursor - entry.in_flight for entry in answer.progress
        }


def compute_rates(before: TrafficSnapshot, now: TrafficSnapshot) -> "dict[str, list[dict[str, object]]]":
    """Return the rows of `topics`, the busiest first, and of `groups`, by descending lag; rates per second."""
    passed_s = max(now.taken_s - before.taken_s, _PASSED_MIN_S)
    moved_in = _sum_by_topic(_count_moved(before.ends, now.ends))
    moved_by = {group: _count_moved(before.finished.get(group, {}), done) for group, done in now.finished.items()}
    moved_out: Counter[str] = Counter()
    for moved in moved_by.values():
        moved_out += _sum_by_topic(moved)
    topics = sorted(now.held, key=lambda topic: (-moved_in[topic] - moved_out[topic], topic))
    groups = sorted(now.lags, key=lambda group: (-sum_column([now.lags[group]], "lag"), group))
    return {
        "topics": [
            {
                "topic": topic,
                "in_per_s": round(moved_in[topic] / passed_s, 1),
                "out_per_s": round(moved_out[topic] / passed_s, 1),
                "messages": now.held[topic],
            }
            for topic in topics
        ],
        "groups": [
            {"group": group, "out_per_s": round(sum(moved_by[group].values()) / passed_s, 1), **now.lags[group]}
            for group in groups
        ],
    }


def _count_moved(before: Mapping[Queue, int], now: Mapping[Queue, int]) -> dict[Queue, int]:
    return {queue: max(0, end - before[queue]) for queue, end in now.items() if queue in before}


def _sum_by_topic(moved: Mapping[Queue, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (topic, _, _), count in moved.items():
        sums[topic] += count
    return sums


def sum_column(rows: Iterable[Mapping[str, object]], column: str) -> float:
    """Return the sum of a column of numbers."""
    return sum(value for row in rows if isinstance(value := row[column], int | float))
