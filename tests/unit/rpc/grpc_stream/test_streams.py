"""Streams between our own client and server: order, room, and what breaks them."""

import asyncio
import os
import socket

import pytest

from ternmq_common.errors import StartupError
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_http2.wire_stream import STREAM_WINDOW
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.served_call import ServedCall
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import bind_socket
from tests.unit.rpc.grpc_stream.echo import METHOD, lose, ours, until


async def test_messages_of_128_mib_pass_both_ways() -> None:
    message = os.urandom(1 << 20) * 128
    async with ours() as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(message, b"and a small one")
        assert await stream.read_message() == message
        assert await stream.read_message() == b"and a small one"
        stream.abort_stream("done")


async def test_a_reader_that_does_not_read_stops_the_writer() -> None:
    go_on = asyncio.Event()
    taken: list[MessageStream] = []

    async def serve(stream: ServedCall) -> None:
        taken.append(stream)
        await go_on.wait()
        count = 0
        while await stream.read_message() is not None:
            count += 1
        stream.write_messages(b"%d" % count)

    async with ours(serve) as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(*[bytes(1 << 20)] * 20)
        draining = asyncio.create_task(stream.wait_drained())
        await until(lambda: bool(taken) and not taken[0].window)
        assert not draining.done()
        assert sum(map(len, taken[0]._messages)) + taken[0].incoming.partial <= STREAM_WINDOW
        go_on.set()
        await draining
        await stream.end_stream()
        assert await stream.read_message() == b"20"


async def test_what_is_read_piece_by_piece_is_room_again() -> None:
    async with ours() as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        chunk = bytes(64 << 10)

        async def write() -> None:
            for _ in range(2 * ConnectionBudgets().connection_in_bytes_max // len(chunk)):
                stream.write_messages(chunk)
                await stream.wait_drained()
            await stream.end_stream()

        writing = asyncio.create_task(write())
        size = 0
        while (message := await stream.read_message()) is not None:
            size += len(message)
        await writing
        assert size == 2 * ConnectionBudgets().connection_in_bytes_max


async def test_messages_that_are_there_are_read_without_a_turn_of_the_loop() -> None:
    async with ours() as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(*[b"%d" % number for number in range(100)])
        first = await stream.read_message()
        turned: list[bool] = []
        asyncio.get_running_loop().call_soon(turned.append, True)
        while stream._messages:
            await stream.read_message()
        assert (first, turned) == (b"0", [])
        stream.abort_stream("done")


async def test_what_came_before_the_connection_was_lost_can_be_read() -> None:
    async def serve(stream: ServedCall) -> None:
        stream.write_messages(b"one", b"two")
        await stream.wait_drained()
        assert await stream.read_message() == b"both came"
        stream.write_messages(b"three")
        lose(stream)

    async with ours(serve) as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        assert await stream.read_message() == b"one"
        stream.write_messages(b"both came")
        assert await stream.read_message() == b"two"
        reading = asyncio.create_task(_read_on(stream))
        with pytest.raises(StreamBroken):
            await reading
        for use in (stream.read_message, stream.read_all, stream.wait_drained, stream.end_stream):
            with pytest.raises(StreamBroken):
                await use()
        with pytest.raises(StreamBroken, match=address):
            stream.write_messages(b"x")


async def _read_on(stream: MessageStream) -> None:
    """Whether the last message came before the connection was lost is up to the kernel."""
    while await stream.read_message():
        pass


async def test_a_writer_that_waits_for_room_is_told_when_the_stream_breaks() -> None:
    begun = asyncio.Event()

    async def serve(stream: ServedCall) -> None:
        assert await stream.read_message() == b"begin"
        begun.set()
        await asyncio.Event().wait()

    async with ours(serve) as (server, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(b"begin", bytes(STREAM_WINDOW + 1))
        waiting = asyncio.create_task(stream.wait_drained())
        reading = asyncio.create_task(stream.read_message())
        await begun.wait()
        assert not waiting.done()
        await server.stop_serving(0)
        for task in (waiting, reading):
            with pytest.raises(StreamBroken):
                await task


async def test_a_read_that_is_cancelled_loses_nothing() -> None:
    async with ours() as (_, address):
        stream = await open_stream(address, METHOD, timeout_s=5)
        reading = asyncio.create_task(stream.read_message())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        stream.write_messages(b"x")
        assert await stream.read_message() == b"x"
        stream.abort_stream("done")


async def test_nothing_is_left_of_streams_that_have_ended() -> None:
    async with ours() as (server, address):
        for _round in range(3):
            stream = await open_stream(address, METHOD, timeout_s=5)
            stream.write_messages(b"x")
            assert await stream.read_message() == b"x"
            await stream.end_stream()
            assert await stream.read_message() is None
        aborted = await open_stream(address, METHOD, timeout_s=5)
        aborted.abort_stream("no more")
        aborted.abort_stream("no more")
        await until(lambda: not server.connections and not server.tasks)


async def test_an_address_that_is_taken_can_not_be_listened_on() -> None:
    async with ours() as (_, address):
        with pytest.raises(StartupError, match=address):
            bind_socket(address)


async def test_nobody_listens() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(StreamBroken, match=f"{address} can't be reached"):
            await open_stream(address, METHOD, timeout_s=5)


async def test_who_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(StreamBroken, match=f"{address} does not answer"):
            await open_stream(address, METHOD, timeout_s=0.05)


async def test_a_client_that_says_nothing_is_not_waited_for() -> None:
    async with ours(budgets=ConnectionBudgets(header_timeout_s=0.05)) as (server, address):
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await reader.read()
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not server.connections)
