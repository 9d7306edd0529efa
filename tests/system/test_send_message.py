"""SendMessage: what is stored (`sending.md, Stored form`), where (`sending.md, Placement`), and what the producer is
told (`sending.md, Results`)."""

import uuid

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Proto, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
SPECIAL: dict["pb.MessageType", dict[str, Proto]] = {
    pb.FIFO: {"message_group": "g"},
    pb.DELAY: {"delivery_timestamp": {"seconds": 1}},
    pb.TRANSACTION: {"message_type": pb.TRANSACTION},
    pb.LITE: {"lite_topic": "l"},
    pb.PRIORITY: {"priority": 1},
}


async def send(client: RawClient, *messages: pb.Message) -> rpc.SendMessageResponse:
    answer = await client.call("SendMessage", messages=messages)
    assert isinstance(answer, rpc.SendMessageResponse)
    return answer


async def queue_ends(client: RawClient, topic: str) -> list[int]:
    described = await client.admin("DescribeTopic", name=topic)
    assert code(described) == "OK"
    return [queue.max_offset for queue in described.queues]


async def test_one_message_gets_one_entry_with_its_id_and_offset(client: RawClient, topic: str) -> None:
    for offset in range(3):
        sent = message(topic)
        answer = await send(client, sent)
        assert code(answer) == "OK"
        [entry] = answer.entries
        assert entry.status.code == pb.OK
        assert entry.message_id == entry.transaction_id == sent.system_properties.message_id
        assert (entry.offset, entry.recall_handle) == (offset, "")


async def test_several_messages_get_an_entry_each_in_order_with_consecutive_offsets(
    client: RawClient, new_topic: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    messages = [message(new_topic, str(number).encode()) for number in range(1000)]
    answer = await send(client, *messages)
    assert code(answer) == "OK"
    assert [entry.message_id for entry in answer.entries] == [
        message.system_properties.message_id for message in messages
    ]
    assert [entry.offset for entry in answer.entries] == list(range(1000))
    assert sorted(await queue_ends(client, new_topic)) == [0, 0, 0, 1000]


async def test_requests_take_the_queues_in_turn(client: RawClient, new_topic: str) -> None:
    await client.create_topic(new_topic, queues=4)
    for _ in range(8):
        await client.send(new_topic, b"body", queue_id=3)  # the client's own choice does not count
    assert await queue_ends(client, new_topic) == [2, 2, 2, 2]


async def test_the_same_message_id_is_stored_each_time_that_it_is_sent(client: RawClient, topic: str) -> None:
    for _ in range(2):
        await client.send(topic, b"body", message_id="retried")
    assert await queue_ends(client, topic) == [2]


async def test_a_refused_message_in_a_batch_keeps_the_others_out_too(client: RawClient, topic: str) -> None:
    answer = await send(client, message(topic), message(topic, b""), message(topic))
    assert code(answer) == "MESSAGE_BODY_EMPTY"
    assert not answer.entries
    assert await queue_ends(client, topic) == [0]


async def test_a_request_without_messages_is_corrupted(client: RawClient) -> None:
    assert code(await send(client)) == "MESSAGE_CORRUPTED"


@pytest.mark.parametrize("second", [{"name": "other"}, {"name": "same", "resource_namespace": "tenant"}])
async def test_a_request_for_two_topics_is_corrupted(client: RawClient, second: dict[str, str]) -> None:
    stranger = message("same")
    stranger.topic.CopyFrom(pb.Resource(**second))
    assert code(await send(client, message("same"), stranger)) == "MESSAGE_CORRUPTED"


async def test_a_missing_topic_is_made(client: RawClient, new_topic: str) -> None:
    assert code(await send(client, message(new_topic))) == "OK"
    assert sorted(await queue_ends(client, new_topic)) == [0] * 7 + [1]


async def test_a_missing_topic_is_not_found_without_auto_create(strict: RawClient, new_topic: str) -> None:
    answer = await send(strict, message(new_topic))
    assert code(answer) == "TOPIC_NOT_FOUND"
    assert not answer.entries


@pytest.mark.parametrize("kind", SPECIAL)
async def test_a_normal_topic_takes_normal_messages_only(client: RawClient, topic: str, kind: "pb.MessageType") -> None:
    answer = await send(client, message(topic, **SPECIAL[kind]))
    assert code(answer) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert pb.MessageType.Name(kind) in answer.status.message


@pytest.mark.parametrize("kind", SPECIAL)
async def test_a_special_topic_refuses_a_normal_message_whatever_it_calls_itself(
    client: RawClient, new_topic: str, kind: "pb.MessageType"
) -> None:
    await client.create_topic(new_topic, kind=kind)
    called = pb.NORMAL if kind == pb.TRANSACTION else kind
    assert code(await send(client, message(new_topic, message_type=called))) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


async def test_every_message_of_a_request_must_be_of_the_topics_type(client: RawClient, topic: str) -> None:
    answer = await send(client, message(topic), message(topic, message_group="g"))
    assert code(answer) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert await queue_ends(client, topic) == [0]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"message_type": pb.TRANSACTION, "message_group": "g"}, pb.TRANSACTION),
        ({"delivery_timestamp": {"seconds": 1}, "message_group": "g", "priority": 1}, pb.DELAY),
        ({"message_group": "g", "priority": 1, "lite_topic": "l"}, pb.FIFO),
        ({"priority": 0, "lite_topic": "l"}, pb.PRIORITY),
        ({"lite_topic": "l", "message_type": pb.FIFO}, pb.LITE),
        ({"message_group": "", "message_type": pb.PRIORITY}, pb.NORMAL),
    ],
)
async def test_the_fields_decide_of_which_type_a_message_is(
    client: RawClient, fields: dict[str, Proto], kind: "pb.MessageType"
) -> None:
    name = await client.create_topic(f"typed-{uuid.uuid4().hex}", kind=kind)
    assert code(await send(client, message(name, **fields))) == "OK"
