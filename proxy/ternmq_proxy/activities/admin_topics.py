"""Calls of `ternmq.admin.v1.Admin` about topics, and about the server itself."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock, now_ms
from ternmq_common.errors import MessagingError
from ternmq_common.limits import QUEUES_MAX
from ternmq_common.model import QueueRef, Topic
from ternmq_common.names import checked_topic, group_of_derived
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.activities.status import OK

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def create_topic(
    request: admin_pb2.CreateTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateTopicResponse:
    """Make a topic; one that exists with the same settings is fine."""
    del call
    asked = request.topic
    queues = asked.queues or services.catalog.default_queues
    if not 1 <= queues <= QUEUES_MAX:
        raise MessagingError(
            definition_pb2.BAD_REQUEST, f"{queues} queues were asked for; 1 to {QUEUES_MAX} are allowed"
        )
    kind = asked.type or definition_pb2.NORMAL
    if kind not in definition_pb2.MessageType.values():
        raise MessagingError(definition_pb2.BAD_REQUEST, f"topic type {kind} is unknown")
    if group_of_derived(asked.name) is not None:
        raise MessagingError(definition_pb2.ILLEGAL_TOPIC, f"topic {asked.name!r} is there with its consumer group")
    topic = Topic(name=checked_topic(asked.name), type=kind, queues=queues, created_ms=now_ms())
    return admin_pb2.CreateTopicResponse(status=OK, created=await services.catalog.create_topic(topic))


async def list_topics(
    request: admin_pb2.ListTopicsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListTopicsResponse:
    """All topics, by name."""
    del request, call
    return admin_pb2.ListTopicsResponse(status=OK, topics=[_topic(topic) for topic in services.catalog.topics()])


async def describe_topic(
    request: admin_pb2.DescribeTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeTopicResponse:
    """The topic and what each of its queues holds."""
    del call
    topic = services.catalog.find_topic(checked_topic(request.name))
    route = await services.messages.route(topic)
    answer = admin_pb2.DescribeTopicResponse(status=OK, topic=_topic(topic))
    for broker in route.brokers:
        for queue_id in range(topic.queues):
            bounds = await services.messages.bounds(QueueRef(topic.name, broker, queue_id))
            answer.queues.add(broker=broker, queue_id=queue_id, min_offset=bounds.minimum, max_offset=bounds.maximum)
    return answer


async def delete_topic(
    request: admin_pb2.DeleteTopicRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteTopicResponse:
    """Delete the topic with its messages."""
    del call
    name = checked_topic(request.name)
    await services.catalog.delete_topic(name)
    await services.messages.forget_topic(name)
    return admin_pb2.DeleteTopicResponse(status=OK)


async def get_server_info(
    request: admin_pb2.GetServerInfoRequest, call: "Call", services: "Services"
) -> admin_pb2.GetServerInfoResponse:
    """Version, start and resident memory of this process, and its time."""
    del request, call
    answer = admin_pb2.GetServerInfoResponse(
        status=OK,
        version=version("ternmq"),
        resident_bytes=_resident_bytes(),
        test_clock=isinstance(services.clock, MovableClock),
    )
    answer.started.FromMilliseconds(services.started_ms)
    answer.now.FromMilliseconds(services.clock.now_ms())
    return answer


def _resident_bytes() -> int:
    """0 where the system has no /proc; reading that takes no disk."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _topic(topic: Topic) -> admin_pb2.Topic:
    answer = admin_pb2.Topic(name=topic.name, type=topic.type, queues=topic.queues)
    answer.created.FromMilliseconds(topic.created_ms)
    return answer
