"""ReceiveMessage: the answer's form, its messages and the limits of its fields (`consuming.md, Receive`)."""

import time
from hashlib import sha1

import pytest

from ternmq_common.limits import HOUR_MS
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, Proto, RawClient, Received, code, message, receive_request
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
TWELVE_HOURS_S = 12 * HOUR_MS / 1000


def now() -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(time.time_ns() // 1_000_000)
    return stamp


async def test_the_status_comes_first_then_messages_then_the_time(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"1", b"2", b"3")
    before = now()
    received = await client.receive(topic, group)
    assert received.kinds == ["status", "message", "message", "message", "delivery_timestamp"]
    assert (received.code, received.bodies) == ("OK", [b"1", b"2", b"3"])
    assert received.delivered is not None
    assert before.ToMilliseconds() <= received.delivered.ToMilliseconds() <= now().ToMilliseconds()


async def test_nothing_to_receive_is_a_status_and_a_time(client: RawClient, topic: str, group: str) -> None:
    received = await client.receive(topic, group)
    assert received.kinds == ["status", "delivery_timestamp"]
    assert received.code == "MESSAGE_NOT_FOUND"


async def test_an_error_is_a_status_and_a_time(client: RawClient, topic: str) -> None:
    received = await client.receive(topic, "a b")
    assert received.kinds == ["status", "delivery_timestamp"]
    assert received.code == "ILLEGAL_CONSUMER_GROUP"


async def test_a_delivered_message_has_every_field_that_a_client_needs(
    client: RawClient, topic: str, group: str, server: Embedded
) -> None:
    sent = message(
        topic,
        b"body",
        properties={"a": "b", "": "", "ä": "ö"},
        tag="tag",
        keys=["k1", "with space"],
        born_host="host-a",
        born_timestamp={"seconds": 1700000000, "nanos": 123000000},
        trace_context="trace",
    )
    before = now()
    assert code(await client.call("SendMessage", messages=[sent])) == "OK"
    [got] = (await client.receive(topic, group)).messages
    properties = got.system_properties
    assert (got.topic.name, got.body) == (topic, b"body")
    assert got.user_properties == sent.user_properties
    for kept in ("tag", "keys", "message_id", "born_host", "born_timestamp", "trace_context"):
        assert getattr(properties, kept) == getattr(sent.system_properties, kept)
    assert properties.body_digest == pb.Digest(
        type=pb.SHA1, checksum=sha1(b"body", usedforsecurity=False).hexdigest().upper()
    )
    assert (properties.body_encoding, properties.message_type) == (pb.IDENTITY, pb.NORMAL)
    assert before.ToMilliseconds() <= properties.store_timestamp.ToMilliseconds() <= now().ToMilliseconds()
    assert properties.store_host == server.grpc
    assert properties.receipt_handle
    assert properties.HasField("queue_offset")
    assert (properties.queue_id, properties.queue_offset, properties.delivery_attempt) == (0, 0, 1)
    unset = "delivery_timestamp message_group lite_topic priority dead_letter_queue invisible_duration"
    assert not [name for name in unset.split() if properties.HasField(name)]


async def test_what_a_producer_leaves_out_is_filled_in(client: RawClient, topic: str, group: str) -> None:
    before = now()
    sent = message(topic, body_encoding=pb.ENCODING_UNSPECIFIED)
    assert code(await client.call("SendMessage", messages=[sent])) == "OK"
    [got] = (await client.receive(topic, group)).messages
    properties = got.system_properties
    assert not properties.HasField("tag")
    assert properties.born_host.startswith("127.0.0.1:")
    assert before.ToMilliseconds() <= properties.born_timestamp.ToMilliseconds() <= now().ToMilliseconds()
    assert (properties.body_encoding, properties.message_type) == (pb.IDENTITY, pb.NORMAL)


@pytest.mark.parametrize("stamp", [{"seconds": 2**62}, {"seconds": -1}, {"nanos": -1}, {"nanos": 10**9}], ids=str)
async def test_a_time_of_birth_that_no_client_could_read_is_replaced(
    client: RawClient, topic: str, group: str, stamp: dict[str, int]
) -> None:
    await client.send(topic, b"body", born_timestamp=stamp)
    [got] = (await client.receive(topic, group)).messages
    assert got.system_properties.born_timestamp.ToMilliseconds() > 1_700_000_000_000


async def test_what_only_the_server_may_say_is_not_taken_from_a_producer(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(
        topic,
        b"body",
        receipt_handle="mine",
        queue_id=7,
        queue_offset=7,
        delivery_attempt=7,
        store_host="mine",
        store_timestamp={"seconds": 7},
        invisible_duration={"seconds": 7},
        dead_letter_queue={"topic": "mine"},
    )
    [got] = (await client.receive(topic, group)).messages
    properties = got.system_properties
    assert (properties.queue_id, properties.queue_offset, properties.delivery_attempt) == (0, 0, 1)
    assert "mine" not in (properties.receipt_handle, properties.store_host)
    assert properties.store_timestamp.seconds > 7
    assert not properties.HasField("invisible_duration")
    assert not properties.HasField("dead_letter_queue")


async def test_a_consumer_sees_the_topic_as_it_asked_for_it(client: RawClient, topic: str, group: str) -> None:
    sent = message(topic)
    sent.topic.resource_namespace = "of-the-producer"
    await client.call("SendMessage", messages=[sent])
    request = receive_request(topic, group)
    request.message_queue.topic.resource_namespace = "of-the-consumer"
    received = Received()
    async for item in client.stream("ReceiveMessage", request):
        received.add(item)
    [got] = received.messages
    assert got.topic == pb.Resource(name=topic, resource_namespace="of-the-consumer")


async def test_each_message_tells_its_own_queue_and_offset(client: RawClient, new_topic: str, group: str) -> None:
    await client.create_topic(new_topic, queues=4)
    for _ in range(8):
        await client.send(new_topic, b"body")
    received = await client.receive(new_topic, group)
    places = [(got.system_properties.queue_id, got.system_properties.queue_offset) for got in received.messages]
    assert sorted(places) == [(queue_id, offset) for queue_id in range(4) for offset in range(2)]


@pytest.mark.parametrize(("asked", "count"), [(1, 1), (3, 3), (32, 32), (33, 32), (2**31 - 1, 32)])
async def test_a_batch_has_at_most_what_was_asked_for_and_never_more_than_32(
    client: RawClient, topic: str, group: str, asked: int, count: int
) -> None:
    await client.send(topic, *[b"body"] * 40)
    assert len((await client.receive(topic, group, batch_size=asked)).messages) == count


async def test_a_batch_of_none_gets_none(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group, batch_size=0)).code == "MESSAGE_NOT_FOUND"
    assert (await client.receive(topic, group)).attempts == [1]


@pytest.mark.parametrize("size", [-1, -(2**31)])
async def test_a_negative_batch_is_a_bad_request(client: RawClient, topic: str, group: str, size: int) -> None:
    assert (await client.receive(topic, group, batch_size=size)).code == "BAD_REQUEST"


@pytest.mark.parametrize(
    ("invisible_s", "expected"),
    [
        (None, "ILLEGAL_INVISIBLE_TIME"),
        (0, "ILLEGAL_INVISIBLE_TIME"),
        (-1, "ILLEGAL_INVISIBLE_TIME"),
        (9.999, "ILLEGAL_INVISIBLE_TIME"),
        (10, "OK"),
        (TWELVE_HOURS_S, "OK"),
        (TWELVE_HOURS_S + 0.001, "ILLEGAL_INVISIBLE_TIME"),
        (2.0**62, "ILLEGAL_INVISIBLE_TIME"),
    ],
)
async def test_invisible_duration(
    client: RawClient, topic: str, group: str, invisible_s: float | None, expected: str
) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group, invisible_s=invisible_s)).code == expected


async def test_the_invisible_duration_means_nothing_with_auto_renewal(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group, invisible_s=1, auto_renew=True)).code == "OK"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize("fields", [{"attempt_id": "a"}, {"attempt_id": ""}, {"poll_s": None}], ids=str)
async def test_what_only_some_clients_send_may_be_there_or_not(
    client: RawClient, topic: str, group: str, fields: dict[str, Proto]
) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group, **fields)).bodies == [b"body"]


@pytest.mark.parametrize("queue_id", [-1, 0, 3, 99])
@pytest.mark.parametrize("broker", ["", "broker-0", "virtual-broker"])
async def test_the_queue_of_the_request_is_no_restriction(
    client: RawClient, new_topic: str, group: str, queue_id: int, broker: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    for _ in range(4):
        await client.send(new_topic, b"body")
    queue = {"topic": {"name": new_topic}, "id": queue_id, "broker": {"name": broker}}
    assert len((await client.receive(new_topic, group, message_queue=queue)).messages) == 4


@pytest.mark.parametrize("name", ["", "a b", "x" * 121, "CID_RMQ_SYS_mine"])
async def test_an_illegal_group_is_refused(client: RawClient, topic: str, name: str) -> None:
    assert (await client.receive(topic, name)).code == "ILLEGAL_CONSUMER_GROUP"


async def test_a_client_without_settings_is_served_and_its_group_made(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group)).bodies == [b"body"]
    described = await client.admin("DescribeGroup", name=group)
    assert (code(described), list(described.client_ids)) == ("OK", [client.client_id])


async def test_a_missing_topic_is_not_found_without_auto_create(strict: RawClient, new_topic: str, group: str) -> None:
    assert (await strict.receive(new_topic, group)).code == "TOPIC_NOT_FOUND"


async def test_a_missing_group_is_not_found_without_auto_create(strict: RawClient, new_topic: str, group: str) -> None:
    await strict.create_topic(new_topic)
    assert (await strict.receive(new_topic, group)).code == "CONSUMER_GROUP_NOT_FOUND"


async def test_without_a_client_id_there_is_one_status_and_nothing_else(
    server: Embedded, topic: str, group: str
) -> None:
    async with RawClient(server.grpc, metadata=()) as nobody:
        received = await nobody.receive(topic, group)
    assert (received.kinds, received.code) == (["status"], "CLIENT_ID_REQUIRED")


async def test_a_receive_without_a_deadline_is_served(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"body")
    assert (await client.receive(topic, group, timeout_s=None)).bodies == [b"body"]
