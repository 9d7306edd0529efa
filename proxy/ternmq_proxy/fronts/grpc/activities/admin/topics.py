"""Calls of `ternmq.admin.v1.Admin` about topics (`operations/admin/topics/`)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.cluster import FlushMode
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.limits import DAY_MS, LITE_TTL_MAX_MS, LITE_TTL_MIN_MS, MINUTE_MS, QUEUES_MAX
from ternmq_common.message_type import MessageType
from ternmq_common.model import Topic
from ternmq_common.names import check_topic_name
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.admin.brokers import (
    permission_of,
    replication_of,
    wire_permission,
    wire_replication,
)
from ternmq_proxy.fronts.grpc.activities.admin.pages import read_page
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.operations.admin.topics import topic_list, topic_removal, topic_settings
from ternmq_proxy.operations.admin.topics.topic_settings import WantedTopic

if TYPE_CHECKING:
    from ternmq_common.model import QueueBounds, QueueContent, QueueRef
    from ternmq_protos.pool import Duration
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# Less would be a purge after each send, more is no topic's.
RETENTION_MIN_MS, RETENTION_MAX_MS = MINUTE_MS, 3650 * DAY_MS
_FLUSHES = {
    admin_pb2.FLUSH_SYNC: FlushMode.SYNC,
    admin_pb2.FLUSH_ASYNC: FlushMode.ASYNC,
    admin_pb2.FLUSH_BROKER: None,
}
_FLUSHES_ON_THE_WIRE = {mode: number for number, mode in _FLUSHES.items()}


async def create_topic(
    request: admin_pb2.CreateTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateTopicResponse:
    """Make a topic, on all brokers unless the request names some; one that exists with the same settings is fine."""
    asked = request.topic
    created = await topic_settings.create_topic(asked.name, lambda: _wanted(asked, services), call, services)
    return admin_pb2.CreateTopicResponse(status=OK, created=created)


def _wanted(asked: admin_pb2.Topic, services: "Services") -> WantedTopic:
    kind = _checked_type(asked.type or MessageType.NORMAL)
    topic = Topic(
        name=check_topic_name(asked.name),
        type=kind,
        queues=_checked_queues(asked.queues or services.catalog.default_queues),
        permission=permission_of(asked.permission or definition_pb2.READ_WRITE),
        brokers=tuple(asked.brokers),
        replication=replication_of(asked.replication or admin_pb2.REPLICATION_SHARD),
        mixed=_checked_mixed(asked),
        flush=_flush_of(asked.flush or admin_pb2.FLUSH_BROKER),
        retention_ms=_checked_retention_ms(asked.retention, kind),
        lite_ttl_ms=_checked_lite_ttl_ms(asked.lite_ttl, kind),
    )
    return WantedTopic(topic, frozenset(field.name for field, _ in asked.ListFields()))


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
    topic = known
    if request.HasField("queues"):
        topic = replace(topic, queues=_more_queues(request.queues, known))
    if request.HasField("permission"):
        topic = replace(topic, permission=permission_of(request.permission))
    if request.HasField("replication"):
        topic = replace(topic, replication=replication_of(request.replication))
    if request.HasField("flush"):
        topic = replace(topic, flush=_flush_of(request.flush))
    if request.HasField("retention"):
        topic = replace(topic, retention_ms=_checked_retention_ms(request.retention, known.type))
    if request.HasField("lite_ttl"):
        topic = replace(topic, lite_ttl_ms=_checked_lite_ttl_ms(request.lite_ttl, known.type))
    return topic


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


def _flush_of(asked: "admin_pb2.Flush") -> FlushMode | None:
    """None: as each broker has it."""
    if asked not in _FLUSHES:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"flush {asked} is unknown")
    return _FLUSHES[asked]


def _checked_retention_ms(asked: "Duration", kind: "MessageType") -> int:
    retention_ms: int = asked.ToMilliseconds()
    if retention_ms and kind == MessageType.LITE:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, "a LITE topic has no retention of its own, but a TTL of its lite topics"
        )
    if retention_ms and not RETENTION_MIN_MS <= retention_ms <= RETENTION_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"a retention of {retention_ms} ms was requested; {RETENTION_MIN_MS} to {RETENTION_MAX_MS} ms are allowed, "
            "0 for that of the broker",
        )
    return retention_ms


def _checked_lite_ttl_ms(asked: "Duration", kind: "MessageType") -> int:
    ttl_ms: int = asked.ToMilliseconds()
    if ttl_ms and kind != MessageType.LITE:
        raise MessagingError(ErrorCode.BAD_REQUEST, "a lite TTL is only for LITE topics")
    if ttl_ms and not LITE_TTL_MIN_MS <= ttl_ms <= LITE_TTL_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"a lite TTL of {ttl_ms} ms was requested; {LITE_TTL_MIN_MS} to {LITE_TTL_MAX_MS} ms are allowed, "
            "0 for none",
        )
    return ttl_ms


def _checked_queues(queues: int) -> int:
    if not 1 <= queues <= QUEUES_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{queues} queues were requested; 1 to {QUEUES_MAX} are allowed")
    return queues


def _more_queues(queues: int, known: Topic) -> int:
    if queues < known.queues:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {known.name!r} has {known.queues} queues on each broker; queues can be added, never taken away",
        )
    return _checked_queues(queues)


async def list_topics(
    request: admin_pb2.ListTopicsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTopicsResponse:
    """Return all topics, by name, or a page of them; or those that are asked for, as far as they are there."""
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
    """Return the topic and what each of its queues holds; with `contents` also what is more costly to know."""
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
        queues=topic.queues,
        permission=wire_permission(topic.permission),
        brokers=topic.brokers,
        replication=wire_replication(topic.replication),
        identity=topic.identity,
        mixed=topic.mixed,
        flush=_FLUSHES_ON_THE_WIRE[topic.flush],
    )
    if topic.retention_ms:
        answer.retention.FromMilliseconds(topic.retention_ms)
    if topic.lite_ttl_ms:
        answer.lite_ttl.FromMilliseconds(topic.lite_ttl_ms)
    answer.created.FromMilliseconds(topic.created_ms)
    return answer
