"""Pulls of clients that share queues among themselves, and keep the next offset of each.

The filter is the request's, or what the group's members reported in their heartbeats. A pull with `commit` sets the
group's committed offset first. `AnswerKind` says why there are no messages.
"""

import asyncio
import enum
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_common.filters.message_filter import FilterText
from ternmq_common.limits import PULL_BATCH_MAX
from ternmq_common.shard.model import QueueReaderId, QueueRef, StoredMessage
from ternmq_proxy.operations.by_queue.group_ways import require_offsets
from ternmq_proxy.operations.by_queue.queues import find_used_topic
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.operations.message_queues import find_queue_of
from ternmq_proxy.operations.rights import needs_of_consumer
from ternmq_proxy.processors.sending.placement import check_readable
from ternmq_proxy.quotas.receiving import take_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import ConsumerGroup, PulledMessages, QueueBounds
    from ternmq_proxy.call import Call
    from ternmq_proxy.quotas.meter import QuotaMeter
    from ternmq_proxy.services import Services

_RPC: Final = "PullMessage"


class AnswerKind(enum.Enum):
    """The outcome of a pull."""

    FOUND = "messages"
    NOTHING_NEW = "nothing at the end of the queue"
    FILTERED = "messages that do not pass the filter"
    OFFSET_MOVED = "an offset outside of the queue"
    THROTTLED = "a quota that lets no message pass now"


class QueuePull:
    """The pull of a client from a queue: at most `batch` messages from `offset` on; it waits up to `poll_s` seconds for
    one. `commit` is the offset to commit, None for none."""

    __slots__ = ("batch", "commit", "filter_text", "group", "offset", "poll_s", "queue")

    def __init__(
        self,
        queue: QueueRef,
        group: str,
        offset: int,
        filter_text: FilterText,
        batch: int,
        poll_s: float = 0.0,
        commit: int | None = None,
    ) -> None:
        self.queue = queue
        self.group = group
        self.offset = offset
        self.filter_text = filter_text
        self.batch = batch
        self.poll_s = poll_s
        self.commit = commit


class QueuePullResult:
    """The messages of a pull, where to go on, and the first and the next offset of the queue."""

    __slots__ = ("kind", "max_offset", "messages", "meters", "min_offset", "next_offset")

    def __init__(
        self,
        kind: AnswerKind,
        messages: list[StoredMessage],
        next_offset: int,
        min_offset: int,
        max_offset: int,
        meters: "Sequence[QuotaMeter]" = (),
    ) -> None:
        self.kind = kind
        self.messages = messages
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.meters = meters


async def pull_from_queue(request: QueuePull, call: "Call", services: "Services") -> QueuePullResult:
    """Read messages of a queue by offset. RightsRevoked if the user loses his rights while it waits."""
    with services.access.watching(_RPC, call, needs_of_consumer(request.group, request.queue.topic)):
        return await _pull_from_queue(request, call, services)


async def ensure_pulling_group(name: str, call: "Call", services: "Services") -> "ConsumerGroup":
    """Return the group of a client that pulls; create it if that is allowed."""
    known = services.catalog.known_group(name)
    if known is not None:
        return known
    return await services.catalog.ensure_group(name, may_create=may_create_group(call, name, services))


async def _pull_from_queue(request: QueuePull, call: "Call", services: "Services") -> QueuePullResult:
    catalog = services.catalog
    # Most pulls are of a group and a topic that are known, and need no coroutine for it.
    group = catalog.known_group(request.group) or await ensure_pulling_group(request.group, call, services)
    require_offsets(group)
    topic = catalog.known_topic(request.queue.topic) or await find_used_topic(request.queue.topic, services)
    queue = find_queue_of(topic, request.queue, services)
    check_readable(topic)
    reader = QueueReaderId(group.name, call.require_client(), group.queue_lock_hold_ms)
    reading = services.messages.reading
    bounds = await reading.bounds(queue, reader=reader, offset=request.offset)
    if request.commit is not None and 0 <= request.commit <= bounds.maximum:
        await reading.set_committed(group.name, queue, request.commit, reader=reader)
    offset = request.offset
    if bounds.moved_to is not None:
        return _without_messages(AnswerKind.OFFSET_MOVED, bounds.moved_to, bounds)
    if not bounds.minimum <= offset <= bounds.maximum:
        moved = bounds.maximum if offset > bounds.maximum else bounds.minimum
        return _without_messages(AnswerKind.OFFSET_MOVED, moved, bounds)
    passing = await services.filters.find_filter(request.filter_text)
    batch = min(max(1, request.batch), PULL_BATCH_MAX)
    poll_s = max(0.0, min(request.poll_s, services.long_poll_max_ms / 1000))
    quotas = services.quotas
    meters = quotas.receiver_meters(call.user, queue.topic, group.name, call.client_id) if quotas.limits_out else []
    if meters:
        take = partial(_pull_batch, queue, offset, passing, reader, call, services)
        pulled = await take_within(meters, batch, poll_s, take, _count_messages, quotas.now)
    else:
        pulled = await _pull_batch(queue, offset, passing, reader, call, services, batch, poll_s)
    if pulled is None:
        return _without_messages(AnswerKind.THROTTLED, offset, bounds)
    if not pulled.messages:
        kind = AnswerKind.FILTERED if pulled.next_offset > offset else AnswerKind.NOTHING_NEW
        return _without_messages(kind, pulled.next_offset, bounds)
    end = max(bounds.maximum, pulled.next_offset)
    return QueuePullResult(AnswerKind.FOUND, pulled.messages, pulled.next_offset, bounds.minimum, end, meters)


def _without_messages(kind: AnswerKind, next_offset: int, bounds: "QueueBounds") -> QueuePullResult:
    return QueuePullResult(kind, [], next_offset, bounds.minimum, max(bounds.maximum, next_offset))


async def _pull_batch(
    queue: QueueRef,
    offset: int,
    passing: "MessageFilter",
    reader: QueueReaderId,
    call: "Call",
    services: "Services",
    batch: int,
    poll_s: float,
) -> "PulledMessages":
    """Read messages from the offset on; messages that the filter leaves out do not end the wait."""
    reading, loop = services.messages.reading, asyncio.get_running_loop()
    end_s = loop.time() + poll_s
    pulled = await reading.pull(queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, room=call.room)
    while not pulled.messages and pulled.next_offset > offset and (left_s := end_s - loop.time()) > 0:
        offset = pulled.next_offset
        pulled = await reading.pull(queue, offset, passing, batch=batch, poll_s=left_s, reader=reader, room=call.room)
    return pulled


def _count_messages(pulled: "PulledMessages") -> int:
    return len(pulled.messages)
