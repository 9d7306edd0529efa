"""Many calls of many methods on one connection, by gRPC's own client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import grpc
import pytest
from grpc import aio

from ternmq_rpc.grpc_stream.call_server import CallServer
from tests.unit.rpc.grpc_stream.calls import CLIENT_ID, MESSAGE_MAX, Service, serving
from tests.unit.rpc.grpc_stream.echo import UNLIMITED, until


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[aio.Channel, CallServer, Service]]:
    async with serving() as (server, service, address), aio.insecure_channel(address, options=UNLIMITED) as channel:
        yield channel, server, service


async def outcome(call: "aio.UnaryUnaryCall[bytes, bytes]") -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(aio.AioRpcError) as ended:
        await call
    return ended.value.code(), ended.value.details()


@pytest.mark.parametrize("size", [0, 1, 16_000, 70_000, MESSAGE_MAX])
async def test_a_request_of_any_size_is_answered(size: int) -> None:
    async with connected() as (channel, _, _):
        assert await channel.unary_unary("/test/Echo")(b"x" * size) == b"x" * size


async def test_calls_by_the_thousand_get_each_its_own_answer() -> None:
    async with connected() as (channel, server, _):
        echo = channel.unary_unary("/test/Echo")
        texts = [b"%d" % number for number in range(3000)]
        assert await asyncio.gather(*map(echo, texts)) == texts
        await until(lambda: not server.tasks)


@pytest.mark.plain
async def test_answers_that_are_ready_in_one_turn_go_in_one_write() -> None:
    async with connected() as (channel, server, service):
        bodies = [b"body %d" % number for number in range(10)]
        calls = [channel.unary_unary("/test/Gate")(body) for body in bodies]
        await until(lambda: len(server.tasks) == len(bodies))
        (connection,) = server.connections
        with patch.object(connection, "_transport", wraps=connection._transport) as transport:
            service.let_go.set()
            assert [await call for call in calls] == bodies
        written = [call.args[0] for call in transport.write.call_args_list]
        assert any(all(body in data for body in bodies) for data in written)


async def test_an_answer_that_must_arrive_fails_when_the_connection_is_lost_before_it_is_written() -> None:
    async with connected() as (channel, _, service):
        assert (await outcome(channel.unary_unary("/test/Lost")(b"")))[0] is grpc.StatusCode.UNAVAILABLE
        assert not await service.arrived.get()


async def test_an_answer_of_several_messages_larger_than_all_windows_comes_whole() -> None:
    async with connected() as (channel, _, _):
        call = channel.unary_stream("/test/Many")(b"x" * 50, metadata=((CLIENT_ID, "first"), (CLIENT_ID, "last")))
        messages = [message async for message in call]
        assert [len(message) for message in messages[:-1]] == [100_000] * 50
        assert messages[-1] == b"last"


async def test_what_is_not_served_and_what_is_refused_is_told_by_a_status(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (channel, _, _):
        status, text = await outcome(channel.unary_unary("/test/Nothing")(b""))
        assert status is grpc.StatusCode.UNIMPLEMENTED
        assert "/test/Nothing" in (text or "")
        assert await outcome(channel.unary_unary("/test/Refuse")(b"")) == (grpc.StatusCode.NOT_FOUND, "not hére")
        status, text = await outcome(channel.unary_unary("/test/Fail")(b""))
        assert status is grpc.StatusCode.UNKNOWN
        assert "secret" not in (text or "")
        assert "RuntimeError: a secret" in caplog.text


async def test_a_request_that_is_too_large_is_refused_and_harms_no_other_call() -> None:
    async with connected() as (channel, _, _):
        talk = channel.stream_stream("/test/Talk")()
        await talk.write(b"1")
        assert await talk.read() == b"1"
        status, _ = await outcome(channel.unary_unary("/test/Echo")(bytes(MESSAGE_MAX + 1)))
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
        await talk.write(b"2")
        assert await talk.read() == b"2"


async def test_headers_of_a_conversation_come_before_its_first_message() -> None:
    async with connected() as (channel, _, _):
        talk = channel.stream_stream("/test/Talk")()
        assert await talk.initial_metadata() is not None
        await talk.done_writing()
        assert await talk.read() is aio.EOF
        assert await talk.code() is grpc.StatusCode.OK


async def test_a_call_whose_deadline_passes_is_cancelled_at_both_sides() -> None:
    async with connected() as (channel, server, service):
        await channel.channel_ready()
        call = channel.unary_unary("/test/Wait")(b"", timeout=0.3)
        began = await service.began.get()
        remaining_s = began.remaining_s()
        assert remaining_s is not None
        assert 0 <= remaining_s <= 0.31  # gRPC sends it rounded up
        assert (began.listener, began.peer.split(":")[0]) == ("front door", "127.0.0.1")
        assert (await outcome(call))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await service.cancelled.get() is began
        await until(lambda: not server.tasks)


async def test_a_call_without_a_deadline_has_for_ever() -> None:
    async with connected() as (channel, _, service):
        call = channel.unary_unary("/test/Wait")(b"")
        assert (await service.began.get()).remaining_s() is None
        call.cancel()
        await service.cancelled.get()


async def test_a_client_that_goes_cancels_all_its_calls() -> None:
    async with serving() as (server, service, address):
        async with aio.insecure_channel(address) as channel:
            calls = [channel.unary_unary("/test/Wait")(b"") for _ in range(5)]
            began = [await service.began.get() for _ in calls]
        assert {await service.cancelled.get() for _ in calls} == set(began)
        await until(lambda: not server.tasks)


async def test_a_server_that_ends_waits_for_calls_and_not_for_conversations() -> None:
    async with connected() as (channel, server, service):
        talk = channel.stream_stream("/test/Talk")()
        await talk.write(b"1")
        assert await talk.read() == b"1"
        stubborn = channel.unary_unary("/test/Stubborn")(b"")
        await until(lambda: len(server.tasks) == 2)
        stopping = asyncio.create_task(server.stop_serving(60))
        await asyncio.sleep(0)
        service.let_go.set()
        await stopping
        with pytest.raises(aio.AioRpcError):
            await talk.read()
        assert await talk.code() is grpc.StatusCode.UNAVAILABLE
        assert await stubborn.code() is grpc.StatusCode.OK
        assert not server.connections
