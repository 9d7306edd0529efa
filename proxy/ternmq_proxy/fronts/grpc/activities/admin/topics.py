"""Calls of `ternmq.admin.v1.Admin` about topics (`operations/admin/topics/`)."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import check_topic_name
from ternmq_common.resources.resource_settings import read_stored, write_stored
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_common.shard.model import Topic
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.pages import read_page
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.operations.admin.topics import topic_list, topic_removal, topic_settings
from ternmq_proxy.operations.admin.topics.topic_settings import WantedTopic

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueBounds, QueueContent, QueueRef
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def create_topic(
    request: admin_pb2.CreateTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateTopicResponse:
    """Create a topic, on all brokers unless the request names some; an existing one with the same settings is
    accepted."""
    asked = request.topic
    created = await topic_settings.create_topic(asked.name, lambda: _wanted(asked, services), call, services)
    return admin_pb2.CreateTopicResponse(status=OK, created=created)


def _wanted(asked: admin_pb2.Topic, services: "Services") -> WantedTopic:
    kind = _checked_type(asked.type or MessageType.NORMAL)
    settings = {"queues": services.catalog.default_queues, **read_stored(asked, TOPIC_SETTINGS)}
    topic = Topic(
        name=check_topic_name(asked.name),
        type=kind,
        brokers=tuple(asked.brokers),
        mixed=_checked_mixed(asked),
        **_checked_settings(settings, kind),
    )
    return WantedTopic(topic, frozenset(each.name for each in TOPIC_SETTINGS if each.is_in(asked)))


async def update_topic(
    request: admin_pb2.UpdateTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateTopicResponse:
    """More queues, another permission, replication, flush mode, retention or TTL of lite topics, brokers added or taken
    off; see the request's comment."""
    topic = await topic_settings.update_topic(
        request.name,
        lambda known: _changed(request, known),
        call,
        services,
        added_brokers=request.added_brokers,
        removed_brokers=request.removed_brokers,
    )
    return admin_pb2.UpdateTopicResponse(status=OK, topic=_topic(topic))


def _changed(request: admin_pb2.UpdateTopicRequest, known: Topic) -> Topic:
    settings = read_stored(request, TOPIC_SETTINGS)
    if "queues" in settings:
        _check_queues_stay(settings["queues"], known)
    return replace(known, **_checked_settings(settings, known.type))


def _checked_type(kind: int) -> MessageType:
    try:
        return MessageType(kind)
    except ValueError:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic type {kind} is unknown") from None


def _checked_mixed(asked: admin_pb2.Topic) -> bool:
    if asked.mixed and int(asked.type) not in (MessageType.MESSAGE_TYPE_UNSPECIFIED, MessageType.NORMAL):
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"a mixed topic is NORMAL, not {MessageType(asked.type).name}",
        )
    return asked.mixed


def _checked_settings(settings: dict[str, Any], kind: MessageType) -> dict[str, Any]:
    for each in TOPIC_SETTINGS:
        if each.attribute in settings:
            each.check_type(settings[each.attribute], is_lite=kind == MessageType.LITE)
            each.check_stored(settings[each.attribute])
    return settings


def _check_queues_stay(queues: int, known: Topic) -> None:
    if queues < known.queues:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {known.name!r} has {known.queues} queues on each broker; queues can be added, never taken away",
        )


async def list_topics(
    request: admin_pb2.ListTopicsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTopicsResponse:
    """Return all topics, by name, or a page of them; or the existing ones of the requested names."""
    topics, following = await topic_list.list_topics(read_page(request), request.names, call, services)
    answer = admin_pb2.ListTopicsResponse(status=OK, next_page=following)
    turns = WorkTurns()
    for topic in topics:
        answer.topics.append(_topic(topic))
        await turns.next_turn()
    return answer


async def describe_topic(
    request: admin_pb2.DescribeTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeTopicResponse:
    """Return the topic and the bounds of its queues; with `contents` also figures that cost more."""
    found = await topic_list.describe_topic(request.name, call, services, contents=request.contents)
    answer = admin_pb2.DescribeTopicResponse(
        status=OK,
        topic=_topic(found.topic),
        queues=[_queue_state(queue, bounds) for queue, bounds in found.queues.items()],
        silent_brokers=found.silent_brokers,
        groups=found.groups,
        lite_topics=found.lite_topics,
        lite_messages=found.lite_messages,
    )
    if found.content is not None:
        known = {(each.queue.broker, each.queue.queue_id): each for each in found.content.queues}
        for state in answer.queues:
            _add_content(state, known.get((state.broker, state.queue_id)))
        answer.messages_in, answer.messages_out = found.content.sent_per_s, found.content.delivered_per_s
    return answer


def _queue_state(queue: "QueueRef", bounds: "QueueBounds") -> admin_pb2.QueueState:
    return admin_pb2.QueueState(
        broker=queue.broker,
        queue_id=queue.queue_id,
        min_offset=bounds.minimum,
        max_offset=bounds.maximum,
        purged_below=bounds.purged_below,
    )


def _add_content(state: admin_pb2.QueueState, held: "QueueContent | None") -> None:
    state.bytes = 0 if held is None else held.bytes
    if held is not None and held.oldest_ms is not None:
        state.oldest.FromMilliseconds(held.oldest_ms)


async def delete_topic(
    request: admin_pb2.DeleteTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteTopicResponse:
    """Delete the topic with its messages."""
    await topic_removal.delete_topic(request.name, call, services)
    return admin_pb2.DeleteTopicResponse(status=OK)


async def purge_topic(
    request: admin_pb2.PurgeTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.PurgeTopicResponse:
    """Empty the topic's queues, or remove what is older than a time; see the request's comment."""
    before_ms = time_ms(request.before) if request.HasField("before") else None
    purged = await topic_removal.purge_topic(request.name, call, services, before_ms=before_ms, dry_run=request.dry_run)
    return admin_pb2.PurgeTopicResponse(
        status=OK,
        queues=[
            admin_pb2.PurgedQueue(
                broker=each.queue.broker, queue_id=each.queue.queue_id, first=each.first, after=each.after
            )
            for each in purged
        ],
    )


def _topic(topic: Topic) -> admin_pb2.Topic:
    answer = admin_pb2.Topic(
        name=topic.name,
        type=protocol_type(topic.type),
        brokers=topic.brokers,
        identity=topic.identity,
        mixed=topic.mixed,
    )
    write_stored(answer, TOPIC_SETTINGS, topic)
    answer.created.FromMilliseconds(topic.created_ms)
    return answer
