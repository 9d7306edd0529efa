"""DescribeGroupAccumulation: what a group has still to do, altogether and by topic."""

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.fairness import WorkTurns
from ternmq_protos.v2.admin_pb2 import DescribeGroupAccumulationRequest, DescribeGroupAccumulationResponse
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.fronts.grpc.activities.published_admin.named import lite_queue_of, named_group, topics_of
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.model import ConsumerGroup, QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_Accumulation = DescribeGroupAccumulationResponse.GroupAccumulation


@dataclass(slots=True)
class _Sum:
    """Messages of several queues; `oldest_ms` is when the first that is not finished was stored, None if all are."""

    inflight: int = 0
    ready: int = 0
    oldest_ms: int | None = None

    def add(self, row: "QueueProgress") -> None:
        self.inflight += row.in_flight
        self.ready += row.max_offset - row.cursor
        if row.oldest_ms is not None:
            self.oldest_ms = row.oldest_ms if self.oldest_ms is None else min(self.oldest_ms, row.oldest_ms)

    @property
    def all(self) -> int:
        return self.inflight + self.ready

    def shown(self, now_ms: int) -> _Accumulation:
        answer = _Accumulation(inflight_messages=self.inflight, ready_messages=self.ready, accumulation=self.all)
        if self.oldest_ms is not None:
            answer.deliver_delay_time.FromMilliseconds(max(0, now_ms - self.oldest_ms))
        return answer


async def describe_group_accumulation(
    request: DescribeGroupAccumulationRequest, call: "Call", services: "Services"
) -> DescribeGroupAccumulationResponse:
    """Of the topics that the request names, or of all that the group has to do with, its retry topic among them.

    Of more topics than an answer may have it has those with the most; the sum is of all.
    """
    del call
    group = await named_group(request.group, services)
    if request.HasField("lite_topic"):
        return await _of_lite_topic(group, request.lite_topic, services)
    topics = await topics_of(group.name, request.topics, services)
    named = set(topics) if request.topics else None
    now_ms = services.clock.now_ms()
    total, sums = _Sum(), dict[str, _Sum]()
    turns = WorkTurns()
    for row in await services.messages.inspecting.progress(group.name, topics):
        if named is None or row.queue.topic in named:
            total.add(row)
            sums.setdefault(row.queue.topic, _Sum()).add(row)
        await turns.next_turn()
    entries_max = services.answer_limits.entries_max
    most = heapq.nlargest(entries_max, sums, key=lambda topic: sums[topic].all)
    return DescribeGroupAccumulationResponse(
        status=status_of_cut("topics", entries_max if len(sums) > len(most) else None),
        accumulation=total.shown(now_ms),
        topic_accumulation={topic: sums[topic].shown(now_ms) for topic in most},
    )


async def _of_lite_topic(group: "ConsumerGroup", name: str, services: "Services") -> DescribeGroupAccumulationResponse:
    topic = lite_queue_of(group, name)
    total = _Sum()
    for row in await services.messages.inspecting.progress(group.name, (topic,)):
        if row.queue.topic == topic:
            total.add(row)
    shown = total.shown(services.clock.now_ms())
    return DescribeGroupAccumulationResponse(status=OK, accumulation=shown, lite_topic_accumulation={name: shown})
