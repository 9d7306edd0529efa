"""The server of the remoting protocol and its connections, with a function that answers by the body."""

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from ternmq_rpc.remoting.commands import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    Command,
    decode_command,
    encode_command,
)
from ternmq_rpc.remoting.connection import CLIENT_IDLE_S, REQUESTS_MAX, ConnectionGone
from ternmq_rpc.remoting.frames import BINARY, JSON, FrameReader, join_frame
from ternmq_rpc.remoting.served_request import ServedRequest
from ternmq_rpc.remoting.server import RemotingServer
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import bind_socket
from tests.support.until import until

HOST = "127.0.0.1"
BUSY, GONE = 2, 1500


class Answering:
    """Answers each request with its body; `b"wait"` when `may_answer` is set, in a task."""

    def __init__(self) -> None:
        self.served: list[ServedRequest] = []
        self.may_answer = asyncio.Event()

    def serve(self, request: ServedRequest) -> "object":
        self.served.append(request)
        if request.command.body.startswith(b"wait"):
            return self._answer_later(request)
        request.answer_request(Command(0, body=request.command.body))
        return None

    async def _answer_later(self, request: ServedRequest) -> None:
        await self.may_answer.wait()
        request.answer_request(Command(0, body=request.command.body))

    def refuse(self, command: Command, is_stopping: bool) -> Command:
        del command
        return Command(GONE if is_stopping else BUSY)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameReader()
        self._came: list[Command] = []

    def send(self, *commands: Command, serialization: int = JSON) -> None:
        self.writer.write(b"".join(encode_command(each, serialization) for each in commands))

    async def read(self) -> Command:
        while not self._came:
            data = await self.reader.read(1 << 16)
            assert data, "the server closed the connection"
            self._came += [decode_command(*each) for each in self._frames.read_frames(data)]
        return self._came.pop(0)


@asynccontextmanager
async def serving(
    answering: Answering, budgets: ConnectionBudgets | None = None
) -> AsyncIterator[tuple[RemotingServer, Client]]:
    server = RemotingServer(answering.serve, answering.refuse, budgets=budgets)  # type: ignore[arg-type]
    sock = bind_socket(f"{HOST}:0")
    await server.add_listener(sock)
    client = Client(*await asyncio.open_connection(HOST, sock.getsockname()[1]))
    await until(lambda: bool(server.connections))
    try:
        yield server, client
    finally:
        client.writer.close()
        await server.stop_serving(0.0)
        assert server.ledger.held_bytes == server.ledger.unread_bytes == server.pending_calls.count == 0


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_each_request_gets_its_answer_and_a_oneway_request_none(serialization: int) -> None:
    answering = Answering()
    async with serving(answering) as (_, client):
        oneway = Command(10, opaque=2, flag=ONEWAY_FLAG, body=b"unheard")
        client.send(Command(10, opaque=1, body=b"a"), oneway, Command(10, opaque=3), serialization=serialization)
        answers = [await client.read(), await client.read()]
        assert [(each.opaque, each.flag, each.body) for each in answers] == [(1, 1, b"a"), (3, 1, b"")]
        assert len(answering.served) == 3


async def test_a_read_with_many_requests_is_served_in_several_turns() -> None:
    behind: list[bool] = []

    class Noting(Answering):
        def serve(self, request: ServedRequest) -> "object":
            behind.append(bool(server.ledger.behind))
            return super().serve(request)

    async with serving(Noting()) as (server, client):
        client.send(*(Command(10, opaque=number) for number in range(500)))
        assert [(await client.read()).opaque for _ in range(500)] == list(range(500))
        # The first turn does not know yet that requests will be left.
        assert 0 < behind.index(True) < 100
        assert not server.ledger.behind


async def test_answers_come_in_any_order() -> None:
    answering = Answering()
    async with serving(answering) as (_, client):
        client.send(Command(11, opaque=1, body=b"wait"), Command(10, opaque=2, body=b"now"))
        assert (await client.read()).opaque == 2
        answering.may_answer.set()
        assert (await client.read()).opaque == 1


class Held:
    """What the task of a request holds in its context, as a front holds the call, which can cancel the request."""

    def __init__(self, request: ServedRequest) -> None:
        self.cancel = request.cancel_task


held: ContextVar[Held] = ContextVar("held")


async def test_a_request_that_waited_is_freed_without_the_garbage_collector() -> None:
    freed: list[weakref.ref[Held]] = []

    class Holding(Answering):
        async def _answer_later(self, request: ServedRequest) -> None:
            held.set(Held(request))
            freed.append(weakref.ref(held.get()))
            await super()._answer_later(request)
            self.served.clear()

    answering = Holding()
    gc.disable()
    try:
        async with serving(answering) as (server, client):
            client.send(Command(11, body=b"wait"))
            await until(lambda: bool(freed))
            answering.may_answer.set()
            await client.read()
            await until(lambda: not server.tasks)
            for _ in range(10):
                await asyncio.sleep(0)
            assert freed[0]() is None
    finally:
        gc.enable()


async def test_the_server_asks_the_client() -> None:
    async with serving(Answering()) as (server, client):
        [connection] = server.connections
        asking = asyncio.create_task(connection.call_client(Command(307), 60.0))
        asked = await client.read()
        client.send(Command(0, opaque=asked.opaque + 1, flag=RESPONSE_FLAG))  # nobody asked that
        client.send(Command(0, opaque=asked.opaque, flag=RESPONSE_FLAG, body=b"running"))
        assert (await asking).body == b"running"
        connection.send_oneway(Command(40))
        pushed = await client.read()
        assert (pushed.code, pushed.is_oneway, pushed.opaque) == (40, True, asked.opaque + 1)


async def test_a_client_that_is_gone_or_silent_answers_nothing() -> None:
    async with serving(Answering()) as (server, client):
        [connection] = server.connections
        with pytest.raises(ConnectionGone, match="within 0 s"):
            await connection.call_client(Command(307), 0.0)
        asking = asyncio.create_task(connection.call_client(Command(307), 60.0))
        await client.read()
        client.writer.close()
        with pytest.raises(ConnectionGone, match="closed"):
            await asking
        with pytest.raises(ConnectionGone, match="closed"):
            await connection.call_client(Command(307), 60.0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff\x00\x00\x00\x02{}",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        join_frame(JSON, b"no json"),
        join_frame(BINARY, b"short"),
        join_frame(7, b"{}"),
    ],
)
async def test_bytes_that_are_no_command_close_the_connection(data: bytes) -> None:
    async with serving(Answering()) as (server, client):
        client.writer.write(data)
        assert await client.reader.read() == b""
        assert server.limit_counts["protocol"] == 1


async def test_what_a_client_lost_with_its_connection_is_given_up() -> None:
    answering = Answering()
    async with serving(answering) as (server, client):
        client.send(Command(11, opaque=1, body=b"wait"))
        await until(lambda: bool(server.tasks))
        client.writer.transport.abort()
        await until(lambda: not server.tasks)
        assert server.ledger.held_bytes == 0


async def test_what_outlives_its_connection_is_done_all_the_same() -> None:
    done = asyncio.Event()

    class Committing(Answering):
        def serve(self, request: ServedRequest) -> "object":
            request.outlives_connection = request.command.is_oneway
            return super().serve(request)

        async def _answer_later(self, request: ServedRequest) -> None:
            await super()._answer_later(request)
            done.set()

    answering = Committing()
    async with serving(answering) as (server, client):
        client.send(Command(15, opaque=1, flag=ONEWAY_FLAG, body=b"wait"), Command(11, opaque=2, body=b"wait"))
        await until(lambda: len(server.tasks) == 2)
        client.writer.transport.abort()
        await until(lambda: len(server.tasks) == 1)
        assert server.ledger.held_bytes == 0
        answering.may_answer.set()
        await done.wait()
        await until(lambda: not server.tasks)


@pytest.mark.plain  # it replaces a method of a connection
async def test_a_connection_with_much_to_read_leaves_others_their_turns() -> None:
    async with serving(Answering()) as (server, client):
        [connection] = server.connections
        rest, rests = connection._rest_from_reading, []

        def rest_noted() -> None:
            rest()
            rests.append(connection._transport.is_reading())

        connection._rest_from_reading = rest_noted  # type: ignore[method-assign]
        client.send(Command(10, opaque=1, body=bytes(4 << 20)))
        assert len((await client.read()).body) == 4 << 20
        assert len(rests) >= 8
        assert not any(rests)


async def test_more_requests_than_allowed_are_refused() -> None:
    answering = Answering()
    async with serving(answering) as (_, client):
        client.send(*(Command(11, opaque=number, body=b"wait") for number in range(REQUESTS_MAX + 1)))
        assert ((refused := await client.read()).opaque, refused.code) == (REQUESTS_MAX, BUSY)
        answering.may_answer.set()
        for _ in range(REQUESTS_MAX):
            assert (await client.read()).code == 0


async def test_a_connection_that_holds_much_is_read_when_it_holds_less() -> None:
    answering = Answering()
    async with serving(answering, ConnectionBudgets(connection_in_bytes_max=10_000)) as (_, client):
        client.send(Command(11, opaque=1, body=b"wait" * 3000))
        await until(lambda: len(answering.served) == 1)
        client.send(Command(10, opaque=2, body=b"later"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.read(), 0.05)
        answering.may_answer.set()
        assert sorted([(await client.read()).opaque, (await client.read()).opaque]) == [1, 2]


async def test_a_client_that_reads_nothing_is_closed_at_last() -> None:
    answering = Answering()
    budgets = ConnectionBudgets(connection_out_bytes_max=1 << 20, output_timeout_s=60.0)
    async with serving(answering, budgets) as (server, client):
        [connection] = server.connections
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(8):
            client.send(Command(10, opaque=number, body=bytes(4 << 20)))
        await until(lambda: connection.unread_bytes > 1 << 20)
        now = asyncio.get_running_loop().time()
        for later in (1.0, 2.0, 100.0):
            connection.check_limits(now + later, crowded=False)
        assert server.limit_counts["output_timeout"] == 1
        await until(lambda: not server.connections)


async def test_a_request_that_does_not_come_whole_is_given_up() -> None:
    async with serving(Answering(), ConnectionBudgets(body_timeout_s=30.0)) as (server, client):
        [connection] = server.connections
        client.writer.write(encode_command(Command(10, body=bytes(100)))[:-1])
        await until(lambda: connection._reader.kept_bytes > 0)
        now = asyncio.get_running_loop().time()
        connection.check_limits(now + 20.0, crowded=False)
        assert server.connections
        connection.check_limits(now + 40.0, crowded=False)
        assert server.limit_counts["body_timeout"] == 1
        assert await client.reader.read() == b""


async def test_an_idle_connection_is_closed_unless_it_waits_for_something() -> None:
    answering = Answering()
    async with serving(answering) as (server, client):
        [connection] = server.connections
        late = asyncio.get_running_loop().time() + CLIENT_IDLE_S + 1.0
        client.send(Command(11, opaque=1, body=b"wait"))
        await until(lambda: bool(server.tasks))
        connection.check_limits(late, crowded=False)
        answering.may_answer.set()
        assert (await client.read()).opaque == 1
        connection.check_limits(late, crowded=False)
        assert await client.reader.read() == b""


async def test_a_connection_is_quiet_unless_something_is_on_its_way() -> None:
    answering = Answering()
    async with serving(answering) as (server, client):
        [connection] = server.connections
        now = asyncio.get_running_loop().time()
        connection.check_limits(now, crowded=False)
        assert connection.quiet_until == connection._last_read + CLIENT_IDLE_S
        client.send(Command(11, opaque=1, body=b"wait"))
        await until(lambda: bool(server.tasks))
        connection.check_limits(now, crowded=False)
        assert connection.quiet_until == 0.0
        answering.may_answer.set()
        assert (await client.read()).opaque == 1
        connection.check_limits(now, crowded=False)
        assert connection.quiet_until > now
        connection.send_oneway(Command(40))
        assert connection.quiet_until == 0.0
        client.writer.write(encode_command(Command(10, body=bytes(100)))[:-1])
        await until(lambda: connection._reader.kept_bytes > 0)
        connection.check_limits(now, crowded=False)
        assert connection.quiet_until == 0.0


async def test_a_server_that_ends_answers_what_it_has_begun_and_refuses_the_rest() -> None:
    answering = Answering()
    async with serving(answering) as (server, client):
        client.send(Command(11, opaque=1, body=b"wait"))
        await until(lambda: bool(server.tasks))
        stopping = asyncio.create_task(server.stop_serving(60.0))
        await until(lambda: server.leaving)
        client.send(Command(10, opaque=2))
        assert ((refused := await client.read()).opaque, refused.code) == (2, GONE)
        answering.may_answer.set()
        assert (await client.read()).opaque == 1
        client.writer.close()
        await stopping


async def test_an_answer_is_unread_before_the_turn_writes_it() -> None:
    rooms: list[bool] = []

    class Large(Answering):
        def serve(self, request: ServedRequest) -> "object":
            rooms.append(request.open_answer_room().is_open)
            request.answer_request(Command(0, body=bytes(600)))
            return None

    budgets = ConnectionBudgets(connection_out_bytes_max=1000, turn_s=60)
    async with serving(Large(), budgets) as (server, client):
        client.send(*(Command(10, opaque=number) for number in range(4)))
        assert [len((await client.read()).body) for _ in range(4)] == [600] * 4
        assert rooms == [True, True, False, False]
        assert server.ledger.unread_bytes == 0


async def test_the_server_goes_on_when_it_closes_who_reads_too_little() -> None:
    async with serving(Answering(), ConnectionBudgets(out_bytes_max=1 << 20)) as (server, client):
        [stuck] = server.connections
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(3):
            client.send(Command(10, opaque=number, body=bytes(8 << 20)))
        await until(lambda: stuck.unread_bytes > 1 << 20)
        await until(lambda: not server.connections)  # found by the looks at all connections
        assert server.limit_counts["out_bytes"] == 1


async def test_requests_that_are_not_whole_count_among_those_of_all_connections() -> None:
    async with serving(Answering(), ConnectionBudgets(in_bytes_max=1 << 20)) as (server, client):
        half = encode_command(Command(10, body=bytes(900_000)))[:-1]
        client.writer.write(half)
        await until(lambda: server.ledger.held_bytes > 800_000)
        _, more = await asyncio.open_connection(*client.writer.get_extra_info("peername"))
        more.write(half[: 1 << 19])
        assert await client.reader.read() == b""
        assert server.limit_counts["in_bytes"] >= 1
        more.close()


async def count_begun(*commands: Command, work_s: float = 0.0) -> list[int]:
    """Send requests at once; return how many of them each turn of the connection began. Each holds the loop for
    `work_s` seconds."""
    turns: list[int] = []

    class Noting(Answering):
        def serve(self, request: ServedRequest) -> "object":
            turns[-1] += 1
            time.sleep(work_s)
            return super().serve(request)

    async with serving(Noting()) as (server, client):
        [connection] = server.connections
        begin = connection._begin_requests

        def begin_noted() -> None:
            turns.append(0)
            begin()

        connection._begin_requests = begin_noted  # type: ignore[method-assign]
        client.send(*commands)
        assert [(await client.read()).opaque for _ in commands] == [each.opaque for each in commands]
    assert sum(turns) == len(commands)
    return turns


@pytest.mark.plain  # it replaces a method of a connection
async def test_large_requests_are_begun_a_few_in_a_turn() -> None:
    assert max(await count_begun(*(Command(10, opaque=number, body=bytes(60_000)) for number in range(20)))) <= 3


@pytest.mark.plain
async def test_requests_that_take_long_are_begun_a_few_in_a_turn() -> None:
    """As pulls of large messages, which hold the loop."""
    assert max(await count_begun(*(Command(10, opaque=number) for number in range(20)), work_s=0.003)) <= 2
