"""How far a group is in each queue, with the time of the last message that it has finished there."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.shard.model import QueueProgress, QueueRef
from ternmq_proxy.access.needs import GROUP_GET
from ternmq_proxy.operations.admin.groups.time_spans import find_stored_ms
from ternmq_proxy.operations.admin.named import find_group

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_AT_ONCE = 32


class QueueConsumption(NamedTuple):
    """A queue, and when the last message was stored that the group has finished there; 0 if there is none."""

    progress: "QueueProgress"
    finished_ms: int


async def find_consumption(
    group_name: str, topics: "Collection[str]", call: "Call", services: "Services", *, with_empty: bool = False
) -> list[QueueConsumption]:
    """Return the queues of these topics, or of all that the group has to do with, its retry topic among them.
    `with_empty`: those too that have no messages, and of which the group never had any."""
    services.access.require_all("DescribeGroup", call, (GROUP_GET, group_name))
    group = await find_group(group_name, services)
    subscribed = services.subscriptions.subscribed_topics(group.name)
    rows = await services.messages.inspecting.progress(group.name, sorted(topics) or subscribed)
    wanted = [row for row in rows if not topics or row.queue.topic in topics]
    found: list[QueueConsumption] = []
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        found += await asyncio.gather(*(_find_finished(row, services) for row in some))
    if with_empty:
        found += [QueueConsumption(row, 0) for row in await _find_empty(wanted, topics, services)]
        found.sort(
            key=lambda each: (each.progress.queue.topic, each.progress.queue.broker, each.progress.queue.queue_id)
        )
    return found


async def _find_empty(
    rows: "Sequence[QueueProgress]", topics: "Collection[str]", services: "Services"
) -> "list[QueueProgress]":
    """Return the queues of these topics, and of those of the rows, that have no row."""
    there = {row.queue for row in rows}
    known = map(services.catalog.known_topic, {queue.topic for queue in there}.union(topics))
    missing = [
        queue
        for topic in known
        if topic is not None
        for broker in services.messages.find_route(topic).readable
        for number in range(topic.queues)
        if (queue := QueueRef(topic.name, broker, number)) not in there
    ]
    found: list[QueueProgress] = []
    for start in range(0, len(missing), _AT_ONCE):
        some = missing[start : start + _AT_ONCE]
        bounds = await asyncio.gather(*map(services.messages.reading.bounds, some))
        for queue, each in zip(some, bounds, strict=True):
            end = each.maximum
            found.append(QueueProgress(queue=queue, committed=end, cursor=end, in_flight=0, max_offset=end))
    return found


async def _find_finished(row: "QueueProgress", services: "Services") -> QueueConsumption:
    if not row.committed:
        return QueueConsumption(row, 0)
    return QueueConsumption(row, await find_stored_ms(row.queue, row.committed - 1, services))
