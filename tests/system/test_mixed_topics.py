"""A mixed topic takes NORMAL, FIFO, DELAY and TRANSACTION messages, each as its own topic would."""

import uuid

import pytest
import pytest_asyncio

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Proto, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0


@pytest_asyncio.fixture(loop_scope="session")
async def mixed(timed: RawClient) -> str:
    return await created(timed, queues=4)


async def created(client: RawClient, *, queues: int) -> str:
    topic = admin_pb2.Topic(name=f"mixed-{uuid.uuid4().hex[:12]}", queues=queues, mixed=True)
    assert code(await client.admin("CreateTopic", topic=topic)) == "OK"
    return topic.name


async def outcome(client: RawClient, topic: str, **system: Proto) -> str:
    return code(await client.call("SendMessage", messages=[message(topic, **system)]))


async def test_its_route_names_the_types_that_clients_of_every_age_know(timed: RawClient, mixed: str) -> None:
    answer = await timed.call("QueryRoute", topic={"name": mixed})
    assert [list(queue.accept_message_types) for queue in answer.message_queues] == [
        [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
    ] * 4


async def test_normal_messages_are_delivered_at_once(timed: RawClient, mixed: str, group: str) -> None:
    await timed.send(mixed, b"1", b"2")
    assert (await timed.receive(mixed, group, poll_s=POLL_S)).bodies == [b"1", b"2"]


async def test_messages_of_a_message_group_are_in_one_queue_and_in_order(timed: RawClient, mixed: str) -> None:
    group = admin_pb2.Group(name=f"group-{uuid.uuid4().hex[:12]}", fifo=True)
    assert code(await timed.admin("CreateGroup", group=group)) == "OK"
    for number in range(8):
        await timed.send(mixed, b"%d" % number, message_group="m")
        await timed.send(mixed, b"other")
    received: list[pb.Message] = []
    while len(received) < 16:
        got = (await timed.receive(mixed, group.name, batch_size=32, poll_s=POLL_S)).messages
        await timed.ack(mixed, group.name, *(each.system_properties.receipt_handle for each in got))
        received += got
    ordered = [each for each in received if each.system_properties.message_group == "m"]
    assert [each.body for each in ordered] == [b"%d" % number for number in range(8)]
    assert len({each.system_properties.queue_id for each in ordered}) == 1
    assert {each.system_properties.message_type for each in ordered} == {pb.FIFO}


async def test_a_timed_message_comes_at_its_time_and_can_be_recalled(timed: RawClient, mixed: str, group: str) -> None:
    due_ms = await timed.server_ms() + 60_000
    due = Timestamp()
    due.FromMilliseconds(due_ms)
    recalled, kept = [
        (await timed.send(mixed, body, delivery_timestamp=due)).entries[0] for body in (b"recalled", b"kept")
    ]
    assert code(await timed.call("RecallMessage", topic={"name": mixed}, recall_handle=recalled.recall_handle)) == "OK"
    assert (await timed.receive(mixed, group)).code == "MESSAGE_NOT_FOUND"
    await timed.advance(61)
    [got] = (await timed.receive(mixed, group, poll_s=POLL_S)).messages
    assert (got.body, got.system_properties.message_id) == (b"kept", kept.message_id)


async def test_a_transaction_is_seen_when_it_is_committed(timed: RawClient, mixed: str, group: str) -> None:
    [half] = (await timed.send(mixed, b"paid", message_type=pb.TRANSACTION)).entries
    assert (await timed.receive(mixed, group)).code == "MESSAGE_NOT_FOUND"
    ended = rpc.EndTransactionRequest(
        topic={"name": mixed}, message_id=half.message_id, transaction_id=half.transaction_id, resolution=pb.COMMIT
    )
    assert code(await timed.call("EndTransaction", ended)) == "OK"
    assert (await timed.receive(mixed, group, poll_s=POLL_S)).bodies == [b"paid"]


@pytest.mark.parametrize("system", [{"priority": 1}, {"lite_topic": "l"}])
async def test_messages_of_other_types_conflict(timed: RawClient, mixed: str, system: dict[str, Proto]) -> None:
    assert await outcome(timed, mixed, **system) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


async def test_one_request_has_messages_of_one_type(timed: RawClient, mixed: str, group: str) -> None:
    both = [message(mixed, b"1"), message(mixed, b"2", message_group="m")]
    refused = await timed.call("SendMessage", messages=both)
    assert code(refused) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert refused.status.message == "the request has NORMAL and FIFO messages; send one request for each type"
    assert (await timed.receive(mixed, group)).code == "MESSAGE_NOT_FOUND"


async def test_a_mixed_topic_is_no_normal_one(timed: RawClient, mixed: str) -> None:
    for asked, expected in (
        (admin_pb2.Topic(name=mixed, queues=4, mixed=True), "OK"),
        (admin_pb2.Topic(name=mixed, queues=4), "BAD_REQUEST"),
        (admin_pb2.Topic(name="mixed-fifo", type=pb.FIFO, mixed=True), "BAD_REQUEST"),
    ):
        assert code(await timed.admin("CreateTopic", topic=asked)) == expected
