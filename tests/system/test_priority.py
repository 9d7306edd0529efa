"""PRIORITY topics: which queue a priority is, and what is received first (`consuming.md, Priority`)."""

import uuid
from pathlib import Path

import pytest
import pytest_asyncio

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import QueueRef, Topic, TopicRoute
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.processors.sending.placement import QueuePlacement, queue_of_priority
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
QUEUES = 4


@pytest_asyncio.fixture(loop_scope="session")
async def alarms(client: RawClient) -> str:
    """A PRIORITY topic with four queues."""
    return await client.create_topic(f"alarms-{uuid.uuid4().hex[:12]}", queues=QUEUES, kind=pb.PRIORITY)


@pytest_asyncio.fixture(loop_scope="session")
async def strict_group(client: RawClient, group: str) -> str:
    """A group all of whose receives begin with the highest priority."""
    assert code(await client.admin("CreateGroup", group={"name": group, "priority_factor": 100})) == "OK"
    return group


async def queue_ends(client: RawClient, topic: str) -> list[int]:
    described = await client.admin("DescribeTopic", name=topic)
    return [queue.max_offset for queue in described.queues]


async def drained(client: RawClient, topic: str, group: str, **fields: Proto) -> list[pb.Message]:
    """All messages that are there, by as many receives as it takes."""
    messages: list[pb.Message] = []
    while (received := await client.receive(topic, group, **fields)).messages:
        messages += received.messages
    return messages


@pytest.mark.parametrize(("priority", "queue"), [(0, 0), (1, 1), (3, 3), (4, 3), (7, 3), (2**31 - 1, 3)])
async def test_a_priority_is_a_queue_and_those_above_share_the_last(
    client: RawClient, alarms: str, group: str, priority: int, queue: int
) -> None:
    await client.send(alarms, b"body", priority=priority)
    [got] = (await client.receive(alarms, group)).messages
    properties = got.system_properties
    assert (properties.queue_id, properties.priority) == (queue, priority)
    assert properties.message_type == pb.PRIORITY


async def test_a_batch_goes_from_the_highest_priority_down(client: RawClient, alarms: str, strict_group: str) -> None:
    for priority in (0, 3, 1, 2):
        await client.send(alarms, b"%d" % priority, priority=priority)
    assert (await client.receive(alarms, strict_group, batch_size=3)).bodies == [b"3", b"2", b"1"]


async def test_the_queue_that_a_consumer_names_counts_for_nothing(
    client: RawClient, alarms: str, strict_group: str
) -> None:
    for priority in (0, 1, 3):
        await client.send(alarms, b"%d" % priority, priority=priority)
    queue = pb.MessageQueue(topic={"name": alarms}, id=0)
    assert (await client.receive(alarms, strict_group, batch_size=1, message_queue=queue)).bodies == [b"3"]


async def test_a_fifo_group_reads_a_priority_topic_as_any_other(client: RawClient, alarms: str, group: str) -> None:
    await client.admin("CreateGroup", group={"name": group, "fifo": True})
    for priority in (3, 0):
        await client.send(alarms, b"%d" % priority, priority=priority)
    queue = pb.MessageQueue(topic={"name": alarms}, id=0)
    assert (await client.receive(alarms, group, batch_size=1, message_queue=queue)).bodies == [b"0"]


async def test_a_request_with_several_priorities_fills_several_queues(client: RawClient, alarms: str) -> None:
    priorities = [3, 0, 9, 1, 3]
    sent = [message(alarms, priority=priority) for priority in priorities]
    answer = await client.call("SendMessage", messages=sent)
    assert code(answer) == "OK"
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]
    assert [entry.offset for entry in answer.entries] == [0, 0, 1, 0, 2]
    assert await queue_ends(client, alarms) == [1, 1, 0, 3]


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"), ({"priority": -1}, "BAD_REQUEST")]
)
async def test_a_message_without_a_priority_is_refused(
    client: RawClient, alarms: str, fields: dict[str, Proto], expected: str
) -> None:
    assert code(await client.call("SendMessage", messages=[message(alarms, **fields)])) == expected
    assert await queue_ends(client, alarms) == [0] * QUEUES


async def test_brokers_take_requests_in_turn() -> None:
    topic = Topic(name="alarms", type=MessageType.PRIORITY, queues=3)
    route, placement = TopicRoute(topic, *[("a", "b")] * 4), QueuePlacement()
    queues = [queue_of_priority(topic, placement.next_broker(route), priority) for priority in (0, 0, 5, 5, 1, 1)]
    assert queues == [QueueRef("alarms", broker, queue_id) for queue_id in (0, 2, 1) for broker in ("a", "b")]


async def test_the_smaller_number_comes_first_where_the_setting_says_so(tmp_path: Path) -> None:
    async with Embedded(local_settings(tmp_path, priority_order_asc=False)) as server, RawClient(server.grpc) as client:
        await client.create_topic("alarms", queues=QUEUES, kind=pb.PRIORITY)
        for priority in (2, 0, 3, 1):
            await client.send("alarms", b"%d" % priority, priority=priority)
        [failed] = (await client.receive("alarms", "readers", batch_size=1)).messages
        assert failed.body == b"0"
        await client.change("alarms", "readers", failed.system_properties.receipt_handle, 0)
        got = await drained(client, "alarms", "readers", batch_size=1)
        assert [each.body for each in got] == [b"1", b"2", b"3", b"0"]
