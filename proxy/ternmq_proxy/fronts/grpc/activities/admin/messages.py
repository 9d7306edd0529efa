"""Calls of `ternmq.admin.v1.Admin` that look at messages, move groups among them, and deliver dead letters again."""

import asyncio
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ternmq_common.dead_letters import DEAD_LETTER_PROPERTIES
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import CLIENT_MESSAGE_BYTES, DELIVERY_BYTES
from ternmq_common.message_type import MessageType
from ternmq_common.model import MessageState, NewMessage, QueueRef
from ternmq_common.names import checked_topic, dead_letter_topic, group_of_derived
from ternmq_common.tag_filter import ALL, tag_hash
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2.definition_pb2 import Message, SystemProperties
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.fronts.grpc.activities.message_checks import conflict, effective_type, time_ms
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_lite_queue
from ternmq_proxy.fronts.grpc.activities.status import OK, status
from ternmq_proxy.processors.delivered_form import delivered_form
from ternmq_proxy.processors.placement import queue_of_group, queue_of_lite, queue_of_priority

if TYPE_CHECKING:
    from ternmq_common.model import Group, MessageStatus, StoredMessage, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_FOUND_MAX = 64
_RESENT_MAX = 1024
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
    topic = await services.catalog.existing_topic(checked_topic(request.topic))
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
    route = services.messages.route(topic)
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
    topic = await services.catalog.existing_topic(checked_topic(request.topic))
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
    topic = await services.catalog.existing_topic(checked_topic(request.topic))
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
    brokers = services.messages.route(topic).brokers
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
    """Deliver dead letters again, each by itself: one that can't be does not hold up the others."""
    group = await services.catalog.existing_group(request.group)
    if len(request.offsets) > _RESENT_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"{len(request.offsets)} dead letters were named; {_RESENT_MAX} are allowed"
        )
    if group_of_derived(request.to_topic) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {request.to_topic!r} is written by the broker alone")
    if request.to_topic:
        await services.catalog.existing_topic(checked_topic(request.to_topic))
    broker = await _broker_of_letters(request, services)
    found = await services.messages.dead_letters(group.name, broker, list(request.offsets))
    answer = admin_pb2.ResendDeadLettersResponse(status=OK)
    for offset in request.offsets:
        answer.letters.append(await _resent(offset, found.get(offset), request, group, call, services))
    return answer


async def _broker_of_letters(request: admin_pb2.ResendDeadLettersRequest, services: "Services") -> str:
    """The broker whose offsets the request means: the one it names, or the only one."""
    name = dead_letter_topic(request.group)
    route = services.messages.route(services.catalog.find_topic(name))
    if not request.broker and len(route.brokers) == 1:
        return route.brokers[0]
    if request.broker not in route.brokers:
        asked = f"broker {request.broker!r} has no part of it" if request.broker else "the request names no broker"
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"{asked}: the offsets of {name} are those of one of the brokers {', '.join(route.brokers)}",
        )
    return request.broker


async def _resent(
    offset: int,
    stored: "StoredMessage | None",
    request: admin_pb2.ResendDeadLettersRequest,
    group: "Group",
    call: "Call",
    services: "Services",
) -> admin_pb2.ResentDeadLetter:
    if stored is None:
        text = f"{dead_letter_topic(group.name)} has no message at offset {offset}"
        return admin_pb2.ResentDeadLetter(offset=offset, status=status(ErrorCode.MESSAGE_NOT_FOUND, text))
    letter = _revived(stored)
    name = request.to_topic or letter.topic
    outcome = admin_pb2.ResentDeadLetter(offset=offset, topic=name, message_id=letter.message.message_id)
    try:
        topic = await services.catalog.existing_topic(checked_topic(name))
        if group.fifo or group.lite is not None or request.to_topic:  # where other groups get it too
            services.access.require("ResendDeadLetters", call, TOPIC_PUB, topic.name)
            await _send(letter, topic, services)
        else:
            await services.messages.retry(group.name, topic.name, [letter.message])
        outcome.status.CopyFrom(OK)
    except MessagingError as error:
        outcome.status.CopyFrom(status(error.code, error.message))
    return outcome


@dataclass(frozen=True, slots=True)
class _Letter:
    """A dead letter as it was before: the topic that it was sent to, what it says of itself, and the message."""

    topic: str
    properties: SystemProperties
    message: NewMessage


def _revived(stored: "StoredMessage") -> _Letter:
    properties = SystemProperties.FromString(stored.system)
    message = Message.FromString(stored.rest)
    topic = properties.dead_letter_queue.topic
    properties.ClearField("dead_letter_queue")
    for name in DEAD_LETTER_PROPERTIES:
        message.user_properties.pop(name, None)
    return _Letter(
        topic,
        properties,
        NewMessage(
            tag_hash(properties.tag),
            properties.SerializeToString(),
            message.SerializeToString(),
            (properties.message_id, *properties.keys),
        ),
    )


async def _send(letter: _Letter, topic: "Topic", services: "Services") -> None:
    """Put the message into the topic at once: the time of a timed one has come, one of a transaction is committed.

    NORMAL topics take all, others the messages of their type.
    """
    kind = effective_type(letter.properties)
    if topic.type not in (kind, MessageType.NORMAL):
        raise conflict(topic, kind)
    route = services.messages.route(topic)
    if topic.keeps_order and kind == MessageType.FIFO:
        queue = queue_of_group(route, letter.properties.message_group)
    elif topic.type == MessageType.LITE:
        queue = queue_of_lite(route, letter.properties.lite_topic)
    elif topic.type == MessageType.PRIORITY:
        queue = queue_of_priority(topic, services.placement.next_broker(route), letter.properties.priority)
    else:
        queue = services.placement.next_queue(route)
    await services.messages.append(queue, [letter.message])
