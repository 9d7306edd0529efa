"""What the other side may do, and what is done when it does what it may not."""

import asyncio
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, SettingId, encode_frame
from ternmq_rpc.grpc_http2.messages import PREFIX, GrpcStatus, StreamBroken
from ternmq_rpc.grpc_http2.wire_stream import STREAM_WINDOW
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.served_call import ServedCall
from tests.unit.rpc.grpc_stream.echo import METHOD, echo, ours, until
from tests.unit.rpc.grpc_stream.peer import REQUEST, Peer, client, listening


def message(body: bytes) -> bytes:
    return PREFIX.pack(0, len(body)) + body


def u32(number: int) -> bytes:
    return struct.pack(">I", number)


async def read_message(peer: Peer) -> bytes:
    """The next message, from as many frames as it takes."""
    content = b""
    while len(content) < 5 or len(content) < 5 + PREFIX.unpack_from(content)[1]:
        content += (await peer.expect(h2.DATA)).payload
    return content[5:]


class TestWhatIsAllowed:
    async def test_padding_priority_unknown_frames_and_continued_headers(self) -> None:
        async with ours() as (_, address), client(address) as peer:
            block = peer.headers(1, *REQUEST)[9:]
            padded = bytes([3]) + u32(0) + b"\x10" + block[:10] + bytes(3)
            peer.say(
                encode_frame(h2.PRIORITY, 0, 1, bytes(5)),
                encode_frame(0x77, 0xFF, 9, b"whatever"),
                encode_frame(h2.HEADERS, h2.PADDED | h2.PRIORITIZED, 1, padded),
                encode_frame(h2.CONTINUATION, 0, 1, block[10:11]),
                encode_frame(h2.CONTINUATION, 0, 1),
                encode_frame(h2.CONTINUATION, h2.END_HEADERS, 1, block[11:]),
                encode_frame(h2.DATA, h2.PADDED, 1, bytes([200]) + message(b"padded") + bytes(200)),
                encode_frame(h2.DATA, 0, 1),
                encode_frame(h2.WINDOW_UPDATE, 0, 1, u32(1)),
                encode_frame(h2.DATA, h2.END_STREAM | h2.PADDED, 1, bytes([0]) + message(b"last")),
            )
            assert await read_message(peer) == b"padded"
            assert await read_message(peer) == b"last"
            trailers = await peer.expect(h2.HEADERS)
            assert trailers.flags & h2.END_STREAM

    async def test_a_ping_is_answered(self) -> None:
        async with ours() as (_, address), client(address) as peer:
            peer.say(encode_frame(h2.PING, h2.ACK, 0, b"not this"), encode_frame(h2.PING, 0, 0, b"12345678"))
            answer = await peer.expect(h2.PING)
            assert (answer.flags, answer.payload) == (h2.ACK, b"12345678")

    async def test_a_window_that_is_made_smaller_and_larger_is_kept_to(self) -> None:
        async with ours() as (_, address), client(address) as peer:
            peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 10}), peer.headers(1, *REQUEST))
            peer.say(encode_frame(h2.DATA, 0, 1, message(b"x" * 95)))
            assert len((await peer.expect(h2.DATA)).payload) == 10
            peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 5}), h2.window_frame(1, 8))
            assert len((await peer.expect(h2.DATA)).payload) == 3
            peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 92}))
            assert len((await peer.expect(h2.DATA)).payload) == 87

    async def test_a_header_table_that_is_made_smaller_is_kept_to(self) -> None:
        async with ours() as (_, address), client(address) as peer:
            peer.say(h2.settings_frame({SettingId.HEADER_TABLE_SIZE: 0}), peer.headers(1, *REQUEST))
            peer._decoder.max_allowed_table_size = 0
            assert peer.read_headers(await peer.expect(h2.HEADERS))[":status"] == "200"

    async def test_padding_is_given_back_to_the_windows(self) -> None:
        async def serve(call: ServedCall) -> None:
            while await call.read_message() != b"x":
                pass

        async with ours(serve) as (_, address), client(address) as peer:
            peer.say(peer.headers(1, *REQUEST))
            for _ in range(STREAM_WINDOW // 256 // 2 + 1):
                peer.say(encode_frame(h2.DATA, h2.PADDED, 1, bytes([250]) + message(b"") + bytes(250)))
            peer.say(encode_frame(h2.DATA, 0, 1, message(b"x")))
            updates = [await peer.expect(h2.WINDOW_UPDATE) for _ in range(2)]
            assert {update.stream for update in updates} == {0, 1}

    async def test_a_stream_after_goaway_is_refused_and_the_one_before_goes_on(self) -> None:
        async with ours(talks=False) as (server, address), client(address) as peer:
            peer.say(peer.headers(1, *REQUEST), encode_frame(h2.DATA, 0, 1, message(b"x")))
            assert await read_message(peer) == b"x"
            stopping = asyncio.create_task(server.stop_serving(20))
            goaway = await peer.expect(h2.GOAWAY)
            assert h2.read_goaway(goaway.payload)[:2] == (1, ErrorCode.NO_ERROR)
            peer.say(peer.headers(3, *REQUEST))
            refused = await peer.expect(h2.RST_STREAM)
            assert (refused.stream, refused.payload) == (3, u32(ErrorCode.REFUSED_STREAM))
            peer.say(encode_frame(h2.DATA, h2.END_STREAM, 1, message(b"y")))
            assert await read_message(peer) == b"y"
            await stopping

    async def test_what_is_not_served_is_answered_by_headers_alone(self) -> None:
        async with ours() as (_, address), client(address) as peer:
            peer.say(peer.headers(1, *(dict(REQUEST) | {":path": "/test.Echo/Other"}).items(), end_stream=True))
            said = await peer.expect(h2.HEADERS)
            assert said.flags & h2.END_STREAM
            assert {":status": "200", "grpc-status": "12"}.items() <= peer.read_headers(said).items()

    async def test_data_on_a_stream_that_has_ended_is_let_pass(self) -> None:
        async def serve(_: ServedCall) -> None:
            """End at once."""

        async with ours(serve) as (_, address), client(address) as peer:
            peer.say(peer.headers(1, *REQUEST))
            ended = await peer.expect(h2.RST_STREAM)
            assert ended.payload == u32(ErrorCode.NO_ERROR)
            late = [encode_frame(h2.DATA, 0, 1, message(b"late")), encode_frame(h2.WINDOW_UPDATE, 0, 1, u32(1))]
            late += [h2.reset_frame(1, ErrorCode.CANCEL), encode_frame(h2.PING, 0, 0, bytes(8))]
            peer.say(*late)
            assert (await peer.expect(h2.PING)).flags == h2.ACK


OPEN = "open"  # stands for the headers of stream 1
CONNECTION_ERRORS: dict[str, tuple[list[bytes | str], ErrorCode]] = {
    "data on stream 0": ([encode_frame(h2.DATA, 0, 0, b"x")], ErrorCode.PROTOCOL_ERROR),
    "data on no stream": ([encode_frame(h2.DATA, 0, 5, b"x")], ErrorCode.PROTOCOL_ERROR),
    "too large": ([struct.pack(">IBI", (300_000 << 8) | h2.DATA, 0, 1)], ErrorCode.FRAME_SIZE_ERROR),
    "padding too long": ([OPEN, encode_frame(h2.DATA, h2.PADDED, 1, b"\x04abc")], ErrorCode.PROTOCOL_ERROR),
    "padding without length": ([OPEN, encode_frame(h2.DATA, h2.PADDED, 1)], ErrorCode.FRAME_SIZE_ERROR),
    "headers padding": ([encode_frame(h2.HEADERS, h2.PADDED | 4, 1, b"\x09abc")], ErrorCode.PROTOCOL_ERROR),
    "headers on stream 0": ([encode_frame(h2.HEADERS, 4, 0)], ErrorCode.PROTOCOL_ERROR),
    "headers on an even stream": ([encode_frame(h2.HEADERS, 4, 2)], ErrorCode.PROTOCOL_ERROR),
    "headers that are none": ([encode_frame(h2.HEADERS, 4, 1, b"\xff\xff\xff\xff\xff")], ErrorCode.COMPRESSION_ERROR),
    "no continuation": (
        [encode_frame(h2.HEADERS, 0, 1), encode_frame(h2.PING, 0, 0, bytes(8))],
        ErrorCode.PROTOCOL_ERROR,
    ),
    "data in a header block": ([encode_frame(h2.HEADERS, 0, 1), encode_frame(h2.DATA, 0, 1)], ErrorCode.PROTOCOL_ERROR),
    "continuation of another": (
        [encode_frame(h2.HEADERS, 0, 1), encode_frame(h2.CONTINUATION, 4, 3)],
        ErrorCode.PROTOCOL_ERROR,
    ),
    "continuation of nothing": ([encode_frame(h2.CONTINUATION, 4, 1)], ErrorCode.PROTOCOL_ERROR),
    "endless headers": (
        [encode_frame(h2.HEADERS, 0, 1, bytes(9000)), encode_frame(h2.CONTINUATION, 0, 1, bytes(9000))],
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "push": ([encode_frame(h2.PUSH_PROMISE, 4, 1, u32(2))], ErrorCode.PROTOCOL_ERROR),
    "reset of no stream": ([encode_frame(h2.RST_STREAM, 0, 1, u32(0))], ErrorCode.PROTOCOL_ERROR),
    "reset of odd size": ([OPEN, encode_frame(h2.RST_STREAM, 0, 1, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "priority of odd size": ([encode_frame(h2.PRIORITY, 0, 1, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "ping of odd size": ([encode_frame(h2.PING, 0, 0, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "ping on a stream": ([encode_frame(h2.PING, 0, 1, bytes(8))], ErrorCode.PROTOCOL_ERROR),
    "goaway of odd size": ([encode_frame(h2.GOAWAY, 0, 0, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "settings of odd size": ([encode_frame(h2.SETTINGS, 0, 0, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "settings on a stream": ([encode_frame(h2.SETTINGS, 0, 1)], ErrorCode.PROTOCOL_ERROR),
    "acknowledgement with content": ([encode_frame(h2.SETTINGS, h2.ACK, 0, bytes(6))], ErrorCode.FRAME_SIZE_ERROR),
    "settings: push": ([h2.settings_frame({SettingId.ENABLE_PUSH: 2})], ErrorCode.PROTOCOL_ERROR),
    "settings: frames": ([h2.settings_frame({SettingId.MAX_FRAME_SIZE: 16_383})], ErrorCode.PROTOCOL_ERROR),
    "settings: window": ([h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 1 << 31})], ErrorCode.FLOW_CONTROL_ERROR),
    "settings: window of a stream": (
        [OPEN, h2.window_frame(1, 1 << 20), h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: (1 << 31) - 1})],
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "window: 0": ([h2.window_frame(0, 0)], ErrorCode.PROTOCOL_ERROR),
    "window: too large": ([h2.window_frame(0, (1 << 31) - 1)], ErrorCode.FLOW_CONTROL_ERROR),
    "window: odd size": ([encode_frame(h2.WINDOW_UPDATE, 0, 0, b"x")], ErrorCode.FRAME_SIZE_ERROR),
    "window: no stream": ([h2.window_frame(7, 1)], ErrorCode.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", CONNECTION_ERRORS)
async def test_a_connection_that_breaks_a_rule_is_ended_with_its_name(name: str) -> None:
    said, code = CONNECTION_ERRORS[name]
    async with ours() as (server, address):
        async with client(address) as peer:
            peer.say(*(peer.headers(1, *REQUEST) if isinstance(part, str) else part for part in said))
            goaway = await peer.expect(h2.GOAWAY)
            assert h2.read_goaway(goaway.payload)[1] == code
            assert await peer.ended()
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(b"x")
        assert await stream.read_message() == b"x"
        stream.abort_stream("done")
        await until(lambda: not server.connections and not server.tasks)


async def test_more_than_the_window_allows_ends_the_connection() -> None:
    done = asyncio.Event()

    async def serve(_: ServedCall) -> None:
        await done.wait()

    async with ours(serve) as (_, address), client(address) as peer:
        peer.say(peer.headers(1, *REQUEST))
        for _ in range(STREAM_WINDOW // (200 << 10) + 1):
            peer.say(encode_frame(h2.DATA, 0, 1, message(bytes((200 << 10) - 5))))
        assert h2.read_goaway((await peer.expect(h2.GOAWAY)).payload)[1] == ErrorCode.FLOW_CONTROL_ERROR
        done.set()


STREAM_ERRORS = {
    "window: 0": (h2.window_frame(1, 0), ErrorCode.PROTOCOL_ERROR),
    "window: too large": (h2.window_frame(1, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "after the end": (encode_frame(h2.DATA, 1, 1) + encode_frame(h2.DATA, 0, 1, b"x"), ErrorCode.STREAM_CLOSED),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
async def test_a_stream_that_breaks_a_rule_is_ended_alone(name: str) -> None:
    said, code = STREAM_ERRORS[name]
    async with ours() as (_, address), client(address) as peer:
        peer.say(peer.headers(1, *REQUEST), peer.headers(3, *REQUEST), said)
        reset = await peer.expect(h2.RST_STREAM)
        assert (reset.stream, reset.payload) == (1, u32(code))
        peer.say(encode_frame(h2.DATA, 0, 3, message(b"x")))
        assert await read_message(peer) == b"x"


async def test_a_stream_that_ends_within_a_message_is_an_error() -> None:
    async with ours() as (_, address), client(address) as peer:
        peer.say(peer.headers(1, *REQUEST), encode_frame(h2.DATA, h2.END_STREAM, 1, message(b"cut off")[:-1]))
        said = await peer.expect(h2.HEADERS)
        assert said.flags & h2.END_STREAM
        assert peer.read_headers(said)["grpc-status"] == str(int(GrpcStatus.INTERNAL))


async def test_a_stream_that_ends_within_a_message_after_answers_is_an_error() -> None:
    async with ours() as (_, address), client(address) as peer:
        peer.say(peer.headers(1, *REQUEST), encode_frame(h2.DATA, 0, 1, message(b"whole") + message(b"cut off")[:-1]))
        assert ":status" in peer.read_headers(await peer.expect(h2.HEADERS))
        assert await read_message(peer) == b"whole"
        peer.say(encode_frame(h2.DATA, h2.END_STREAM, 1))
        assert peer.read_headers(await peer.expect(h2.HEADERS))["grpc-status"] == str(int(GrpcStatus.INTERNAL))


async def test_answers_that_nobody_reads_have_an_end() -> None:
    async with ours() as (server, address), client(address) as peer:
        ping = encode_frame(h2.PING, 0, 0, bytes(8)) * 1000
        while server.connections:
            peer.say(ping)
            await asyncio.sleep(0)


async def test_an_http_1_client_is_sent_away() -> None:
    async with ours() as (_, address), client(address, greet=False) as peer:
        peer.say(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        assert h2.read_goaway((await peer.expect(h2.GOAWAY)).payload)[1] == ErrorCode.PROTOCOL_ERROR
        assert await peer.ended()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), greeted=st.booleans())
async def test_random_frames_do_not_harm_the_server(seed: int, greeted: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    chance = random.Random(seed)
    async with ours() as (_, address):
        async with client(address, greet=greeted) as peer:
            if greeted and chance.random() < 0.7:
                peer.say(peer.headers(1, *REQUEST))
            for _ in range(chance.randrange(1, 20)):
                payload = chance.randbytes(chance.choice([0, 4, 5, 6, 8, chance.randrange(40)]))
                kind = chance.choice([*range(11), chance.randrange(256)])
                peer.say(encode_frame(kind, chance.choice([0, 1, 4, 5, 8, 32]), chance.choice([0, 1, 1, 3]), payload))
            peer.say(chance.randbytes(100) + bytes(300 << 10) + chance.randbytes(20))
            peer._writer.write_eof()
            assert await peer.ended()
        stream = await open_stream(address, METHOD, timeout_s=5)
        stream.write_messages(b"still here")
        assert await stream.read_message() == b"still here"
        stream.abort_stream("done")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


class TestOurClient:
    async def test_informational_headers_are_passed_over(self) -> None:
        async with listening() as server:
            connecting = asyncio.create_task(open_stream(server.address, METHOD, timeout_s=5))
            peer = await server.peer()
            peer.say(h2.settings_frame({}), peer.headers(1, (":status", "103"), ("link", "x")))
            peer.say(peer.headers(1, (":status", "200"), ("content-type", "application/grpc+proto")))
            peer.say(encode_frame(h2.DATA, 0, 1, message(b"hello")))
            stream = await connecting
            assert await stream.read_message() == b"hello"
            request = peer.read_headers(await peer.expect(h2.HEADERS))
            assert (request[":path"], request["te"]) == (METHOD, "trailers")

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ([(":status", "503")], "HTTP status 503"),
            ([(":status", "200"), ("content-type", "text/html")], "does not speak gRPC"),
            ([(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "99")], "status 99"),
        ],
    )
    async def test_an_answer_that_is_not_grpc_breaks_the_stream(self, said: list[tuple[str, str]], why: str) -> None:
        async with listening() as server:
            connecting = asyncio.create_task(open_stream(server.address, METHOD, timeout_s=5))
            peer = await server.peer()
            peer.say(h2.settings_frame({}), peer.headers(1, *said, end_stream=True))
            stream = await connecting
            with pytest.raises(StreamBroken, match=why):
                await stream.read_message()
            assert await peer.ended()

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ([h2.reset_frame(1, ErrorCode.REFUSED_STREAM)], "REFUSED_STREAM"),
            ([h2.goaway_frame(0, ErrorCode.ENHANCE_YOUR_CALM, "too many")], "ENHANCE_YOUR_CALM, too many"),
            ([encode_frame(h2.DATA, 0, 0)], "nobody has opened"),
            ([OPEN, encode_frame(h2.DATA, h2.END_STREAM, 1)], "without a status"),
            ([OPEN, encode_frame(h2.DATA, 0, 1, b"\x01\x00\x00\x00\x00")], "compressed"),
            ([encode_frame(h2.HEADERS, 4, 2, b"\x88")], "headers on stream 2"),
        ],
    )
    async def test_what_ends_the_stream_is_told(self, said: list[bytes | str], why: str) -> None:
        async with listening() as server:
            connecting = asyncio.create_task(open_stream(server.address, METHOD, timeout_s=5))
            peer = await server.peer()
            begin = peer.headers(1, (":status", "200"), ("content-type", "application/grpc"))
            peer.say(h2.settings_frame({}), *(begin if isinstance(part, str) else part for part in said))
            with pytest.raises(StreamBroken, match=why):
                await (await connecting).read_message()

    async def test_a_goaway_lets_the_stream_go_on(self) -> None:
        async with listening() as server:
            connecting = asyncio.create_task(open_stream(server.address, METHOD, timeout_s=5))
            peer = await server.peer()
            begin = peer.headers(1, (":status", "200"), ("content-type", "application/grpc"))
            peer.say(
                h2.settings_frame({}),
                h2.goaway_frame(1, ErrorCode.NO_ERROR, ""),
                begin,
                encode_frame(h2.DATA, 0, 1, message(b"x")),
            )
            stream = await connecting
            assert await stream.read_message() == b"x"
            peer.say(peer.headers(1, ("grpc-status", "0"), end_stream=True))
            assert await stream.read_message() is None
            assert await peer.ended()

    async def test_who_speaks_something_else_is_told_apart(self) -> None:
        async with listening() as server:
            connecting = asyncio.create_task(open_stream(server.address, METHOD, timeout_s=5))
            (await server.peer()).say(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            with pytest.raises(StreamBroken, match="is not understood"):
                await connecting


async def test_a_stream_that_nobody_reads_does_not_stop_another() -> None:
    forever = asyncio.Event()

    async def serve(stream: ServedCall) -> None:
        if (await stream.read_message()) == b"do not read":
            await forever.wait()
        else:
            await echo(stream)

    async with ours(serve) as (_, address), client(address) as peer:
        peer.say(peer.headers(1, *REQUEST), encode_frame(h2.DATA, 0, 1, message(b"do not read")))
        for _ in range(STREAM_WINDOW // (200 << 10) - 1):
            peer.say(encode_frame(h2.DATA, 0, 1, message(bytes((200 << 10) - 5))))
        peer.say(peer.headers(3, *REQUEST), encode_frame(h2.DATA, 0, 3, message(b"read") + message(b"echoed")))
        assert await read_message(peer) == b"echoed"
        forever.set()
