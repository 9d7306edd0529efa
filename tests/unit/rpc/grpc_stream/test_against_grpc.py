"""gRPC's own client at our server, and its own server at our client: what each says, the other understands."""

import asyncio
import os
from typing import Any

import grpc
import pytest
from grpc import aio

from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.served_call import ServedCall
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from tests.unit.rpc.grpc_stream.echo import METHOD, call_of_grpc, echo_of_grpc, ours, theirs, until

SIZES = [0, 1, 5, 400, 16_379, 16_380, 70_000, 300_000]
LARGE = os.urandom(20 << 20)


class TestOurServer:
    async def test_echoes_messages_of_all_sizes_in_order(self) -> None:
        messages = [os.urandom(size) for size in SIZES * 3]
        async with ours() as (_, address), call_of_grpc(address) as call:
            for message in messages:
                await call.write(message)
                assert await call.read() == message

    async def test_many_small_messages_pass_while_nobody_waits_for_each(self) -> None:
        messages = [b"%d" % number for number in range(3000)]
        async with ours() as (_, address), call_of_grpc(address) as call:

            async def write() -> None:
                for message in messages:
                    await call.write(message)
                await call.done_writing()

            writing = asyncio.create_task(write())
            assert [message async for message in call] == messages
            await writing
            assert await call.code() == grpc.StatusCode.OK

    async def test_messages_larger_than_the_windows_pass(self) -> None:
        async with ours() as (_, address), call_of_grpc(address) as call:
            for _round in range(2):
                await call.write(LARGE)
                assert await call.read() == LARGE

    async def test_a_half_close_is_the_end_of_reading_and_not_of_writing(self) -> None:
        async def serve(stream: ServedCall) -> None:
            said = [message async for message in _messages(stream)]
            stream.write_messages(b"after the end: ", b" ".join(said))

        async with ours(serve) as (_, address), call_of_grpc(address) as call:
            await call.write(b"one")
            await call.write(b"two")
            await call.done_writing()
            assert [message async for message in call] == [b"after the end: ", b"one two"]
            assert await call.code() == grpc.StatusCode.OK

    @pytest.mark.parametrize("cancels", [True, False])
    async def test_a_client_that_goes_away_breaks_the_stream(self, *, cancels: bool) -> None:
        broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def serve(stream: ServedCall) -> None:
            stream.write_messages(b"hello")
            try:
                await stream.read_message()
            except asyncio.CancelledError:
                broken.set_result(str(stream.failure))
                for use in (
                    stream.read_message,
                    stream.read_all,
                    stream.wait_drained,
                    stream.end_stream,
                    stream.finish_answer,
                ):
                    with pytest.raises(StreamBroken):
                        await use()
                with pytest.raises(StreamBroken):
                    stream.write_messages(b"nobody reads this")
                raise

        async with ours(serve) as (_, address):
            async with call_of_grpc(address) as call:
                assert await call.read() == b"hello"
                if cancels:
                    call.cancel()
                    assert "CANCEL" in await broken
            assert await broken

    async def test_a_deadline_that_passes_breaks_the_stream(self) -> None:
        ends: list[str] = []

        async def serve(stream: ServedCall) -> None:
            try:
                await stream.read_message()
            except asyncio.CancelledError:
                ends.append(str(stream.failure))
                raise

        async with ours(serve) as (server, address):
            for timeout_s in (0.05, 0.2, 1, 5):  # on a busy machine a short one ends before the stream has begun
                async with call_of_grpc(address, timeout=timeout_s) as call:
                    assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                await until(lambda: not server.tasks)
                if ends:
                    break
            assert ends

    async def test_the_status_and_text_of_an_aborted_stream_arrive(self) -> None:
        async def serve(stream: ServedCall) -> None:
            stream.write_messages(b"so far")
            await stream.read_message()
            stream.abort_stream("löst 100 % auf\n", status=GrpcStatus.RESOURCE_EXHAUSTED)

        async with ours(serve) as (_, address), call_of_grpc(address) as call:
            assert await call.read() == b"so far"
            await call.write(b"go on")
            with pytest.raises(aio.AioRpcError) as error:
                await call.read()
            assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert error.value.details() == "löst 100 % auf\n"

    async def test_compressed_messages_are_refused(self) -> None:
        async with ours() as (_, address), call_of_grpc(address, compression=grpc.Compression.Gzip) as call:
            await call.write(bytes(10_000))
            assert await call.code() == grpc.StatusCode.UNIMPLEMENTED

    async def test_messages_that_are_too_large_are_refused(self) -> None:
        async with (
            ours(budgets=ConnectionBudgets(message_bytes_max=1000)) as (_, address),
            call_of_grpc(address) as call,
        ):
            await call.write(bytes(1000))
            assert await call.read() == bytes(1000)
            await call.write(bytes(1001))
            assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    async def test_several_calls_share_a_connection(self) -> None:
        async with ours() as (server, address), aio.insecure_channel(address) as channel:
            calls = [channel.stream_stream(METHOD)() for _ in range(5)]
            for number, call in enumerate(calls):
                await call.write(b"%d" % number)
            assert [await call.read() for call in calls] == [b"0", b"1", b"2", b"3", b"4"]
            assert len(server.connections) == 1
            for call in calls:
                await call.done_writing()
                assert await call.read() is aio.EOF

    @pytest.mark.parametrize("talks", [True, False])
    async def test_a_server_that_stops_ends_what_does_not_end_by_itself(self, *, talks: bool) -> None:
        async with ours(talks=talks) as (server, address), call_of_grpc(address) as call:
            await call.write(b"x")
            assert await call.read() == b"x"
            await server.stop_serving(0)
            assert await call.code() == grpc.StatusCode.UNAVAILABLE

    async def test_a_server_that_stops_leaves_streams_that_are_no_conversations_the_time_to_end(self) -> None:
        async with ours(talks=False) as (server, address), call_of_grpc(address) as call:
            await call.write(b"x")
            assert await call.read() == b"x"
            stopping = asyncio.create_task(server.stop_serving(20))
            await call.write(b"y")
            assert await call.read() == b"y"
            await call.done_writing()
            assert await call.code() == grpc.StatusCode.OK
            await stopping


class TestOurClient:
    async def test_is_echoed_messages_of_all_sizes_in_order(self) -> None:
        async with theirs() as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            messages = [os.urandom(size) for size in SIZES * 3]
            for message in messages:
                stream.write_messages(message)
            assert [await stream.read_message() for _ in messages] == messages
            await stream.end_stream()
            assert await stream.read_message() is None

    async def test_messages_written_together_arrive_each(self) -> None:
        async with theirs() as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            messages = [b"%d" % number for number in range(1000)]
            stream.write_messages(*messages)
            said: list[bytes] = []
            while len(said) < len(messages):
                said += await stream.read_all()
            assert said == messages
            await stream.end_stream()
            assert await stream.read_all() == []

    async def test_messages_larger_than_the_windows_pass(self) -> None:
        async with theirs() as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            for _round in range(2):
                stream.write_messages(LARGE)
                assert await stream.read_message() == LARGE
            stream.abort_stream("done")

    async def test_what_the_server_says_after_the_half_close_is_read(self) -> None:
        async def handler(_: object, context: "aio.ServicerContext[Any, Any]") -> None:
            said = [message async for message in _of_grpc(context)]
            await context.write(b" ".join(said))

        async with theirs(handler) as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            stream.write_messages(b"one", b"two")
            await stream.end_stream()
            assert await stream.read_message() == b"one two"
            assert await stream.read_message() is None
            with pytest.raises(StreamBroken):
                stream.write_messages(b"more")

    async def test_a_status_that_is_not_ok_breaks_the_stream_with_its_text(self) -> None:
        async def handler(_: object, context: "aio.ServicerContext[Any, Any]") -> None:
            await context.write(b"first")
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "100 % voll: für heute")

        async with theirs(handler) as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            assert await stream.read_message() == b"first"
            with pytest.raises(StreamBroken, match="resource exhausted: 100 % voll: für heute") as error:
                await stream.read_message()
            assert error.value.status == GrpcStatus.RESOURCE_EXHAUSTED
            with pytest.raises(StreamBroken, match="100 %"):
                stream.write_messages(b"more")

    async def test_a_method_that_is_not_served_is_told_by_the_first_read(self) -> None:
        async with theirs() as (_, address):
            stream = await open_stream(address, "/test.Echo/Other", timeout_s=5)
            with pytest.raises(StreamBroken, match="unimplemented"):
                await stream.read_message()

    async def test_an_abort_ends_the_call_at_the_server(self) -> None:
        ended = asyncio.Event()

        async def handler(request: object, context: "aio.ServicerContext[Any, Any]") -> None:
            try:
                await echo_of_grpc(request, context)
            finally:
                ended.set()

        async with theirs(handler) as (_, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            stream.write_messages(b"x")
            assert await stream.read_message() == b"x"
            stream.abort_stream("no more")
            await ended.wait()
            with pytest.raises(StreamBroken, match="no more"):
                await stream.read_message()

    async def test_a_server_that_stops_breaks_a_waiting_read(self) -> None:
        async with theirs() as (server, address):
            stream = await open_stream(address, METHOD, timeout_s=5)
            stream.write_messages(b"x")
            assert await stream.read_message() == b"x"
            reading = asyncio.create_task(stream.read_message())
            await server.stop(0)
            with pytest.raises(StreamBroken):
                await reading


async def _messages(stream: MessageStream) -> Any:  # noqa: ANN401 - an iterator
    while (message := await stream.read_message()) is not None:
        yield message


async def _of_grpc(context: Any) -> Any:  # noqa: ANN401 - as grpc
    while (message := await context.read()) is not aio.EOF:
        yield message
