"""DescribeTopicStatus and GetTopicRoute (`operations/admin/topics/topic_list.py`, `operations/routes.py`)."""

import json
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_protos.v2.admin_pb2 import (
    DescribeTopicStatusRequest,
    DescribeTopicStatusResponse,
    GetTopicRouteRequest,
    GetTopicRouteResponse,
)
from ternmq_protos.v2.definition_pb2 import Endpoints
from ternmq_proxy.fronts.grpc.activities.endpoints import endpoints_for
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.operations.admin.topics import topic_list
from ternmq_proxy.operations.routes import find_existing_route

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# The bits of `perm` in RocketMQ's route data.
_READ, _WRITE = 4, 2
_PERM = {
    QueuePermission.READ: _READ,
    QueuePermission.WRITE: _WRITE,
    QueuePermission.READ_WRITE: _READ | _WRITE,
}


async def describe_topic_status(
    request: DescribeTopicStatusRequest, call: "Call", services: "Services"
) -> DescribeTopicStatusResponse:
    """Return a topic's message type and creation time; topics have no description and no tags. Of a mixed topic no one
    type is known."""
    topic = await topic_list.describe_topic_status(request.topic.name, call, services)
    kind = MessageType.MESSAGE_TYPE_UNSPECIFIED if topic.mixed else topic.type
    answer = DescribeTopicStatusResponse(status=OK, topic_message_type=protocol_type(kind))
    if topic.created_ms:
        answer.create_timestamp.FromMilliseconds(topic.created_ms)
    return answer


async def get_topic_route(request: GetTopicRouteRequest, call: "Call", services: "Services") -> GetTopicRouteResponse:
    """The route as JSON in the form of RocketMQ's TopicRouteData. A topic that its first message would make has none
    yet: this call is not made in order to send."""
    topic, brokers = await find_existing_route(request.topic.name, call, services)
    # Whichever broker has a queue, clients reach it through this proxy.
    [address, *_] = endpoints_for(Endpoints(), call).addresses
    host = f"[{address.host}]" if ":" in address.host else address.host
    route = {
        "brokerDatas": [{"brokerName": name, "brokerAddrs": {"0": f"{host}:{address.port}"}} for name, _ in brokers],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": name,
                "perm": _PERM[permission],
                "readQueueNums": topic.queues,
                "topicSysFlag": 0,
                "writeQueueNums": topic.queues,
            }
            for name, permission in brokers
        ],
    }
    return GetTopicRouteResponse(status=OK, topic_route_data=json.dumps(route))
