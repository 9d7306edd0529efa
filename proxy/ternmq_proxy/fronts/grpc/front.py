"""The gRPC front: serves official clients and tools, with health and reflection, on one port or several.

The outcome of a call is in its answer. A gRPC status other than OK means that it could not be served as a call
(`overview.md, Status codes`): its bytes don't parse, or its settings end a Telemetry stream.

Operators may have a listener of their own, which is then the only one that serves administration and reflection. It has
a server of its own, so that clients that use all connections or budgets leave operators a way in.
"""

import asyncio
import contextlib
import functools
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError
from msgspec import structs

from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.server_settings import ClientListener
from ternmq_proxy.call import Call, current_call
from ternmq_proxy.fronts.budgets import ADMIN_CONNECTIONS_MAX
from ternmq_proxy.fronts.grpc.activities.receive_message import hold_s
from ternmq_proxy.fronts.grpc.activities.status import status_of
from ternmq_proxy.fronts.grpc.call_spans import TRACEPARENT, CallSpans
from ternmq_proxy.fronts.grpc.callers import ClientCallers, kept_headers
from ternmq_proxy.fronts.grpc.calls import (
    ADMIN_SERVICE,
    AT_ONCE_BYTES_MAX,
    MESSAGING_SERVICE,
    OF_BYTES_MIN,
    PUBLISHED_ADMIN_SERVICE,
    BeginCall,
    FramedAnswer,
    StreamedCall,
    UnaryCall,
    admin_calls,
    messaging_calls,
    published_admin_calls,
)
from ternmq_proxy.fronts.grpc.delivered_traces import DeliveredTraces
from ternmq_proxy.fronts.grpc.deliveries import AnswerDeliveries
from ternmq_proxy.fronts.grpc.measured import CUT, UNPARSED, CallMeasurement, code_name
from ternmq_proxy.fronts.grpc.outcomes import CallOutcome, answered_outcome, refused_outcome
from ternmq_proxy.fronts.grpc.overload import OverloadGuard
from ternmq_proxy.fronts.grpc.parsing import PIECE_BYTES, invalid_message, parse_in_pieces
from ternmq_proxy.fronts.grpc.request_size import RequestSize
from ternmq_proxy.fronts.grpc.streams.conversations import ClientConversations
from ternmq_proxy.fronts.grpc.streams.health import HealthService
from ternmq_proxy.fronts.grpc.streams.reflection import ReflectionService
from ternmq_proxy.fronts.grpc.streams.revocation import cancel_call
from ternmq_proxy.fronts.grpc.streams.waiting_polls import EndedPoll, WaitingPolls
from ternmq_proxy.fronts.operator_calls import FrontOperatorCalls
from ternmq_proxy.fronts.refusals import RefusalLog
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.serving.connection_server import CONNECTIONS_MAX
from ternmq_rpc.serving.sockets import actual_address, bind_socket, explain_bind_error
from ternmq_runtime.observability.figures import TrafficFigures
from ternmq_runtime.observability.front_figures import FrontFigures
from ternmq_runtime.observability.tracing import NOTHING, SpanContext, mark_current_failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.services import Services
    from ternmq_rpc.serving.budgets import ConnectionBudgets
    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.observability.process_observability import ProcessObservability

    Serve = Callable[[ServedCall], Awaitable[None]]

_OK: Final[int] = ErrorCode.OK
# The call that is refused under overload: it makes most work, and its client repeats it.
_SHED: Final = "SendMessage"


class GrpcFront:
    """All listeners of a process. It binds their addresses when created, and serves after `start`.

    Raises StartupError if an address can't be bound.
    """

    def __init__(
        self,
        listeners: "Sequence[ClientListener]",
        observability: "ProcessObservability",
        *,
        admin: str | None = None,
        budgets: "ConnectionBudgets | None" = None,
        connections_max: int = CONNECTIONS_MAX,
        shared: bool = False,
        tls: "PortTls | None" = None,
        overload_delay_ms: int = 0,
        signed: bool = False,
    ) -> None:
        """`admin` is the address for operators; without it all listeners serve them. `shared`: other workers listen at
        the same addresses; `signed`: calls are signed. `overload_delay_ms` is how long sends may wait before some are
        refused, 0 for no limit."""
        with contextlib.ExitStack() as taken:
            self._sockets = [taken.enter_context(_bind_listener(listener.address, shared)) for listener in listeners]
            self._admin_socket = (
                None if admin is None else taken.enter_context(_bind_listener(admin, shared, option="--admin"))
            )
            taken.pop_all()
        # As messages and calls name them: with the bound port.
        self._listeners = {
            address: replace(listener, address=address)
            for listener, sock in zip(listeners, self._sockets, strict=True)
            for address in [actual_address(listener.address, sock)]
        }
        self.admin_address = (
            "" if admin is None or self._admin_socket is None else actual_address(admin, self._admin_socket)
        )
        """`host:port` of the listener for operators, empty if there is none."""
        self.figures = self._figures = FrontFigures(self._read_traffic)
        """The figures of the front."""
        observability.watch_front(self._figures)
        self._observability = observability
        self._methods: dict[str, ServedMethod] = {}
        self._admin_methods: dict[str, ServedMethod] = {} if self.admin_address else self._methods
        headers = kept_headers(signed=signed)
        self._server = CallServer(
            self._methods.get,
            headers=headers,
            budgets=budgets,
            connections_max=connections_max,
            tls=tls,
            on_closed=self._forget_connection,
        )
        self._servers = [self._server]
        if self.admin_address:
            self._servers.append(
                CallServer(
                    self._admin_methods.get,
                    headers=headers,
                    budgets=budgets,
                    connections_max=ADMIN_CONNECTIONS_MAX,
                    tls=tls,
                    on_closed=self._forget_connection,
                )
            )
        self._health = HealthService(("", MESSAGING_SERVICE.full_name))
        self._started = False
        self._deliveries = AnswerDeliveries(self._figures)
        self._polls = WaitingPolls()
        self._refusals = RefusalLog(time.monotonic)
        self._overload_delay_ms = overload_delay_ms
        self._overload: OverloadGuard | None = None
        self._services: Services
        self._delivered_traces: DeliveredTraces
        self._callers: ClientCallers

    def _read_traffic(self) -> TrafficFigures:
        passed: dict[str, int] = {}
        shedding = False
        for server in self._servers:
            for limit, times in server.limit_counts.items():
                passed[limit] = passed.get(limit, 0) + times
        if self._started:
            passed |= {f"quota_of_{kind}": times for kind, times in self._services.quotas.refused.copy().items()}
        if self._overload is not None:
            passed["overload"] = self._overload.shedder.refused
            shedding = self._overload.is_shedding
        return TrafficFigures(
            sum(len(server.connections) + len(server.openings) for server in self._servers),
            sum(server.ledger.held_bytes for server in self._servers),
            sum(server.ledger.unread_bytes for server in self._servers),
            passed,
            shedding,
        )

    @property
    def listener_addresses(self) -> list[str]:
        """`host:port` of each listener for clients, in order."""
        return list(self._listeners)

    @property
    def connection_count(self) -> int:
        """How many connections all listeners have."""
        return self._read_traffic().connections

    async def start(self, services: "Services") -> None:
        self._services = services
        self._delivered_traces = DeliveredTraces(services.handles)
        self._started = True
        if self._overload_delay_ms:
            self._overload = OverloadGuard(self._overload_delay_ms, self._server.ledger, self._figures)
        operators = {self.admin_address: ClientListener(self.admin_address)} if self.admin_address else {}
        self._callers = ClientCallers(services, self._listeners | operators, self._refusals)
        self.operator_calls = FrontOperatorCalls(services, self._figures)
        """The calls of operators by HTTP; set by `start`."""
        self._add_methods(ClientConversations(services, self._callers, self._figures, self._polls))
        for address, sock in zip(self._listeners, self._sockets, strict=True):
            await self._server.add_listener(sock, address)
        if self._admin_socket is not None:
            await self._servers[-1].add_listener(self._admin_socket, self.admin_address)

    def _add_methods(self, conversations: ClientConversations) -> None:
        """Add the methods of all listeners, and those of operators, who have all the others too."""
        for name, call in messaging_calls().items():
            self._methods[f"/{MESSAGING_SERVICE.full_name}/{name}"] = self._served_method(
                MESSAGING_SERVICE.full_name, name, call
            )
        self._methods[f"/{MESSAGING_SERVICE.full_name}/Telemetry"] = conversations.telemetry_method()
        self._methods |= self._health.served_methods()
        operators = self._admin_methods
        operators |= self._methods
        administration = {ADMIN_SERVICE: admin_calls(), PUBLISHED_ADMIN_SERVICE: published_admin_calls()}
        for service, calls in administration.items():
            for name, call in calls.items():
                operators[f"/{service.full_name}/{name}"] = self._served_method(service.full_name, name, call)
        served = (MESSAGING_SERVICE, *administration)
        reflection = ReflectionService((*(service.full_name for service in served), HealthService.NAME))
        operators |= {
            path: conversations.for_users(path, method) for path, method in reflection.served_methods().items()
        }

    async def stop(self, grace_s: float) -> None:
        """Stop accepting calls; wait for running calls, at most `grace_s` seconds; end the Telemetry streams."""
        if not self._started:
            for sock in (*self._sockets, self._admin_socket):
                if sock is not None:
                    sock.close()
        self._health.report_not_serving()
        if self._overload is not None:
            self._overload.stop()
        await asyncio.gather(*(server.stop_serving(grace_s) for server in self._servers))
        await self._deliveries.wait_settled()

    def _forget_connection(self, note: object) -> None:
        """Forget a closed connection; there is none before `start`."""
        self._callers.forget_connection(note)

    def _served_method(self, service: str, name: str, call: UnaryCall | StreamedCall) -> ServedMethod:
        tracing = self._observability.tracing
        spans = None if tracing is None else CallSpans(service, name, tracing, self._delivered_traces)
        if isinstance(call, StreamedCall):
            return ServedMethod(self._streamed_server(name, call, spans))
        begun = None if call.begin is None or spans is not None else self._direct_server(name, call, call.begin)
        served = ServedMethod(self._unary_server(name, call, spans), serve_directly=begun)
        return self._overload.guard_method(served) if self._overload is not None and name == _SHED else served

    def _direct_server(self, name: str, call: UnaryCall, begin: BeginCall) -> "Callable[[ServedCall, bytes], bool]":
        figures, services = self._figures, self._services

        def serve_directly(served: ServedCall, data: bytes) -> bool:
            began = time.perf_counter()

            def send_answer(response: bytes, code: int) -> None:
                figures.bytes_in += len(data)
                figures.bytes_out += len(response)
                figures.record_call(name, code_name(code), time.perf_counter() - began)
                if code != _OK:
                    self._callers.log_refused(name, call.response.FromString(response).status, served)
                served.answer_directly(response)

            if len(data) > AT_ONCE_BYTES_MAX:
                return False
            try:
                client_call = self._callers.identify_caller(served, name)
                if client_call is not served.note:
                    return False  # the client's id is missing or illegal
                if client_call.identity is not None:
                    services.access.require_own_client(name, client_call, services)
                return begin(data, client_call, services, send_answer)
            except DecodeError:
                return False  # the ordinary way reports it
            except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
                response = call.response(status=status_of(error, name))
                send_answer(response.SerializeToString(), response.status.code)
                return True

        return serve_directly

    def _unary_server(self, name: str, call: UnaryCall, spans: CallSpans | None) -> "Serve":
        figures = self._figures
        size = RequestSize(call.request, self._services.request_limits)

        of_bytes = None if spans is not None else call.of_bytes

        async def serve_unary(served: ServedCall) -> None:
            outcome: CallOutcome | None = None
            with CallMeasurement(figures.record_call, name) as measured:
                try:
                    client_call = self._callers.identify_caller(served, name)
                    data = await self._read_bytes(served)
                    if of_bytes is not None and len(data) >= OF_BYTES_MIN and client_call is served.note:
                        measured.code = CUT
                        outcome = await self._outcome_of_bytes(
                            name, call, of_bytes(data, client_call, self._services), client_call
                        )
                        measured.code = UNPARSED
                    if outcome is None:
                        request = await self._parse_request(call.request, size, data)
                except MessagingError as error:
                    outcome = refused_outcome(call.response, status_of(error, name))
                if outcome is None:
                    measured.code = CUT
                    span = (
                        None
                        if spans is None
                        else spans.begin_span(request, client_call, served.headers.get(TRACEPARENT, ""))
                    )
                    with NOTHING if span is None else SpanContext(span):
                        outcome = await self._unary_outcome(name, call, request, client_call)
                measured.code = _code_of(outcome.status)
                answered = outcome.serialize_answer()
            if outcome.status.code != _OK:
                self._callers.log_refused(name, outcome.status, served)
            if answered is None:
                raise outcome.refusal_error()
            figures.bytes_out += len(answered)
            await served.finish_answer(answered)

        return serve_unary

    async def _outcome_of_bytes(
        self,
        name: str,
        call: UnaryCall,
        answering: "Awaitable[tuple[bytes, definition_pb2.Status] | None]",
        client_call: Call,
    ) -> CallOutcome | None:
        """Return the outcome of a call that is answered from its bytes, None if it must be answered in another way."""
        current_call.set(client_call)
        try:
            if client_call.identity is not None:
                self._services.access.require_own_client(name, client_call, self._services)
            answered = await answering
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
            return refused_outcome(call.response, status_of(error, name))
        return None if answered is None else CallOutcome(answered[1], answered[0])

    async def _unary_outcome(self, name: str, call: UnaryCall, request: Any, client_call: Call) -> CallOutcome:  # noqa: ANN401 - of the call's own type
        current_call.set(client_call)
        services = self._services
        try:
            if client_call.identity is not None:
                services.access.require_own_client(name, client_call, services)
            response = await call.activity(request, client_call, services)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
            status = status_of(error, name)
            mark_current_failed(_code_of(status))
            return refused_outcome(call.response, status)
        else:
            return answered_outcome(response)

    def _streamed_server(self, name: str, call: StreamedCall, spans: CallSpans | None) -> "Serve":
        figures = self._figures
        size = RequestSize(call.request, self._services.request_limits)

        async def serve_streamed(served: ServedCall) -> None:
            began_ns = 0 if spans is None else time.time_ns()
            with CallMeasurement(figures.record_poll, name) as measured:
                try:
                    identity = self._callers.identify_caller(served, name).identity
                    request = await self._read_request(call.request, size, served)
                    client_call = self._callers.make_call(served, identity)
                    if identity is not None:
                        self._services.access.require_own_client(name, client_call, self._services)
                except MessagingError as error:
                    refusal = call.response(status=status_of(error, name))
                    measured.code = _code_of(refusal.status)
                    self._callers.log_refused(name, refusal.status, served)
                    if error.code == ErrorCode.UNAUTHORIZED:
                        await asyncio.sleep(hold_s(self._callers.make_call(served), self._services))
                    await served.finish_answer(refusal.SerializeToString())
                    return
                measured.code = CUT
                client_call = structs.replace(
                    client_call, room=served.open_answer_room(), cancel=functools.partial(cancel_call, served)
                )
                delivery = self._deliveries.start_delivery(served, client_call, measured)
                with delivery:
                    answered = delivery.answered = await self._streamed_answer(name, call, request, client_call, served)
                    if answered.code != _OK:
                        self._callers.log_refused(name, call.response.FromString(answered.frames[0]).status, served)
                    if spans is not None:
                        parent = served.headers.get(TRACEPARENT, "")
                        delivery.span = spans.record_received(request, client_call, parent, answered, began_ns)

        return serve_streamed

    async def _streamed_answer(
        self,
        name: str,
        call: StreamedCall,
        request: Any,  # noqa: ANN401 - of the call's own type
        client_call: Call,
        served: ServedCall,
    ) -> "FramedAnswer":
        self._figures.polls_waiting += 1
        current_call.set(client_call)
        poll = None if call.nothing is None else self._polls.begin(client_call.client_id, served)
        try:
            return await call.activity(request, client_call, self._services)
        except asyncio.CancelledError:
            if poll is not None and poll.was_ended():
                assert call.nothing is not None
                return EndedPoll([call.nothing])
            raise
        finally:
            if poll is not None:
                self._polls.remove_poll(client_call.client_id, poll)
            self._figures.polls_waiting -= 1

    async def _read_request(self, kind: Any, size: RequestSize, served: ServedCall) -> Any:  # noqa: ANN401 - a message class
        """Return the parsed request. Raises MessagingError if it is too large."""
        return await self._parse_request(kind, size, await self._read_bytes(served))

    async def _read_bytes(self, served: ServedCall) -> bytes:
        """Return the bytes of the request."""
        data = await served.read_message()
        if data is None:
            raise CallRefused(GrpcStatus.INTERNAL, "the call ended without a request")
        self._figures.bytes_in += len(data)
        return data

    async def _parse_request(self, kind: Any, size: RequestSize, data: bytes) -> Any:  # noqa: ANN401 - a message class
        """Return the request in these bytes. Raises MessagingError if it is too large."""
        if len(data) > size.unlooked_bytes_max:
            await size.check_bytes(data)
        try:
            request = await parse_in_pieces(kind, data) if len(data) > PIECE_BYTES else kind.FromString(data)
        except DecodeError as error:
            raise invalid_message(kind) from error
        size.check_entries(request)
        return request


def _bind_listener(address: str, shared: bool, *, option: str = "--grpc") -> socket.socket:
    try:
        return bind_socket(address, shared=shared)
    except StartupError as error:
        raise explain_bind_error(address, error, protocol="gRPC", option=option) from error


def _code_of(status: "definition_pb2.Status") -> str:
    return code_name(status.code)
