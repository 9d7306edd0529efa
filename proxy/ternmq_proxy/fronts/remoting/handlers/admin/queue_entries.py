"""Requests for a queue's entries: where each message is, its size and the hash of its tag (321)."""

from typing import TYPE_CHECKING

from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import QueueRef
from ternmq_protos.v2.definition_pb2 import SystemProperties
from ternmq_proxy.access.needs import TOPIC_GET
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_json, java_hash
from ternmq_proxy.fronts.remoting.handlers.admin.connections import describe_subscription
from ternmq_proxy.fronts.remoting.handlers.admin.peers import find_consumers
from ternmq_proxy.fronts.remoting.messages.places import number_of_place
from ternmq_proxy.operations.message_queues import find_queue

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

_ENTRIES_MAX = 1000


async def list_entries(context: "RemotingCall") -> "Command":
    """Answer 321: `count` entries from number `index` on; a negative index is the newest."""
    command, services = context.command, context.services
    named = QueueRef(command.get_text("topic"), context.broker, max(0, command.get_int32("queueId")))
    services.access.require_right("QueryMessage", context.call, TOPIC_GET, named.topic)
    queue = await find_queue(named, services)
    bounds = await services.messages.reading.bounds(queue)
    index, count = command.get_int64("index", 0), min(_ENTRIES_MAX, command.get_int32("count", 0))
    at = bounds.maximum - 1 if index < 0 else index
    entries: list[StoredMessage] = []
    while len(entries) < count and bounds.minimum <= at < bounds.maximum:
        pulled = await services.messages.reading.pull(queue, at, ALL, batch=min(32, count - len(entries)), poll_s=0.0)
        entries += pulled.messages
        if pulled.next_offset <= at:
            break
        at = pulled.next_offset
    body: dict[str, object] = {
        "maxQueueIndex": bounds.maximum,
        "minQueueIndex": bounds.minimum,
        "queueData": [_describe_entry(each, context) for each in entries[:count]],
    }
    group = command.get_text("consumerGroup", "")
    if group:
        report = await find_consumers(group, context.memberships.members, services)
        subscription = next((each for each in report.subscriptions if each.topic == queue.topic), None)
        if subscription is None:
            body["filterData"] = f"{group}@{queue.topic} is not online!"
        else:
            body["filterData"] = "null"
            body["subscriptionData"] = describe_subscription(subscription)
    return answer_json(body)


def _describe_entry(message: "StoredMessage", context: "RemotingCall") -> dict[str, object]:
    tag = SystemProperties.FromString(message.system).tag
    return {
        "eval": False,  # only brokers with a filter of bits evaluate it
        "physicOffset": number_of_place(message.queue.broker, message.log_offset),
        "physicSize": len(context.client.record_maker.encode_message(message)),
        "tagsCode": java_hash(tag),
    }
