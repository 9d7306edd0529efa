"""Routes of topics, and assignments of queues to members of a group (`overview.md, Routes`,
`consuming.md, Assignment`).

A topic that its first message creates (`auto_create`) already has its future route. Official
producers query it before they send, and nothing tells then that the caller is a producer. So the route creates nothing,
and is returned to every client whose settings don't say that it consumes. It accepts the types that clients of every
version know, and the first message decides what the topic accepts. A consumer that asks before it sent its settings
gets that route too: its assignments and receives are refused with TOPIC_NOT_FOUND until the topic exists. Push
consumers query assignments again after some seconds, simple ones pass the error on. A consumer with known settings is
refused the route of a topic that it adds to its subscriptions, but keeps getting those that it began with: Node.js
stops refreshing all routes when it is refused one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy
from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.shard.model import MIXED, QueueRef
from ternmq_proxy.access.needs import TOPIC_CREATE, TOPIC_ROUTE
from ternmq_proxy.operations.rights import require_consumer
from ternmq_proxy.processors.assignment import assign_queues
from ternmq_proxy.processors.sending.placement import unreadable_error, unwritable_error

if TYPE_CHECKING:
    from ternmq_common.shard.model import ConsumerGroup, Topic, TopicRoute
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ALL_QUEUES = -1


class PermittedBroker(NamedTuple):
    """A broker that has a topic's queues, and the permission there."""

    name: str
    permission: QueuePermission


@dataclass(frozen=True, slots=True)
class ClientRoute:
    """The route of a topic: each broker has the queues 0 to `queues` - 1; `accepted` are the types of messages."""

    brokers: list[PermittedBroker]
    queues: int
    accepted: tuple[MessageType, ...]


class AssignedQueue(NamedTuple):
    """A queue that a member reads, or with the id `ALL_QUEUES` all queues of its broker."""

    queue: QueueRef
    permission: QueuePermission


async def find_route(topic_name: str, call: "Call", services: "Services") -> ClientRoute:
    """Return the topic's queues. Raises FORBIDDEN or HA_NOT_AVAILABLE if no broker serves it."""
    services.access.require_right("QueryRoute", call, TOPIC_ROUTE, topic_name)
    client = services.clients.find_client(call.require_client())
    name = check_topic_name(topic_name)
    begins_to_read = client is not None and client.is_consumer and not client.reads_topic(name)
    may_create = not begins_to_read and services.access.has_right(call, TOPIC_CREATE, name)
    topic = await services.catalog.find_future_topic(name, may_create=may_create)
    if not topic.type:
        # A topic that does not exist yet may get any type that clients of every version know; LITE is not among them.
        return ClientRoute(_future_brokers(topic, services), topic.queues, MIXED)
    return ClientRoute(permitted_brokers(topic, services), topic.queues, topic.accepted_types)


async def find_existing_route(
    topic_name: str, call: "Call", services: "Services"
) -> "tuple[Topic, list[PermittedBroker]]":
    """Return the topic, and which of its brokers have queues for what. A topic that its first message would create has
    no route yet: this call is not made in order to send."""
    services.access.require_right("GetTopicRoute", call, TOPIC_ROUTE, topic_name)
    topic = await services.catalog.existing_topic(check_topic_name(topic_name))
    return topic, permitted_brokers(topic, services)


def permitted_brokers(topic: "Topic", services: "Services") -> list[PermittedBroker]:
    """Return the brokers that have the topic's queues now. Raises FORBIDDEN or HA_NOT_AVAILABLE if there is none."""
    route = services.messages.find_route(topic)
    names = sorted({*route.readable, *route.writable})
    if not names:
        # Clients keep their route until they get a new one.
        raise unreadable_error(route) if topic.permission.can_read else unwritable_error(route)
    return [PermittedBroker(name, _queue_permission(route, name)) for name in names]


def _future_brokers(topic: "Topic", services: "Services") -> list[PermittedBroker]:
    """Return the brokers on which a missing topic will be created."""
    names = topic.brokers or [broker.name for broker in services.catalog.list_brokers()]
    return [PermittedBroker(name, QueuePermission.READ_WRITE) for name in names]


def _queue_permission(route: "TopicRoute", broker: str) -> QueuePermission:
    if broker not in route.writable:
        return QueuePermission.READ
    return QueuePermission.READ_WRITE if broker in route.readable else QueuePermission.WRITE


async def find_assignment(group_name: str, topic_name: str, call: "Call", services: "Services") -> list[AssignedQueue]:
    """Return the queues that the caller reads: all queues of each broker for every member, since the broker delivers
    each message once and receives need no sharing.

    Members of an ordered group get the queues one by one, so that each receive is for one queue. Members that pull get
    their share by the group's strategy, which may be empty.
    """
    require_consumer("QueryAssignment", call, group_name, topic_name, services)
    client_id = call.require_client()
    topic = await services.catalog.existing_topic(check_topic_name(topic_name))
    group = services.catalog.group_or_default(check_group_name(group_name))
    route = services.messages.find_route(topic)
    if not route.readable:
        raise unreadable_error(route)
    client = services.clients.find_client(client_id)
    if client is not None and client.is_pulling:
        queues = await _share_queues(client_id, group, route, services)
    else:
        ids = range(topic.queues) if group.fifo and group.lite is None else (ALL_QUEUES,)
        queues = [QueueRef(topic.name, broker, queue_id) for broker in route.readable for queue_id in ids]
    return [AssignedQueue(queue, _queue_permission(route, queue.broker)) for queue in queues]


async def _share_queues(
    client_id: str, group: "ConsumerGroup", route: "TopicRoute", services: "Services"
) -> list[QueueRef]:
    name = route.topic.name
    queues = [QueueRef(name, broker, number) for broker in route.readable for number in range(route.topic.queues)]
    here = services.clients.pulling_members(group.name, name)
    members = await services.messages.pulling_members(group.name, name, here)
    return assign_queues(AssignmentStrategy.parse_strategy(group.assignment), queues, members, client_id)
