"""What the tests of calls share: a server with a method of each kind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.serving.budgets import ConnectionBudgets
from tests.unit.rpc.grpc_stream.echo import echo, lose, served

CLIENT_ID = "x-mq-client-id"
MESSAGE_MAX = 1 << 20


class Service:
    """`began` and `cancelled`: the calls of Wait, which nothing but their client or deadline ends. `let_go`: lets those
    of Stubborn and Gate end. `arrived`: whether the answers of Lost did."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[ServedCall] = asyncio.Queue()
        self.cancelled: asyncio.Queue[ServedCall] = asyncio.Queue()
        self.arrived: asyncio.Queue[bool] = asyncio.Queue()
        self.methods = {
            "/test/Echo": ServedMethod(self._echo),
            "/test/Wait": ServedMethod(self._wait),
            "/test/Stubborn": ServedMethod(self._stubborn),
            "/test/Gate": ServedMethod(self._gate),
            "/test/Lost": ServedMethod(self._lost),
            "/test/Refuse": ServedMethod(self._refuse),
            "/test/Fail": ServedMethod(self._fail),
            "/test/Many": ServedMethod(self._many),
            "/test/Talk": ServedMethod(echo, is_conversation=True),
        }
        self.let_go = asyncio.Event()

    async def _echo(self, call: ServedCall) -> None:
        message = await call.read_message()
        await call.finish_answer(b"nothing" if message is None else message)

    async def _wait(self, call: ServedCall) -> None:
        self.began.put_nowait(call)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.cancelled.put_nowait(call)

    async def _stubborn(self, call: ServedCall) -> None:
        """Goes on when it is cancelled."""
        del call
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue

    async def _gate(self, call: ServedCall) -> None:
        message = await call.read_message()
        await self.let_go.wait()
        await call.finish_answer(message or b"")

    async def _lost(self, call: ServedCall) -> None:
        """Its connection is gone in the turn of the loop in which it is answered."""
        lose(call)
        arrived = False
        try:
            await call.finish_answer(b"the last word", assured=True)
            arrived = True
        finally:
            self.arrived.put_nowait(arrived)

    async def _refuse(self, call: ServedCall) -> None:
        del call
        raise CallRefused(GrpcStatus.NOT_FOUND, "not hére")

    async def _fail(self, call: ServedCall) -> None:
        del call
        raise RuntimeError("a secret")

    async def _many(self, call: ServedCall) -> None:
        """As many messages as the request has bytes, of 100,000 bytes each, then the headers' client id."""
        count = len(await call.read_message() or b"")
        await call.finish_answer(*[bytes(100_000)] * count, call.headers.get(CLIENT_ID, "").encode())


@asynccontextmanager
async def serving(budgets: ConnectionBudgets | None = None) -> AsyncIterator[tuple[CallServer, Service, str]]:
    """A server, what it serves, and its address."""
    service = Service()
    budgets = budgets or ConnectionBudgets(message_bytes_max=MESSAGE_MAX)
    server = CallServer(service.methods.get, headers=(CLIENT_ID,), budgets=budgets)
    async with served(server, "front door") as address:
        try:
            yield server, service, address
        finally:
            service.let_go.set()
