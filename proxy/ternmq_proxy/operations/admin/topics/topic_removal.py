"""Topics are deleted, and emptied."""

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import RETRY_PREFIX, check_topic_name
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.access.needs import TOPIC_DELETE
from ternmq_proxy.operations.admin.named import find_topic

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)


class PurgedQueue(NamedTuple):
    """A queue, its first offset, and its first offset after a purge."""

    queue: QueueRef
    first: int
    after: int


async def delete_topic(name: str, call: "Call", services: "Services") -> None:
    """Delete the topic with its messages."""
    services.access.require_change("DeleteTopic", call, (TOPIC_DELETE, name))
    version = await services.catalog.delete_topic(check_topic_name(name))
    await services.messages.administering.forget_topic(name, version=version)


async def purge_topic(
    name: str, call: "Call", services: "Services", *, before_ms: int | None = None, dry_run: bool = False
) -> list[PurgedQueue]:
    """Empty the topic's queues, or remove what is older than `before_ms`, in milliseconds since the epoch."""
    services.access.require_change("PurgeTopic", call, (TOPIC_DELETE, name))
    topic = await find_topic(name, services)
    if topic.name.startswith(RETRY_PREFIX):
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC, f"what is in {topic.name!r} is the group's; skip its backlog instead"
        )
    if topic.type == MessageType.LITE:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"topic {topic.name!r} has lite topics, which go by their TTL or with it"
        )
    route = services.messages.find_route(topic)
    queues = [QueueRef(topic.name, broker, queue_id) for broker in route.brokers for queue_id in range(topic.queues)]
    # All brokers are called before anything is removed, so that the call fails whole if one is away.
    purged = await asyncio.gather(*(_plan_purge(queue, before_ms, services) for queue in queues))
    if not dry_run:
        count = sum(each.after - each.first for each in purged)
        _log.info(
            "topic %s is purged by %s: %d messages of %d queues", topic.name, call.caller_text, count, len(queues)
        )
        for each in purged:
            await services.messages.administering.purge(each.queue, each.after, retries=before_ms is None)
    return purged


async def _plan_purge(queue: QueueRef, before_ms: int | None, services: "Services") -> PurgedQueue:
    """Return the bounds of the queue, before and after."""
    bounds = await services.messages.reading.bounds(queue)
    after = bounds.maximum if before_ms is None else await services.messages.reading.offset_at(queue, before_ms)
    # Between the two questions retention may have been there.
    return PurgedQueue(queue, bounds.minimum, max(bounds.minimum, after))
