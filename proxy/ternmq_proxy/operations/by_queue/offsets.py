"""Committed offsets of groups whose clients keep them themselves, and offsets of queues."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import QueueReaderId
from ternmq_proxy.access.needs import TOPIC_SUB
from ternmq_proxy.operations.by_queue.group_ways import require_offsets
from ternmq_proxy.operations.by_queue.queues import find_queue
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueBounds, QueueRef
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def commit_queue_offset(
    group: str, named: "QueueRef", offset: int, call: "Call", services: "Services", *, is_member: bool = False
) -> None:
    """Commit an offset for the group, as one of its members or not; one beyond the end becomes the end. Raises
    CONSUMER_GROUP_NOT_FOUND, as it never creates the group; FORBIDDEN to members of a group that pops."""
    require_consumer("UpdateOffset", call, group, named.topic, services)
    known = await services.catalog.existing_group(group)
    if is_member:
        require_offsets(known)
    queue = await find_queue(named, services)
    bounds = await services.messages.reading.bounds(queue)
    reader = QueueReaderId(known.name, call.require_client(), known.queue_lock_hold_ms)
    await services.messages.reading.set_committed(known.name, queue, min(max(0, offset), bounds.maximum), reader=reader)


async def find_committed(
    group: str, named: "QueueRef", call: "Call", services: "Services", *, zero_if_missing: bool, begins: bool = False
) -> int:
    """Return the group's committed offset in the queue. Raises OFFSET_NOT_FOUND if it has none: then its clients decide
    where they begin.

    A group that is set to begin at the earliest message does so. With `zero_if_missing` any group begins at 0 in a
    queue that still has its first message, as RocketMQ does: a young topic is read from its beginning, even if clients
    would decide. `begins`: a member of the group asks, to go on there.
    """
    require_consumer("GetOffset", call, group, named.topic, services)
    missing = MessagingError(ErrorCode.OFFSET_NOT_FOUND, f"group {group!r} has no offset in this queue")
    if not services.catalog.has_topic(named.topic):
        raise missing
    queue = await find_queue(named, services)
    reading = services.messages.reading
    begins = begins and not services.catalog.group_or_default(group).remoting_pop
    offset = await (reading.begin_pulling if begins else reading.committed)(group, queue)
    if offset is not None:
        return offset
    bounds = await reading.bounds(queue)
    if services.catalog.group_or_default(group).consume_from == "earliest":
        return bounds.minimum
    if zero_if_missing and bounds.minimum == 0 and bounds.maximum > 0:
        return 0
    raise missing


async def find_bounds(named: "QueueRef", call: "Call", services: "Services") -> "QueueBounds | None":
    """Return the offsets of the queue; None for an unknown topic or queue."""
    services.access.require_right("QueryOffset", call, TOPIC_SUB, named.topic)
    try:
        queue = await find_queue(named, services)
    except MessagingError as error:
        if error.code in (ErrorCode.TOPIC_NOT_FOUND, ErrorCode.BAD_REQUEST):
            return None
        raise
    return await services.messages.reading.bounds(queue)


async def find_offset_at(named: "QueueRef", time_ms: int, call: "Call", services: "Services", *, after: bool) -> int:
    """Return the offset of the first message stored at or after the time, or, unless `after`, of the last one stored at
    or before it; 0 for an unknown queue."""
    bounds = await find_bounds(named, call, services)
    if bounds is None:
        return 0
    queue = await find_queue(named, services)
    reading = services.messages.reading
    if after:
        return await reading.offset_at(queue, time_ms)
    return max(bounds.minimum, await reading.offset_at(queue, time_ms + 1) - 1)
