"""Calls of a thread that waits: against our server, against gRPC's own, and against peers that do as they like."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc import aio

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block
from ternmq_rpc.grpc_http2.messages import PREFIX, GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.blocking_calls import BlockingConnection
from ternmq_rpc.grpc_stream.served_call import ServedCall
from tests.unit.rpc.grpc_stream.echo import METHOD, ours, theirs

ANSWER = literal_block(((":status", "200"), ("content-type", "application/grpc")))
# Who closes with bytes unread resets the connection: then it depends on the moment what the other side meets.
CLOSED = "was closed|Connection reset|Broken pipe"
OK = literal_block((("grpc-status", "0"),))


def called(address: str, request: bytes = b"ping", *, times: int = 1, timeout_s: float = 20.0) -> list[list[bytes]]:
    host, _, port = address.rpartition(":")
    connection = BlockingConnection([(host, int(port))], timeout_s=5.0)
    try:
        return [connection.call_method(METHOD, [("x-n", "1")], request, timeout_s=timeout_s) for _ in range(times)]
    finally:
        connection.close()


@pytest.mark.parametrize("server", [ours, theirs])
async def test_calls_follow_each_other_on_one_connection(server: Any) -> None:  # noqa: ANN401
    async with server() as (_, address):
        assert await asyncio.to_thread(called, address, b"ping", times=700) == [[b"ping"]] * 700


@pytest.mark.parametrize("server", [ours, theirs])
async def test_an_answer_may_be_larger_than_all_windows(server: Any) -> None:  # noqa: ANN401
    bodies = [os.urandom(3 << 20) for _ in range(20)]

    async def to_ours(call: ServedCall) -> None:
        call.send_headers()
        await call.read_message()
        for body in bodies:
            call.write_messages(body)
            await call.wait_drained()

    async def to_grpc(_: object, context: "aio.ServicerContext[Any, Any]") -> None:
        for body in bodies:
            await context.write(body)

    async with server(to_ours if server is ours else to_grpc) as (_, address):
        [answer] = await asyncio.to_thread(called, address)
    assert answer == bodies


async def test_a_refusal_is_told_and_the_connection_goes_on() -> None:
    async def refuse(_: object, context: "aio.ServicerContext[Any, Any]") -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, "not hére")

    def twice(port: int) -> list[StreamBroken]:
        connection = BlockingConnection([("127.0.0.1", port)], timeout_s=5.0)
        broken = []
        for _ in range(2):
            with pytest.raises(StreamBroken, match="not hére") as refused:
                connection.call_method(METHOD, (), b"", timeout_s=20.0)
            broken.append(refused.value)
            assert connection.can_call
        connection.close()
        return broken

    async with theirs(refuse) as (_, address):
        found = await asyncio.to_thread(twice, int(address.rpartition(":")[2]))
    assert [one.status for one in found] == [GrpcStatus.NOT_FOUND] * 2


async def test_an_answer_that_does_not_come_ends_with_the_deadline() -> None:
    async def silent(call: ServedCall) -> None:
        await call.read_message()
        await asyncio.get_running_loop().create_future()

    async with ours(silent) as (_, address):
        with pytest.raises(StreamBroken) as broken:
            await asyncio.to_thread(called, address, timeout_s=0.05)
    assert broken.value.status == GrpcStatus.DEADLINE_EXCEEDED


def test_the_first_address_that_answers_is_taken() -> None:
    with peer(h2.settings_frame({}), answered()) as port:
        connection = BlockingConnection([("127.0.0.1", 1), ("127.0.0.1", port)], timeout_s=5.0)
        assert connection.call_method(METHOD, (), b"", timeout_s=20.0) == [b"pong"]
        connection.close()
    with pytest.raises(StreamBroken, match=r"127\.0\.0\.1:1: Connection refused") as refused:
        BlockingConnection([("127.0.0.1", 1)], timeout_s=5.0)
    assert refused.value.status == GrpcStatus.UNAVAILABLE


def answered(body: bytes = b"pong", stream: int = 1) -> bytes:
    return (
        h2.header_frames(stream, ANSWER, 16384, end_stream=False)
        + h2.encode_frame(h2.DATA, 0, stream, PREFIX.pack(0, len(body)) + body)
        + h2.header_frames(stream, OK, 16384, end_stream=True)
    )


@contextmanager
def peer(*said: bytes) -> Iterator[int]:
    """A server that says this to whoever comes, and then listens until the other side has gone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted, contextlib.suppress(ConnectionError):
                accepted.recv(1 << 16)
                accepted.sendall(b"".join(said))
                if not said or said[-1] != b"":
                    while accepted.recv(1 << 16):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            thread.join(20)


SETTINGS = h2.settings_frame({})


@pytest.mark.parametrize(
    "said",
    [
        (SETTINGS, h2.encode_frame(h2.PING, 0, 0, bytes(8)), answered()),
        (SETTINGS, h2.header_frames(1, literal_block(((":status", "103"),)), 16384, end_stream=False), answered()),
        (SETTINGS, h2.goaway_frame(1, ErrorCode.NO_ERROR, ""), answered()),
        (
            SETTINGS,
            h2.header_frames(1, ANSWER, 16384, end_stream=False),
            h2.encode_frame(h2.DATA, h2.PADDED, 1, b"\x03" + PREFIX.pack(0, 4) + b"pong" + bytes(3)),
            h2.encode_frame(h2.HEADERS, h2.END_STREAM, 1, OK[:3]),
            h2.encode_frame(h2.CONTINUATION, h2.END_HEADERS, 1, OK[3:]),
        ),
    ],
)
def test_what_http2_allows_is_understood(said: tuple[bytes, ...]) -> None:
    with peer(*said) as port:
        assert called(f"127.0.0.1:{port}") == [[b"pong"]]


def test_a_server_that_says_goodbye_gets_no_more_calls() -> None:
    with peer(SETTINGS, h2.goaway_frame(1, ErrorCode.NO_ERROR, ""), answered()) as port:
        connection = BlockingConnection([("127.0.0.1", port)], timeout_s=5.0)
        assert connection.can_call
        connection.call_method(METHOD, (), b"", timeout_s=20.0)
        assert not connection.can_call
        connection.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((b"",), CLOSED),
        ((SETTINGS, answered()[:-3], b""), CLOSED),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "a frame of"),
        ((SETTINGS, h2.reset_frame(1, ErrorCode.REFUSED_STREAM)), "broke the stream off"),
        ((SETTINGS, h2.encode_frame(h2.DATA, 0, 7, b"of another call")), "nobody has opened"),
        ((SETTINGS, h2.goaway_frame(0, ErrorCode.ENHANCE_YOUR_CALM, "too many")), "too many"),
        ((SETTINGS, h2.header_frames(1, literal_block(((":status", "502"),)), 16384, end_stream=True)), "status 502"),
        ((SETTINGS, h2.header_frames(1, b"\xff\xff\xff", 16384, end_stream=False)), "header block"),
        (
            (
                SETTINGS,
                h2.header_frames(1, ANSWER, 16384, end_stream=False),
                h2.encode_frame(h2.DATA, h2.END_STREAM, 1, PREFIX.pack(0, 0)),
            ),
            "without a status",
        ),
        (
            (
                SETTINGS,
                h2.header_frames(1, ANSWER, 16384, end_stream=False),
                h2.encode_frame(h2.DATA, 0, 1, PREFIX.pack(0, 9) + b"half"),
                h2.header_frames(1, OK, 16384, end_stream=True),
            ),
            "within a message",
        ),
        (
            (
                SETTINGS,
                h2.header_frames(1, ANSWER, 16384, end_stream=False),
                h2.encode_frame(h2.DATA, 0, 1, PREFIX.pack(1, 1) + b"x"),
            ),
            "compressed",
        ),
    ],
)
def test_what_breaks_a_call_is_told(said: tuple[bytes, ...], why: str) -> None:
    with peer(*said) as port:
        connection = BlockingConnection([("127.0.0.1", port)], timeout_s=5.0)
        with pytest.raises(StreamBroken, match=why):
            connection.call_method(METHOD, (), b"ping", timeout_s=20.0)
        assert not connection.can_call
