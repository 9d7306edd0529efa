"""The unfinished messages of a group, in total and by topic."""

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_proxy.access.needs import GROUP_GET, TOPIC_GET
from ternmq_proxy.operations.admin.named import find_group, find_lite_queue_of_group, find_topics_of_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import ConsumerGroup, QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


@dataclass(slots=True)
class Backlog:
    """Messages of several queues; `oldest_ms` is when the first that is not finished was stored, None if all are."""

    in_flight: int = 0
    ready: int = 0
    oldest_ms: int | None = None

    def add_queue(self, row: "QueueProgress") -> None:
        """Count what the group has still to do in a queue."""
        self.in_flight += row.in_flight
        self.ready += row.max_offset - row.cursor
        if row.oldest_ms is not None:
            self.oldest_ms = row.oldest_ms if self.oldest_ms is None else min(self.oldest_ms, row.oldest_ms)

    @property
    def all(self) -> int:
        """How many messages there are."""
        return self.in_flight + self.ready


@dataclass(slots=True, kw_only=True)
class Accumulation:
    """The unfinished messages of a group at `now_ms`: `total` is of all topics, `by_topic` has the first `cut_at` of
    them, those with the most, if that is not None. `lite_topic`: it is of that alone."""

    now_ms: int
    total: Backlog
    by_topic: dict[str, Backlog] = field(default_factory=dict)
    cut_at: int | None = None
    lite_topic: str | None = None


async def describe_accumulation(
    group_name: str,
    topic_names: "Sequence[str]",
    call: "Call",
    services: "Services",
    *,
    lite_topic: str | None = None,
) -> Accumulation:
    """Return what a group has still to do in those topics, in all that it has to do with if none is named, its retry
    topic among them, or in a lite topic.

    Of more topics than an answer may have it has those with the most; the sum is of all.
    """
    asked = [(TOPIC_GET, name) for name in topic_names]  # which need not be the group's
    services.access.require_all("DescribeGroupAccumulation", call, (GROUP_GET, group_name), *asked)
    group = await find_group(group_name, services)
    if lite_topic is not None:
        return await _describe_lite_topic(group, lite_topic, services)
    topics = await find_topics_of_group(group.name, topic_names, services)
    named = set(topics) if topic_names else None
    now_ms = services.clock.now_ms()
    total, sums = Backlog(), dict[str, Backlog]()
    turns = WorkTurns()
    for row in await services.messages.inspecting.progress(group.name, topics):
        if named is None or row.queue.topic in named:
            total.add_queue(row)
            sums.setdefault(row.queue.topic, Backlog()).add_queue(row)
        await turns.next_turn()
    entries_max = services.answer_limits.entries_max
    most = heapq.nlargest(entries_max, sums, key=lambda topic: sums[topic].all)
    return Accumulation(
        now_ms=now_ms,
        total=total,
        by_topic={topic: sums[topic] for topic in most},
        cut_at=entries_max if len(sums) > len(most) else None,
    )


async def _describe_lite_topic(group: "ConsumerGroup", name: str, services: "Services") -> Accumulation:
    topic = find_lite_queue_of_group(group, name)
    total = Backlog()
    for row in await services.messages.inspecting.progress(group.name, (topic,)):
        if row.queue.topic == topic:
            total.add_queue(row)
    return Accumulation(now_ms=services.clock.now_ms(), total=total, lite_topic=name)
