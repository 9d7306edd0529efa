"""When the last message of each queue was stored."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_proxy.operations.admin.groups.time_spans import find_stored_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.shard.model import QueueBounds, QueueRef
    from ternmq_proxy.services import Services

_AT_ONCE = 32


async def find_last_times(queues: "Mapping[QueueRef, QueueBounds]", services: "Services") -> "dict[QueueRef, int]":
    """Return the times of those queues that have messages, in milliseconds since the epoch."""
    filled = [(queue, bounds.maximum - 1) for queue, bounds in queues.items() if bounds.minimum < bounds.maximum]
    times: dict[QueueRef, int] = {}
    for start in range(0, len(filled), _AT_ONCE):
        some = filled[start : start + _AT_ONCE]
        found = await asyncio.gather(*(find_stored_ms(queue, offset, services) for queue, offset in some))
        times.update(zip((queue for queue, _ in some), found, strict=True))
    return times
