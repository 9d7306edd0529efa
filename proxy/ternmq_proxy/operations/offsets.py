"""Committed offsets of consumer groups, and offsets of message queues (`pulling.md, Offsets`)."""

import enum
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_group_name
from ternmq_common.shard.model import QueueReaderId
from ternmq_proxy.access.needs import TOPIC_SUB
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.operations.message_queues import find_queue, illegal_offset
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueRef
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class OffsetPolicy(enum.Enum):
    """The choice of an offset of a queue: that of the first stored message, the one after the last, or that of the
    first message stored at or after a time."""

    BEGINNING = "beginning"
    END = "end"
    TIMESTAMP = "timestamp"


async def commit_offset(group: str, named: "QueueRef", offset: int, call: "Call", services: "Services") -> None:
    """Commit an offset for the group; a removed offset becomes the first one left. Raises ILLEGAL_OFFSET beyond the
    end.

    Raises FORBIDDEN if the group gives each queue to one reader, and another member is that one.
    """
    require_consumer("UpdateOffset", call, group, named.topic, services)
    client_id = call.require_client()
    queue = await find_queue(named, services)
    name = check_group_name(group)
    may_create = may_create_group(call, name, services)
    known = await services.catalog.ensure_subscribed_group(name, (queue.topic,), may_create=may_create)
    bounds = await services.messages.reading.bounds(queue)
    if not 0 <= offset <= bounds.maximum:
        raise illegal_offset(offset, queue, bounds)
    reader = QueueReaderId(known.name, client_id, known.queue_lock_hold_ms)
    await services.messages.reading.set_committed(known.name, queue, offset, reader=reader)


async def find_committed_offset(group: str, named: "QueueRef", call: "Call", services: "Services") -> int:
    """Return the group's committed offset in the queue. Raises OFFSET_NOT_FOUND."""
    require_consumer("GetOffset", call, group, named.topic, services)
    call.require_client()
    queue = await find_queue(named, services)
    check_group_name(group)
    offset = await services.messages.reading.committed(group, queue)
    if offset is None:
        raise MessagingError(
            ErrorCode.OFFSET_NOT_FOUND,
            f"group {group!r} has no offset in queue {queue.queue_id} of {queue.topic!r}",
        )
    return offset


async def find_offset(
    named: "QueueRef", policy: OffsetPolicy | None, time_ms: int | None, call: "Call", services: "Services"
) -> int:
    """Return the queue's offset by the policy. Raises BAD_REQUEST for no policy, and for TIMESTAMP without a time.

    `time_ms` is in milliseconds since the epoch; an impossible date is before or after everything.
    """
    services.access.require_right("QueryOffset", call, TOPIC_SUB, named.topic)
    call.require_client()
    queue = await find_queue(named, services)
    bounds = await services.messages.reading.bounds(queue)
    if policy is OffsetPolicy.BEGINNING:
        return bounds.minimum
    if policy is OffsetPolicy.END:
        return bounds.maximum
    if policy is OffsetPolicy.TIMESTAMP and time_ms is not None:
        return await services.messages.reading.offset_at(queue, time_ms)
    raise MessagingError(ErrorCode.BAD_REQUEST, "the policy must be BEGINNING, END, or TIMESTAMP with a timestamp")
