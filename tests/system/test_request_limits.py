"""What one request may hold: entries, fields, inflated bytes. Beyond it is refused whole, and says which setting."""

import asyncio
import gzip
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ternmq_common.errors import MessagingError
from ternmq_common.limits import MIB, RequestLimits
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.processors.sending import inflation
from ternmq_proxy.processors.sending.inflation import InflationRoom, RequestInflation
from tests.support.embedded import Embedded, RawClient, code, local_settings, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
LIMITS = RequestLimits(entries_max=4, inflated_bytes_max=2 * MIB)
PATIENCE_S = 20


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def limited_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    settings = local_settings(
        tmp_path_factory.mktemp("limited"),
        request_entries_max=LIMITS.entries_max,
        request_inflated_bytes_max=LIMITS.inflated_bytes_max,
    )
    async with Embedded(settings) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def limited(limited_server: Embedded) -> AsyncIterator[RawClient]:
    async with RawClient(limited_server.grpc) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="session")
async def topic(limited: RawClient) -> str:
    return await limited.create_topic(f"topic-{uuid.uuid4().hex[:12]}")


async def stored(client: RawClient, topic: str) -> int:
    queue = pb.MessageQueue(topic={"name": topic})
    answer = await client.call("QueryOffset", message_queue=queue, query_offset_policy=pb.END)
    count: int = answer.offset
    return count


# --- entries


async def test_as_many_messages_as_are_allowed_are_stored(limited: RawClient, topic: str) -> None:
    await limited.send(topic, *[b"x"] * LIMITS.entries_max)
    assert await stored(limited, topic) == LIMITS.entries_max


async def test_one_message_more_is_refused_and_nothing_is_stored(limited: RawClient, topic: str) -> None:
    messages = [message(topic) for _ in range(LIMITS.entries_max + 1)]
    answer = await limited.call("SendMessage", messages=messages)
    assert code(answer) == "TOO_MANY_REQUESTS"
    assert answer.status.message == "the request has 5 messages; 4 are allowed (request_entries_max)"
    assert await stored(limited, topic) == 0


async def test_one_acknowledgement_more_is_refused_and_nothing_is_settled(limited: RawClient, topic: str) -> None:
    await limited.send(topic, b"x")
    [received] = (await limited.receive(topic, "g")).messages
    handle = received.system_properties.receipt_handle
    assert code(await limited.ack(topic, "g", *[handle] * (LIMITS.entries_max + 1))) == "TOO_MANY_REQUESTS"
    assert code(await limited.ack(topic, "g", handle)) == "OK"


async def test_the_entries_of_other_requests_count_too(limited: RawClient) -> None:
    answer = await limited.admin("ResendDeadLetters", group="g", offsets=range(LIMITS.entries_max + 1))
    assert code(answer) == "TOO_MANY_REQUESTS"
    assert "request_entries_max" in answer.status.message


# --- fields

BOMB = b"\x0a\x00" * 400_000


@pytest.mark.parametrize("call", ["SendMessage", "AckMessage", "QueryRoute"])
async def test_bytes_that_would_be_too_many_objects_are_not_parsed(limited: RawClient, call: str) -> None:
    answer = await limited.call(call, BOMB)
    assert code(answer) == "TOO_MANY_REQUESTS"
    assert "fields" in answer.status.message


@pytest.mark.parametrize("call", ["ReceiveMessage", "PullMessage"])
async def test_a_call_that_answers_with_messages_refuses_them_too(limited: RawClient, call: str) -> None:
    answers = [answer async for answer in limited.stream(call, BOMB)]
    assert [code(answer) for answer in answers] == ["TOO_MANY_REQUESTS"]


async def test_a_large_body_is_no_bomb(limited: RawClient, topic: str) -> None:
    await limited.send(topic, b"\x0a\x00" * 2_000_000)
    assert await stored(limited, topic) == 1


# --- inflated bytes


def compressed(topic: str, size: int) -> pb.Message:
    return message(topic, gzip.compress(bytes(size)), body_encoding=pb.GZIP)


@pytest.mark.parametrize(
    "sizes", [[1 << 20] * 3, [100_000, 1 << 20, 1 << 20], [MIB * 2 + 1]], ids=["large", "small and large", "one"]
)
async def test_bodies_that_inflate_to_too_much_are_refused_together(
    limited: RawClient, topic: str, sizes: list[int]
) -> None:
    messages = [compressed(topic, size) for size in sizes]
    answer = await limited.call("SendMessage", messages=messages)
    assert code(answer) == "TOO_MANY_REQUESTS"
    assert "request_inflated_bytes_max" in answer.status.message
    assert await stored(limited, topic) == 0


async def test_requests_up_to_the_limit_go_on_for_ever(limited: RawClient, topic: str) -> None:
    for _ in range(2 * inflation.LARGE_AT_ONCE):
        messages = [compressed(topic, 1 << 20), compressed(topic, (1 << 20) - 100_000), compressed(topic, 100_000)]
        assert code(await limited.call("SendMessage", messages=messages, timeout_s=PATIENCE_S)) == "OK"
        refused = rpc.SendMessageRequest(messages=[compressed(topic, 1 << 20) for _ in range(3)])
        assert code(await limited.call("SendMessage", refused, timeout_s=PATIENCE_S)) == "TOO_MANY_REQUESTS"


LARGE = gzip.compress(bytes(1 << 20))
SMALL = gzip.compress(bytes(1000))


async def test_no_more_than_a_few_requests_hold_large_bodies_at_the_same_time() -> None:
    room = InflationRoom()
    requests = [RequestInflation(room, LIMITS) for _ in range(inflation.LARGE_AT_ONCE + 1)]
    for request in requests[:-1]:
        assert await request.inflate_body(LARGE, 4 * MIB) == bytes(1 << 20)
    waiting = asyncio.create_task(requests[-1].inflate_body(LARGE, 4 * MIB))
    small = RequestInflation(room, LIMITS)
    assert await small.inflate_body(SMALL, 4 * MIB) == bytes(1000)  # it waits for nobody
    assert not waiting.done()
    requests[0].release()
    requests[0].release()  # once more changes nothing
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == bytes(1 << 20)


async def test_small_bodies_share_what_there_is_for_them() -> None:
    room = InflationRoom(small_bytes_max=2500)
    requests = [RequestInflation(room, LIMITS) for _ in range(2 + inflation.LARGE_AT_ONCE + 1)]
    for request in requests[:-1]:
        await request.inflate_body(SMALL, 4 * MIB)
    waiting = asyncio.create_task(requests[-1].inflate_body(SMALL, 4 * MIB))
    await asyncio.sleep(0)
    assert not waiting.done()
    for request in requests[:-1]:
        request.release()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == bytes(1000)


async def test_a_body_that_is_broken_leaves_no_place_taken() -> None:
    room = InflationRoom()
    for _ in range(inflation.LARGE_AT_ONCE + 1):
        request: Any = RequestInflation(room, LIMITS)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(MessagingError):
                await request.inflate_body(LARGE[:-1], 4 * MIB)
        request.release()
