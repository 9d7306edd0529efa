"""Requests of a name server: where a topic's queues are."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import (
    DISCARD_TOPIC,
    RETRY_PREFIX,
    SYSTEM_TOPICS,
    TRACE_TOPIC,
    check_group_name,
    check_topic_name,
)
from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_CREATE, TOPIC_ROUTE
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.replies import reply_topic
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.routes import permitted_brokers
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import encode_dialect

if TYPE_CHECKING:
    from ternmq_common.catalog.cluster import QueuePermission
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.fronts.remoting.call import RemotingCall

DEFAULT_TOPIC = "TBW102"
"""The topic whose route says what a topic will have that its first message creates."""
READ, WRITE, INHERIT = 4, 2, 1
# Clients before 4.9.4 need the ids of brokers without quotes.
_QUOTED_FROM = 401
_TIMER_TOPIC, _NO_LONGER_LISTED = "rmq_sys_wheel_timer", "CHECKPOINT_TOPIC"
_MEMBER_PREFIX, _REVIVE_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_", "rmq_sys_REVIVE_LOG_"
# As a name server of RocketMQ says it, since scripts look for it. A tool adds no advice of its own to this one.
_NO_ROUTE = "No topic route info in name server for the topic: "
_ADVICE = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


async def get_route(context: "RemotingCall") -> Command:
    """Answer 105: the brokers of a topic and their queues; TOPIC_NOT_EXIST."""
    command = context.command
    name = command.get_text("topic")
    quoted = command.version >= _QUOTED_FROM or command.get_bool("acceptStandardJsonOnly", default=False)
    brokers, queues = await _find_queues(name, context)
    ids: dict[object, str] = {"0" if quoted else 0: context.client.address}
    body = {
        "brokerDatas": [
            {
                "brokerAddrs": ids,
                "brokerName": broker,
                "cluster": context.cluster,
                "enableActingMaster": False,
            }
            for broker in brokers
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": broker,
                "perm": permission,
                "readQueueNums": queues,
                "topicSysFlag": 0,
                "writeQueueNums": queues,
            }
            for broker, permission in brokers.items()
        ],
    }
    return Command(ResponseCode.SUCCESS, body=encode_dialect(body))


async def _find_queues(name: str, context: "RemotingCall") -> tuple[dict[str, int], int]:
    """Return the topic's brokers with their permissions, and how many queues it has on each."""
    services = context.services
    if name == DEFAULT_TOPIC:
        return _find_future(name, context), services.catalog.default_queues
    if name.startswith(RETRY_PREFIX):
        group = check_group_name(name.removeprefix(RETRY_PREFIX))
        services.access.require_right("QueryRoute", context.call, GROUP_SUB, group)
        # A group has it from the beginning: its first retry would wait for the client's next look otherwise.
        return {broker.name: READ | WRITE for broker in services.catalog.list_brokers()}, 1
    services.access.require_right("QueryRoute", context.call, TOPIC_ROUTE, name)
    if name in (TRACE_TOPIC, reply_topic(context.cluster)):
        topic = await services.catalog.ensure_topic(name, mixed=True)
    elif name in system_topics(context):
        known = [broker.name for broker in services.catalog.list_brokers()]
        # Tools measure a broker by messages to the topic of its name, which the first one creates.
        permission = READ | WRITE if services.catalog.creates_topics and name in known else READ
        return dict.fromkeys(known, permission), 1
    else:
        topic = await _find_topic(check_topic_name(name), context)
    brokers = permitted_brokers(topic, services)
    return {broker.name: permission_bits(broker.permission) for broker in brokers}, topic.queues


async def _find_topic(name: str, context: "RemotingCall") -> "Topic":
    try:
        return await context.services.catalog.existing_topic(name)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"{_NO_ROUTE}{name}\n{_ADVICE}") from None


def system_topics(context: "RemotingCall") -> set[str]:
    """Return the names that lists of topics have because tools expect them; nothing is sent to them but probes."""
    catalog = context.services.catalog
    brokers = {broker.name for broker in catalog.list_brokers()}
    unlisted = {DISCARD_TOPIC, _NO_LONGER_LISTED} | (set() if catalog.creates_topics else {TRACE_TOPIC})
    names = {
        *(context.cluster, f"{context.cluster}_REPLY_TOPIC", f"{_REVIVE_PREFIX}{context.cluster}", _TIMER_TOPIC),
        *brokers,
        *(f"{_MEMBER_PREFIX}{broker}" for broker in brokers),
        *SYSTEM_TOPICS - unlisted,
    }
    return {name for name in names if not catalog.has_topic(name)}


def _find_future(name: str, context: "RemotingCall") -> dict[str, int]:
    services = context.services
    if not services.catalog.creates_topics or not services.access.has_right(context.call, TOPIC_CREATE, "*"):
        raise RequestRefused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"{_NO_ROUTE}{name}; this server creates no topics by their use",
        )
    return {broker.name: READ | WRITE | INHERIT for broker in services.catalog.list_brokers()}


def permission_bits(permission: "QueuePermission") -> int:
    """Return the permission as the protocol's bits."""
    return (READ if permission.can_read else 0) | (WRITE if permission.can_write else 0)
