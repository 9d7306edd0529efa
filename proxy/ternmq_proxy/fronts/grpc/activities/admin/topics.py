"""Calls of `ternmq.admin.v1.Admin` about topics, and about the server itself."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock, now_ms
from ternmq_common.cluster import FlushMode
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.limits import DAY_MS, LITE_TTL_MAX_MS, LITE_TTL_MIN_MS, MINUTE_MS, QUEUES_MAX
from ternmq_common.message_type import MessageType
from ternmq_common.model import QueueRef, Topic, TopicContent
from ternmq_common.names import RETRY_PREFIX, check_topic_name, group_of_derived
from ternmq_common.own_version import own_version
from ternmq_common.units import render_duration
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.access.needs import TOPIC_LIST
from ternmq_proxy.fronts.grpc.activities.admin.brokers import (
    permission_of,
    refuse_if_embedded,
    replication_of,
    wire_permission,
    wire_replication,
)
from ternmq_proxy.fronts.grpc.activities.admin.pages import page_of, seen
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_runtime.observability.self_report import read_resident_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_protos.pool import Duration
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)
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
    del call
    asked = request.topic
    if group_of_derived(asked.name) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {asked.name!r} is there with its consumer group")
    kind = _checked_type(asked.type or MessageType.NORMAL)
    topic = Topic(
        name=check_topic_name(asked.name),
        type=kind,
        queues=_checked_queues(asked.queues or services.catalog.default_queues),
        created_ms=now_ms(),
        permission=permission_of(asked.permission or definition_pb2.READ_WRITE),
        brokers=await _checked_places(asked.brokers, services),
        replication=replication_of(asked.replication or admin_pb2.REPLICATION_SHARD),
        mixed=_checked_mixed(asked),
        flush=_flush_of(asked.flush or admin_pb2.FLUSH_BROKER),
        retention_ms=_checked_retention_ms(asked.retention, kind),
        lite_ttl_ms=_checked_lite_ttl_ms(asked.lite_ttl, kind),
    )
    found, created = await _created(topic, services)
    if settings := _settings_if_other(asked, topic, found):
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} exists with {settings}; "
            "change it with `ternmq topic update`, or ask for the same settings",
        )
    return admin_pb2.CreateTopicResponse(status=OK, created=created)


def _settings_if_other(asked: admin_pb2.Topic, topic: Topic, found: Topic) -> str:
    """What the topic that is there has, if something else was asked for; empty if not."""
    settings = {"permission": found.permission.value}
    if asked.replication and found.replication != topic.replication:
        settings["replication"] = found.replication or "as each shard has it"
    if asked.flush and found.flush != topic.flush:
        settings["flush"] = found.flush or "as each broker has it"
    if asked.HasField("retention") and found.retention_ms != topic.retention_ms:
        settings["retention"] = render_duration(found.retention_ms) if found.retention_ms else "as each broker has it"
    if asked.HasField("lite_ttl") and found.lite_ttl_ms != topic.lite_ttl_ms:
        settings["lite ttl"] = render_duration(found.lite_ttl_ms) if found.lite_ttl_ms else "none"
    is_permitted_otherwise = asked.permission and found.permission != topic.permission
    is_elsewhere = asked.brokers and found.brokers != topic.brokers
    if len(settings) == 1 and not is_permitted_otherwise and not is_elsewhere:
        return ""
    places = f" on {', '.join(found.brokers)}" if found.brokers else ""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) + places


async def _created(topic: Topic, services: "Services") -> tuple[Topic, bool]:
    """The topic, and whether it is new. One that is there is on the brokers of its day, which need not be today's."""
    try:
        known = await services.catalog.existing_topic(topic.name)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
        brokers = topic.brokers or services.catalog.placement_brokers()
        return await services.catalog.create_topic(replace(topic, brokers=brokers))
    same = replace(
        topic,
        permission=known.permission,
        brokers=known.brokers,
        replication=known.replication,
        flush=known.flush,
        retention_ms=known.retention_ms,
        lite_ttl_ms=known.lite_ttl_ms,
    )
    return await services.catalog.create_topic(same)


async def update_topic(
    request: admin_pb2.UpdateTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateTopicResponse:
    """More queues, another permission, replication, flush mode, retention or TTL of lite topics, brokers added or taken
    off; see the request's comment."""
    del call
    if group_of_derived(request.name) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {request.name!r} goes with its consumer group")
    name = check_topic_name(request.name)
    # Another proxy may have changed it: what isn't asked for must stay as it is now.
    await services.catalog.refresh_snapshot()
    known = services.catalog.find_topic(name)
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
    added = await _checked_places(request.added_brokers, services)
    if added or request.removed_brokers:
        topic = replace(topic, brokers=_changed_brokers(topic, added, request.removed_brokers, services))
    if topic != known:
        await services.catalog.update_topic(topic)
    return admin_pb2.UpdateTopicResponse(status=OK, topic=_topic(topic))


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


async def _checked_places(names: "Iterable[str]", services: "Services") -> tuple[str, ...]:
    """The brokers of these names, each once, that may get queues of a topic; BAD_REQUEST if one may not."""
    places = tuple(sorted(set(names)))
    if places:
        refuse_if_embedded(services)
    for name in places:
        broker = await services.catalog.existing_broker(name)
        if broker.draining:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"broker {name!r} is draining and takes no topics; see `ternmq broker resume`",
            )
    return places


def _changed_brokers(
    topic: Topic, added: "Iterable[str]", removed: "Iterable[str]", services: "Services"
) -> tuple[str, ...]:
    refuse_if_embedded(services)
    draining = {broker.name for broker in services.catalog.list_brokers() if broker.draining}
    for name in removed:
        if name not in topic.brokers:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} is not on broker {name!r}")
        if topic.permission.can_write and name not in draining:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"messages of topic {topic.name!r} are being sent to broker {name!r}; drain it, or make the topic "
                "read-only first, and have consumers take what is there",
            )
    left = (set(topic.brokers) | set(added)) - set(removed)
    if not left:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} would be on no broker; delete it instead")
    return tuple(sorted(left))


async def list_topics(
    request: admin_pb2.ListTopicsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTopicsResponse:
    """All topics, by name, or a page of them; or those that are asked for, as far as they are there."""
    named = sorted({check_topic_name(name) for name in request.names})
    if named:  # whose rule is another one
        found: Iterable[Topic] = await services.catalog.existing_topics(named)
    else:
        found = await seen(services.catalog.list_topics(), TOPIC_LIST, call, services)
    topics, following = page_of(found, request)
    answer = admin_pb2.ListTopicsResponse(status=OK, next_page=following)
    turns = WorkTurns()
    for topic in topics:
        answer.topics.append(_topic(topic))
        await turns.next_turn()
    return answer


async def describe_topic(
    request: admin_pb2.DescribeTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeTopicResponse:
    """The topic and what each of its queues holds; with `contents` also what is more costly to know."""
    del call
    topic = await services.catalog.existing_topic(check_topic_name(request.name))
    route = services.messages.find_route(topic)
    answer = admin_pb2.DescribeTopicResponse(status=OK, topic=_topic(topic))
    for broker in route.brokers:
        states = await _queue_states(topic, broker, services)
        if states is None:
            answer.silent_brokers.append(broker)
        else:
            answer.queues.extend(states)
    is_lite = topic.type == MessageType.LITE
    if request.contents or is_lite:
        content = await services.messages.content(topic.name)
        if request.contents:
            _add_contents(answer, content)
        if is_lite:
            answer.lite_topics, answer.lite_messages = content.lite_topics, content.lite_messages
    return answer


def _add_contents(answer: admin_pb2.DescribeTopicResponse, content: TopicContent) -> None:
    known = {(each.queue.broker, each.queue.queue_id): each for each in content.queues}
    for state in answer.queues:
        held = known.get((state.broker, state.queue_id))
        state.bytes = 0 if held is None else held.bytes
        if held is not None and held.oldest_ms is not None:
            state.oldest.FromMilliseconds(held.oldest_ms)
    answer.groups.extend(content.groups)
    answer.messages_in, answer.messages_out = content.sent_per_s, content.delivered_per_s


async def _queue_states(topic: Topic, broker: str, services: "Services") -> list[admin_pb2.QueueState] | None:
    """None if the broker doesn't answer: what the others hold is worth knowing then."""
    queues = [QueueRef(topic.name, broker, queue_id) for queue_id in range(topic.queues)]
    try:
        bounds = await asyncio.gather(*map(services.messages.bounds, queues))
    except MessagingError as error:
        if error.code not in (ErrorCode.HA_NOT_AVAILABLE, ErrorCode.PROXY_TIMEOUT):
            raise
        return None
    return [
        admin_pb2.QueueState(
            broker=broker,
            queue_id=each.queue_id,
            min_offset=held.minimum,
            max_offset=held.maximum,
            purged_below=held.purged_below,
        )
        for each, held in zip(queues, bounds, strict=True)
    ]


async def delete_topic(
    request: admin_pb2.DeleteTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteTopicResponse:
    """Delete the topic with its messages."""
    del call
    name = check_topic_name(request.name)
    version = await services.catalog.delete_topic(name)
    await services.messages.forget_topic(name, version=version)
    return admin_pb2.DeleteTopicResponse(status=OK)


async def purge_topic(
    request: admin_pb2.PurgeTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.PurgeTopicResponse:
    """Empty the topic's queues, or remove what is older than a time; see the request's comment."""
    topic = await services.catalog.existing_topic(check_topic_name(request.name))
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
    before_ms = time_ms(request.before) if request.HasField("before") else None
    # All brokers are asked before anything goes, so that one that is away refuses the whole.
    purged = await asyncio.gather(*(_to_purge(queue, before_ms, services) for queue in queues))
    if not request.dry_run:
        count = sum(each.after - each.first for each in purged)
        _log.info(
            "topic %s is purged by %s: %d messages of %d queues", topic.name, call.caller_text, count, len(queues)
        )
        for queue, each in zip(queues, purged, strict=True):
            await services.messages.purge(queue, each.after, retries=before_ms is None)
    return admin_pb2.PurgeTopicResponse(status=OK, queues=purged)


async def _to_purge(queue: QueueRef, before_ms: int | None, services: "Services") -> admin_pb2.PurgedQueue:
    """What the queue holds, and would hold afterwards."""
    bounds = await services.messages.bounds(queue)
    after = bounds.maximum if before_ms is None else await services.messages.offset_at(queue, before_ms)
    # Between the two questions retention may have been there.
    after = max(bounds.minimum, after)
    return admin_pb2.PurgedQueue(broker=queue.broker, queue_id=queue.queue_id, first=bounds.minimum, after=after)


async def get_server_info(
    request: admin_pb2.GetServerInfoRequest, call: "Call", services: "Services"
) -> admin_pb2.GetServerInfoResponse:
    """Version, start and resident memory of this process, and its time."""
    del request, call
    answer = admin_pb2.GetServerInfoResponse(
        status=OK,
        version=own_version(),
        resident_bytes=read_resident_bytes(),
        test_clock=isinstance(services.clock, MovableClock),
    )
    answer.started.FromMilliseconds(services.started_ms)
    answer.now.FromMilliseconds(services.clock.now_ms())
    return answer


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
