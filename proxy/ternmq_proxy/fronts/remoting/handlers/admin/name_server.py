"""Requests to a name server: brokers and clusters (106, 205, 327, 901), topics (206, 216, 217, 224, 304, 311 to 313),
its configuration (100 to 102, 219, 318, 319), and those that only brokers of RocketMQ make (103, 104, 322, 904).

The brokers that it names are the cluster's, each by the address of this proxy. They register with the cluster's
registry, never here.
"""

from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.names import retry_topic
from ternmq_proxy.access.needs import CLUSTER_GET, GROUP_LIST, TOPIC_DELETE, TOPIC_GET, TOPIC_LIST, TOPIC_UPDATE
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_done, answer_json, answer_names, refuse_always
from ternmq_proxy.fronts.remoting.handlers.routes import system_topics
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin import name_server_values as values
from ternmq_proxy.operations.admin.brokers.brokers import list_brokers, update_broker
from ternmq_proxy.operations.admin.name_server_values import ORDER_NAMESPACE
from ternmq_proxy.operations.admin.pages import select_visible
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall

refuse_registration = refuse_always(
    "brokers of RocketMQ can't register here: this is TernMQ, whose brokers are those of its own registry; start one "
    "with `ternmq broker`"
)
refuse_route = refuse_always("routes come from the registry, and none can be registered; create the topic with 17")
refuse_resumption = refuse_always(
    "a half message that was checked too often is rolled back for good; its copy is in TRANS_CHECK_MAX_TIME_TOPIC, "
    "from which it can be sent again"
)
refuse_settings = refuse_always("settings of this name server are those of TernMQ; change its settings file or options")


async def describe_cluster(context: "RemotingCall") -> Command:
    """Answer 106: all brokers."""
    brokers = [broker.name for broker in await list_brokers(context.call, context.services)]
    return answer_json(
        {
            "brokerAddrTable": {
                name: {
                    "brokerAddrs": {0: context.client.address},
                    "brokerName": name,
                    "cluster": context.cluster,
                    "enableActingMaster": False,
                }
                for name in brokers
            },
            "clusterAddrTable": {context.cluster: brokers},
        }
    )


async def describe_member_group(context: "RemotingCall") -> Command:
    """Answer 901: the replicas of a broker, which for clients are one."""
    broker = context.command.get_text("brokerName")
    known = broker in {each.name for each in await list_brokers(context.call, context.services)}
    addresses = (
        {0: context.client.address} if known and context.command.get_text("clusterName") == context.cluster else {}
    )
    member_group = {"brokerAddrs": addresses, "brokerName": broker, "cluster": context.cluster}
    return answer_json({"brokerMemberGroup": member_group})


async def list_topics(context: "RemotingCall") -> Command:
    """Answer 206: topics, retry topics of groups, and topics of the system."""
    return answer_names(await _find_names(context))


async def list_cluster_topics(context: "RemotingCall") -> Command:
    """Answer 224; none for another cluster."""
    return answer_names(await _find_names(context) if context.command.get_text("cluster") == context.cluster else [])


async def _find_names(context: "RemotingCall") -> list[str]:
    services, call = context.services, context.call
    topics = await select_visible(services.catalog.list_topics(), TOPIC_LIST, call, services)
    groups = await select_visible(services.catalog.list_groups(), GROUP_LIST, call, services)
    names = {topic.name for topic in topics} | {retry_topic(group.name) for group in groups}
    return sorted(names | system_topics(context))


async def list_system_topics(context: "RemotingCall") -> Command:
    """Answer 304: the names of the cluster and of its brokers."""
    brokers = [broker.name for broker in await list_brokers(context.call, context.services)]
    return answer_json({"brokerAddr": context.client.address, "topicList": [context.cluster, *brokers]})


async def list_unit_topics(context: "RemotingCall") -> Command:
    """Answer 311 to 313: there are no units here."""
    del context
    return answer_names([])


async def delete_topic(context: "RemotingCall") -> Command:
    """Answer 216: the name server knows what the registry has, so what 215 deleted is gone here too."""
    context.services.access.require_right("DeleteTopic", context.call, TOPIC_DELETE, context.command.get_text("topic"))
    return answer_done()


# --- permissions of brokers


async def wipe_write_permission(context: "RemotingCall") -> Command:
    """Answer 205."""
    return await _set_permission(context, QueuePermission.READ, "wipeTopicCount")


async def add_write_permission(context: "RemotingCall") -> Command:
    """Answer 327."""
    return await _set_permission(context, QueuePermission.READ_WRITE, "addTopicCount")


async def _set_permission(context: "RemotingCall", permission: QueuePermission, count: str) -> Command:
    broker = context.command.get_text("brokerName")
    await update_broker(broker, context.call, context.services, permission=permission)
    topics = sum(broker in topic.brokers for topic in context.services.catalog.list_topics())
    return Command(ResponseCode.SUCCESS, fields={count: str(topics)})


# --- configuration


async def describe_settings(context: "RemotingCall") -> Command:
    """Answer 319: those settings of RocketMQ's name server that mean something here."""
    context.services.access.require_right("GetServerInfo", context.call, CLUSTER_GET, "server")
    address, _, port = context.client.address.rpartition(":")
    lines = (f"bindAddress={address}", f"listenPort={port}", "clusterTest=false", "orderMessageEnable=true")
    return Command(ResponseCode.SUCCESS, body="".join(f"{line}\n" for line in lines).encode())


async def get_value(context: "RemotingCall") -> Command:
    """Answer 101. The queues of FIFO topics are values that clients need not set."""
    namespace, key = context.command.get_text("namespace"), context.command.get_text("key")
    value = (await _read_values(namespace, context)).get(key)
    if value is None:
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return Command(ResponseCode.SUCCESS, fields={"value": value})


async def list_values(context: "RemotingCall") -> Command:
    """Answer 219."""
    namespace = context.command.get_text("namespace")
    found = await _read_values(namespace, context)
    if not found:
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return answer_json({"table": found})


async def put_value(context: "RemotingCall") -> Command:
    """Answer 100. A value does not change a FIFO topic's queues in its route."""
    command = context.command
    namespace, key, value = command.get_text("namespace"), command.get_text("key"), command.get_text("value", "")
    topic = context.services.catalog.known_topic(key) if namespace == ORDER_NAMESPACE else None
    if topic is None or topic.type != MessageType.FIFO:
        await values.put_value(namespace, key, value, context.call, context.services)
        return answer_done()
    context.services.access.require_right("PutKvConfig", context.call, TOPIC_UPDATE, key)
    wanted = _order_value(key, context)
    if _read_order(value) != _read_order(wanted):
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"the queues of the FIFO topic {key} are {wanted}, and no others"
        )
    return answer_done()


async def delete_value(context: "RemotingCall") -> Command:
    """Answer 102; a value that is not there is no error."""
    namespace, key = context.command.get_text("namespace"), context.command.get_text("key", "")
    await values.delete_value(namespace, key, context.call, context.services)
    return answer_done()


async def _read_values(namespace: str, context: "RemotingCall") -> dict[str, str]:
    found = await values.read_values(namespace, context.call, context.services)
    return {**found, **_order_values(context)} if namespace == ORDER_NAMESPACE else found


def _order_values(context: "RemotingCall") -> dict[str, str]:
    """Return the queues of FIFO topics that the caller may see, by topic."""
    may = context.services.access.has_right
    return {
        topic.name: _order_value(topic.name, context)
        for topic in context.services.catalog.list_topics()
        if topic.type == MessageType.FIFO and may(context.call, TOPIC_GET, topic.name)
    }


def _order_value(name: str, context: "RemotingCall") -> str:
    topic = context.services.catalog.find_topic(name)
    brokers = context.services.messages.find_route(topic).brokers
    return ";".join(f"{broker}:{topic.queues}" for broker in sorted(brokers))


def _read_order(value: str) -> set[str]:
    return {part.strip() for part in value.split(";") if part.strip()}
