"""How far a group is in each queue, with the time of the last message that it has finished there."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_proxy.access.needs import GROUP_GET
from ternmq_proxy.operations.admin.groups.time_spans import find_stored_ms
from ternmq_proxy.operations.admin.named import find_group

if TYPE_CHECKING:
    from collections.abc import Collection

    from ternmq_common.shard.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_AT_ONCE = 32


class QueueConsumption(NamedTuple):
    """A queue, and when the last message was stored that the group has finished there; 0 if there is none."""

    progress: "QueueProgress"
    finished_ms: int


async def find_consumption(
    group_name: str, topics: "Collection[str]", call: "Call", services: "Services"
) -> list[QueueConsumption]:
    """Return the queues of these topics, or of all that the group has to do with, its retry topic among them."""
    services.access.require_all("DescribeGroup", call, (GROUP_GET, group_name))
    group = await find_group(group_name, services)
    subscribed = services.subscriptions.subscribed_topics(group.name)
    rows = await services.messages.inspecting.progress(group.name, sorted(topics) or subscribed)
    wanted = [row for row in rows if not topics or row.queue.topic in topics]
    found: list[QueueConsumption] = []
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        found += await asyncio.gather(*(_find_finished(row, services) for row in some))
    return found


async def _find_finished(row: "QueueProgress", services: "Services") -> QueueConsumption:
    if not row.committed:
        return QueueConsumption(row, 0)
    return QueueConsumption(row, await find_stored_ms(row.queue, row.committed - 1, services))
