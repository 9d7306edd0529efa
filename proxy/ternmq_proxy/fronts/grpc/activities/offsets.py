"""UpdateOffset, GetOffset, QueryOffset and PullMessage: consumption by offset (`pulling.md, Offsets`)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import POLL_MARGIN_MS, PULL_BATCH_MAX
from ternmq_common.model import QueueReaderId, QueueRef
from ternmq_common.names import checked_group, checked_topic
from ternmq_common.wire import DeliveredFrames, without_body
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import (
    GetOffsetRequest,
    GetOffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryOffsetRequest,
    QueryOffsetResponse,
    UpdateOffsetRequest,
    UpdateOffsetResponse,
)
from ternmq_proxy.fronts.grpc.activities.group_creation import may_create_group
from ternmq_proxy.fronts.grpc.activities.status import OK, status, status_of
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.processors.placement import check_readable
from ternmq_proxy.quotas.receiving import sent, within

if TYPE_CHECKING:
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import Pulled, QueueBounds, Route
    from ternmq_protos.v2.definition_pb2 import MessageQueue, Status
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def _queue(queue: "MessageQueue", services: "Services") -> QueueRef:
    topic = await services.catalog.existing_topic(checked_topic(queue.topic.name))
    if not 0 <= queue.id < topic.queues:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not {queue.id}"
        )
    return QueueRef(topic.name, _broker(queue, services.messages.route(topic)), queue.id)


def _broker(queue: "MessageQueue", route: "Route") -> str:
    """The broker that the queue names; where there is one, any name means it."""
    name, brokers = queue.broker.name, route.brokers
    if name in brokers:
        return name
    if len(brokers) == 1:
        return brokers[0]
    raise MessagingError(
        ErrorCode.BAD_REQUEST,
        f"the message queue names broker {name!r}, but {route.topic.name!r} is on {', '.join(brokers) or 'none'}",
    )


async def update_offset(request: UpdateOffsetRequest, call: "Call", services: "Services") -> UpdateOffsetResponse:
    """Let the group go on at the offset, or at the first one left if it was removed; ILLEGAL_OFFSET beyond the end.

    FORBIDDEN when the group lets each queue have one reader, and another member is that one.
    """
    client_id = call.require_client()
    queue = await _queue(request.message_queue, services)
    name = checked_group(request.group.name)
    may_create = may_create_group(call, name, services)
    group = await services.catalog.group_of(name, (queue.topic,), may_create=may_create)
    bounds = await services.messages.bounds(queue)
    if not 0 <= request.offset <= bounds.maximum:
        raise _outside(request.offset, queue, bounds)
    reader = QueueReaderId(group.name, client_id, group.queue_lock_hold_ms)
    await services.messages.set_committed(group.name, queue, request.offset, reader=reader)
    return UpdateOffsetResponse(status=OK)


async def get_offset(request: GetOffsetRequest, call: "Call", services: "Services") -> GetOffsetResponse:
    """Where the group is in the queue; OFFSET_NOT_FOUND if it never was there."""
    call.require_client()
    queue = await _queue(request.message_queue, services)
    group = checked_group(request.group.name)
    offset = await services.messages.committed(group, queue)
    if offset is None:
        raise MessagingError(
            ErrorCode.OFFSET_NOT_FOUND,
            f"group {group!r} has no offset in queue {queue.queue_id} of {queue.topic!r}",
        )
    return GetOffsetResponse(status=OK, offset=offset)


async def query_offset(request: QueryOffsetRequest, call: "Call", services: "Services") -> QueryOffsetResponse:
    """The first offset held, the one after the last, or the first that was stored at or after a time."""
    call.require_client()
    queue = await _queue(request.message_queue, services)
    bounds = await services.messages.bounds(queue)
    if request.query_offset_policy == definition_pb2.BEGINNING:
        return QueryOffsetResponse(status=OK, offset=bounds.minimum)
    if request.query_offset_policy == definition_pb2.END:
        return QueryOffsetResponse(status=OK, offset=bounds.maximum)
    if request.query_offset_policy == definition_pb2.TIMESTAMP and request.HasField("timestamp"):
        # A time that no calendar has is before or after everything.
        offset = await services.messages.offset_at(queue, time_ms(request.timestamp))
        return QueryOffsetResponse(status=OK, offset=offset)
    raise MessagingError(ErrorCode.BAD_REQUEST, "the policy must be BEGINNING, END, or TIMESTAMP with a timestamp")


@dataclass(frozen=True, slots=True)
class PulledFrames:
    """The answer's items, serialized, and its status code."""

    frames: list[bytes]
    code: int

    async def undelivered(self) -> None:
        """The call was cut: nothing to give back, as a pull claims nothing."""


async def pull_message(request: PullMessageRequest, call: "Call", services: "Services") -> PulledFrames:
    """Status, messages, then the offset to go on from; no claim is made and no progress kept.

    A group that lets each queue have one reader makes the others wait, and sends a new reader to its own offset. A pull
    without a group, or for one that isn't there, is nobody's.
    """
    try:
        client_id = call.require_client()
        queue = await _queue(request.message_queue, services)
        check_readable(services.catalog.find_topic(queue.topic))
        reader = _reader(request.group.name, client_id, services)
        bounds = await services.messages.bounds(queue)
        if request.offset > bounds.maximum or request.offset < 0:
            error = _outside(request.offset, queue, bounds)
            return _answer(status(error.code, error.message), bounds.maximum)
        if request.offset < bounds.minimum:
            text = f"offset {request.offset} was removed; the queue begins at {bounds.minimum}"
            return _answer(status(ErrorCode.MESSAGE_NOT_FOUND, text), bounds.minimum)
        passing = await services.filters.of(request.filter_expression)
        take = partial(_pull, queue, request.offset, passing, reader, call, services)
        batch, poll_s = min(max(1, request.batch_size), PULL_BATCH_MAX), _poll_s(request, call, services)
        quotas = services.quotas
        meters = quotas.of_receiver(call.user, queue.topic, request.group.name, client_id) if quotas.limits_out else []
        if meters:
            pulled = await within(meters, batch, poll_s, take, _number, quotas.now)
        else:
            pulled = await take(batch, poll_s)
        if pulled is None:
            text = "a quota lets no message pass now (`ternmq quota list`)"
            return _answer(status(ErrorCode.MESSAGE_NOT_FOUND, text), request.offset)
    except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
        answer = status_of(error, "PullMessage")
        return PulledFrames([PullMessageResponse(status=answer).SerializeToString()], answer.code)
    answered = _with_messages(request, pulled, services, with_bodies=not call.leaves_out_bodies)
    if meters and pulled.messages:
        sent(meters, sum(map(len, answered.frames)), quotas.now())
    return answered


async def _pull(
    queue: QueueRef,
    offset: int,
    passing: "MessageFilter",
    reader: QueueReaderId | None,
    call: "Call",
    services: "Services",
    batch: int,
    poll_s: float,
) -> "Pulled":
    return await services.messages.pull(
        queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, room=call.room
    )


def _number(pulled: "Pulled") -> int:
    return len(pulled.messages)


def _reader(group: str, client_id: str, services: "Services") -> QueueReaderId | None:
    if not group:
        return None
    rules = services.catalog.rules(checked_group(group))
    if services.catalog.has_group(group):
        # So that its good-bye, or its silence, frees what it reads.
        services.clients.seen(client_id, group, joined=True)
    return QueueReaderId(group, client_id, rules.queue_lock_hold_ms)


def _with_messages(
    request: PullMessageRequest, pulled: "Pulled", services: "Services", *, with_bodies: bool
) -> PulledFrames:
    if not pulled.messages:
        return _answer(status(ErrorCode.MESSAGE_NOT_FOUND, "no new message"), pulled.next_offset)
    topic = request.message_queue.topic.SerializeToString()
    frames = DeliveredFrames(topic=topic, store_host=services.store_host.encode())
    messages = [
        frames.frame(
            rest=message.rest if with_bodies else without_body(message.rest),
            system=message.system,
            stored_ms=message.stored_ms,
            queue_id=message.queue.queue_id,
            queue_offset=message.queue_offset,
            attempt=1,
            handle=None,
        )
        for message in pulled.messages
    ]
    return _answer(OK, pulled.next_offset, messages)


def _answer(first: "Status", next_offset: int, messages: "list[bytes] | None" = None) -> PulledFrames:
    return PulledFrames(
        [
            PullMessageResponse(status=first).SerializeToString(),
            *(messages or ()),
            PullMessageResponse(next_offset=next_offset).SerializeToString(),
        ],
        first.code,
    )


def _poll_s(request: PullMessageRequest, call: "Call", services: "Services") -> float:
    asked_s = request.long_polling_timeout.ToMilliseconds() / 1000
    remaining_s = asked_s if call.remaining_s is None else call.remaining_s - POLL_MARGIN_MS / 1000
    return max(0.0, min(asked_s, services.long_poll_max_ms / 1000, remaining_s))


def _outside(offset: int, queue: QueueRef, bounds: "QueueBounds") -> MessagingError:
    return MessagingError(
        ErrorCode.ILLEGAL_OFFSET,
        f"offset {offset} is outside of queue {queue.queue_id} of {queue.topic!r} on {queue.broker}, which holds "
        f"{bounds.minimum} up to {bounds.maximum}",
    )
