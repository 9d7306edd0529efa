"""Dead letters of topics that are more than NORMAL are delivered again: at once, and in the queue of their kind."""

import uuid

import pytest

from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Proto, RawClient, code
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0
QUEUES = 4
FIELDS: dict["pb.MessageType", dict[str, Proto]] = {
    pb.FIFO: {"message_group": "g"},
    pb.DELAY: {"delivery_timestamp": Timestamp(seconds=1)},
    pb.TRANSACTION: {"message_type": pb.TRANSACTION},
    pb.PRIORITY: {"priority": 2},
}


async def create_topic(client: RawClient, kind: "pb.MessageType") -> str:
    return await client.create_topic(f"letters-{uuid.uuid4().hex[:12]}", queues=QUEUES, kind=kind)


async def bury(client: RawClient, topic: str, group: str, kind: "pb.MessageType") -> pb.Message:
    """Make a dead letter of the group of a new message of that type; the message as it was before."""
    [entry] = (await client.send(topic, b"letter", **FIELDS[kind])).entries
    if kind == pb.TRANSACTION:
        request = rpc.EndTransactionRequest(
            topic={"name": topic}, transaction_id=entry.transaction_id, resolution=pb.COMMIT
        )
        assert code(await client.call("EndTransaction", request)) == "OK"
    [message] = (await client.receive(topic, group, poll_s=POLL_S)).messages
    assert await client.forward_to_dead_letters(topic, group, message.system_properties.receipt_handle) == "OK"
    assert isinstance(message, pb.Message)
    return message


async def resend(client: RawClient, group: str, to_topic: str = "") -> str:
    answer = await client.admin("ResendDeadLetters", group=group, offsets=[0], to_topic=to_topic)
    assert code(answer) == "OK"
    return code(answer.letters[0])


@pytest.mark.parametrize("kind", FIELDS, ids=pb.MessageType.Name)
@pytest.mark.parametrize("fifo", [True, False], ids=["FIFO group", "group"])
async def test_a_letter_comes_back_from_where_it_was(
    client: RawClient, group: str, kind: "pb.MessageType", fifo: bool
) -> None:
    topic = await create_topic(client, kind)
    await client.admin("CreateGroup", group={"name": group, "fifo": fifo})
    before = await bury(client, topic, group, kind)
    assert await resend(client, group) == "OK"
    [again] = (await client.receive(topic, group, poll_s=POLL_S)).messages
    assert (again.body, again.system_properties.delivery_attempt) == (b"letter", 1)
    assert again.system_properties.message_type == kind
    if fifo and kind in (pb.FIFO, pb.PRIORITY):
        assert again.system_properties.queue_id == before.system_properties.queue_id


@pytest.mark.parametrize("kind", FIELDS, ids=pb.MessageType.Name)
async def test_a_letter_goes_to_another_topic_of_its_type(
    client: RawClient, group: str, kind: "pb.MessageType"
) -> None:
    topic, other = await create_topic(client, kind), await create_topic(client, kind)
    before = await bury(client, topic, group, kind)
    assert await resend(client, group, other) == "OK"
    [again] = (await client.receive(other, f"readers-{group}", poll_s=POLL_S)).messages
    properties = again.system_properties
    assert (again.body, properties.message_type) == (b"letter", kind)
    if kind == pb.PRIORITY:
        assert (properties.queue_id, properties.priority) == (2, 2)
    if kind == pb.FIFO:
        assert properties.queue_id == before.system_properties.queue_id


@pytest.mark.parametrize("kind", FIELDS, ids=pb.MessageType.Name)
async def test_a_normal_topic_takes_letters_of_every_type(
    client: RawClient, topic: str, group: str, kind: "pb.MessageType"
) -> None:
    await bury(client, await create_topic(client, kind), group, kind)
    assert await resend(client, group, topic) == "OK"
    assert (await client.receive(topic, f"readers-{group}", poll_s=POLL_S)).bodies == [b"letter"]


@pytest.mark.parametrize("kind", FIELDS, ids=pb.MessageType.Name)
async def test_a_topic_of_another_type_refuses_a_letter(client: RawClient, group: str, kind: "pb.MessageType") -> None:
    await bury(client, await create_topic(client, kind), group, kind)
    for other in (*FIELDS, pb.LITE):
        if other != kind:
            assert await resend(client, group, await create_topic(client, other)) == (
                "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
            )
