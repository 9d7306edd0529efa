"""Shedding over sockets: who has most under way is refused with a hint, and who sends little is served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from ternmq_common.retry_hint import hinted_s
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.overload import Overload
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_runtime.observability.figures import FrontFigures
from tests.support.embedded import Embedded, RawClient, message
from tests.support.until import until
from tests.system.conftest import ANY_PORT
from tests.unit.rpc.grpc_stream.echo import served

METHOD = "/apache.rocketmq.v2.MessagingService/SendMessage"
DONE = rpc.SendMessageResponse(status=pb.Status(code=pb.OK)).SerializeToString()
# A channel of its own for each client, and so a connection.
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
UNDER_WAY = 20


class SlowServer:
    """Answers no send before `released`; in a task each, or without one (`at_once`)."""

    def __init__(self, *, at_once: bool) -> None:
        self.figures = FrontFigures()
        self.overload = Overload(25, self.figures)
        self.released = asyncio.Event()
        self._held: list[ServedCall] = []
        begin = self._begin if at_once else None
        method = self.overload.guarded(ServedMethod(self._serve, at_once=begin))
        self.server = CallServer({METHOD: method}.get)

    def overloaded(self) -> None:
        """The loop was late each time it was looked at, for longer than an interval."""
        now = asyncio.get_running_loop().time()
        for step in range(1, 5):
            self.overload.shedder.observe(0.05, now + step * 0.04)
        assert self.overload.is_shedding

    def release(self) -> None:
        self.released.set()
        held, self._held = self._held, []
        for call in held:
            call.answer(DONE)

    def _begin(self, call: ServedCall, data: bytes) -> bool:
        del data
        if self.released.is_set():
            return False  # such as has to wait for more than the log
        self._held.append(call)
        return True

    async def _serve(self, call: ServedCall) -> None:
        await call.read()
        await self.released.wait()
        await call.finish(DONE)


@asynccontextmanager
async def client(address: str) -> AsyncIterator[grpc.aio.UnaryUnaryMultiCallable]:
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        yield channel.unary_unary(
            METHOD,
            request_serializer=rpc.SendMessageRequest.SerializeToString,
            response_deserializer=rpc.SendMessageResponse.FromString,
        )


async def test_a_server_that_may_shed_serves_all_sends_while_it_is_in_time(tmp_path: Path) -> None:
    settings = ServerSettings(data_dir=tmp_path, grpc=ANY_PORT, http=ANY_PORT, overload_delay_ms=10_000)
    async with Embedded(settings) as server, RawClient(server.grpc) as raw:
        await raw.create_topic("plain")
        await raw.create_topic("ranked", kind=pb.PRIORITY)
        for sent in (message("plain"), message("ranked", priority=1)):
            answers = await asyncio.gather(
                *(raw.call("SendMessage", rpc.SendMessageRequest(messages=[sent])) for _ in range(20))
            )
            assert {answer.status.code for answer in answers} == {pb.OK}


@pytest.mark.parametrize("at_once", [False, True])
async def test_the_greedy_connection_is_refused_with_a_hint_and_the_modest_one_is_served(*, at_once: bool) -> None:
    slow = SlowServer(at_once=at_once)
    shedder, request = slow.overload.shedder, rpc.SendMessageRequest()
    async with served(slow.server) as address, client(address) as greedy, client(address) as modest:
        first = [asyncio.ensure_future(greedy(request)) for _ in range(UNDER_WAY)]
        await until(lambda: shedder.under_way == UNDER_WAY)
        slow.overloaded()
        refused = await greedy(request)
        assert refused.status.code == pb.TOO_MANY_REQUESTS
        assert hinted_s(refused.status.message) > 0
        assert (shedder.refused, shedder.under_way) == (1, UNDER_WAY)
        little = asyncio.ensure_future(modest(request))
        await until(lambda: shedder.under_way == UNDER_WAY + 1)
        slow.release()
        assert {answer.status.code for answer in await asyncio.gather(*first, little)} == {pb.OK}
        await until(lambda: shedder.under_way == 0)
        assert (await greedy(request)).status.code == pb.OK
        await until(lambda: shedder.under_way == 0)
    assert slow.figures.calls.keys() == {("SendMessage", "TOO_MANY_REQUESTS")}


@pytest.mark.parametrize("at_once", [False, True])
async def test_who_gives_a_send_up_has_it_under_way_no_more(*, at_once: bool) -> None:
    slow = SlowServer(at_once=at_once)
    async with served(slow.server) as address, client(address) as impatient:
        sends = [asyncio.ensure_future(impatient(rpc.SendMessageRequest())) for _ in range(UNDER_WAY)]
        await until(lambda: slow.overload.shedder.under_way == UNDER_WAY)
        for send in sends:
            send.cancel()
        if at_once:
            # What is stored can't be given up: it ends when it is answered.
            slow.release()
        await until(lambda: slow.overload.shedder.under_way == 0)


async def test_a_front_that_ends_answers_those_that_it_has_refused() -> None:
    slow = SlowServer(at_once=True)
    async with served(slow.server) as address, client(address) as greedy:
        first = [asyncio.ensure_future(greedy(rpc.SendMessageRequest())) for _ in range(UNDER_WAY)]
        await until(lambda: slow.overload.shedder.under_way == UNDER_WAY)
        slow.overloaded()
        more = asyncio.ensure_future(greedy(rpc.SendMessageRequest()))
        await until(lambda: slow.overload.shedder.refused == 1)
        slow.overload.stop()
        assert (await more).status.code == pb.TOO_MANY_REQUESTS
        slow.release()
        await asyncio.gather(*first)
