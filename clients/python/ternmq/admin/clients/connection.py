"""The connection of `Admin`: started, closed, and bound to an event loop and a process; it sends the admin calls."""

from types import TracebackType
from typing import Self

from ternmq.admin.requests.call import CALL_TIMEOUT_S, SERVICE, AdminCall, ValueT
from ternmq.client import ClientLife
from ternmq.connections.connection import GrpcConnection, RpcMethod
from ternmq.connections.credentials import CredentialsSource
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.identity import ClientIdentity
from ternmq.connections.tls import Tls, tls_options
from ternmq.errors import InternalError, NotRunning, check_status
from ternmq.process.forks import fork_count
from ternmq.process.own_loop import OwnEventLoop
from ternmq.times.durations import Seconds, seconds_above_0
from ternmq_protos.v2 import definition_pb2 as pb


class AdminConnection:
    """What `Admin` is besides its calls."""

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: CredentialsSource | None = None,
        tls: Tls = False,
        request_timeout: Seconds = CALL_TIMEOUT_S,
    ) -> None:
        self._endpoints = Endpoints.parse(endpoint)
        self._identity = ClientIdentity(credentials)
        self._tls = tls_options(tls)
        self._request_timeout_s = seconds_above_0("request_timeout", request_timeout)
        self._life = ClientLife.NEW
        self._own_loop = OwnEventLoop()
        self._forks = fork_count()
        self._connection: GrpcConnection | None = None

    @property
    def client_id(self) -> str:
        """The name by which the server knows this client."""
        return self._identity.client_id

    async def start(self) -> Self:
        """Open the channel; it connects at the first call."""
        self._check_process()
        if self._life is not ClientLife.NEW:
            raise NotRunning(f"this Admin {self._life.value}; create a new one")
        self._own_loop.bind_loop()
        self._connection = GrpcConnection(self._endpoints, self._identity, self._tls)
        self._life = ClientLife.RUNNING
        return self

    async def close(self) -> None:
        """Close the connection; calls in progress fail with `NotRunning`. May be called twice."""
        if self._forks != fork_count():  # the connection is the parent's
            return
        if self._life is ClientLife.RUNNING:
            self._own_loop.check_loop(self)
        self._life = ClientLife.CLOSED
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send_call(self, call: AdminCall[ValueT]) -> ValueT:
        connection = self._check_open()
        method = RpcMethod(call.name, type(call.request), call.response, f"/{SERVICE}/")
        timeout_s = max(self._request_timeout_s, call.at_least_s)
        answer = await connection.call_unary(method, call.request, timeout_s=timeout_s)
        check_status(answer.status)
        try:
            return call.read_value(answer)
        except ValueError as error:
            raise InternalError(pb.INTERNAL_ERROR, f"{self._endpoints}: {error}") from None

    def _check_open(self) -> GrpcConnection:
        self._check_process()
        if self._life is not ClientLife.RUNNING or self._connection is None:
            raise NotRunning(f"this Admin {self._life.value}")
        self._own_loop.check_loop(self)
        return self._connection

    def _check_process(self) -> None:
        if self._forks != fork_count():
            raise NotRunning("this Admin was created before the process was forked; create a new one in the child")
