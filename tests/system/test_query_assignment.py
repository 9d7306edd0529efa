"""QueryAssignment: what a push consumer shall receive from (`consuming.md, Assignment`)."""

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
ENDPOINTS = pb.Endpoints(scheme=pb.DOMAIN_NAME, addresses=[{"host": "mq.example.com", "port": 443}])


def asked(topic: str, group: str) -> rpc.QueryAssignmentRequest:
    return rpc.QueryAssignmentRequest(topic={"name": topic}, group={"name": group}, endpoints=ENDPOINTS)


async def test_an_unordered_group_gets_one_assignment_for_all_queues_of_the_broker(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    answer = await client.call("QueryAssignment", asked(new_topic, group))
    assert code(answer) == "OK"
    [assignment] = answer.assignments
    queue = assignment.message_queue
    assert (queue.topic.name, queue.id, queue.permission) == (new_topic, -1, pb.READ_WRITE)
    assert (queue.broker.name, queue.broker.id, queue.broker.endpoints) == ("broker-0", 0, ENDPOINTS)
    assert not queue.accept_message_types


async def test_an_ordered_group_gets_the_queues_one_by_one(client: RawClient, new_topic: str, group: str) -> None:
    await client.create_topic(new_topic, queues=3, kind=pb.FIFO)
    await client.admin("CreateGroup", group={"name": group, "fifo": True})
    answer = await client.call("QueryAssignment", asked(new_topic, group))
    assert [assignment.message_queue.id for assignment in answer.assignments] == [0, 1, 2]


async def test_asking_makes_no_group(strict: RawClient, new_topic: str, group: str) -> None:
    await strict.create_topic(new_topic)
    assert code(await strict.call("QueryAssignment", asked(new_topic, group))) == "OK"
    assert code(await strict.admin("DescribeGroup", name=group)) == "CONSUMER_GROUP_NOT_FOUND"


async def test_a_missing_topic_is_not_found_without_auto_create(strict: RawClient, new_topic: str, group: str) -> None:
    answer = await strict.call("QueryAssignment", asked(new_topic, group))
    assert code(answer) == "TOPIC_NOT_FOUND"
    assert not answer.assignments


@pytest.mark.parametrize("name", ["", " ", "a b", "ä", "x" * 121, "CID_RMQ_SYS_mine"])
async def test_an_illegal_group_is_refused(client: RawClient, topic: str, name: str) -> None:
    assert code(await client.call("QueryAssignment", asked(topic, name))) == "ILLEGAL_CONSUMER_GROUP"
