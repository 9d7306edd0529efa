"""A server of connections with a protocol that is not gRPC: each line is a call, which is answered by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.connection_server import ConnectionServer
from ternmq_rpc.serving.sockets import bind_socket
from tests.support.until import until

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class LineCall:
    line: bytes
    is_awaited: bool = True


class LineConnection(asyncio.BufferedProtocol):
    """Holds what it has answered; answers wait for `server.may_answer`."""

    def __init__(self, server: "LineServer") -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._lines = bytearray()
        self.note: object = None
        self.reads_nothing = False
        self.quiet_until = 0.0
        self.held_bytes = self.unread_bytes = 0
        self.is_stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.note = "somebody"
        self._server.add_connection(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._lines += self._server.buffer[:nbytes]
        *lines, rest = self._lines.split(b"\n")
        self._lines = bytearray(rest)
        for line in lines:
            self.held_bytes += len(line)
            self._server.ledger.held_bytes += len(line)
            task = asyncio.create_task(self._answer(bytes(line)))
            self._server.tasks[task] = LineCall(bytes(line))
            task.add_done_callback(self._server.tasks.pop)
        self._server.limit_input()

    async def _answer(self, line: bytes) -> None:
        await self._server.may_answer.wait()
        self._transport.write(line + b"\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.remove_connection(self)

    def check_limits(self, now: float, *, crowded: bool) -> None: ...

    def cut_off(self, limit: str, why: str) -> None:
        self._server.limits.log_limit("somebody", limit, why)
        self._transport.abort()

    def stop_calls(self) -> None:
        self.is_stopped = True

    def end_calls(self) -> None: ...

    def hang_up(self, why: str) -> None:
        self._transport.close()

    def refuse_plain(self, begun: bytes) -> bool:
        return False


class LineServer(ConnectionServer[LineConnection, LineCall]):
    def __init__(self, budgets: ConnectionBudgets | None = None, connections_max: int = 10) -> None:
        self.closed: list[object] = []
        super().__init__(budgets=budgets, connections_max=connections_max, on_closed=self.closed.append)
        self.may_answer = asyncio.Event()

    def create_connection(self, listener: str) -> LineConnection:
        return LineConnection(self)


@asynccontextmanager
async def serving(server: LineServer) -> AsyncIterator[int]:
    sock = bind_socket(f"{HOST}:0")
    await server.add_listener(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await server.stop_serving(0.0)


async def test_calls_under_way_end_before_the_server_does() -> None:
    server = LineServer()
    async with serving(server) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"hello\n")
        await until(lambda: bool(server.tasks))
        stopping = asyncio.create_task(server.stop_serving(60.0))
        [connection] = server.connections
        await until(lambda: connection.is_stopped)
        server.may_answer.set()
        assert await reader.read() == b"hello\n"
        await stopping
    writer.close()
    assert not server.connections
    assert server.closed == ["somebody"]


async def test_the_connection_that_holds_most_is_closed_if_all_hold_too_much() -> None:
    server = LineServer(ConnectionBudgets(in_bytes_max=10))
    async with serving(server) as port:
        ends = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        for (_, writer), line in zip(ends, (b"short\n", b"much longer\n"), strict=True):
            writer.write(line)
        assert await ends[1][0].read() == b""
        await until(lambda: len(server.connections) == 1)
        assert server.limit_counts["in_bytes"] == 1
        for _, writer in ends:
            writer.close()


async def test_connections_beyond_the_limit_wait_until_one_is_closed() -> None:
    server = LineServer(connections_max=1)
    server.may_answer.set()
    async with serving(server) as port:
        _, first = await asyncio.open_connection(HOST, port)
        await until(lambda: len(server.connections) == 1)
        reader, second = await asyncio.open_connection(HOST, port)
        second.write(b"hello\n")
        await until(lambda: server.limit_counts["connections"] == 1)
        first.close()
        assert await reader.readline() == b"hello\n"
        second.close()
