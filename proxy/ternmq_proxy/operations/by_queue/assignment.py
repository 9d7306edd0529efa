"""Assigns queues to members that let the server distribute them (`setClientRebalance(false)` in Java).

A group that pulls is shared out as its members would do it themselves. A group whose members pop (`remoting_pop`) has
all queues of each broker for every member, as claims deliver each message once; its retry topic is not read.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_group_name, check_topic_name, retry_topic
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.access.needs import GROUP_SUB
from ternmq_proxy.operations.rights import require_consumer
from ternmq_proxy.processors.assignment import assign_queues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_RPC = "QueryAssignment"
ANY_QUEUE = -1


class BrokerQueue(NamedTuple):
    """A queue of a broker, or with ANY_QUEUE all that it has of the topic."""

    broker: str
    queue_id: int


async def share_queues(
    group: str,
    topic: str,
    client_id: str,
    members: "Sequence[str]",
    strategy: AssignmentStrategy | None,
    call: "Call",
    services: "Services",
) -> list[BrokerQueue] | None:
    """Return the member's share of the topic by the strategy, or all queues without one; None if that is not known
    now, so that the member keeps what it has."""
    pops = services.catalog.group_or_default(check_group_name(group)).remoting_pop
    try:
        queues = await _list_queues(group, topic, call, services)
    except MessagingError:
        return None
    if pops:
        if topic == retry_topic(group):
            return []
        return [BrokerQueue(broker, ANY_QUEUE) for broker in dict.fromkeys(queue.broker for queue in queues)]
    if strategy is not None:
        queues = assign_queues(strategy, queues, members, client_id)
    return [BrokerQueue(queue.broker, queue.queue_id) for queue in queues]


def require_sharing(group: str, topic: str, call: "Call", services: "Services") -> None:
    """Raise UNAUTHORIZED unless the user may consume the topic, or the retry topic, with the group."""
    if topic == retry_topic(group):
        services.access.require_right(_RPC, call, GROUP_SUB, group)
    else:
        require_consumer(_RPC, call, group, topic, services)


async def _list_queues(group: str, topic: str, call: "Call", services: "Services") -> list[QueueRef]:
    if topic == retry_topic(group):
        return [QueueRef(topic, broker.name, 0) for broker in services.catalog.list_brokers()]
    known = await services.catalog.existing_topic(check_topic_name(topic))
    route = services.messages.find_route(known)
    return [QueueRef(topic, broker, number) for broker in route.readable for number in range(known.queues)]
