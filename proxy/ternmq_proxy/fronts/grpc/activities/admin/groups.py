"""Calls of `ternmq.admin.v1.Admin` about consumer groups and how far they are (`operations/admin/groups/`)."""

from typing import TYPE_CHECKING

from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.limits import (
    ATTEMPTS_MAX,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY_FACTOR,
    INVISIBLE_MAX_MS,
    SECOND_MS,
)
from ternmq_common.lite_group import DEFAULT_LITE_QUOTA, LITE_QUOTA_MAX, LiteGroup
from ternmq_common.model import DEFAULT_CONSUME_FROM, ConsumerGroup
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.retry_backoff import parse_backoff
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.pages import read_page
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.groups import group_description, group_settings

if TYPE_CHECKING:
    from ternmq_common.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_PRIORITY_FACTOR_MAX = 100
_BEGINNINGS = (DEFAULT_CONSUME_FROM, "earliest", "latest")
_TIME_DIGITS_MAX = 15


async def create_group(
    request: admin_pb2.CreateGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateGroupResponse:
    """Make a group; one that exists with the same settings is fine."""
    asked = request.group
    created = await group_settings.create_group(
        asked.name, lambda: _checked(asked), call, services, lite_topic=_lite_topic(asked)
    )
    return admin_pb2.CreateGroupResponse(status=OK, created=created)


async def update_group(
    request: admin_pb2.UpdateGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateGroupResponse:
    """Give a group other settings."""
    asked = request.group
    group = await group_settings.update_group(
        asked.name, lambda: _checked(asked), call, services, lite_topic=_lite_topic(asked)
    )
    return admin_pb2.UpdateGroupResponse(status=OK, group=_group(group))


def _lite_topic(asked: admin_pb2.Group) -> str | None:
    return asked.lite.topic if asked.HasField("lite") else None


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
    """Return all groups, by name, or a page of them."""
    groups, following = await group_settings.list_groups(read_page(request), call, services)
    answer = admin_pb2.ListGroupsResponse(status=OK, next_page=following)
    turns = WorkTurns()
    for group in groups:
        answer.groups.append(_group(group))
        await turns.next_turn()
    return answer


async def describe_group(
    request: admin_pb2.DescribeGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeGroupResponse:
    """Return the group, how far it is in each queue, its members, and where they contradict."""
    found = await group_description.describe_group(request.name, call, services)
    answer = admin_pb2.DescribeGroupResponse(
        status=OK,
        group=_group(found.group),
        client_ids=[member.client_id for member in found.members],
        inconsistencies=found.inconsistencies,
        silent=found.silent,
        progress=[_progress(progress, found.now_ms) for progress in found.progress],
    )
    for member in found.members:
        answer.members.add(
            client_id=member.client_id, client_type=member.client_type, subscriptions=member.subscriptions
        )
    return answer


async def delete_group(
    request: admin_pb2.DeleteGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteGroupResponse:
    """Delete the group with its progress and its retries, and with its dead letters if that is asked for."""
    await group_settings.delete_group(request.name, call, services, with_dead_letters=request.with_dead_letters)
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
