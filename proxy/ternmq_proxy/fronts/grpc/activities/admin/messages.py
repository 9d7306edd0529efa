"""Calls of `ternmq.admin.v1.Admin` that look at messages, move groups among them, and deliver dead letters again."""

import asyncio
from itertools import accumulate
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import CLIENT_MESSAGE_BYTES, DELIVERY_BYTES
from ternmq_common.message_type import MessageType
from ternmq_common.model import MessageState, QueueRef
from ternmq_common.names import check_topic_name
from ternmq_common.tag_filter import ALL
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2.definition_pb2 import SystemProperties
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_lite_queue
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.operations.dead_letters import resend_letters

if TYPE_CHECKING:
    from ternmq_common.model import MessageStatus, StoredMessage, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.dead_letters import ResentLetter
    from ternmq_proxy.services import Services

_FOUND_MAX = 64
_STATES = {
    MessageState.AHEAD: admin_pb2.AHEAD,
    MessageState.HELD: admin_pb2.HELD,
    MessageState.AGAIN: admin_pb2.AGAIN,
    MessageState.FINISHED: admin_pb2.FINISHED,
    MessageState.DEAD: admin_pb2.DEAD,
}


# --- offsets


async def reset_offsets(
    request: admin_pb2.ResetOffsetsRequest, call: "Call", services: "Services"
) -> admin_pb2.ResetOffsetsResponse:
    """Move a group in all queues of a topic, or in some; see the request's comment."""
    del call
    group = await services.catalog.existing_group(request.group)
    topic = await services.catalog.existing_topic(check_topic_name(request.topic))
    if topic.type == MessageType.LITE:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} has lite topics: where a group is in one, its clients say as they subscribe it",
        )
    if request.WhichOneof("target") is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no target: earliest, latest, a time, ...")
    wanted = sorted(set(request.queue_ids)) or range(topic.queues)
    if not all(0 <= queue_id < topic.queues for queue_id in wanted):
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not all of {list(wanted)}",
        )
    route = services.messages.find_route(topic)
    if request.broker and request.broker not in route.brokers:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} is not on broker {request.broker!r}, but on {', '.join(route.brokers)}",
        )
    brokers = [request.broker] if request.broker else route.brokers
    queues = [QueueRef(topic.name, broker, queue_id) for broker in brokers for queue_id in wanted]
    if request.WhichOneof("target") == "skip":
        return await _skip(request, queues, services)
    # All brokers are asked before anything moves, so that one that is away refuses the whole.
    moves = await asyncio.gather(*(_move(request, queue, services) for queue in queues))
    if not request.dry_run:
        for queue, move in zip(queues, moves, strict=True):
            await services.messages.set_committed(group.name, queue, move.after)
    answer = admin_pb2.ResetOffsetsResponse(status=OK, moves=moves)
    if not request.queue_ids and not request.broker and not request.dry_run:
        await services.messages.drop_retries(group.name, topic.name)
    return answer


async def _skip(
    request: admin_pb2.ResetOffsetsRequest, queues: list[QueueRef], services: "Services"
) -> admin_pb2.ResetOffsetsResponse:
    """Finish one message; the answer says up to where everything was finished before and is now."""
    if len(queues) != 1:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"an offset is one of one queue of one broker, and the request names {len(queues)} queues",
        )
    (queue,) = queues
    before = await services.messages.committed(request.group, queue)
    if not request.dry_run:
        await services.messages.skip(request.group, queue, request.skip)
    after = await services.messages.committed(request.group, queue)
    known, now = (-1 if each is None else each for each in (before, after))
    move = admin_pb2.OffsetMove(broker=queue.broker, queue_id=queue.queue_id, before=known, after=now)
    return admin_pb2.ResetOffsetsResponse(status=OK, moves=[move])


async def _move(request: admin_pb2.ResetOffsetsRequest, queue: QueueRef, services: "Services") -> admin_pb2.OffsetMove:
    before = await services.messages.committed(request.group, queue)
    after = await _target(request, queue, before, services)
    known = -1 if before is None else before
    return admin_pb2.OffsetMove(broker=queue.broker, queue_id=queue.queue_id, before=known, after=after)


async def _target(
    request: admin_pb2.ResetOffsetsRequest, queue: QueueRef, before: int | None, services: "Services"
) -> int:
    """Where the group is to go on in that queue, within what the queue holds."""
    bounds = await services.messages.bounds(queue)
    kind = request.WhichOneof("target")
    if kind == "earliest":
        return bounds.minimum
    if kind == "latest":
        return bounds.maximum
    if kind == "time":
        return await services.messages.offset_at(queue, time_ms(request.time))
    asked = request.offset if kind == "offset" else (bounds.minimum if before is None else before) + request.shift
    return min(max(asked, bounds.minimum), bounds.maximum)


# --- queries


async def query_messages(
    request: admin_pb2.QueryMessagesRequest, call: "Call", services: "Services"
) -> admin_pb2.QueryMessagesResponse:
    """The newest messages of a topic with a key or message id, as consumers get them: as many as clients take in one
    answer, one at least."""
    del call
    topic = await services.catalog.existing_topic(check_topic_name(request.topic))
    if not request.key:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no key")
    limit = min(max(1, request.limit or _FOUND_MAX), _FOUND_MAX)
    found = await services.messages.find_by_key(topic.name, request.key, limit)
    answer = admin_pb2.QueryMessagesResponse(status=OK)
    for message, size in zip(found, accumulate(map(_size, found)), strict=True):
        if size > CLIENT_MESSAGE_BYTES and answer.messages:
            break
        answer.messages.append(delivered_form(message, topic=message.queue.topic, store_host=services.store_host))
        answer.brokers.append(message.queue.broker)
    return answer


def _size(message: "StoredMessage") -> int:
    return len(message.rest) + len(message.system) + len(message.queue.broker) + DELIVERY_BYTES


async def describe_message(
    request: admin_pb2.DescribeMessageRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeMessageResponse:
    """A message by its place, and how it stands with the groups; MESSAGE_NOT_FOUND if there is none."""
    del call
    topic = await services.catalog.existing_topic(check_topic_name(request.topic))
    broker = _broker_of_message(request, topic, services)
    if request.lite_topic:
        queue, queues = QueueRef(named_lite_queue(request.lite_topic, topic), broker, request.queue_id), 1
    else:
        queue, queues = QueueRef(topic.name, broker, request.queue_id), topic.queues
    if not 0 <= request.queue_id < queues or request.offset < 0:
        raise _no_such_message(request)
    pulled = await services.messages.pull(queue, request.offset, ALL, batch=1, poll_s=0.0)
    found = [each for each in pulled.messages if each.queue_offset == request.offset]
    if not found:
        raise _no_such_message(request)
    message_id = SystemProperties.FromString(found[0].system).message_id
    standings = await services.messages.standings(queue, request.offset, message_id)
    return admin_pb2.DescribeMessageResponse(
        status=OK,
        message=delivered_form(found[0], topic=topic.name, store_host=services.store_host),
        broker=found[0].queue.broker,
        standings=[_status(each) for each in standings],
    )


def _broker_of_message(request: admin_pb2.DescribeMessageRequest, topic: "Topic", services: "Services") -> str:
    brokers = services.messages.find_route(topic).brokers
    if request.broker in brokers:
        return request.broker
    if not request.broker and len(brokers) == 1:
        return brokers[0]
    asked = f"broker {request.broker!r} has no part of it" if request.broker else "the request names no broker"
    raise MessagingError(ErrorCode.BAD_REQUEST, f"{asked}: topic {topic.name!r} is on {', '.join(brokers) or 'none'}")


def _no_such_message(request: admin_pb2.DescribeMessageRequest) -> MessagingError:
    return MessagingError(
        ErrorCode.MESSAGE_NOT_FOUND,
        f"queue {request.queue_id} of topic {request.topic!r} has no message at offset {request.offset}",
    )


def _status(status: "MessageStatus") -> admin_pb2.Standing:
    answer = admin_pb2.Standing(group=status.group, state=_STATES[status.state], attempts=status.attempts)
    if status.until_ms:
        answer.until.FromMilliseconds(status.until_ms)
    if status.dead_offset >= 0:
        answer.dead_letter_offset = status.dead_offset
    return answer


# --- dead letters


async def resend_dead_letters(
    request: admin_pb2.ResendDeadLettersRequest, call: "Call", services: "Services"
) -> admin_pb2.ResendDeadLettersResponse:
    """Deliver dead letters again, and say for each what became of it."""
    letters = await resend_letters(
        request.group, request.broker, list(request.offsets), request.to_topic, call, services
    )
    return admin_pb2.ResendDeadLettersResponse(status=OK, letters=map(_resent, letters))


def _resent(letter: "ResentLetter") -> admin_pb2.ResentDeadLetter:
    outcome = OK if letter.error is None else make_status(letter.error.code, letter.error.message)
    return admin_pb2.ResentDeadLetter(
        offset=letter.offset, topic=letter.topic, message_id=letter.message_id, status=outcome
    )
