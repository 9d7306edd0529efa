"""Requests about consumer groups: create and change (200, 225), delete (207), list (201), one (352), what it reads
(343) and may read (353).

`retryMaxTimes` is one less than the attempts that a group has. Settings that have no meaning here are read and not
kept, but for `consumeEnable`: false is refused, as nothing would stop.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF, CustomizedSteps, ExponentialCurve
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_group_name, retry_topic
from ternmq_common.resources.group_settings import GROUP_SETTINGS
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.access.needs import GROUP_GET
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import (
    answer_done,
    answer_json,
    read_number,
    read_object,
    read_objects,
)
from ternmq_proxy.fronts.remoting.handlers.admin.peers import find_consumers
from ternmq_proxy.fronts.remoting.handlers.admin.topics import cut_sequence, data_version
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin.groups.group_settings import create_group, delete_group, list_groups, update_group
from ternmq_proxy.operations.admin.named import find_group
from ternmq_proxy.operations.admin.pages import PageQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.catalog.retry_backoff import RetryBackoff
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

_CONSUME_TIMEOUT_MINUTES = 15
_STEPS_KEY, _CURVE_KEY = "customizedRetryPolicy", "exponentialRetryPolicy"


async def put_group(context: "RemotingCall") -> "Command":
    """Answer 200."""
    await _put_group(read_object(context.command.body), context)
    return answer_done()


async def put_groups(context: "RemotingCall") -> "Command":
    """Answer 225."""
    for content in read_objects(context.command.body, "groupConfigList"):
        await _put_group(content, context)
    return answer_done()


async def _put_group(content: "Mapping[object, object]", context: "RemotingCall") -> None:
    """Create the group, or change the existing one."""
    name = check_group_name(str(content.get("groupName") or ""))
    if content.get("consumeEnable") is False:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            "a group can't be disabled here; end its clients, or take its users' right to consume",
        )
    services = context.services
    try:
        known = await services.catalog.existing_group(name)
    except MessagingError as error:
        if error.code != ErrorCode.CONSUMER_GROUP_NOT_FOUND:
            raise
        await create_group(name, lambda: _read_group(ConsumerGroup(name=name), content), context.call, services)
    else:
        bound = None if known.lite is None else known.lite.bind
        await update_group(name, lambda: _read_group(known, content), context.call, services, lite_topic=bound)


def _read_group(known: ConsumerGroup, content: "Mapping[object, object]") -> ConsumerGroup:
    """Return the group with the settings that a request has."""
    attempts = max(0, read_number(content, "retryMaxTimes", known.max_attempts - 1)) + 1
    fifo = content.get("consumeMessageOrderly", known.fifo) is True
    group = replace(
        known, fifo=fifo, max_attempts=attempts, retry_backoff=_read_backoff(content.get("groupRetryPolicy"), known)
    )
    for each in GROUP_SETTINGS:
        if each.attribute == "max_attempts":
            each.check_stored(attempts)
    return group


def _read_backoff(policy: object, known: ConsumerGroup) -> "RetryBackoff":
    if not isinstance(policy, dict):
        return known.retry_backoff
    curve, steps = policy.get(_CURVE_KEY), policy.get(_STEPS_KEY)
    if policy.get("type") == "EXPONENTIAL" and isinstance(curve, dict):
        return ExponentialCurve(
            read_number(curve, "initial", 5000),
            read_number(curve, "max", 7_200_000),
            float(read_number(curve, "multiplier", 2)),
        )
    waits = steps.get("next") if isinstance(steps, dict) else None
    if isinstance(waits, list) and waits and all(isinstance(each, int) for each in waits):
        return CustomizedSteps(tuple(waits))
    return known.retry_backoff


async def remove_group(context: "RemotingCall") -> "Command":
    """Answer 207; a group that is not there is no error."""
    name = check_group_name(context.command.get_text("groupName"))
    try:
        await delete_group(name, context.call, context.services)
    except MessagingError as error:
        if error.code != ErrorCode.CONSUMER_GROUP_NOT_FOUND:
            raise
    return answer_done()


# --- looking


async def list_all(context: "RemotingCall") -> "Command":
    """Answer 201: all groups, or those from number `groupSeq` on."""
    groups, _ = await list_groups(PageQuery(), context.call, context.services)
    found = [describe(group) for group in groups]
    page = cut_sequence(found, "groupSeq", "maxGroupNum", context)
    body = {
        "dataVersion": data_version(context),
        "forbiddenTable": {},
        "subscriptionGroupTable": {each["groupName"]: each for each in page},
    }
    return answer_json(body, totalGroupNum=len(found))


async def get_group(context: "RemotingCall") -> "Command":
    """Answer 352."""
    name = context.command.get_text("group")
    context.services.access.require_right("DescribeGroup", context.call, GROUP_GET, name)
    return answer_json(describe(await find_group(name, context.services)))


async def get_permission(context: "RemotingCall") -> "Command":
    """Answer 353: whether the group may read the topic, which users' rights decide here."""
    command = context.command
    name, topic = command.get_text("group"), command.get_text("topic")
    context.services.access.require_right("DescribeGroup", context.call, GROUP_GET, name)
    if not command.get_bool("readable", default=True):
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, "a topic can't be forbidden to a group here; take its users' right to it"
        )
    return answer_json({"group": name, "readable": True, "topic": topic})


def describe(group: ConsumerGroup) -> dict[str, object]:
    """Return a group as tools read it."""
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": group.fifo,
        "consumeTimeoutMinute": _CONSUME_TIMEOUT_MINUTES,
        "groupName": group.name,
        "groupRetryPolicy": _describe_backoff(group.retry_backoff),
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": group.max_attempts - 1,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def _describe_backoff(backoff: "RetryBackoff") -> dict[str, object]:
    if isinstance(backoff, ExponentialCurve):
        curve = {"initial": backoff.initial_ms, "max": backoff.max_ms, "multiplier": int(backoff.multiplier)}
        return {_CURVE_KEY: curve, "type": "EXPONENTIAL"}
    # As at a broker of RocketMQ, whose default steps are the same, these are not named.
    steps: dict[str, object] = {} if backoff == DEFAULT_BACKOFF else {_STEPS_KEY: {"next": list(backoff.steps_ms)}}
    return {**steps, "type": "CUSTOMIZED"}


async def list_topics(context: "RemotingCall") -> "Command":
    """Answer 343: the topics of which the group has offsets, or to which it subscribes."""
    name = context.command.get_text("group")
    context.services.access.require_right("DescribeGroup", context.call, GROUP_GET, name)
    group = await find_group(name, context.services)
    rows = await context.services.messages.inspecting.progress(group.name)
    report = await find_consumers(group.name, context.memberships.members, context.services)
    topics = {row.queue.topic for row in rows} | {each.topic for each in report.subscriptions}
    listed = sorted(
        {*topics, *context.services.subscriptions.subscribed_topics(group.name)} - {retry_topic(group.name)}
    )
    return answer_json({"brokerAddr": context.client.address, "topicList": listed})
