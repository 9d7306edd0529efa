"""Messages that are more than a client takes: gRPC's default is 4 MiB in one piece, which Rust and Node.js leave so."""

import uuid
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from ternmq_common.limits import CLIENT_MESSAGE_BYTES
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
# With its keys it is more than a client takes, and without them less.
BODY, KEYS = b"x" * (CLIENT_MESSAGE_BYTES - 8_000), ["k" * 1_000 + str(number) for number in range(12)]
SMALL = [b"1", b"2", b"3"]


@pytest_asyncio.fixture(loop_scope="session")
async def limited(movable_server: Embedded) -> AsyncIterator[RawClient]:
    channel = grpc.aio.insecure_channel(movable_server.grpc, options=(("grpc.use_local_subchannel_pool", 1),))
    async with RawClient(movable_server.grpc, channel=channel) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def group(timed: RawClient) -> str:
    return await timed.create_group(f"g-{uuid.uuid4().hex[:12]}", max_attempts=3, retry_backoff="customized:1m")


async def send_large(client: RawClient, topic: str, **system: Proto) -> None:
    answer = await client.call("SendMessage", messages=[message(topic, BODY, keys=KEYS, **system)])
    assert answer.status.code == pb.OK, answer.status.message


async def received(client: RawClient, topic: str, group: str) -> list[tuple[bytes, int]] | None:
    """Bodies and attempts; None when the client could not take what came."""
    try:
        answer = await client.receive(topic, group, poll_s=10, invisible_s=20)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return None
    handles = [each.system_properties.receipt_handle for each in answer.messages]
    if handles:
        await client.ack(topic, group, *handles)
    return list(zip(answer.bodies, answer.attempts, strict=True))


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO])
@pytest.mark.parametrize("place", [0, 2])
async def test_such_a_message_fails_alone_and_its_neighbours_are_delivered(
    timed: RawClient, limited: RawClient, kind: "pb.MessageType", place: int
) -> None:
    topic = await timed.create_topic(f"t-{uuid.uuid4().hex[:12]}", kind=kind)
    group = await timed.create_group(
        f"g-{uuid.uuid4().hex[:12]}", max_attempts=3, retry_backoff="customized:1m", fifo=kind == pb.FIFO
    )
    of_fifo = kind == pb.FIFO
    for number, body in enumerate(SMALL):
        if number == place:
            await send_large(timed, topic, **({"message_group": "large"} if of_fifo else {}))
        await timed.send(topic, body, message_type=kind, **({"message_group": body.decode()} if of_fifo else {}))
    got: list[tuple[bytes, int]] = []
    failures = 0
    while len(got) < len(SMALL):
        some = await received(limited, topic, group)
        got += some or []
        failures += some is None
        assert failures <= 2
    assert sorted(got) == [(body, 1) for body in SMALL]


async def test_it_is_a_dead_letter_after_its_attempts_and_others_come_between_them(
    timed: RawClient, limited: RawClient, group: str
) -> None:
    topic = await timed.create_topic(f"t-{uuid.uuid4().hex[:12]}")
    await send_large(timed, topic)
    for attempt in range(1, 4):
        assert await received(limited, topic, group) is None
        await timed.send(topic, b"%d" % attempt)
        assert await received(limited, topic, group) == [(b"%d" % attempt, 1)]
        await timed.advance(61)
    [letter] = (await timed.receive(f"%DLQ%{group}", f"{group}-letters", poll_s=10.0)).messages
    assert letter.body == BODY


async def test_a_pull_brings_it_alone(timed: RawClient) -> None:
    topic = await timed.create_topic(f"t-{uuid.uuid4().hex[:12]}")
    await timed.send(topic, b"1")
    await send_large(timed, topic)
    await timed.send(topic, b"2")
    sizes: list[list[int]] = []
    offset = 0
    while offset < 3:
        request = rpc.PullMessageRequest(
            group={"name": "g"}, message_queue={"topic": {"name": topic}}, offset=offset, batch_size=32
        )
        bodies: list[int] = []
        async for item in timed.stream("PullMessage", request):
            if item.WhichOneof("content") == "message":
                bodies.append(len(item.message.body))
            elif item.WhichOneof("content") == "next_offset":
                offset = item.next_offset
        sizes.append(bodies)
    assert sizes == [[1], [len(BODY)], [1]]


async def test_what_an_operator_finds_is_what_clients_take(timed: RawClient) -> None:
    topic = await timed.create_topic(f"t-{uuid.uuid4().hex[:12]}")
    bodies = [bytes([number]) * 1_500_000 for number in range(4)]
    for body in bodies:
        await timed.send(topic, body, keys=["k"])
    answer = await timed.admin("QueryMessages", topic=topic, key="k")
    assert [each.body for each in answer.messages] == bodies[:1:-1]
    assert answer.ByteSize() <= CLIENT_MESSAGE_BYTES
    await send_large(timed, topic)
    answer = await timed.admin("QueryMessages", topic=topic, key=KEYS[0])
    assert len(answer.messages) == len(answer.brokers) == 1
