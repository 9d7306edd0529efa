"""Routes and assignments, called with plain values, whatever front has read them (`test_routes_of_brokers.py` has those
of several brokers)."""

import pytest

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import MIXED, ConsumerGroup, QueueRef
from ternmq_proxy.call import Call
from ternmq_proxy.operations.routes import ALL_QUEUES, find_assignment, find_route
from ternmq_proxy.services import Services
from tests.support.operations import BROKER, Stack

CALL = Call(client_id="client", peer="127.0.0.1:9")
TOPIC = "orders"


@pytest.fixture(autouse=True)
async def topic(stack: Stack) -> None:
    await stack.create_topic(TOPIC, queues=2, kind=MessageType.FIFO)


async def test_a_route_says_what_is_where_and_what_the_topic_accepts(services: Services) -> None:
    route = await find_route(TOPIC, CALL, services)
    assert (route.brokers, route.queues, route.accepted) == (
        [(BROKER, QueuePermission.READ_WRITE)],
        2,
        (MessageType.FIFO,),
    )


async def test_a_topic_that_is_created_by_use_has_a_route_before(services: Services) -> None:
    route = await find_route("new", CALL, services)
    assert (route.brokers, route.accepted) == ([(BROKER, QueuePermission.READ_WRITE)], MIXED)
    assert not services.catalog.has_topic("new")


async def test_members_get_all_queues_and_those_of_ordered_groups_each_one(stack: Stack, services: Services) -> None:
    assert await find_assignment("readers", TOPIC, CALL, services) == [
        (QueueRef(TOPIC, BROKER, ALL_QUEUES), QueuePermission.READ_WRITE)
    ]
    await stack.create_group(ConsumerGroup(name="ordered", fifo=True))
    assert await find_assignment("ordered", TOPIC, CALL, services) == [
        (QueueRef(TOPIC, BROKER, queue_id), QueuePermission.READ_WRITE) for queue_id in range(2)
    ]


async def test_names_are_checked(services: Services) -> None:
    with pytest.raises(MessagingError, match="ILLEGAL_TOPIC"):
        await find_route("a b", CALL, services)
    with pytest.raises(MessagingError, match="ILLEGAL_CONSUMER_GROUP"):
        await find_assignment("a b", TOPIC, CALL, services)
    with pytest.raises(MessagingError, match="TOPIC_NOT_FOUND"):
        await find_assignment("readers", "new", CALL, services)
