"""What all connections of a server may hold together, and how many there may be."""

import asyncio
import errno
import socket
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, SettingId
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.serving.budgets import ConnectionBudgets
from tests.unit.rpc.grpc_stream.echo import METHOD, echo, served, until
from tests.unit.rpc.grpc_stream.peer import REQUEST, Peer, client
from tests.unit.rpc.grpc_stream.test_http2_rules import message, read_message

MIB = 1 << 20


def server_of(budgets: ConnectionBudgets | None = None, *, connections_max: int = 100, serve: Any = echo) -> CallServer:  # noqa: ANN401
    method = ServedMethod(serve, is_conversation=serve is echo)
    return CallServer({METHOD: method}.get, budgets=budgets, connections_max=connections_max)


def half_a_request(peer: Peer, size: int) -> list[bytes]:
    content = message(bytes(2 * size))[:size]
    return [
        peer.headers(1, *REQUEST),
        *(h2.encode_frame(h2.DATA, 0, 1, content[at : at + 16_384]) for at in range(0, size, 16_384)),
    ]


async def echoed(peer: Peer) -> None:
    peer.say(peer.headers(1, *REQUEST), h2.encode_frame(h2.DATA, 0, 1, message(b"x")))
    assert await read_message(peer) == b"x"


async def test_more_connections_than_there_may_be_wait_outside(caplog: pytest.LogCaptureFixture) -> None:
    server = server_of(connections_max=2)
    async with served(server) as address, AsyncExitStack() as inside:
        first, second = [await inside.enter_async_context(client(address)) for _ in range(2)]
        host, port = address.split(":")
        with socket.create_connection((host, int(port))):  # the kernel takes it
            waiting = asyncio.create_task(asyncio.open_connection(host, int(port)))
            await until(lambda: server.limit_counts["connections"] == 1)
            await echoed(first)
            assert len(server.connections) == 2
            second.close()
            reader, writer = await waiting
            await until(lambda: len(server.connections) == 2)
        await until(lambda: len(server.connections) == 2)
        assert await reader.read(9)  # it is greeted
        writer.close()
    assert len([record for record in caplog.records if "connections_max" in record.message]) == 1


async def test_without_descriptors_the_accept_loop_rests_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_of()
    tries = 0
    accept = socket.socket.accept

    def exhausted(sock: socket.socket) -> tuple[socket.socket, Any]:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", exhausted)
    async with served(server) as address, client(address) as peer:
        await echoed(peer)
    assert 3 <= tries <= 5
    assert [record.levelname for record in caplog.records if "Too many" in record.message] == ["WARNING"]


async def test_the_connection_that_holds_most_is_closed_when_all_hold_too_much() -> None:
    server = server_of(ConnectionBudgets(connection_in_bytes_max=8 * MIB, in_bytes_max=4 * MIB))
    async with served(server) as address, client(address) as small, client(address) as large, client(address) as third:
        small.say(*half_a_request(small, MIB))
        large.say(*half_a_request(large, 2 * MIB))
        await until(lambda: server.ledger.held_bytes > 2.9 * MIB)
        third.say(*half_a_request(third, 3 * MIB // 2))
        goaway = await large.expect(h2.GOAWAY)
        assert h2.read_goaway(goaway.payload)[1] == ErrorCode.ENHANCE_YOUR_CALM
        await until(lambda: server.ledger.held_bytes > 2.4 * MIB)
        assert server.ledger.held_bytes < 3 * MIB
        assert server.limit_counts["in_bytes"] == 1
        assert len([each for each in server.connections if not each.closed]) == 2
    assert server.ledger.held_bytes == 0


async def test_who_does_not_read_gets_no_more_calls_and_costs_no_more_memory() -> None:
    async def serve(call: ServedCall) -> None:
        await call.read_message()
        await call.finish_answer(bytes(MIB))

    server = server_of(ConnectionBudgets(connection_out_bytes_max=3 * MIB), serve=serve)
    async with served(server) as address, client(address) as peer:
        for stream in range(1, 41, 2):
            peer.say(peer.headers(stream, *REQUEST), h2.encode_frame(h2.DATA, h2.END_STREAM, stream, message(b"")))
            await until(lambda count=stream: next(iter(server.connections)).machine._last_stream == count)  # type: ignore[misc]
            await until(
                lambda: all(call.has_headers for call in next(iter(server.connections)).machine.streams.values())
            )
        assert 3 * MIB < server.ledger.unread_bytes <= 4 * MIB + 100
        assert server.limit_counts["connection_out_bytes"] == 16
    assert server.ledger.unread_bytes == 0


async def test_clients_that_read_nothing_are_closed_when_all_have_too_much_unread() -> None:
    async def serve(call: ServedCall) -> None:
        await call.read_message()
        await call.finish_answer(bytes(MIB))

    server = server_of(ConnectionBudgets(out_bytes_max=3 * MIB // 2), serve=serve)
    async with served(server) as address, client(address) as first, client(address) as second:
        for peer in (first, second):
            peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 0}))
            peer.say(peer.headers(1, *REQUEST), h2.encode_frame(h2.DATA, h2.END_STREAM, 1, message(b"")))
        async with asyncio.timeout(10):
            await asyncio.wait(
                [asyncio.create_task(peer.expect(h2.GOAWAY)) for peer in (first, second)],
                return_when=asyncio.FIRST_COMPLETED,
            )
        await until(lambda: server.ledger.unread_bytes < 3 * MIB // 2)
        assert server.limit_counts["out_bytes"] == 1
