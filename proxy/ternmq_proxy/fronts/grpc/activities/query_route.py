"""QueryRoute and QueryAssignment as gRPC has them (`operations/routes.py`).

Each queue carries the endpoints by which the client reaches it (`endpoints.py`).
"""

from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Assignment, Broker, MessageQueue
from ternmq_protos.v2.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from ternmq_proxy.fronts.grpc.activities.endpoints import endpoints_for
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.operations.routes import find_assignment, find_route

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_PERMISSIONS = {
    QueuePermission.READ_WRITE: definition_pb2.READ_WRITE,
    QueuePermission.READ: definition_pb2.READ,
    QueuePermission.WRITE: definition_pb2.WRITE,
    QueuePermission.NONE: definition_pb2.NONE,
}


async def query_route(request: QueryRouteRequest, call: "Call", services: "Services") -> QueryRouteResponse:
    """Return the topic's queues."""
    route = await find_route(request.topic.name, call, services)
    endpoints = endpoints_for(request.endpoints, call)
    return QueryRouteResponse(
        status=OK,
        message_queues=[
            MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=_PERMISSIONS[broker.permission],
                broker=Broker(name=broker.name, id=0, endpoints=endpoints),
                accept_message_types=map(protocol_type, route.accepted),
            )
            for broker in route.brokers
            for queue_id in range(route.queues)
        ],
    )


async def query_assignment(
    request: QueryAssignmentRequest, call: "Call", services: "Services"
) -> QueryAssignmentResponse:
    """Return the queues that the client reads."""
    assigned = await find_assignment(request.group.name, request.topic.name, call, services)
    endpoints = endpoints_for(request.endpoints, call)
    return QueryAssignmentResponse(
        status=OK,
        assignments=[
            Assignment(
                message_queue=MessageQueue(
                    topic=request.topic,
                    id=queue.queue_id,
                    permission=_PERMISSIONS[permission],
                    broker=Broker(name=queue.broker, id=0, endpoints=endpoints),
                )
            )
            for queue, permission in assigned
        ],
    )
