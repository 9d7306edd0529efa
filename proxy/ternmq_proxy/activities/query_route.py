"""QueryRoute and QueryAssignment: where a topic's queues are (`producer.md` 3, `consumer.md` 3)."""

from typing import TYPE_CHECKING

from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.model import QueueRef
from ternmq_common.names import checked_group, checked_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Assignment, Broker, MessageQueue
from ternmq_protos.v2.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from ternmq_proxy.activities.endpoints import endpoints_for
from ternmq_proxy.activities.status import OK
from ternmq_proxy.processors.assignment import assign
from ternmq_proxy.processors.placement import unreadable, unwritable

if TYPE_CHECKING:
    from ternmq_common.model import Group, Route
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ALL_QUEUES = -1


async def query_route(request: QueryRouteRequest, call: "Call", services: "Services") -> QueryRouteResponse:
    """The topic's queues, each with the endpoints by which the client is to come (`endpoints.py`)."""
    call.require_client()
    topic = await services.catalog.topic(checked_topic(request.topic.name))
    route = services.messages.route(topic)
    brokers = [(broker, _permission(route, broker)) for broker in sorted({*route.readable, *route.writable})]
    if not brokers:
        # Clients keep the route that they have, for as long as they get none.
        raise unreadable(route) if topic.permission.can_read else unwritable(route)
    endpoints = endpoints_for(request.endpoints, call)
    return QueryRouteResponse(
        status=OK,
        message_queues=[
            MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=permission,
                broker=Broker(name=broker, id=0, endpoints=endpoints),
                accept_message_types=[topic.type],
            )
            for broker, permission in brokers
            for queue_id in range(topic.queues)
        ],
    )


def _permission(route: "Route", broker: str) -> "definition_pb2.Permission":
    if broker not in route.writable:
        return definition_pb2.READ
    return definition_pb2.READ_WRITE if broker in route.readable else definition_pb2.WRITE


async def query_assignment(
    request: QueryAssignmentRequest, call: "Call", services: "Services"
) -> QueryAssignmentResponse:
    """All queues of each broker to every member: receiving needs no sharing out, the broker hands each message once.

    Members of an ordered group get the queues one by one, so that each of their receives is for one queue. Members
    that pull get their share, by the group's strategy; that may be none.
    """
    client_id = call.require_client()
    topic = await services.catalog.topic(checked_topic(request.topic.name))
    group = services.catalog.rules(checked_group(request.group.name))
    route = services.messages.route(topic)
    if not route.readable:
        raise unreadable(route)
    endpoints = endpoints_for(request.endpoints, call)
    client = services.clients.find(client_id)
    if client is not None and client.is_pulling:
        queues = await _share(client_id, group, route, services)
    else:
        ids = range(topic.queues) if group.fifo else (ALL_QUEUES,)
        queues = [QueueRef(topic.name, broker, queue_id) for broker in route.readable for queue_id in ids]
    return QueryAssignmentResponse(
        status=OK,
        assignments=[
            Assignment(
                message_queue=MessageQueue(
                    topic=request.topic,
                    id=queue.queue_id,
                    permission=_permission(route, queue.broker),
                    broker=Broker(name=queue.broker, id=0, endpoints=endpoints),
                )
            )
            for queue in queues
        ],
    )


async def _share(client_id: str, group: "Group", route: "Route", services: "Services") -> list[QueueRef]:
    name = route.topic.name
    queues = [QueueRef(name, broker, number) for broker in route.readable for number in range(route.topic.queues)]
    here = services.clients.pulling_members(group.name, name)
    members = await services.messages.pulling_members(group.name, name, here)
    return assign(AssignmentStrategy.parse(group.assignment), queues, members, client_id)
