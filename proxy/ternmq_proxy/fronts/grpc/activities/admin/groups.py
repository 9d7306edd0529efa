"""Calls of `ternmq.admin.v1.Admin` about consumer groups and how far they are (`operations/admin/groups/`)."""

from typing import TYPE_CHECKING, cast

from ternmq_common.catalog.lite_group import DEFAULT_LITE_QUOTA, LITE_QUOTA_MAX, LiteGroup
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.resources.group_settings import GROUP_SETTINGS
from ternmq_common.resources.resource_settings import read_stored, write_stored
from ternmq_common.shard.model import ConsumerGroup
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.pages import read_page
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.groups import group_description, group_settings

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueProgress
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def create_group(
    request: admin_pb2.CreateGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateGroupResponse:
    """Create a group; an existing one with the same settings is accepted."""
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
    """The requested settings, with defaults for the others."""
    settings = read_stored(asked, GROUP_SETTINGS)
    for each in GROUP_SETTINGS:
        if each.attribute in settings:
            each.check_stored(settings[each.attribute])
    lite = _lite_group(asked.lite) if asked.HasField("lite") else None
    return ConsumerGroup(name=check_group_name(asked.name), lite=lite, **settings)


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
    """Return the group, its progress and reader in each queue, its members, and their contradictions."""
    found = await group_description.describe_group(request.name, call, services)
    answer = admin_pb2.DescribeGroupResponse(
        status=OK,
        group=_group(found.group),
        client_ids=[member.client_id for member in found.members],
        inconsistencies=found.inconsistencies,
        silent=found.silent,
        progress=[_progress(progress, found.now_ms) for progress in found.progress],
    )
    answer.members.extend(map(_member, found.members))
    return answer


def _member(member: "group_description.GroupMember") -> admin_pb2.Member:
    answer = admin_pb2.Member(
        client_id=member.client_id,
        client_type=cast("definition_pb2.ClientType", member.client_type),
        subscriptions=member.subscriptions,
    )
    if (client := member.client) is not None:
        answer.protocol = client.protocol
        answer.address = client.address
        answer.language = client.language
        answer.version = client.version
        answer.since.FromMilliseconds(client.since_ms)
        answer.proxy = client.proxy
    return answer


async def delete_group(
    request: admin_pb2.DeleteGroupRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteGroupResponse:
    """Delete the group with its progress and its retries, and with its dead letters if requested."""
    await group_settings.delete_group(request.name, call, services, with_dead_letters=request.with_dead_letters)
    return admin_pb2.DeleteGroupResponse(status=OK)


def _group(group: ConsumerGroup) -> admin_pb2.Group:
    answer = admin_pb2.Group(name=group.name)
    write_stored(answer, GROUP_SETTINGS, group)
    answer.created.FromMilliseconds(group.created_ms)
    if group.lite is not None:
        answer.lite.CopyFrom(_lite_settings(group.lite))
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
    if (reader := progress.reader) is not None:
        answer.reader.client_id = reader.client_id
        answer.reader.since.FromMilliseconds(reader.since_ms)
        answer.reader.last_pull.FromMilliseconds(reader.pulled_ms)
    if (lock := progress.lock) is not None:
        answer.lock.client_id = lock.client_id
        answer.lock.since.FromMilliseconds(lock.since_ms)
        answer.lock.until.FromMilliseconds(lock.until_ms)
    return answer
