"""Reads messages that a group has not received yet, without claiming them.

Where a group is in a queue is its cursor there; messages that wait for another attempt are behind it, and not meant.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import ALL_TEXT
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_proxy.operations.rights import needs_of_consumer, require_consumer
from ternmq_proxy.processors.sending.placement import check_readable

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueProgress, StoredMessage
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ANY_QUEUE = -1
_WAITED_FOR_MAX = 64
"""So many queues at most are watched by one request; further ones are seen by the next."""


async def peek_messages(
    group: str, topic: str, queue_id: int, batch: int, call: "Call", services: "Services"
) -> "list[StoredMessage]":
    """Return the first messages of the topic, or of its queue, that the group was not handed."""
    require_consumer("PeekMessage", call, check_group_name(group), check_topic_name(topic), services)
    found: list[StoredMessage] = []
    passing = await services.filters.find_filter(ALL_TEXT)
    for row in await _find_behind(group, topic, queue_id, services):
        left = batch - len(found)
        if not left:
            break
        reading = services.messages.reading
        pulled = await reading.pull(row.queue, row.cursor, passing, batch=left, poll_s=0.0, room=call.room)
        found += pulled.messages
    return found


async def wait_for_messages(
    group: str, topic: str, queue_id: int, poll_s: float, call: "Call", services: "Services"
) -> bool:
    """Return whether there are messages for the group in the topic, or in its queue; wait for some if not.
    RightsRevoked if the user loses the rights meanwhile."""
    check_group_name(group)
    with services.access.watching("ReceiveMessage", call, needs_of_consumer(group, check_topic_name(topic))):
        rows = await _find_rows(group, topic, queue_id, services)
        if any(row.cursor < row.max_offset for row in rows):
            return True
        wait_s = max(0.0, min(poll_s, services.long_poll_max_ms / 1000))
        return wait_s > 0 and await _wait_for_arrival(rows[:_WAITED_FOR_MAX], wait_s, call, services)


async def _wait_for_arrival(rows: "list[QueueProgress]", wait_s: float, call: "Call", services: "Services") -> bool:
    passing = await services.filters.find_filter(ALL_TEXT)
    pull = services.messages.reading.pull
    waits = {
        asyncio.ensure_future(pull(row.queue, row.max_offset, passing, batch=1, poll_s=wait_s, room=call.room))
        for row in rows
    }
    try:
        for each in asyncio.as_completed(waits):
            if (await each).messages:
                return True
        return False
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _find_behind(group: str, topic: str, queue_id: int, services: "Services") -> "list[QueueProgress]":
    rows = await _find_rows(group, topic, queue_id, services)
    return [row for row in rows if row.cursor < row.max_offset]


async def _find_rows(group: str, topic: str, queue_id: int, services: "Services") -> "list[QueueProgress]":
    """Return where the group is in the queues that are meant; TOPIC_NOT_FOUND, or BAD_REQUEST for a queue that the
    topic does not have."""
    known = await services.catalog.existing_topic(topic)
    check_readable(known)
    if not ANY_QUEUE <= queue_id < known.queues:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic!r} has no queue {queue_id}: it has {known.queues}")
    rows = await services.messages.inspecting.progress(group, [topic])
    wanted = [row for row in rows if row.queue.topic == topic and queue_id in (ANY_QUEUE, row.queue.queue_id)]
    return sorted(wanted, key=lambda row: (row.queue.broker, row.queue.queue_id))
