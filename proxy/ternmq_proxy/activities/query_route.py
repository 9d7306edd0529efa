"""QueryRoute and QueryAssignment: where a topic's queues are (`producer.md` 3, `consumer.md` 3)."""

import ipaddress
from typing import TYPE_CHECKING

from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.model import QueueRef
from ternmq_common.names import checked_group, checked_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Address, Assignment, Broker, Endpoints, MessageQueue
from ternmq_protos.v2.service_pb2 import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
)
from ternmq_proxy.activities.status import OK
from ternmq_proxy.processors.assignment import assign

if TYPE_CHECKING:
    from ternmq_common.model import Group, Route
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ALL_QUEUES = -1


async def query_route(request: QueryRouteRequest, call: "Call", services: "Services") -> QueryRouteResponse:
    """The topic's queues, each with the endpoints by which the client came in, which work through any port mapping."""
    call.require_client()
    topic = await services.catalog.topic(checked_topic(request.topic.name))
    route = await services.messages.route(topic)
    endpoints = endpoints_for(request.endpoints, services)
    return QueryRouteResponse(
        status=OK,
        message_queues=[
            MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=definition_pb2.READ_WRITE,
                broker=Broker(name=broker, id=0, endpoints=endpoints),
                accept_message_types=[topic.type],
            )
            for broker in route.brokers
            for queue_id in range(topic.queues)
        ],
    )


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
    route = await services.messages.route(topic)
    endpoints = endpoints_for(request.endpoints, services)
    client = services.clients.find(client_id)
    if client is not None and client.is_pulling:
        queues = _share(client_id, group, route, services)
    else:
        ids = range(topic.queues) if group.fifo else (ALL_QUEUES,)
        queues = [QueueRef(topic.name, broker, queue_id) for broker in route.brokers for queue_id in ids]
    return QueryAssignmentResponse(
        status=OK,
        assignments=[
            Assignment(
                message_queue=MessageQueue(
                    topic=request.topic,
                    id=queue.queue_id,
                    permission=definition_pb2.READ_WRITE,
                    broker=Broker(name=queue.broker, id=0, endpoints=endpoints),
                )
            )
            for queue in queues
        ],
    )


def _share(client_id: str, group: "Group", route: "Route", services: "Services") -> list[QueueRef]:
    name = route.topic.name
    queues = [QueueRef(name, broker, number) for broker in route.brokers for number in range(route.topic.queues)]
    members = services.clients.pulling_members(group.name, name)
    return assign(AssignmentStrategy.parse(group.assignment), queues, members, client_id)


def endpoints_for(asked: Endpoints, services: "Services") -> Endpoints:
    """The client's own endpoints, or this proxy's if it named none."""
    if asked.addresses:
        if asked.scheme == definition_pb2.ADDRESS_SCHEME_UNSPECIFIED:
            return Endpoints(scheme=_scheme(asked.addresses[0].host), addresses=asked.addresses)
        return asked
    host, port = services.endpoint.rsplit(":", 1)
    return Endpoints(scheme=_scheme(host), addresses=[Address(host=host.strip("[]"), port=int(port))])


def _scheme(host: str) -> definition_pb2.AddressScheme:
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return definition_pb2.DOMAIN_NAME
    return definition_pb2.IPv4 if version == 4 else definition_pb2.IPv6
