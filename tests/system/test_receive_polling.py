"""ReceiveMessage: how long it waits, what wakes it, and what becomes of a message whose consumer is gone."""

import asyncio
import time

import grpc.aio
import pytest

from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, Received, local_settings, receive_request
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
# Of 2 MB each: more than one answer holds, and more than fits into the buffers between server and client.
PARTS = 8


async def until_known(client: RawClient, asking: RawClient, group: str) -> None:
    """Return when the server has begun to serve a receive of `asking`."""
    members: list[str] = []
    while asking.client_id not in members:
        described = await client.admin("DescribeGroup", name=group)
        members = list(described.client_ids)


async def read(stream: Proto) -> Received:
    received = Received()
    async for item in stream:
        received.add(item)
    return received


@pytest.mark.parametrize("poll_s", [0.0, 0.2, 0.5])
async def test_nothing_found_is_said_after_the_poll_and_not_before(
    client: RawClient, topic: str, group: str, poll_s: float
) -> None:
    began = time.monotonic()
    assert (await client.receive(topic, group, poll_s=poll_s)).code == "MESSAGE_NOT_FOUND"
    assert time.monotonic() - began >= poll_s


async def test_a_poll_longer_than_the_deadline_is_answered_in_time(client: RawClient, topic: str, group: str) -> None:
    began = time.monotonic()
    assert (await client.receive(topic, group, poll_s=20, timeout_s=1.5)).code == "MESSAGE_NOT_FOUND"
    assert time.monotonic() - began >= 1.0


async def test_a_client_that_says_no_poll_time_waits_until_shortly_before_its_deadline(
    client: RawClient, topic: str, group: str
) -> None:
    request_timeout = Duration(seconds=4)
    subscription = {"group": {"name": group}}
    await client.configure(
        pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=subscription, request_timeout=request_timeout)
    )
    began = time.monotonic()
    assert (await client.receive(topic, group, poll_s=None, timeout_s=2.5)).code == "MESSAGE_NOT_FOUND"
    # The deadline less half of the client's request timeout.
    assert time.monotonic() - began >= 0.4


async def test_the_servers_limit_ends_a_longer_poll(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = local_settings(tmp_path_factory.mktemp("short-polls"), long_poll_max_ms=1000)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        began = time.monotonic()
        polls = [client.receive("orders", "g", poll_s=3600, timeout_s=deadline_s) for deadline_s in (None, 60)]
        assert [answer.code for answer in await asyncio.gather(*polls)] == ["MESSAGE_NOT_FOUND"] * 2
        assert time.monotonic() - began >= 1.0


async def test_a_message_that_arrives_wakes_a_waiting_poll(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    await client.send(topic, b"1")
    async with asyncio.timeout(5):
        received = await waiting
    assert (received.bodies, received.attempts) == ([b"1"], [1])


async def test_a_message_that_a_filter_keeps_out_leaves_the_poll_waiting(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15, tags="wanted"))
    await until_known(client, other, group)
    await client.send(topic, b"1", tag="unwanted")
    await client.send(topic, b"2", tag="wanted")
    async with asyncio.timeout(5):
        assert (await waiting).bodies == [b"2"]


async def test_each_of_many_waiting_polls_gets_a_message_of_its_own(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    polls = [asyncio.ensure_future(other.receive(topic, group, poll_s=15, batch_size=1)) for _ in range(20)]
    await client.send(topic, *[str(number).encode() for number in range(20)])
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*polls)
    assert sorted(int(body) for answer in answers for body in answer.bodies) == list(range(20))


async def test_a_message_shown_again_wakes_a_waiting_poll_and_counts_the_attempt(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1")
    [held] = (await client.receive(topic, group)).messages
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    await client.change(topic, group, held.system_properties.receipt_handle, 0)
    async with asyncio.timeout(5):
        assert (await waiting).attempts == [2]


async def test_an_error_is_held_back_so_that_a_client_can_not_spin(strict: RawClient) -> None:
    began = time.monotonic()
    assert (await strict.receive("orders", "a b")).code == "ILLEGAL_CONSUMER_GROUP"
    assert time.monotonic() - began >= 1.0


async def test_an_error_comes_before_the_deadline_all_the_same(strict: RawClient) -> None:
    assert (await strict.receive("orders", "a b", timeout_s=1.0)).code == "ILLEGAL_CONSUMER_GROUP"


async def test_a_cancelled_poll_takes_no_message_along(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    for _ in range(5):
        waiting = other.stream("ReceiveMessage", receive_request(topic, group, poll_s=15))
        await until_known(client, other, group)
        sending = asyncio.ensure_future(client.send(topic, b"1"))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting.read()
        await sending
        [got] = (await client.receive(topic, group, poll_s=15)).messages
        assert got.system_properties.delivery_attempt in (1, 2)
        await client.ack(topic, group, got.system_properties.receipt_handle)


@pytest.mark.parametrize("auto_renew", [True, False])
async def test_messages_of_an_answer_that_was_cut_go_to_another_at_once_as_if_never_delivered(
    client: RawClient, other: RawClient, topic: str, group: str, auto_renew: bool
) -> None:
    for number in range(PARTS):
        await client.send(topic, bytes([number]) * 2_000_000)
    request = receive_request(topic, group, auto_renew=auto_renew)
    stream = other.stream("ReceiveMessage", request)
    assert (await stream.read()).status.code == pb.OK
    assert (await stream.read()).message.body[:1] == b"\x00"
    stream.cancel()
    firsts: list[bytes] = []
    while len(firsts) < PARTS:
        received = await client.receive(topic, group, poll_s=15, batch_size=4)
        assert received.attempts == [1] * len(received.messages)
        firsts += [body[:1] for body in received.bodies]
    assert sorted(firsts) == [bytes([number]) for number in range(PARTS)]


async def test_messages_of_a_connection_that_broke_go_to_another_at_once(
    client: RawClient, server: Embedded, topic: str, group: str
) -> None:
    for number in range(PARTS):
        await client.send(topic, bytes([number]) * 2_000_000)
    async with RawClient(server.grpc) as dying:
        stream = dying.stream("ReceiveMessage", receive_request(topic, group))
        await stream.read()
    received = await client.receive(topic, group, poll_s=15, batch_size=1)
    assert received.attempts == [1]


async def test_an_acknowledgement_of_a_message_from_a_cut_answer_still_counts(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    for number in range(PARTS):
        await client.send(topic, bytes([number]) * 2_000_000)
    stream = other.stream("ReceiveMessage", receive_request(topic, group))
    await stream.read()
    first = (await stream.read()).message
    stream.cancel()
    await client.ack(topic, group, first.system_properties.receipt_handle)
    received = await client.receive(topic, group, poll_s=15, batch_size=1)
    # The first is settled. Whether the second had reached its client by then is a race; if so, it is not given back.
    assert received.bodies[0][:1] > b"\x00"


async def test_a_poll_that_waits_is_answered_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with Embedded(local_settings(tmp_path_factory.mktemp("stopping"))) as server:
        client = RawClient(server.grpc)
        await client.create_topic("orders")
        waiting = asyncio.ensure_future(client.receive("orders", "g", poll_s=15))
        await until_known(client, client, "g")
    assert (await waiting).code == "MESSAGE_NOT_FOUND"
    await client.channel.close()


async def test_waiting_receives_end_when_their_client_ends_its_telemetry_stream(
    client: RawClient, topic: str, group: str
) -> None:
    """So a client that is about to go loses nothing: what it has not got yet it does not get."""
    await client.create_topic(topic)
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription={"group": {"name": group}})
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=settings))
    await stream.read()
    async with RawClient(client.endpoint) as other:
        others = asyncio.create_task(other.receive(topic, group, poll_s=15))
        await until_known(client, other, group)
        polling = [asyncio.create_task(client.receive(topic, group, poll_s=15)) for _ in range(3)]
        await until_known(other, client, group)
        await stream.done_writing()
        assert [(each.code, each.kinds) for each in await asyncio.gather(*polling)] == [
            ("MESSAGE_NOT_FOUND", ["status"])
        ] * 3
        await client.send(topic, b"for the other")
        assert (await others).bodies == [b"for the other"]


async def test_receives_wait_on_when_another_telemetry_stream_of_their_client_is_left(
    client: RawClient, topic: str, group: str
) -> None:
    await client.create_topic(topic)
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription={"group": {"name": group}})
    first, second = client.telemetry(), client.telemetry()
    for stream in (first, second):
        await stream.write(rpc.TelemetryCommand(settings=settings))
        await stream.read()
    polling = asyncio.create_task(client.receive(topic, group, poll_s=15))
    async with RawClient(client.endpoint) as other:
        await until_known(other, client, group)
    await first.done_writing()
    assert await first.read() is grpc.aio.EOF
    await client.send(topic, b"it waits")
    assert (await polling).bodies == [b"it waits"]
    second.cancel()
