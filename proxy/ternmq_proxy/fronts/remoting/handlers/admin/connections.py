"""Requests about connected clients: consumers of a group (203), what a group subscribes to (345), producers (204, 328).

Clients of the gRPC front are among a group's consumers, as far as tools have words for them.
"""

from typing import TYPE_CHECKING

from ternmq_common.filters.tag_filter import TagFilter
from ternmq_proxy.access.needs import CLUSTER_LIST, GROUP_GET
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_json, java_hash
from ternmq_proxy.fronts.remoting.handlers.admin.peers import (
    MemberReport,
    SubscriptionReport,
    find_consumers,
    find_producers,
)
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.fronts.remoting.versions import version_number
from ternmq_proxy.operations.admin.clients.client_list import find_group_clients
from ternmq_proxy.operations.admin.clients.subscriptions import find_client_subscriptions
from ternmq_proxy.peers.values import SubscriptionQuery
from ternmq_rpc.remoting.commands import Language

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

_LANGUAGES = {language.name for language in Language}
_OWN_LANGUAGES = {"DOT_NET": "DOTNET", "GOLANG": "GO"}
_PASSIVELY, _CLUSTERING, _FROM_LAST = "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"


async def list_consumers(context: "RemotingCall") -> "Command":
    """Answer 203."""
    group = context.get_group()
    context.services.access.require_right("ListConsumerConnection", context.call, GROUP_GET, group)
    report = await find_consumers(group, context.memberships.members, context.services)
    known = {member.client_id for member in report.members}
    others = [each for each in await _find_grpc_members(group, context) if each.client_id not in known]
    members = [*report.members, *others]
    if not members:
        raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
    first = members[0]
    subscriptions = report.subscriptions or await _find_grpc_subscriptions(group, context)
    return answer_json(
        {
            "connectionSet": [_describe_connection(each) for each in members],
            "consumeFromWhere": first.consume_from or _FROM_LAST,
            "consumeType": first.consume_type or _PASSIVELY,
            "messageModel": first.message_model or _CLUSTERING,
            "subscriptionTable": {each.topic: describe_subscription(each) for each in subscriptions},
        }
    )


async def _find_grpc_members(group: str, context: "RemotingCall") -> list[MemberReport]:
    """Return the group's clients as the proxies list them."""
    found = await find_group_clients(group, context.services)
    return [MemberReport(each.client_id, each.address, each.language, each.version) for each in found.entries]


async def _find_grpc_subscriptions(group: str, context: "RemotingCall") -> list[SubscriptionReport]:
    found = await find_client_subscriptions(SubscriptionQuery(group, ""), context.services)
    reports: dict[str, SubscriptionReport] = {}
    for each in found.entries:
        topic, shown = each.subscription.topic, each.subscription.filter
        if shown is not None:
            reports[topic] = SubscriptionReport(topic, shown.text, shown.is_sql is True, 0)
    return list(reports.values())


def _describe_connection(member: MemberReport) -> dict[str, object]:
    language = _OWN_LANGUAGES.get(member.language, member.language)
    return {
        "clientAddr": member.address,
        "clientId": member.client_id,
        "language": language if language in _LANGUAGES else Language.OTHER.name,
        "version": version_number(member.version),
    }


def describe_subscription(found: SubscriptionReport) -> dict[str, object]:
    """Return a subscription as tools read it."""
    tags = None if found.is_sql else TagFilter.parse_expression(found.expression).tags
    return {
        "classFilterMode": False,
        "codeSet": sorted(map(java_hash, tags or ())),
        "expressionType": "SQL92" if found.is_sql else "TAG",
        "subString": found.expression,
        "subVersion": found.version,
        "tagsSet": sorted(tags or ()),
        "topic": found.topic,
    }


async def get_subscription(context: "RemotingCall") -> "Command":
    """Answer 345."""
    group, topic = context.get_group("group"), context.command.get_text("topic")
    context.services.access.require_right("ListSubscription", context.call, GROUP_GET, group)
    report = await find_consumers(group, context.memberships.members, context.services)
    subscriptions = report.subscriptions or await _find_grpc_subscriptions(group, context)
    body: dict[str, object] = {"group": group, "topic": topic}
    found = next((each for each in subscriptions if each.topic == topic), None)
    if found is not None:
        body["subscriptionData"] = describe_subscription(found)
    return answer_json(body)


async def list_producers(context: "RemotingCall") -> "Command":
    """Answer 204."""
    group = context.command.get_text("producerGroup")
    context.services.access.require_right("ListClients", context.call, CLUSTER_LIST, "clients")
    found = await find_producers(group, context.memberships.members, context.services)
    if not found:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    return answer_json({"connectionSet": [_describe_connection(each) for each in found[group]]})


async def list_all_producers(context: "RemotingCall") -> "Command":
    """Answer 328."""
    context.services.access.require_right("ListClients", context.call, CLUSTER_LIST, "clients")
    found = await find_producers("", context.memberships.members, context.services)
    now_ms = context.services.clock.now_ms()
    return answer_json(
        {"data": {group: [_describe_producer(each, now_ms) for each in members] for group, members in found.items()}}
    )


def _describe_producer(member: MemberReport, now_ms: int) -> dict[str, object]:
    connection = _describe_connection(member)
    return {
        "clientId": member.client_id,
        "language": connection["language"],
        "lastUpdateTimestamp": now_ms,
        "remoteIP": f"/{member.address}",
        "version": connection["version"],
    }
