"""Message ids that the caller of `send_many` gives: sent as they are, through splits and repetitions."""

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, Producer
from ternmq.testing import Stack
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer, sent


def ids_sent(server: ScriptedServer) -> list[list[str]]:
    requests = server.requests["SendMessage"]
    return [[message.system_properties.message_id for message in request.messages] for request in requests]


async def test_given_ids_are_sent_and_are_those_of_the_receipts(server: ScriptedServer) -> None:
    async with Producer(server.endpoint) as producer:
        receipts = await producer.send_many([Message(TOPIC, b"a"), Message(TOPIC, b"b")], message_ids=["one", "two"])
    assert ids_sent(server) == [["one", "two"]]
    assert [receipt.message_id for receipt in receipts] == ["one", "two"]


async def test_every_message_has_its_own_id_whatever_the_topics_and_requests(server: ScriptedServer) -> None:
    messages = [Message(("odd", "even")[number % 2], b"%d" % number) for number in range(2500)]
    async with Producer(server.endpoint) as producer:
        await producer.send_many(messages, message_ids=[f"id-{number}" for number in range(2500)])
    requests = server.requests["SendMessage"]
    assert len(requests) == 4
    for request in requests:
        for message in request.messages:
            assert message.system_properties.message_id == f"id-{message.body.decode()}"


async def test_a_repetition_has_the_same_ids(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        server.script("SendMessage", sent(pb.INTERNAL_SERVER_ERROR))
        await producer.send_many([Message(TOPIC, b"a"), Message(TOPIC, b"b")], message_ids=["one", "two"])
    assert ids_sent(server) == [["one", "two"], ["one", "two"]]


async def test_a_part_that_is_repeated_keeps_its_ids(server: ScriptedServer) -> None:
    def first_is_stored(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        busy = pb.Status(code=pb.TOO_MANY_REQUESTS)
        entries = [rpc.SendResultEntry(status=OK, offset=1), rpc.SendResultEntry(status=busy)]
        return rpc.SendMessageResponse(status=pb.Status(code=pb.MULTIPLE_RESULTS), entries=entries)

    server.script("SendMessage", first_is_stored)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        await producer.send_many([Message(TOPIC, b"a"), Message(TOPIC, b"b")], message_ids=["one", "two"])
    assert ids_sent(server) == [["one", "two"], ["two"]]


@pytest.mark.parametrize("message_ids", [[], ["one"], ["one", "two", "three"], ["one", " "], ["", "two"], ["a", "b\n"]])
async def test_ids_that_no_server_takes_are_refused_before_anything_is_sent(
    server: ScriptedServer, message_ids: list[str]
) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.BadRequest) as refused:
            await producer.send_many([Message(TOPIC, b"a"), Message(TOPIC, b"b")], message_ids=message_ids)
    assert refused.value.code == pb.ILLEGAL_MESSAGE_ID
    assert server.requests["SendMessage"] == []


def test_the_blocking_producer_takes_ids_too() -> None:
    with Stack() as stack:
        stack.create_topic("orders")
        with ternmq.blocking.Producer(stack.endpoint) as producer:
            [receipt] = producer.send_many([Message("orders", b"a")], message_ids=["mine"])
    assert receipt.message_id == "mine"
