"""Shedding over sockets: what waited is refused with a hint, and what did not is served."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from ternmq_common.retry_hint import parse_retry_hint
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.grpc.overload import OverloadGuard
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.serving.budgets import BudgetLedger
from ternmq_runtime.observability.front_figures import FrontFigures
from tests.support.embedded import Embedded, RawClient, local_settings, message
from tests.support.until import until
from tests.unit.rpc.grpc_stream.echo import served

METHOD = "/apache.rocketmq.v2.MessagingService/SendMessage"
DONE = rpc.SendMessageResponse(status=pb.Status(code=pb.OK)).SerializeToString()
# A channel of its own for each client, and so a connection.
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
MANY = 400


class Server:
    """Answers sends in a task each, or without one (`at_once`); what came seems to have waited for
    `waited_s`."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.figures = FrontFigures()
        self.waited_s = 0.0
        ledger = BudgetLedger()
        self.overload = OverloadGuard(25, ledger, self.figures, lambda: time.monotonic() + self.waited_s)
        begin = self._begin if at_once else None
        method = self.overload.guard_method(ServedMethod(self._serve, serve_directly=begin))
        self.server = CallServer({METHOD: method}.get)

    def overloaded(self) -> None:
        """Something waited each time it was looked, for longer than an interval, and what comes now did too."""
        now = time.monotonic()
        self.overload.shedder.start_watching(now)
        for step in range(1, 5):
            self.overload.shedder.observe_wait(0.05, now + step * 0.04)
        assert self.overload.is_shedding
        self.waited_s = 60.0

    def _begin(self, call: ServedCall, data: bytes) -> bool:
        del data
        call.answer_directly(DONE)
        return True

    async def _serve(self, call: ServedCall) -> None:
        await call.read_message()
        await call.finish_answer(DONE)


@asynccontextmanager
async def client(address: str) -> AsyncIterator[grpc.aio.UnaryUnaryMultiCallable]:
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        yield channel.unary_unary(
            METHOD,
            request_serializer=rpc.SendMessageRequest.SerializeToString,
            response_deserializer=rpc.SendMessageResponse.FromString,
        )


async def test_a_server_that_may_shed_serves_all_sends_while_it_is_in_time(tmp_path: Path) -> None:
    async with Embedded(local_settings(tmp_path, overload_delay_ms=10_000)) as server, RawClient(server.grpc) as raw:
        await raw.create_topic("plain")
        await raw.create_topic("ranked", kind=pb.PRIORITY)
        for sent in (message("plain"), message("ranked", priority=1)):
            answers = await asyncio.gather(*(raw.call("SendMessage", messages=[sent]) for _ in range(20)))
            assert {answer.status.code for answer in answers} == {pb.OK}


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_send_that_waited_is_refused_with_a_hint_and_one_that_did_not_is_served(*, at_once: bool) -> None:
    overloaded, request = Server(at_once=at_once), rpc.SendMessageRequest()
    shedder = overloaded.overload.shedder
    async with served(overloaded.server) as address, client(address) as greedy, client(address) as modest:
        assert (await greedy(request)).status.code == pb.OK
        overloaded.overloaded()
        refused = await asyncio.gather(*(greedy(request) for _ in range(MANY)))
        assert {answer.status.code for answer in refused} == {pb.TOO_MANY_REQUESTS}
        assert parse_retry_hint(refused[0].status.message) > 0
        overloaded.waited_s = 0.0
        assert (await modest(request)).status.code == pb.OK
    assert shedder.refused == MANY
    assert sum(overloaded.figures.calls["SendMessage", "TOO_MANY_REQUESTS"].counts) == MANY


async def test_who_gives_up_what_was_refused_harms_nobody() -> None:
    overloaded, request = Server(), rpc.SendMessageRequest()
    shedder = overloaded.overload.shedder
    async with served(overloaded.server) as address, client(address) as first, client(address) as other:
        overloaded.overloaded()
        given_up = [asyncio.ensure_future(first(request)) for _ in range(MANY)]
        await until(lambda: shedder.refused == MANY)
        for send in given_up:
            send.cancel()
        assert (await other(request)).status.code == pb.TOO_MANY_REQUESTS
        overloaded.waited_s = 0.0
        assert (await first(request)).status.code == pb.OK


async def test_a_front_that_ends_answers_those_that_it_has_refused() -> None:
    overloaded = Server()
    async with served(overloaded.server) as address, client(address) as greedy:
        overloaded.overloaded()
        refused = [asyncio.ensure_future(greedy(rpc.SendMessageRequest())) for _ in range(MANY)]
        await until(lambda: overloaded.overload.shedder.refused == MANY)
        overloaded.overload.stop()
        answers = await asyncio.gather(*refused)
        assert {answer.status.code for answer in answers} == {pb.TOO_MANY_REQUESTS}


async def test_while_nothing_is_sent_nobody_looks() -> None:
    quiet = Server()
    async with served(quiet.server) as address, client(address) as modest:
        assert not quiet.overload.is_watching
        assert (await modest(rpc.SendMessageRequest())).status.code == pb.OK
        assert quiet.overload.is_watching
        await until(lambda: not quiet.overload.is_watching)
        assert (await modest(rpc.SendMessageRequest())).status.code == pb.OK
        assert quiet.overload.is_watching
    quiet.overload.stop()
