"""Calls of `ternmq.admin.v1.Admin` about consumer groups and how far they are."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.clock import now_ms
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.limits import (
    ATTEMPTS_MAX,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY_FACTOR,
    INVISIBLE_MAX_MS,
    SECOND_MS,
)
from ternmq_common.lite_group import DEFAULT_LITE_QUOTA, LITE_QUOTA_MAX, LiteGroup, find_rebinding_problem
from ternmq_common.message_type import MessageType
from ternmq_common.model import DEFAULT_CONSUME_FROM, ConsumerGroup, QueueRef, TopicSubscription
from ternmq_common.names import check_group_name, check_topic_name, dead_letter_topic, retry_topic
from ternmq_common.retry_backoff import parse_backoff
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.access.needs import GROUP_LIST
from ternmq_proxy.fronts.grpc.activities.admin.elsewhere import told_elsewhere
from ternmq_proxy.fronts.grpc.activities.admin.pages import page_of, seen
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.processors.subscription_news import order_problem
from ternmq_proxy.processors.subscriptions import find_contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_common.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_PRIORITY_FACTOR_MAX = 100
_BEGINNINGS = (DEFAULT_CONSUME_FROM, "earliest", "latest")
_TIME_DIGITS_MAX = 15
MEMBERS = "members"
"""The question for others; the argument is the name of a group."""


class _Members(NamedTuple):
    """The client types of a group's members, by their ids; and of each topic the filter of each that reads it."""

    types: dict[str, int]
    filters: dict[str, dict[str, str]]


_told_members = msgspec.json.Decoder(_Members)


async def create_group(
    request: admin_pb2.CreateGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateGroupResponse:
    """Make a group; one that exists with the same settings is fine."""
    del call
    group = replace(_checked(request.group), created_ms=now_ms())
    if group.lite is not None:
        await _check_bound(group.lite.bind, services)
    _, created = await services.catalog.create_group(group)
    return admin_pb2.CreateGroupResponse(status=OK, created=created)


async def update_group(
    request: admin_pb2.UpdateGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateGroupResponse:
    """Give a group other settings; BAD_REQUEST for a change between FIFO and not once it has taken messages, which its
    progress can't follow, and for one of the topic that a lite group is bound to."""
    del call
    known = await services.catalog.existing_group(request.group.name)
    asked_topic = request.group.lite.topic if request.group.HasField("lite") else None
    if problem := find_rebinding_problem(known.name, known.lite, asked_topic):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    group = replace(_checked(request.group), created_ms=known.created_ms)
    if group.fifo != known.fifo and (topic := await _begun_topic(group.name, services)) is not None:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"consumer group {group.name!r} {'is' if known.fifo else 'is not'} FIFO, and that can't change any more, "
            f"since it has begun to take the messages of topic {topic!r}; delete the group, or use another",
        )
    await services.catalog.update_group(group)
    return admin_pb2.UpdateGroupResponse(status=OK, group=_group(group))


async def _check_bound(name: str, services: "Services") -> None:
    """TOPIC_NOT_FOUND, ILLEGAL_TOPIC unless lite groups can be bound to the topic."""
    topic = await services.catalog.existing_topic(name, MessageType.LITE)
    if topic.type != MessageType.LITE:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"a lite group is bound to a LITE topic, which {name!r} is not: its type is {topic.type_name}",
        )


async def _begun_topic(group: str, services: "Services") -> str | None:
    """A topic of which the group has taken messages, None if there is none; HA_NOT_AVAILABLE if a broker can't say.

    A group that waits at the beginning of a queue has taken nothing. One that begins at the end has, as far as anybody
    knows: nothing tells what it left out from what it has finished.
    """
    for broker in services.catalog.list_brokers():
        await services.messages.committed(group, QueueRef(retry_topic(group), broker.name, 0))
    for row in await services.messages.progress(group):
        if row.in_flight or (row.cursor and await _has_begun(group, row, services)):
            return row.queue.topic
    return None


async def _has_begun(group: str, row: "QueueProgress", services: "Services") -> bool:
    if row.queue.topic == retry_topic(group):
        return True
    bounds, committed = await services.messages.bounds(row.queue), await services.messages.committed(group, row.queue)
    return committed is not None and row.cursor > bounds.minimum


def _checked(asked: admin_pb2.Group) -> ConsumerGroup:
    """The settings that were asked for, with defaults for those that were not."""
    attempts = asked.max_attempts or DEFAULT_MAX_ATTEMPTS
    if not 1 <= attempts <= ATTEMPTS_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"{attempts} attempts were requested; 1 to {ATTEMPTS_MAX} are allowed"
        )
    hold_ms: int = asked.queue_lock_hold.ToMilliseconds()
    if hold_ms and not SECOND_MS <= hold_ms <= INVISIBLE_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"the queue lock is to be held for {hold_ms} ms; {SECOND_MS} to {INVISIBLE_MAX_MS} are allowed, 0 for none",
        )
    return ConsumerGroup(
        name=check_group_name(asked.name),
        fifo=asked.fifo,
        max_attempts=attempts,
        retry_backoff=parse_backoff(asked.retry_backoff),
        consume_from=_beginning(asked.consume_from or DEFAULT_CONSUME_FROM),
        assignment=str(AssignmentStrategy.parse_strategy(asked.assignment)),
        queue_lock_hold_ms=hold_ms,
        priority_factor=_priority_factor(asked),
        lite=_lite_group(asked.lite) if asked.HasField("lite") else None,
    )


def _lite_group(asked: admin_pb2.LiteSettings) -> LiteGroup:
    if not asked.topic:
        raise MessagingError(ErrorCode.BAD_REQUEST, "a lite group is bound to a LITE topic, and none was named")
    quota = asked.quota or DEFAULT_LITE_QUOTA
    if not 1 <= quota <= LITE_QUOTA_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"a quota of {quota} lite topics was requested; 1 to {LITE_QUOTA_MAX} are allowed",
        )
    return LiteGroup(
        bind=check_topic_name(asked.topic),
        exclusive=asked.exclusive,
        quota=quota,
        wildcard=asked.wildcard,
        resets_when_taken=asked.resets_when_taken,
        resets_when_unsubscribed=asked.resets_when_unsubscribed,
    )


def _priority_factor(asked: admin_pb2.Group) -> int:
    factor = asked.priority_factor if asked.HasField("priority_factor") else DEFAULT_PRIORITY_FACTOR
    if not 0 <= factor <= _PRIORITY_FACTOR_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"the priority factor {factor} was requested; 0 to {_PRIORITY_FACTOR_MAX} are allowed",
        )
    return factor


def _beginning(text: str) -> str:
    if text in _BEGINNINGS or (text.isascii() and text.isdigit() and len(text) <= _TIME_DIGITS_MAX):
        return text
    raise MessagingError(
        ErrorCode.BAD_REQUEST,
        f"a group can't begin at {text!r}; {', '.join(_BEGINNINGS)} or milliseconds since the epoch are allowed",
    )


async def list_groups(
    request: admin_pb2.ListGroupsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListGroupsResponse:
    """All groups, by name, or a page of them."""
    groups, following = page_of(await seen(services.catalog.list_groups(), GROUP_LIST, call, services), request)
    answer = admin_pb2.ListGroupsResponse(status=OK, next_page=following)
    turns = WorkTurns()
    for group in groups:
        answer.groups.append(_group(group))
        await turns.next_turn()
    return answer


async def describe_group(
    request: admin_pb2.DescribeGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeGroupResponse:
    """The group, how far it is in each queue, its members, wherever they are connected, and where they contradict.

    The queues are those of all topics that it subscribes or has taken messages of; see `Storage.progress`.
    """
    del call
    group = await services.catalog.existing_group(request.name)
    told, silent = await told_elsewhere(_told_members.decode, MEMBERS, group.name, services)
    types, filters = _together([*told, _members_here(group.name, services)])
    answer = admin_pb2.DescribeGroupResponse(
        status=OK,
        group=_group(group),
        client_ids=sorted(types),
        inconsistencies=[*find_contradictions(filters), *_order_problems(group, filters, services)],
        silent=silent,
    )
    for client_id in answer.client_ids:
        subscribed = {topic: its[client_id] for topic, its in filters.items() if client_id in its}
        answer.members.add(client_id=client_id, client_type=types[client_id], subscriptions=subscribed)
    now = services.clock.now_ms()
    rows = await services.messages.progress(group.name, sorted(filters))
    answer.progress.extend(_progress(progress, now) for progress in rows)
    return answer


async def answer_members(argument: str, services: "Services") -> bytes:
    """What another process is told of a group."""
    return msgspec.json.encode(_members_here(argument, services))


def _members_here(group: str, services: "Services") -> _Members:
    types = {client.client_id: int(client.client_type) for client in services.clients.group_members(group)}
    return _Members(types, services.subscriptions.group_filters(group))


def _together(told: "Iterable[_Members]") -> _Members:
    """As one process would know it; what comes last counts."""
    types: dict[str, int] = {}
    filters: dict[str, dict[str, str]] = {}
    for each in told:
        types.update(each.types)
        for topic, its in each.filters.items():
            filters.setdefault(topic, {}).update(its)
    return _Members(types, filters)


def _order_problems(group: ConsumerGroup, topics: "Iterable[str]", services: "Services") -> "Iterator[str]":
    for topic in sorted(topics):
        if problem := order_problem(TopicSubscription(group.name, topic), services):
            yield problem


async def delete_group(
    request: admin_pb2.DeleteGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteGroupResponse:
    """Delete the group with its progress and its retries, and with its dead letters if that is asked for. Otherwise
    they stay until retention removes them, and a group that is created with this name has them."""
    del call
    name = request.name
    if request.with_dead_letters:
        version, letters_version = await services.catalog.delete_group_with_dead_letters(name)
        await services.messages.forget_group(name, version=version)
        await services.messages.forget_topic(dead_letter_topic(name), version=letters_version)
    else:
        version = await services.catalog.delete_group(name)
        await services.messages.forget_group(name, version=version)
    return admin_pb2.DeleteGroupResponse(status=OK)


def _group(group: ConsumerGroup) -> admin_pb2.Group:
    answer = admin_pb2.Group(
        name=group.name,
        fifo=group.fifo,
        max_attempts=group.max_attempts,
        retry_backoff=str(group.retry_backoff),
        consume_from=group.consume_from,
        assignment=group.assignment,
        priority_factor=group.priority_factor,
    )
    answer.created.FromMilliseconds(group.created_ms)
    if group.lite is not None:
        answer.lite.CopyFrom(_lite_settings(group.lite))
    if group.queue_lock_hold_ms:
        answer.queue_lock_hold.FromMilliseconds(group.queue_lock_hold_ms)
    return answer


def _lite_settings(lite: LiteGroup) -> admin_pb2.LiteSettings:
    return admin_pb2.LiteSettings(
        topic=lite.bind,
        exclusive=lite.exclusive,
        quota=lite.quota,
        wildcard=lite.wildcard,
        resets_when_taken=lite.resets_when_taken,
        resets_when_unsubscribed=lite.resets_when_unsubscribed,
    )


def _progress(progress: "QueueProgress", now: int) -> admin_pb2.Progress:
    answer = admin_pb2.Progress(
        topic=progress.queue.topic,
        broker=progress.queue.broker,
        queue_id=progress.queue.queue_id,
        committed=progress.committed,
        cursor=progress.cursor,
        in_flight=progress.in_flight,
        max_offset=progress.max_offset,
        lost=progress.lost,
    )
    if progress.oldest_ms is not None:
        answer.oldest_age.FromMilliseconds(max(0, now - progress.oldest_ms))
    return answer
