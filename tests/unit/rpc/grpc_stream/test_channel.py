"""Calls of a client by a channel: connections that are opened, lost, refused and left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ternmq_common.pacing.backoff import ExponentialBackoff
from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.calls_connection import CallsConnection
from ternmq_rpc.grpc_stream.channel import Channel
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.tls.contexts import create_server_context
from ternmq_rpc.tls.opening import PortTls
from tests.support.certificates import Certificates
from tests.unit.rpc.grpc_stream.calls import CLIENT_ID, MESSAGE_MAX, Service, serving
from tests.unit.rpc.grpc_stream.echo import served, until

NOBODY = ("127.0.0.1", 1)


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@asynccontextmanager
async def connected(
    budgets: ConnectionBudgets | None = None, *, repeats: bool = True
) -> AsyncIterator[tuple[Channel, CallServer, Service]]:
    async with serving(budgets) as (server, service, address), opened(place(address), repeats=repeats) as channel:
        yield channel, server, service


@asynccontextmanager
async def opened(*places: tuple[str, int], repeats: bool = True) -> AsyncIterator[Channel]:
    channel = Channel(places, repeats=repeats)
    try:
        yield channel
    finally:
        await channel.close()


@asynccontextmanager
async def silent(greeting: bytes = b"") -> AsyncIterator[tuple[str, int]]:
    """A server that says no more than that."""

    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while await reader.read(1000):
            pass
        writer.close()

    server = await asyncio.start_server(stay, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[:2]


async def ask(channel: Channel, method: str = "Echo", request: bytes = b"x", timeout_s: float = 60.0) -> bytes:
    return await channel.call_unary(f"/test/{method}", (), request, timeout_s)


async def broken(channel: Channel, method: str = "Echo", timeout_s: float = 60.0) -> StreamBroken:
    with pytest.raises(StreamBroken) as ended:
        await ask(channel, method, timeout_s=timeout_s)
    return ended.value


@pytest.mark.parametrize("size", [0, 1, 16_000, 70_000, MESSAGE_MAX])
async def test_a_request_of_any_size_is_answered(size: int) -> None:
    async with connected() as (channel, _, _):
        assert await ask(channel, request=b"x" * size) == b"x" * size


async def test_calls_by_the_thousand_get_each_its_own_answer_on_one_connection() -> None:
    async with connected() as (channel, server, _):
        texts = [b"%d" % number for number in range(3000)]
        assert await asyncio.gather(*(ask(channel, request=text) for text in texts)) == texts
        assert len(server.connections) == 1
        await until(lambda: not server.tasks)


async def test_parts_of_an_answer_come_as_they_arrive_with_the_headers_of_the_call() -> None:
    async with connected() as (channel, _, _):
        for name in ("first", "second"):
            call = await channel.open_call("/test/Many", ((CLIENT_ID, name),), connect_timeout_s=60)
            call.send_request(b"x" * 50)
            parts: list[bytes] = []
            while more := await call.read_all():
                parts += more
            assert [len(part) for part in parts[:-1]] == [100_000] * 50
            assert parts[-1] == name.encode()


async def test_a_refusal_has_its_status_and_text() -> None:
    async with connected() as (channel, _, _):
        failure = await broken(channel, "Refuse")
        assert (failure.status, failure.details) == (GrpcStatus.NOT_FOUND, "not hére")
        assert (await broken(channel, "Nothing")).status == GrpcStatus.UNIMPLEMENTED


async def test_a_call_ends_at_its_deadline_and_where_nobody_waits_for_it() -> None:
    async with connected() as (channel, _, service):
        assert (await broken(channel, "Wait", timeout_s=0.05)).status == GrpcStatus.DEADLINE_EXCEEDED
        assert await service.began.get() is await service.cancelled.get()
        waiting = asyncio.create_task(ask(channel, "Wait"))
        await service.began.get()
        waiting.cancel()
        await service.cancelled.get()
        assert await ask(channel) == b"x"


async def test_calls_beyond_what_the_server_allows_wait_for_their_turn() -> None:
    async with connected(ConnectionBudgets(streams_max=3)) as (channel, server, service):
        await ask(channel)  # from now on it knows the limit
        texts = [b"%d" % number for number in range(20)]
        calls = [asyncio.create_task(ask(channel, "Gate", text)) for text in texts]
        await until(lambda: len(server.tasks) == 3)
        calls[10].cancel()
        late = await broken(channel, "Gate", timeout_s=0.05)
        service.let_go.set()
        del calls[10], texts[10]
        assert late.status == GrpcStatus.DEADLINE_EXCEEDED
        assert await asyncio.gather(*calls) == texts
        assert len(server.connections) == 1


async def test_the_next_call_connects_again_when_the_connection_was_lost() -> None:
    async with connected() as (channel, server, _):
        waiting = asyncio.create_task(broken(channel, "Wait"))
        await until(lambda: len(server.tasks) == 1)
        for connection in list(server.connections):
            assert connection._transport is not None
            connection._transport.abort()
        failure = await waiting
        assert (failure.status, failure.is_refused) == (None, False)
        assert not channel.is_ready
        assert await ask(channel) == b"x"
        assert channel.is_ready


async def test_addresses_are_tried_in_turn() -> None:
    async with serving() as (_, _, address), silent() as mute, opened(NOBODY, mute, place(address)) as channel:
        assert await ask(channel) == b"x"


async def test_a_name_is_looked_up() -> None:
    async with serving() as (_, _, address), opened(("localhost", place(address)[1])) as channel:
        assert await ask(channel) == b"x"
    async with opened(("nowhere.invalid", 1)) as channel:
        assert "nowhere.invalid is not known" in str(await broken(channel))


async def test_calls_fail_at_once_for_a_while_when_nobody_could_be_reached() -> None:
    tries = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        channel = Channel([server.sockets[0].getsockname()[:2]], backoff=ExponentialBackoff(initial_s=600, max_s=600))
        first = await broken(channel)
        assert "closed before the server sent anything" in str(first)
        assert str(await broken(channel)) == str(first)
        await channel.close()
    assert tries == 1


async def test_a_server_that_says_nothing_ends_a_call_in_time() -> None:
    async with silent() as mute, opened(mute) as channel:
        assert (await broken(channel, timeout_s=0.05)).status == GrpcStatus.DEADLINE_EXCEEDED


async def test_what_speaks_no_http2_is_not_understood() -> None:
    async with silent(b"HTTP/1.1 400 Bad Request\r\n\r\n") as other, opened(other) as channel:
        assert "is not understood" in str(await broken(channel))


@pytest.mark.plain
@pytest.mark.parametrize("repeats", [True, False])
async def test_a_call_that_a_leaving_server_did_not_look_at_is_repeated_on_another_connection(repeats: bool) -> None:
    async with connected(repeats=repeats) as (channel, server, service):
        waiting = asyncio.create_task(ask(channel, "Gate"))
        await until(lambda: len(server.tasks) == 1)
        [connection] = server.connections
        connection.machine._ready.append(h2.goaway_frame(0, ErrorCode.NO_ERROR, ""))
        connection.schedule_write()
        service.let_go.set()
        if repeats:
            assert await waiting == b"x"
        else:
            with pytest.raises(StreamBroken) as ended:
                await waiting
            assert ended.value.is_refused
        assert await ask(channel) == b"x"


@pytest.mark.plain
async def test_a_leaving_server_ends_the_calls_that_it_has_and_gets_no_others() -> None:
    async with connected() as (channel, server, service):
        waiting = asyncio.create_task(ask(channel, "Gate"))
        await until(lambda: len(server.tasks) == 1)
        [connection] = server.connections
        connection.machine._ready.append(h2.goaway_frame(1, ErrorCode.NO_ERROR, ""))
        connection.schedule_write()
        await until(lambda: not channel.is_ready)
        assert await ask(channel) == b"x"
        service.let_go.set()
        assert await waiting == b"x"
        await until(lambda: len(server.connections) == 1)


@pytest.mark.plain
async def test_a_server_that_complains_of_pings_gets_fewer() -> None:
    async with connected() as (channel, server, _):
        await ask(channel)
        before = channel._keepalive_s
        [connection] = server.connections
        connection.machine._ready.append(h2.goaway_frame(1, ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings"))
        connection.schedule_write()
        await until(lambda: not channel.is_ready)
        assert channel._keepalive_s == 2 * before


async def test_a_connection_on_which_no_ping_is_answered_is_closed() -> None:
    lost: list[str] = []
    async with silent(h2.settings_frame({})) as (host, port):
        connection = CallsConnection(
            f"{host}:{port}",
            on_unusable=lambda _, why: lost.append(why),
            keepalive_s=0.01,
            keepalive_timeout_s=0.05,
        )
        await connection.loop.create_connection(lambda: connection, host, port)
        await connection.greeted
        call = connection.begin_call("/test/Wait", (), 0.0)
        with pytest.raises(StreamBroken, match="does not answer pings"):
            await call.read_message()
        await connection.ended
    assert lost == [f"{host}:{port} does not answer pings"]


async def test_pings_are_answered_and_keep_a_connection() -> None:
    async with serving() as (server, _, address):
        host, port = place(address)
        connection = CallsConnection(address, on_unusable=lambda *_: None, keepalive_s=0.01, keepalive_timeout_s=20.0)
        await connection.loop.create_connection(lambda: connection, host, port)
        await connection.greeted
        greeted_at = connection.machine.last_read
        await until(lambda: connection.machine.last_read > greeted_at + 0.005)
        assert len(server.connections) == 1
        connection.hang_up("the test is over")
        await connection.ended


async def test_closing_ends_calls_and_connections() -> None:
    async with connected() as (channel, server, _):
        waiting = asyncio.create_task(broken(channel, "Wait"))
        await until(lambda: len(server.tasks) == 1)
        await channel.close()
        assert "the channel was closed" in str(await waiting)
        assert "the channel was closed" in str(await broken(channel))
        await until(lambda: not server.connections)


async def test_closing_ends_an_attempt_to_connect() -> None:
    async with silent() as mute, opened(mute) as channel:
        waiting = asyncio.create_task(broken(channel))
        await until(lambda: channel._connecting is not None)
        await channel.close()
        assert "the channel was closed" in str(await waiting)


async def test_tls(tmp_path: Path) -> None:
    certificates, service = Certificates(tmp_path), Service()
    context = create_server_context(certificates.files())
    async with served(CallServer(service.methods.get, tls=PortTls(lambda: context, allow_plain=False))) as address:
        for believed, server_name in ((certificates.client(), None), (certificates.client(), "localhost")):
            channel = Channel([place(address)], tls=believed, server_name=server_name)
            assert await ask(channel, request=b"x" * 70_000) == b"x" * 70_000
            await channel.close()
        stranger = Channel([place(address)], tls=Certificates(tmp_path / "other").client())
        assert "its certificate is refused" in str(await broken(stranger))
        await stranger.close()
