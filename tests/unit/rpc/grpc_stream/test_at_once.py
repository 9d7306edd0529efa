"""Calls that are served without a task: answered at once, later, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, SettingId
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from tests.unit.rpc.grpc_stream.echo import served, until
from tests.unit.rpc.grpc_stream.peer import client
from tests.unit.rpc.grpc_stream.test_call_rules import answer, data, headers

PATH = "/test/AtOnce"


class Service:
    """Answers `now` at once and `later` when the test says so; leaves the rest to a coroutine."""

    def __init__(self) -> None:
        self.waiting: list[ServedCall] = []
        self.in_coroutines = 0

    def at_once(self, call: ServedCall, message: bytes) -> bool:
        if message == b"now":
            call.answer_directly(b"at once")
        elif message == b"later":
            self.waiting.append(call)
        else:
            return False
        return True

    async def serve(self, call: ServedCall) -> None:
        self.in_coroutines += 1
        message = await call.read_message()
        await call.finish_answer(b"by a coroutine: " + (message or b""))


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[CallServer, Service, str]]:
    service = Service()
    server = CallServer({PATH: ServedMethod(service.serve, serve_directly=service.at_once)}.get)
    async with served(server) as address:
        try:
            yield server, service, address
        finally:
            for call in service.waiting:
                if call.is_pending:
                    call.answer_directly(b"")


def call(stream: int, message: bytes, *, end_stream: bool = True) -> bytes:
    return headers(stream, PATH) + data(stream, message, end_stream=end_stream)


@pytest.mark.parametrize("end_stream", [True, False])
async def test_it_is_answered_where_it_is_read(end_stream: bool) -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"now", end_stream=end_stream))
        assert await answer(peer, 1) == (b"at once", "0")
        assert (server.pending_calls.count, len(server.tasks), service.in_coroutines) == (0, 0, 0)


async def test_it_is_answered_when_it_can_be_and_its_end_begins_it_no_second_time() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"later", end_stream=False))
        await until(lambda: bool(service.waiting))
        peer.say(h2.encode_frame(h2.DATA, h2.END_STREAM, 1), call(3, b"now"))
        assert await answer(peer, 3) == (b"at once", "0")
        assert (server.pending_calls.count, len(service.waiting)) == (1, 1)
        service.waiting[0].answer_directly(b"at last")
        assert await answer(peer, 1) == (b"at last", "0")
        assert (server.pending_calls.count, len(server.tasks), service.in_coroutines) == (0, 0, 0)


async def test_what_it_leaves_is_served_by_a_coroutine_that_can_read_it() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"other"))
        assert await answer(peer, 1) == (b"by a coroutine: other", "0")
        assert (server.pending_calls.count, service.in_coroutines) == (0, 1)


async def test_an_answer_for_nobody_is_no_error() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"later"), call(3, b"later"))
        await until(lambda: len(service.waiting) == 2)
        peer.say(h2.reset_frame(1, ErrorCode.CANCEL), call(5, b"now"))
        assert await answer(peer, 5) == (b"at once", "0")
        first, second = service.waiting
        first.answer_directly(b"for nobody")
        assert server.pending_calls.count == 1
        peer.close()
        await until(lambda: not server.connections)
        second.answer_directly(b"for nobody")
        assert server.pending_calls.count == 0


async def test_its_deadline_ends_it() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(headers(1, PATH, ("grpc-timeout", "20m")) + data(1, b"later"))
        assert (await answer(peer, 1))[1] == "4"
        service.waiting[0].answer_directly(b"too late")
        assert server.pending_calls.count == 0


async def test_a_server_that_ends_waits_for_its_answer() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"later"))
        await until(lambda: bool(service.waiting))
        stopping = asyncio.create_task(server.stop_serving(20))
        await peer.expect(h2.GOAWAY)
        assert not stopping.done()
        service.waiting[0].answer_directly(b"at last")
        assert await answer(peer, 1) == (b"at last", "0")
        await stopping


async def test_an_answer_waits_for_the_clients_window() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 3}), call(1, b"now"))
        await peer.expect(h2.HEADERS)
        assert server.pending_calls.count == 0
        peer.say(h2.window_frame(1, 1 << 10))
        assert await answer(peer, 1) == (b"at once", "0")
        assert service.in_coroutines == 0
