"""Requests by which clients report themselves: heartbeats (34), leaving (35), members (38), subscriptions (46)."""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.names import RETRY_PREFIX, check_group_name
from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_SUB
from ternmq_proxy.fronts.remoting.call import check_client_id
from ternmq_proxy.fronts.remoting.callers import language_name
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.heartbeats import read_heartbeat, read_subscription_check
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.fronts.remoting.versions import POPS_FROM, version_name
from ternmq_proxy.operations.by_queue.group_ways import GroupWay, joining, require_offsets
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.processors.client_settings import UserAgent
from ternmq_proxy.processors.group_members import GroupMember
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import encode_json

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.fronts.remoting.handlers.handler import Answered
    from ternmq_proxy.fronts.remoting.heartbeats import Heartbeat
    from ternmq_proxy.processors.group_members import ConsumerReport


def begin_heartbeat(context: "RemotingCall", done: "Answered") -> bool:
    """Answer 34 if the heartbeat repeats the last one of its connection, and would change nothing; else return False,
    with nothing done."""
    if not context.memberships.renew_client(context.client, context.command, context.call.user):
        return False
    done(_answer_heartbeat(changed=False), None)
    return True


async def take_heartbeat(context: "RemotingCall") -> Command:
    """Answer 34."""
    context.client.known_heartbeat = None
    version = context.services.catalog.version
    heartbeat = read_heartbeat(context.command.body)
    if not check_client_id(heartbeat.client_id):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the client id is empty, or can't be printed")
    for report in heartbeat.consumers.values():
        await _admit_consumer(report, context)
    moved = await context.memberships.find_moved(context.client, heartbeat.client_id, heartbeat.consumers)
    async with AsyncExitStack() as joins:
        refused = await _join_groups(heartbeat, joins, context)
        changed = _note_client(heartbeat, moved, context)
    if refused is not None:
        raise refused
    context.memberships.remember_heartbeat(context.client, context.command, context.call.user, version)
    return _answer_heartbeat(changed=changed)


def _answer_heartbeat(*, changed: bool) -> Command:
    fields = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if changed else "false"}
    return Command(ResponseCode.SUCCESS, fields=fields)


async def _join_groups(heartbeat: "Heartbeat", joins: AsyncExitStack, context: "RemotingCall") -> MessagingError | None:
    """Have the client join the groups of which it is no member yet; take those out that refuse it, and return why: it
    may be a member of its other groups."""
    names = list(heartbeat.consumers)
    found = await asyncio.gather(*(_join_group(name, joins, context) for name in names))
    for name, refused in zip(names, found, strict=True):
        if refused is not None:
            del heartbeat.consumers[name]
    return next(filter(None, found), None)


async def _join_group(name: str, joins: AsyncExitStack, context: "RemotingCall") -> MessagingError | None:
    group = context.services.catalog.group_or_default(name)
    try:
        if group.remoting_pop:
            if context.command.version < POPS_FROM:
                require_offsets(group)
        elif not context.memberships.is_pulling(context.client, name):
            await joins.enter_async_context(joining(name, GroupWay.PULLS, context.services))
    except MessagingError as error:
        return error
    return None


def _note_client(heartbeat: "Heartbeat", moved: frozenset[str], context: "RemotingCall") -> bool:
    """Note what the client reports; return whether members or topics of a group changed."""
    services, client = context.services, context.client
    if not client.is_counted:
        services.quotas.add_connection(context.call.user, heartbeat.client_id)
        client.client_id, client.user, client.is_counted = heartbeat.client_id, context.call.user, True
        context.replies.add_channel(client)
    elif heartbeat.client_id != client.client_id:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "this connection is another client's")
    member = GroupMember(
        heartbeat.client_id,
        client,
        context.call.peer,
        UserAgent(language_name(context.command.language), version_name(context.command.version)),
        context.call.user,
    )
    return context.memberships.take_heartbeat(client, member, heartbeat.consumers, heartbeat.producers, moved)


async def _admit_consumer(report: "ConsumerReport", context: "RemotingCall") -> None:
    """Check the rights of a member; create its group if need be."""
    services, call = context.services, context.call
    name = check_group_name(report.group)
    services.access.require_right("Heartbeat", call, GROUP_SUB, name)
    for subscription in report.subscriptions or ():
        if not subscription.topic.startswith(RETRY_PREFIX):
            services.access.require_right("Heartbeat", call, TOPIC_SUB, subscription.topic)
    if not services.catalog.has_group(name):
        await services.catalog.ensure_group(name, may_create=may_create_group(call, name, services))


async def unregister_client(context: "RemotingCall") -> Command:
    """Answer 35: the client leaves one group, or two; a group that it was not in is no error."""
    fields = context.command.fields
    consumer_group, producer_group = fields.get("consumerGroup", ""), fields.get("producerGroup", "")
    if consumer_group:
        context.services.access.require_right(
            "NotifyClientTermination", context.call, GROUP_SUB, check_group_name(consumer_group)
        )
    context.memberships.leave_groups(context.client, consumer_group, producer_group)
    if producer_group:
        context.services.orphans.forget_client(context.client.client_id)
    return Command(ResponseCode.SUCCESS, fields={})


async def list_members(context: "RemotingCall") -> Command:
    """Answer 38: the ids of a group's members at all proxies."""
    group = context.get_group()
    context.services.access.require_right("QueryAssignment", context.call, GROUP_SUB, group)
    members = await context.memberships.find_members(group)
    if not members:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return Command(ResponseCode.SUCCESS, body=encode_json({"consumerIdList": members}))


async def check_subscription(context: "RemotingCall") -> Command:
    """Answer 46: whether an expression compiles."""
    written = read_subscription_check(context.command.body)
    try:
        await context.services.filters.find_filter(written)
    except MessagingError as error:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.message) from error
    return Command(ResponseCode.SUCCESS)
