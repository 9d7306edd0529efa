"""Calls of clients that do what clients may do and gRPC's own does not, and of those that mean harm."""

import asyncio
import contextlib
import socket

import pytest

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, SettingId
from ternmq_rpc.grpc_http2.headers.literal_headers import NO_TABLE, literal_block
from ternmq_rpc.grpc_http2.messages import PREFIX
from ternmq_rpc.serving.budgets import ConnectionBudgets
from tests.unit.rpc.grpc_stream.calls import serving
from tests.unit.rpc.grpc_stream.echo import until
from tests.unit.rpc.grpc_stream.peer import Peer, client

ECHO, WAIT, STUBBORN, TALK, MANY = (f"/test/{name}" for name in ("Echo", "Wait", "Stubborn", "Talk", "Many"))
FIELDS = ((":method", "POST"), (":scheme", "http"))
GRPC = ("content-type", "application/grpc")


def headers(stream: int, path: str, *more: tuple[str, str], end_stream: bool = False) -> bytes:
    block = literal_block((*FIELDS, (":path", path), GRPC, *more))
    return h2.header_frames(stream, block, 16_384, end_stream=end_stream)


def data(stream: int, message: bytes, *, end_stream: bool = True) -> bytes:
    body = PREFIX.pack(0, len(message)) + message
    return h2.encode_frame(h2.DATA, h2.END_STREAM if end_stream else 0, stream, body)


async def answer(peer: Peer, stream: int) -> tuple[bytes, str]:
    """What was answered to a call, and its status."""
    parts: list[bytes] = []
    while (frame := await peer.frame()) is not None:
        if frame.stream != stream:
            continue
        if frame.kind == h2.DATA:
            parts.append(frame.payload)
        elif frame.kind == h2.HEADERS:
            fields = peer.read_headers(frame)
            if frame.flags & h2.END_STREAM:
                return b"".join(parts)[PREFIX.size :], fields["grpc-status"]
    raise AssertionError("the connection ended before the call")


async def goaway(peer: Peer) -> int:
    return h2.read_goaway((await peer.expect(h2.GOAWAY)).payload)[1]


async def test_a_call_is_answered_that_its_client_has_not_ended() -> None:
    async with serving() as (server, _, address), client(address) as peer:
        peer.say(headers(1, ECHO), data(1, b"x", end_stream=False))
        assert await answer(peer, 1) == (b"x", "0")
        assert h2.read_u32((await peer.expect(h2.RST_STREAM)).payload, "") == ErrorCode.NO_ERROR
        peer.say(h2.encode_frame(h2.DATA, h2.END_STREAM, 1), headers(3, ECHO), data(3, b"y"))  # its end came late
        assert await answer(peer, 3) == (b"y", "0")
        assert not server.tasks


@pytest.mark.parametrize("end_stream", [True, False])
async def test_a_call_without_a_message_is_answered_when_it_ends(*, end_stream: bool) -> None:
    async with serving() as (_, _, address), client(address) as peer:
        peer.say(headers(1, ECHO, end_stream=end_stream))
        if not end_stream:
            peer.say(h2.encode_frame(h2.DATA, h2.END_STREAM, 1))
        assert await answer(peer, 1) == (b"nothing", "0")


async def test_calls_whose_frames_are_mixed_are_told_apart() -> None:
    async with serving() as (_, _, address), client(address) as peer:
        one, two = data(1, b"one"), data(3, b"two")
        peer.say(headers(1, ECHO), headers(3, ECHO))
        peer.say(h2.encode_frame(h2.DATA, 0, 3, two[9:12]), h2.encode_frame(h2.DATA, 0, 1, one[9:15]))
        peer.say(h2.encode_frame(h2.DATA, h2.END_STREAM, 1, one[15:]))
        assert await answer(peer, 1) == (b"one", "0")
        peer.say(h2.encode_frame(h2.DATA, h2.END_STREAM, 3, two[12:]))
        assert await answer(peer, 3) == (b"two", "0")


async def test_a_header_table_is_understood_until_the_client_gives_it_up() -> None:
    async with serving() as (_, _, address), client(address) as peer:
        request = (*FIELDS, (":path", MANY), GRPC, ("x-mq-client-id", "from the table"))
        for stream in (1, 3):
            peer.say(peer.headers(stream, *request), data(stream, b""))
            assert await answer(peer, stream) == (b"from the table", "0")
        peer._encoder.header_table_size = 0
        for stream in (5, 7):
            peer.say(peer.headers(stream, *request), data(stream, b""))
            assert await answer(peer, stream) == (b"from the table", "0")
        peer.say(h2.header_frames(9, b"\xbe", 16_384, end_stream=False))  # the table's first entry
        assert await goaway(peer) == ErrorCode.COMPRESSION_ERROR


async def test_a_client_that_has_no_table_is_told_that_none_is_needed() -> None:
    async with serving() as (_, _, address), client(address) as peer:
        peer.say(h2.settings_frame({SettingId.HEADER_TABLE_SIZE: 0}), headers(1, ECHO), data(1, b"x"))
        first = await peer.expect(h2.HEADERS)
        assert first.payload.startswith(NO_TABLE)
        last = await peer.expect(h2.HEADERS)
        assert not last.payload.startswith(NO_TABLE)


async def test_a_call_that_is_broken_off_is_cancelled() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(headers(1, WAIT), data(1, b""))
        call = await service.began.get()
        peer.say(h2.reset_frame(1, ErrorCode.CANCEL))
        assert await service.cancelled.get() is call
        peer.say(h2.reset_frame(1, ErrorCode.CANCEL), headers(3, ECHO), data(3, b"x"))
        assert await answer(peer, 3) == (b"x", "0")
        assert not server.tasks


async def test_a_call_that_never_gets_its_message_ends_with_its_deadline() -> None:
    async with serving() as (server, _, address), client(address) as peer:
        peer.say(headers(1, ECHO, ("grpc-timeout", "20m")))
        assert (await answer(peer, 1))[1] == "4"
        assert not server.tasks


@pytest.mark.parametrize("timeout", ["", "x", "5", "m", "-1S", "123456789S", "99999999H"])
async def test_a_deadline_that_is_none_is_no_deadline(timeout: str) -> None:
    async with serving() as (_, service, address), client(address) as peer:
        peer.say(headers(1, WAIT, ("grpc-timeout", timeout)), data(1, b""))
        assert (await service.began.get()).remaining_s() is None


async def test_a_client_that_does_not_read_is_given_no_more_than_its_window() -> None:
    async with serving() as (server, _, address), client(address) as peer:
        peer.say(headers(1, MANY), data(1, b"x" * 10), headers(3, ECHO), data(3, b"y"))
        got = 0
        while got < h2.DEFAULT_WINDOW:
            frame = await peer.expect(h2.DATA)
            got += len(frame.payload)
        assert got == h2.DEFAULT_WINDOW
        await until(lambda: len(server.tasks) == 1)  # they took turns, and the short one is answered
        peer.say(h2.window_frame(0, 1 << 24), h2.window_frame(1, 1 << 24))
        left = 10 * (100_000 + PREFIX.size) + PREFIX.size - (got - len(data(3, b"y")) + h2.HEADER_BYTES)
        while left:
            left -= len((await peer.expect(h2.DATA)).payload)
        await until(lambda: not server.tasks)


async def test_many_pings_are_answered() -> None:
    async with serving() as (_, _, address), client(address) as peer:
        for number in range(1900):
            peer.say(h2.encode_frame(h2.PING, 0, 0, number.to_bytes(8)))
        for number in range(1900):
            assert (await peer.expect(h2.PING)).payload == number.to_bytes(8)


async def test_settings_without_end_are_not_obeyed() -> None:
    async with serving() as (_, _, address), client(address) as peer:
        peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 1}) * 2000)
        assert await goaway(peer) == ErrorCode.ENHANCE_YOUR_CALM


async def test_calls_that_are_broken_off_at_once_leave_nothing() -> None:
    async with serving() as (server, service, address), client(address) as peer, client(address) as other:
        for stream in range(1, 1801, 2):
            peer.say(headers(stream, WAIT), data(stream, b""), h2.reset_frame(stream, ErrorCode.CANCEL))
        peer.say(headers(1801, ECHO), data(1801, b"x"))
        other.say(headers(1, ECHO), data(1, b"y"))
        assert await answer(other, 1) == (b"y", "0")
        assert await answer(peer, 1801) == (b"x", "0")
        await until(lambda: not server.tasks)
        assert service.began.qsize() == service.cancelled.qsize()


async def test_a_client_that_breaks_off_faster_than_its_calls_end_is_cut_off() -> None:
    async with (
        serving(ConnectionBudgets(streams_max=10, resets_per_s=1000)) as (server, _, address),
        client(address) as peer,
    ):
        for stream in range(1, 24, 2):
            peer.say(headers(stream, STUBBORN), data(stream, b""))
            await until(lambda count=(stream + 1) // 2: len(server.tasks) == count)  # type: ignore[misc]
            peer.say(h2.reset_frame(stream, ErrorCode.CANCEL))
        peer.say(headers(25, STUBBORN), data(25, b""))
        assert await goaway(peer) == ErrorCode.ENHANCE_YOUR_CALM
        assert len(server.tasks) == 12


async def test_more_calls_than_there_may_be_are_refused_unharmed() -> None:
    async with serving(ConnectionBudgets(streams_max=2)) as (_, service, address), client(address) as peer:
        peer.say(*(headers(stream, WAIT) + data(stream, b"") for stream in (1, 3, 5)))
        reset = await peer.expect(h2.RST_STREAM)
        assert (reset.stream, h2.read_u32(reset.payload, "")) == (5, ErrorCode.REFUSED_STREAM)
        assert {(await service.began.get()).number for _ in range(2)} == {1, 3}


@pytest.mark.parametrize("end_stream", [True, False])
@pytest.mark.parametrize("fields", [((":method", "GET"),), ((":method", "POST"), ("content-type", "text/html"))])
async def test_what_is_no_grpc_is_answered_in_http(fields: tuple[tuple[str, str], ...], *, end_stream: bool) -> None:
    async with serving() as (_, _, address), client(address) as peer:
        peer.say(
            h2.header_frames(
                1, literal_block(((":path", ECHO), (":scheme", "http"), *fields)), 16_384, end_stream=end_stream
            )
        )
        said = await peer.expect(h2.HEADERS)
        assert peer.read_headers(said) == {":status": "415"}
        assert said.flags & h2.END_STREAM
        if not end_stream:
            assert h2.read_u32((await peer.expect(h2.RST_STREAM)).payload, "") == ErrorCode.NO_ERROR


async def test_a_connection_that_is_lost_in_the_midst_of_an_answer_cancels_the_call() -> None:
    async with serving() as (server, _, address):
        async with client(address) as peer:
            peer.say(h2.window_frame(0, 1 << 30), h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 1 << 30}))
            peer.say(headers(1, MANY), data(1, b"x" * 1000))
            await peer.expect(h2.DATA)
            [task] = server.tasks
        await asyncio.wait({task})
        assert task.cancelled()
        await until(lambda: not server.connections)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_the_server_ends_is_closed_too(turns: int) -> None:
    async with serving() as (server, _, address):
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as sock:
            sock.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop_serving(0)
            assert not server.connections
            with contextlib.suppress(ConnectionError):
                while await asyncio.get_running_loop().sock_recv(sock, 1 << 16):
                    pass
