"""QueryRoute and QueryAssignment: where a topic's queues are (`overview.md, Routes`, `consuming.md, Assignment`).

A topic that is made by its first message (`auto_create`) has a route before: that which it will have. Official
producers ask for it before they send, and nothing says then that it is a producer who asks. So the route makes nothing,
and is given to everybody whose settings don't say that he reads. It accepts what clients of every age know, and the
first message says what the topic takes from then on. A consumer that asks before it sent its settings begins with that
route too: its assignments and receives are refused with TOPIC_NOT_FOUND until the topic is there. Push consumers ask
for assignments again after some seconds, simple ones hand the error on. One whose settings are known is refused the
route of a topic that it subscribes in addition, and goes on getting those that it began with: Node.js gives up
refreshing the others when it is refused one.
"""

from typing import TYPE_CHECKING

from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.model import MIXED, QueueRef
from ternmq_common.names import checked_group, checked_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Assignment, Broker, MessageQueue
from ternmq_protos.v2.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from ternmq_proxy.access.needs import TOPIC_CREATE
from ternmq_proxy.fronts.grpc.activities.endpoints import endpoints_for
from ternmq_proxy.fronts.grpc.activities.status import OK, protocol_type
from ternmq_proxy.processors.assignment import assign
from ternmq_proxy.processors.placement import unreadable, unwritable

if TYPE_CHECKING:
    from ternmq_common.model import Group, Route, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ALL_QUEUES = -1


async def query_route(request: QueryRouteRequest, call: "Call", services: "Services") -> QueryRouteResponse:
    """The topic's queues, each with the endpoints by which the client is to come (`endpoints.py`)."""
    client = services.clients.find(call.require_client())
    catalog, name = services.catalog, checked_topic(request.topic.name)
    begins_to_read = client is not None and client.is_consumer and not client.subscribes(name)
    may_create = not begins_to_read and services.access.may(call, TOPIC_CREATE, name)
    topic = await catalog.topic_to_be(name, may_create=may_create)
    # A topic that is to be may be of each type that clients of every age know; there are no LITE topics.
    accepted = topic.accepted if topic.type else MIXED
    brokers = permitted_brokers(topic, services) if topic.type else _future_brokers(topic, services)
    endpoints = endpoints_for(request.endpoints, call)
    return QueryRouteResponse(
        status=OK,
        message_queues=[
            MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=permission,
                broker=Broker(name=broker, id=0, endpoints=endpoints),
                accept_message_types=map(protocol_type, accepted),
            )
            for broker, permission in brokers
            for queue_id in range(topic.queues)
        ],
    )


def permitted_brokers(topic: "Topic", services: "Services") -> "list[tuple[str, definition_pb2.Permission]]":
    """Those that have the topic's queues now, and what may be done there; FORBIDDEN or HA_NOT_AVAILABLE if there is
    none."""
    route = services.messages.route(topic)
    brokers = [(broker, _permission(route, broker)) for broker in sorted({*route.readable, *route.writable})]
    if not brokers:
        # Clients keep the route that they have, for as long as they get none.
        raise unreadable(route) if topic.permission.can_read else unwritable(route)
    return brokers


def _future_brokers(topic: "Topic", services: "Services") -> "list[tuple[str, definition_pb2.Permission]]":
    """Those on which a topic that isn't there will be."""
    names = topic.brokers or [broker.name for broker in services.catalog.brokers()]
    return [(name, definition_pb2.READ_WRITE) for name in names]


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
    topic = await services.catalog.existing_topic(checked_topic(request.topic.name))
    group = services.catalog.rules(checked_group(request.group.name))
    route = services.messages.route(topic)
    if not route.readable:
        raise unreadable(route)
    endpoints = endpoints_for(request.endpoints, call)
    client = services.clients.find(client_id)
    if client is not None and client.is_pulling:
        queues = await _share(client_id, group, route, services)
    else:
        ids = range(topic.queues) if group.fifo and group.lite is None else (ALL_QUEUES,)
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
