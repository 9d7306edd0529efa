"""Pulls: consumption by offset, without claims (`pulling.md, Offsets`)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import ALL_TEXT, FilterText
from ternmq_common.limits import POLL_MARGIN_MS, PULL_BATCH_MAX
from ternmq_common.names import check_group_name
from ternmq_common.shard.model import QueueReaderId, QueueRef, StoredMessage
from ternmq_proxy.access.needs import TOPIC_SUB
from ternmq_proxy.operations.message_queues import find_queue, illegal_offset
from ternmq_proxy.operations.rights import needs_of_consumer
from ternmq_proxy.processors.sending.placement import check_readable
from ternmq_proxy.quotas.receiving import take_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import PulledMessages
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.quotas.meter import QuotaMeter
    from ternmq_proxy.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """The pull of a consumer: at most `batch` messages of the queue that pass the filter, from `offset` on, and how
    many seconds it waits for one. `group` is empty for a pull without a group; `batch_max` is a limit of the server."""

    queue: QueueRef
    offset: int
    group: str = ""
    filter: FilterText = ALL_TEXT
    batch: int = PULL_BATCH_MAX
    batch_max: int = PULL_BATCH_MAX
    poll_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PullResult:
    """The messages of a pull, and the next offset. `problem` says why there are none. `meters` are those of quotas: the
    front counts the bytes of the answer with them (`count_sent_bytes`)."""

    messages: list[StoredMessage]
    next_offset: int
    problem: MessagingError | None = None
    meters: "Sequence[QuotaMeter]" = ()


async def pull_messages(request: PullRequest, call: "Call", services: "Services") -> PullResult:
    """Read messages by offset; without claims, and without progress of the group. RightsRevoked if the user loses his
    rights while it waits.

    A group that gives each queue to one reader makes the others wait, and sends a new reader to its own offset. A pull
    without a group, or for a missing one, belongs to no group. An offset outside of the queue is a `problem`, with the
    next offset.
    """
    with services.access.watching("PullMessage", call, _needs_of_pull(request.group, request.queue.topic)):
        return await _pull_messages(request, call, services)


def _needs_of_pull(group: str, topic: str) -> "list[NamedNeed]":
    """Return the rights that a pull needs; without a group only the topic's."""
    return needs_of_consumer(group, topic) if group else [(TOPIC_SUB, topic)]


async def _pull_messages(request: PullRequest, call: "Call", services: "Services") -> PullResult:
    client_id = call.require_client()
    queue = await find_queue(request.queue, services)
    check_readable(services.catalog.find_topic(queue.topic))
    reader = _find_reader(request.group, client_id, call, services)
    bounds = await services.messages.reading.bounds(queue)
    offset = request.offset
    if offset > bounds.maximum or offset < 0:
        return PullResult([], bounds.maximum, illegal_offset(offset, queue, bounds))
    if offset < bounds.minimum:
        text = f"offset {offset} was removed; the queue begins at {bounds.minimum}"
        return PullResult([], bounds.minimum, MessagingError(ErrorCode.MESSAGE_NOT_FOUND, text))
    passing = await services.filters.find_filter(request.filter)
    take = partial(_pull_batch, queue, offset, passing, reader, call, services)
    batch, poll_s = min(max(1, request.batch), request.batch_max), _poll_s(request.poll_s, call, services)
    quotas = services.quotas
    meters = quotas.receiver_meters(call.user, queue.topic, request.group, client_id) if quotas.limits_out else []
    if meters:
        pulled = await take_within(meters, batch, poll_s, take, _count_messages, quotas.now)
    else:
        pulled = await take(batch, poll_s)
    if pulled is None:
        text = "a quota lets no message pass now (`ternmq quota list`)"
        return PullResult([], offset, MessagingError(ErrorCode.MESSAGE_NOT_FOUND, text))
    if not pulled.messages:
        return PullResult([], pulled.next_offset, MessagingError(ErrorCode.MESSAGE_NOT_FOUND, "no new message"))
    return PullResult(pulled.messages, pulled.next_offset, meters=meters)


async def _pull_batch(
    queue: QueueRef,
    offset: int,
    passing: "MessageFilter",
    reader: QueueReaderId | None,
    call: "Call",
    services: "Services",
    batch: int,
    poll_s: float,
) -> "PulledMessages":
    return await services.messages.reading.pull(
        queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, room=call.room
    )


def _count_messages(pulled: "PulledMessages") -> int:
    return len(pulled.messages)


def _find_reader(group: str, client_id: str, call: "Call", services: "Services") -> QueueReaderId | None:
    if not group:
        return None
    rules = services.catalog.group_or_default(check_group_name(group))
    if services.catalog.has_group(group):
        # So that its termination, or its silence, releases its queues.
        services.clients.note_call(client_id, group, user=call.user, joined=True)
    return QueueReaderId(group, client_id, rules.queue_lock_hold_ms)


def _poll_s(wanted_s: float, call: "Call", services: "Services") -> float:
    remaining_s = wanted_s if call.remaining_s is None else call.remaining_s - POLL_MARGIN_MS / 1000
    return max(0.0, min(wanted_s, services.long_poll_max_ms / 1000, remaining_s))
