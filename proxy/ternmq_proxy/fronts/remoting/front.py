"""The remoting front: serves clients of RocketMQ 4.x, and remoting clients of 5.x, on one address.

That address is name server and broker at once: a route names each broker by it.
"""

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.server_settings import ClientListener
from ternmq_proxy.call import current_call
from ternmq_proxy.fronts.refusals import RefusalLog
from ternmq_proxy.fronts.remoting.call import ClientConnection, RemotingCall
from ternmq_proxy.fronts.remoting.callers import RemotingCallers
from ternmq_proxy.fronts.remoting.handlers.admin.peers import answer_peers
from ternmq_proxy.fronts.remoting.handlers.table import HANDLERS
from ternmq_proxy.fronts.remoting.memberships import Memberships
from ternmq_proxy.fronts.remoting.producers import find_producers
from ternmq_proxy.fronts.remoting.refusals import answer_error, answer_unknown, refuse_request
from ternmq_proxy.fronts.remoting.replies import ReplyPushes
from ternmq_rpc.remoting.server import RemotingServer
from ternmq_rpc.serving.connection_server import CONNECTIONS_MAX
from ternmq_rpc.serving.sockets import actual_address, bind_socket, explain_bind_error
from ternmq_runtime.observability.figures import TrafficFigures
from ternmq_runtime.observability.front_figures import FrontFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ternmq_proxy.fronts.remoting.handlers.handler import Answered, Handler
    from ternmq_proxy.services import Services
    from ternmq_rpc.remoting.commands import Command
    from ternmq_rpc.remoting.served_request import ServedRequest
    from ternmq_rpc.serving.budgets import ConnectionBudgets
    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.observability.process_observability import ProcessObservability

    Begin = Callable[[RemotingCall, Answered], bool]

CLUSTER: Final = "DefaultCluster"
"""The name of the cluster as 4.x tools see it."""
_CANCELLED: Final = "CANCELLED"


class RemotingFront:
    """The listener of a process for the remoting protocol. It binds its address when created, and serves after
    `start`. Raises StartupError if the address can't be bound."""

    def __init__(
        self,
        listener: ClientListener,
        observability: "ProcessObservability",
        *,
        budgets: "ConnectionBudgets | None" = None,
        connections_max: int = CONNECTIONS_MAX,
        shared: bool = False,
        tls: "PortTls | None" = None,
    ) -> None:
        """`shared`: other workers listen at the same address."""
        try:
            self._socket = bind_socket(listener.address, shared=shared)
        except StartupError as error:
            raise explain_bind_error(
                listener.address, error, protocol="the remoting protocol", option="--remoting"
            ) from error
        self._listener = replace(listener, address=actual_address(listener.address, self._socket))
        self.figures = FrontFigures(self._read_traffic)
        """The figures of the front."""
        observability.watch_front(self.figures)
        self._server = RemotingServer(
            self._serve_request,
            refuse_request,
            budgets=budgets,
            connections_max=connections_max,
            tls=tls,
            on_closed=self._forget_connection,
        )
        self._is_started = False
        self._refusals = RefusalLog(time.monotonic)
        self._services: Services
        self._callers: RemotingCallers
        self._memberships: Memberships
        self._replies: ReplyPushes

    @property
    def address(self) -> str:
        """`host:port` of the listener."""
        return self._listener.address

    @property
    def connection_count(self) -> int:
        """How many connections it has."""
        return self._read_traffic().connections

    @property
    def memberships(self) -> Memberships:
        """The members of groups that are connected here; set by `start`."""
        return self._memberships

    def _read_traffic(self) -> TrafficFigures:
        server = self._server
        return TrafficFigures(
            len(server.connections) + len(server.openings),
            server.ledger.held_bytes,
            server.ledger.unread_bytes,
            server.limit_counts,
        )

    async def start(self, services: "Services") -> None:
        """Serve."""
        self._services = services
        self._callers = RemotingCallers(services, self._listener)
        self._memberships = Memberships(services)
        self._memberships.start()
        self._replies = ReplyPushes(services)
        services.orphans.find_members = partial(find_producers, self._memberships.members)
        answer_peers(self._memberships.members, services)
        self._is_started = True
        await self._server.add_listener(self._socket, self._listener.address)

    async def stop(self, grace_s: float) -> None:
        """Stop accepting requests; wait for those in progress, at most `grace_s` seconds."""
        if not self._is_started:
            self._socket.close()
            return
        await self._server.stop_serving(grace_s)
        await self._memberships.stop()

    def _forget_connection(self, note: object) -> None:
        if isinstance(note, ClientConnection):
            if note.is_counted:
                self._services.quotas.remove_connection(note.user, note.client_id)
            self._memberships.forget_channel(note)
            self._replies.remove_channel(note)
            self._services.orphans.forget_client(note.client_id)

    # --- requests

    def _serve_request(self, request: "ServedRequest") -> "Coroutine[Any, Any, None] | None":
        code = request.command.code
        handler = HANDLERS.get(code)
        self.figures.bytes_in += request.wire_bytes
        if handler is None:
            request.answer_request(answer_unknown(code))
            return None
        if handler.begin is not None and self._begin_directly(request, handler, handler.begin):
            return None
        # A client that sends its last offsets and closes does not wait for answers.
        request.outlives_connection = handler.in_steps or (request.command.is_oneway and not handler.may_wait)
        return self._serve_handled(request, handler)

    def _begin_directly(self, request: "ServedRequest", handler: "Handler", begin: "Begin") -> bool:
        """Serve a request without a task, if that is possible; return whether it is."""
        began = time.perf_counter()

        def answer(response: "Command | None", error: Exception | None) -> None:
            answered = self._refuse(request, handler, error or AssertionError()) if response is None else response
            request.answer_request(answered)
            self.figures.record_call(handler.name, str(int(answered.code)), time.perf_counter() - began)

        try:
            return begin(self._make_call(request, handler, never_waits=True), answer)
        except Exception as error:  # noqa: BLE001 - the outermost of this request; `answer_error` logs
            answer(None, error)
            return True

    async def _serve_handled(self, request: "ServedRequest", handler: "Handler") -> None:
        began = time.perf_counter()
        code = _CANCELLED
        try:
            answer = await self._find_answer(request, handler)
            code = str(int(answer.code))
            self.figures.bytes_out += len(answer.body)
            request.answer_request(answer)
        finally:
            record = self.figures.record_poll if handler.may_wait else self.figures.record_call
            record(handler.name, code, time.perf_counter() - began)

    async def _find_answer(self, request: "ServedRequest", handler: "Handler") -> "Command":
        try:
            context = self._make_call(request, handler, never_waits=False)
            current_call.set(context.call)
            return await handler.serve(context)
        except Exception as error:  # noqa: BLE001 - the outermost of this request; `answer_error` logs
            return self._refuse(request, handler, error)

    def _make_call(self, request: "ServedRequest", handler: "Handler", *, never_waits: bool) -> RemotingCall:
        client = self._client_of(request)
        call = self._callers.identify_caller(request, client, handler.name, never_waits=never_waits)
        return RemotingCall(request, call, client, self._services, self._memberships, self._replies, CLUSTER)

    def _refuse(self, request: "ServedRequest", handler: "Handler", error: Exception) -> "Command":
        answer = answer_error(error, handler.name)
        if handler.complete_refusal is not None:
            handler.complete_refusal(answer)
        code = error.code if isinstance(error, MessagingError) else ErrorCode.OK
        client_id = self._client_of(request).client_id
        self._refusals.log_refusal(handler.name, code, answer.remark, client_id=client_id, peer=request.connection.peer)
        return answer

    def _client_of(self, request: "ServedRequest") -> ClientConnection:
        connection = request.connection
        client = connection.note
        if not isinstance(client, ClientConnection):
            client = ClientConnection(connection, self._listener.advertised or connection.local, CLUSTER)
            connection.note = client
        return client
