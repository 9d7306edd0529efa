"""The times of the messages that queues hold, and of those that a group has finished in them."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.access.needs import GROUP_GET, TOPIC_GET
from ternmq_proxy.operations.admin.named import find_group, find_topics_of_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_AT_ONCE = 32


class QueueTimeSpan(NamedTuple):
    """When the first and the last message of a queue were stored, and the last one that the group has finished, in
    milliseconds since the epoch; 0 if there is none. `delay_ms` is the age of the first that it has not finished."""

    queue: QueueRef
    first_ms: int = 0
    last_ms: int = 0
    finished_ms: int = 0
    delay_ms: int = 0


async def find_time_spans(
    group_name: str, topic_names: "Sequence[str]", call: "Call", services: "Services"
) -> list[QueueTimeSpan]:
    """Return the times of each queue with messages of those topics, or of all that the group has to do with.

    The retry topic is left out: it is of all topics together. BAD_REQUEST for too many queues.
    """
    asked = [(TOPIC_GET, name) for name in topic_names]  # which need not be the group's
    services.access.require_all("QueryTimeSpan", call, (GROUP_GET, group_name), *asked)
    group = await find_group(group_name, services)
    topics = await find_topics_of_group(group.name, topic_names, services)
    named, of_all = set(topics), retry_topic(group.name)
    rows = [
        row
        for row in await services.messages.inspecting.progress(group.name, topics)
        if row.queue.topic != of_all and (not topic_names or row.queue.topic in named)
    ]
    if len(rows) > (queues_max := services.answer_limits.span_queues_max):
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"these are {len(rows)} queues; {queues_max} are allowed, so name fewer topics"
        )
    now_ms = services.clock.now_ms()
    spans: list[QueueTimeSpan] = []
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        spans += await asyncio.gather(*(_find_span(group.name, row, now_ms, services) for row in some))
    return spans


async def _find_span(group: str, row: "QueueProgress", now_ms: int, services: "Services") -> QueueTimeSpan:
    queue = row.queue
    bounds = await services.messages.reading.bounds(queue)
    committed = await services.messages.reading.committed(group, queue)
    first_ms = last_ms = finished_ms = 0
    if bounds.minimum < bounds.maximum:
        first_ms = await find_stored_ms(queue, bounds.minimum, services)
        last_ms = await find_stored_ms(queue, bounds.maximum - 1, services)
    if committed is not None and bounds.minimum < committed <= bounds.maximum:
        finished_ms = await find_stored_ms(queue, committed - 1, services)
    delay_ms = 0 if row.oldest_ms is None else max(0, now_ms - row.oldest_ms)
    return QueueTimeSpan(queue, first_ms, last_ms, finished_ms, delay_ms)


async def find_stored_ms(queue: QueueRef, queue_offset: int, services: "Services") -> int:
    """Return when that message was stored; 0 if it can't be read any more."""
    pulled = await services.messages.reading.pull(queue, queue_offset, ALL, batch=1, poll_s=0.0)
    return pulled.messages[0].stored_ms if pulled.messages else 0
