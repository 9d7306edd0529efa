"""Calls that are left with their answer: who served them hears if the kernel got it, and needs no task for that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, SettingId
from ternmq_rpc.grpc_http2.messages import PREFIX
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from tests.unit.rpc.grpc_stream.echo import served, until
from tests.unit.rpc.grpc_stream.peer import client
from tests.unit.rpc.grpc_stream.test_call_rules import answer, data, headers

PATH = "/test/Conclude"
LARGE = bytes(200_000)


class Service:
    """Answers with as many zeros as it is asked for, at once or after a turn of the loop."""

    def __init__(self) -> None:
        self.arrived: list[bool] = []

    async def serve(self, call: ServedCall) -> None:
        message = await call.read_message()
        assert message is not None
        if message.startswith(b"later "):
            await asyncio.sleep(0)
        call.conclude_answer((bytes(int(message.split()[-1])), b"end"), self.arrived.append)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[CallServer, Service, str]]:
    service = Service()
    server = CallServer({PATH: ServedMethod(service.serve)}.get)
    async with served(server) as address:
        yield server, service, address


def call(stream: int, message: bytes) -> bytes:
    return headers(stream, PATH) + data(stream, message)


def rests(server: CallServer) -> tuple[int, int]:
    return server.pending_calls.count, len(server.tasks)


@pytest.mark.parametrize("when", ["", "later "])
async def test_its_answer_arrives_and_that_is_told_once(when: str) -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, f"{when}3".encode()))
        assert await answer(peer, 1) == (bytes(3) + PREFIX.pack(0, 3) + b"end", "0")
        await until(lambda: rests(server) == (0, 0))
        assert service.arrived == [True]


@pytest.mark.parametrize("when", ["", "later "])
async def test_a_client_that_takes_its_time_is_waited_for_without_a_task(when: str) -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, f"{when}{len(LARGE)}".encode()))
        await until(lambda: server.pending_calls.count == 1 and not server.tasks)
        assert not service.arrived
        peer.say(h2.window_frame(0, 2 * len(LARGE)), h2.window_frame(1, 2 * len(LARGE)))
        await until(lambda: bool(service.arrived))
        assert service.arrived == [True]
        assert rests(server) == (0, 0)


@pytest.mark.parametrize("when", ["", "later "])
async def test_a_client_that_breaks_it_off_did_not_get_it(when: str) -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, f"{when}{len(LARGE)}".encode()))
        await until(lambda: server.pending_calls.count == 1 and not server.tasks)
        peer.say(h2.reset_frame(1, ErrorCode.CANCEL))
        await until(lambda: bool(service.arrived))
        assert service.arrived == [False]
        assert rests(server) == (0, 0)


async def test_a_client_that_goes_did_not_get_it() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"%d" % len(LARGE)))
        await until(lambda: server.pending_calls.count == 1)
        peer.close()
        await until(lambda: not server.connections)
        assert service.arrived == [False]
        assert rests(server) == (0, 0)


async def test_its_deadline_ends_it_while_it_waits() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(headers(1, PATH, ("grpc-timeout", "50m")) + data(1, b"%d" % len(LARGE)))
        await until(lambda: bool(service.arrived))
        assert service.arrived == [False]
        assert rests(server) == (0, 0)


async def test_a_server_that_ends_gives_it_time_and_breaks_it_off_then() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        peer.say(call(1, b"%d" % len(LARGE)))
        await until(lambda: server.pending_calls.count == 1)
        await server.stop_serving(0.05)
        assert service.arrived == [False]


async def test_one_that_was_broken_off_before_it_was_answered_is_told_so_at_once() -> None:
    async with serving() as (server, service, address), client(address) as peer:
        calls: list[ServedCall] = []

        async def serve(call: ServedCall) -> None:
            calls.append(call)
            await call.read_message()
            call.abort_stream("no more")
            call.conclude_answer((b"too late",), service.arrived.append)

        service.serve = serve  # type: ignore[method-assign]
        server.find = {PATH: ServedMethod(serve)}.get
        peer.say(call(1, b"x"))
        await until(lambda: bool(service.arrived))
        assert service.arrived == [False]
        assert rests(server) == (0, 0)


async def test_what_its_owner_raises_then_holds_up_nobody() -> None:
    async with serving() as (server, _, address), client(address) as peer:
        peer.say(h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 1 << 20}))
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        arrived: list[bool] = []

        async def serve(call: ServedCall) -> None:
            await call.read_message()
            call.conclude_answer((b"one",), fail)

        def fail(whole: bool) -> None:
            arrived.append(whole)
            raise ValueError("a bug")

        server.find = {PATH: ServedMethod(serve)}.get
        peer.say(call(1, b"x"), call(3, b"x"))
        assert await answer(peer, 1) == (b"one", "0")
        assert await answer(peer, 3) == (b"one", "0")
        assert arrived == [True, True]
        assert len(failures) == 2
        assert rests(server) == (0, 0)
