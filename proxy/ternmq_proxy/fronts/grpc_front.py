"""The gRPC front: takes calls from official clients and tools, with health and reflection, on one port or several.

The outcome of a call is in its answer; a gRPC status other than OK means that the call could not be carried out as a
call (`overview.md, Status codes`): bytes that don't parse, or settings that end a Telemetry stream.
"""

import asyncio
import contextlib
import functools
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from ternmq_common.eager import in_task
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.printable import problem_of_name
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import TelemetryCommand
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.access.control import AUTHORIZATION, DATE, REVOKED, Watch
from ternmq_proxy.activities.client_life import detach
from ternmq_proxy.activities.receive_message import hold_s
from ternmq_proxy.activities.status import status_of
from ternmq_proxy.activities.telemetry import telemetry
from ternmq_proxy.call import Call, current_call
from ternmq_proxy.fronts.call_spans import TRACEPARENT, CallSpans
from ternmq_proxy.fronts.calls import (
    ADMIN_SERVICE,
    AT_ONCE_BYTES_MAX,
    MESSAGING_SERVICE,
    Answered,
    Begin,
    Streamed,
    Unary,
    admin_calls,
    messaging_calls,
)
from ternmq_proxy.fronts.deliveries import Deliveries
from ternmq_proxy.fronts.health import Health
from ternmq_proxy.fronts.measured import CUT, Measured, code_name
from ternmq_proxy.fronts.overload import Overload
from ternmq_proxy.fronts.parsing import PIECE_BYTES, parsed_in_pieces
from ternmq_proxy.fronts.reflection import Reflection
from ternmq_proxy.fronts.refusals import RefusalLog
from ternmq_proxy.fronts.request_size import RequestSize
from ternmq_proxy.fronts.telemetry_stream import TelemetryStream
from ternmq_rpc.grpc_http2.messages import Status
from ternmq_rpc.grpc_stream.call_server import CONNECTIONS_MAX, CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.grpc_stream.sockets import bound, grpc_refused, named
from ternmq_runtime.observability.figures import FrontFigures, Traffic
from ternmq_runtime.observability.tracing import NOTHING, Within, mark_failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.server_settings import Listener
    from ternmq_proxy.access.authentication import Identity
    from ternmq_proxy.access.needs import Asked
    from ternmq_proxy.services import Services
    from ternmq_rpc.grpc_http2.budgets import Budgets
    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.observability.observability import Observability

    Serve = Callable[[ServedCall], Awaitable[None]]

_OK: int = definition_pb2.OK
# The call that is refused in an overload: it makes work for all, and its client repeats it.
_SHED = "SendMessage"
_FIRST_COMMAND_S = 5.0
_CLIENT_ID, _LANGUAGE, _VERSION = "x-mq-client-id", "x-mq-language", "x-mq-client-version"


class GrpcFront:
    """All listeners of a process; takes their addresses when made, serves from `start` on.

    Raises StartupError if one can't be had.
    """

    def __init__(
        self,
        listeners: "Sequence[Listener]",
        observability: "Observability",
        *,
        budgets: "Budgets | None" = None,
        connections_max: int = CONNECTIONS_MAX,
        shared: bool = False,
        tls: "PortTls | None" = None,
        overload_delay_ms: int = 0,
        signed: bool = False,
    ) -> None:
        """`shared`: other workers have the same addresses; `signed`: calls say whose they are. `overload_delay_ms`: how
        long sends may wait before some are refused, 0 for ever."""
        with contextlib.ExitStack() as taken:
            self._sockets = [taken.enter_context(_bound(listener.address, shared)) for listener in listeners]
            taken.pop_all()
        # As messages and calls name them: with the port that is bound.
        self._listeners = {
            address: replace(listener, address=address)
            for listener, sock in zip(listeners, self._sockets, strict=True)
            for address in [named(listener.address, sock)]
        }
        self._figures = FrontFigures(self._traffic)
        observability.watch_front(self._figures)
        self._observability = observability
        self._methods: dict[str, ServedMethod] = {}
        self._server = CallServer(
            self._methods.get,
            headers=(_CLIENT_ID, _LANGUAGE, _VERSION, TRACEPARENT, *((AUTHORIZATION, DATE) if signed else ())),
            budgets=budgets,
            connections_max=connections_max,
            tls=tls,
            gone=self._gone,
        )
        self._health = Health(("", MESSAGING_SERVICE.full_name))
        self._started = False
        self._deliveries = Deliveries(self._figures)
        self._refusals = RefusalLog(time.monotonic)
        self._overload_delay_ms = overload_delay_ms
        self._overload: Overload | None = None
        self._services: Services

    def _traffic(self) -> Traffic:
        server = self._server
        passed, shedding = server.passed, False
        if self._started:
            passed |= {f"quota_of_{kind}": times for kind, times in self._services.quotas.refused.copy().items()}
        if self._overload is not None:
            passed["overload"] = self._overload.shedder.refused
            shedding = self._overload.is_shedding
        connections = len(server.connections) + len(server.openings)
        return Traffic(connections, server.ledger.held, server.ledger.unread, passed, shedding)

    @property
    def addresses(self) -> list[str]:
        """`host:port` of each listener, in their order."""
        return list(self._listeners)

    async def start(self, services: "Services") -> None:
        self._services = services
        self._started = True
        if self._overload_delay_ms:
            self._overload = Overload(self._overload_delay_ms, self._figures)
            self._overload.start()
        for service, calls in ((MESSAGING_SERVICE, messaging_calls()), (ADMIN_SERVICE, admin_calls())):
            for name, call in calls.items():
                self._methods[f"/{service.full_name}/{name}"] = self._method(service.full_name, name, call)
        self._methods[f"/{MESSAGING_SERVICE.full_name}/Telemetry"] = ServedMethod(self._converse, talks=True)
        self._methods |= self._health.methods()
        reflection = Reflection((MESSAGING_SERVICE.full_name, ADMIN_SERVICE.full_name, Health.NAME))
        self._methods |= {path: self._for_users(path, method) for path, method in reflection.methods().items()}
        for address, sock in zip(self._listeners, self._sockets, strict=True):
            await self._server.listen(sock, address)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls; let those under way end, at most `grace_s` seconds; end the Telemetry streams."""
        if not self._started:
            for sock in self._sockets:
                sock.close()
        self._health.end()
        if self._overload is not None:
            self._overload.stop()
        await self._server.stop(grace_s)
        await self._deliveries.settled()

    def _method(self, service: str, name: str, call: Unary | Streamed) -> ServedMethod:
        tracing = self._observability.tracing
        spans = None if tracing is None else CallSpans(service, name, tracing)
        if isinstance(call, Streamed):
            return ServedMethod(self._streamed(name, call, spans))
        begun = None if call.begin is None or spans is not None else self._begun(name, call, call.begin)
        served = ServedMethod(self._unary(name, call, spans), at_once=begun)
        return self._overload.guarded(served) if self._overload is not None and name == _SHED else served

    def _begun(self, name: str, call: Unary, begin: Begin) -> "Callable[[ServedCall, bytes], bool]":
        figures, services = self._figures, self._services

        def at_once(served: ServedCall, data: bytes) -> bool:
            began = time.perf_counter()

            def answer(response: bytes, code: int) -> None:
                figures.bytes_in += len(data)
                figures.bytes_out += len(response)
                figures.called(name, code_name(code), time.perf_counter() - began)
                if code != _OK:
                    self._refused(name, call.response.FromString(response).status, served)
                served.answer(response)

            if len(data) > AT_ONCE_BYTES_MAX:
                return False
            try:
                made = self._caller(served, name)
                if made is not served.note:
                    return False  # the client's id is missing, or none
                if made.identity is not None:
                    services.access.require_own_client(name, made, services)
                return begin(data, made, services, answer)
            except DecodeError:
                return False  # which says so
            except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
                response = call.response(status=status_of(error, name))
                answer(response.SerializeToString(), response.status.code)
                return True

        return at_once

    def _caller(self, served: ServedCall, name: str) -> Call:
        """The call as far as it is like others of its client on this connection: how long it may last is not said.
        Noted, if it names a client. NotAuthenticated if nobody knows whose it is; TOO_MANY_REQUESTS if that client, or
        its user, has as many connections as it may."""
        known = served.note
        client_id = served.headers.get(_CLIENT_ID, "")
        if (
            isinstance(known, Call)
            and known.client_id == client_id
            and self._services.access.is_same(known.identity, served.headers)
        ):
            return known
        call = replace(self._call(served, self._identified(served, name)), remaining_s=None)
        if client_id.strip() and not problem_of_name(client_id):
            self._connect(served, call)
            served.note = call
        return call

    def _connect(self, served: ServedCall, call: Call) -> None:
        """Count the connection as that client's and user's, unless it is already."""
        known = served.note
        if isinstance(known, Call) and (known.client_id, known.user) == (call.client_id, call.user):
            return
        self._gone(known)
        served.note = None
        self._services.quotas.connect(call.user, call.client_id)

    def _gone(self, note: object) -> None:
        """A connection is that client's no more."""
        if isinstance(note, Call):
            self._services.quotas.disconnect(note.user, note.client_id)

    def _identified(self, served: ServedCall, name: str) -> "Identity | None":
        client_id = served.headers.get(_CLIENT_ID, "")
        return self._services.access.identified(served.headers, name, client_id, served.peer)

    def _for_users(self, path: str, method: ServedMethod) -> ServedMethod:
        """A conversation that is for those alone who say who they are."""

        async def serve(served: ServedCall) -> None:
            try:
                self._identified(served, path)
            except NotAuthenticated as error:
                await _first_command(served)
                raise CallRefused(Status.UNAUTHENTICATED, error.message) from error
            await method.serve(served)

        return ServedMethod(serve, talks=True)

    def _unary(self, name: str, call: Unary, spans: CallSpans | None) -> "Serve":
        figures = self._figures
        size = RequestSize(call.request, self._services.request_limits)

        async def answer(served: ServedCall) -> None:
            with Measured(figures.called, name) as measured:
                try:
                    made = self._caller(served, name)
                    request = await self._request(call.request, size, served)
                except MessagingError as error:
                    response = call.response(status=status_of(error, name))
                else:
                    measured.code = CUT
                    span = None if spans is None else spans.begin(request, made, served.headers.get(TRACEPARENT, ""))
                    with NOTHING if span is None else Within(span):
                        response = await self._response(name, call, request, made)
                measured.code = _code_of(response.status)
                answered: bytes = response.SerializeToString()
            figures.bytes_out += len(answered)
            if response.status.code != _OK:
                self._refused(name, response.status, served)
            await served.finish(answered)

        return answer

    async def _response(self, name: str, call: Unary, request: Any, made: Call) -> Any:  # noqa: ANN401 - of the call's own types
        current_call.set(made)
        services = self._services
        try:
            await services.access.check(name, request, made, services)
            response = await call.activity(request, made, services)
            services.access.cut(name, request, response, made)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
            status = status_of(error, name)
            mark_failed(_code_of(status))
            return call.response(status=status)
        else:
            return response

    def _streamed(self, name: str, call: Streamed, spans: CallSpans | None) -> "Serve":
        figures = self._figures
        size = RequestSize(call.request, self._services.request_limits)

        async def answer(served: ServedCall) -> None:
            began_ns = 0 if spans is None else time.time_ns()
            with Measured(figures.polled, name) as measured:
                try:
                    identity = self._caller(served, name).identity
                    request = await self._request(call.request, size, served)
                    made = self._call(served, identity)
                    asked = await self._services.access.check(name, request, made, self._services)
                except MessagingError as error:
                    refused = call.response(status=status_of(error, name))
                    measured.code = _code_of(refused.status)
                    self._refused(name, refused.status, served)
                    if error.code == definition_pb2.UNAUTHORIZED:
                        await asyncio.sleep(hold_s(self._call(served)))
                    await served.finish(refused.SerializeToString())
                    return
                measured.code = CUT
                made = replace(made, room=served.room())
                delivery = self._deliveries.to(served, made, measured)
                with delivery:
                    answered = delivery.answered = await self._answered(name, call, request, made, asked, served)
                    if answered.code != _OK:
                        self._refused(name, call.response.FromString(answered.frames[0]).status, served)
                    if spans is not None:
                        parent = served.headers.get(TRACEPARENT, "")
                        delivery.span = spans.received(request, made, parent, answered, began_ns)

        return answer

    async def _answered(
        self,
        name: str,
        call: Streamed,
        request: Any,  # noqa: ANN401 - of the call's own type
        made: Call,
        asked: "list[Asked]",
        served: ServedCall,
    ) -> "Answered":
        self._figures.polls_waiting += 1
        current_call.set(made)
        watch = Watch(made, name, asked, functools.partial(_cancel, served))
        self._services.access.watch(watch)
        try:
            return await call.activity(request, made, self._services)
        except asyncio.CancelledError:
            if not _was_revoked(watch):
                raise
            return _Revoked([call.response(status=status_of(REVOKED, name)).SerializeToString()])
        finally:
            self._services.access.unwatch(watch)
            self._figures.polls_waiting -= 1

    async def _request(self, kind: Any, size: RequestSize, served: ServedCall) -> Any:  # noqa: ANN401 - a message class
        """The request; MessagingError if it holds too much."""
        data = await served.read()
        if data is None:
            raise CallRefused(Status.INTERNAL, "the call ended without a request")
        self._figures.bytes_in += len(data)
        if len(data) > size.unlooked_bytes_max:
            await size.check_bytes(data)
        try:
            request = await parsed_in_pieces(kind, data) if len(data) > PIECE_BYTES else kind.FromString(data)
        except DecodeError as error:
            raise _no_message(kind) from error
        size.check_entries(request)
        return request

    async def _converse(self, served: ServedCall) -> None:
        try:
            call = self._call(served, self._caller(served, "Telemetry").identity)
        except NotAuthenticated as error:
            served.begin()
            await self._turn_away(error, served)
            return
        except MessagingError as error:
            raise CallRefused(Status.RESOURCE_EXHAUSTED, error.message) from error
        # Rust takes its start for done when the headers arrive.
        served.begin()
        stream = TelemetryStream(served)
        watch = Watch(call, "Telemetry", [], functools.partial(_cancel, served))
        self._services.access.watch(watch)
        self._figures.stream_began(call.client_id)
        try:
            while (data := await served.read()) is not None:
                if not await self._heard(data, call, stream, watch, served):
                    return
                del data  # a stream waits for the next command for hours
                await asyncio.sleep(0)  # thousands may be there at once
        except asyncio.CancelledError:
            if not _was_revoked(watch):
                raise
            await _end_conversation(REVOKED, status_of(REVOKED, "Telemetry"), served)
        finally:
            self._services.access.unwatch(watch)
            self._figures.stream_ended(call.client_id)
            stream.close()
            detach(call.client_id, stream, self._services)

    async def _turn_away(self, error: NotAuthenticated, served: ServedCall) -> None:
        """End a Telemetry stream of nobody."""
        status = status_of(error, "Telemetry")
        self._refused("Telemetry", status, served)
        await _first_command(served)
        await _end_conversation(error, status, served)

    async def _heard(self, data: bytes, call: Call, stream: TelemetryStream, watch: Watch, served: ServedCall) -> bool:
        """Answer one command; whether the conversation goes on."""
        self._figures.bytes_in += len(data)
        try:
            command = TelemetryCommand.FromString(data)
        except DecodeError as error:
            raise _no_message(TelemetryCommand) from error
        current_call.set(call)
        try:
            asked = await self._services.access.check("Telemetry", command, call, self._services)
            answer = await telemetry(command, call, self._services)
        except Exception as error:  # noqa: BLE001 - the outermost of this command; `status_of` logs
            status = status_of(error, "Telemetry")
            self._refused("Telemetry", status, served)
            await _end_conversation(error, status, served)
            return False
        if answer is not None:
            watch.asked = asked
            # Commands come after the first answer: clients begin with it.
            await stream.answer(answer)
            self._services.clients.attach(call.client_id, stream, user=call.user)
        return True

    def _refused(self, name: str, status: "definition_pb2.Status", served: ServedCall) -> None:
        client_id = served.headers.get(_CLIENT_ID, "")
        self._refusals.say(name, status.code, status.message, client_id=client_id, peer=served.peer)

    def _call(self, served: ServedCall, identity: "Identity | None" = None) -> Call:
        headers = served.headers
        return Call(
            client_id=headers.get(_CLIENT_ID, ""),
            language=headers.get(_LANGUAGE, ""),
            version=headers.get(_VERSION, ""),
            peer=served.peer,
            user="" if identity is None else identity.user,
            identity=identity,
            listener=self._listeners[served.listener],
            remaining_s=served.remaining_s(),
        )


class _Revoked:
    """The answer to a poll that was allowed no more, which took nothing."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.code: int = REVOKED.code

    async def undelivered(self) -> None:
        """There is nothing to give back."""


async def _first_command(served: ServedCall) -> None:
    """Wait for what a stream of nobody begins with: clients can't write to one that has ended, and would not hear
    why."""
    await in_task()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_COMMAND_S):
            await served.read()


def _cancel(served: ServedCall) -> None:
    if served.task is not None:
        served.task.cancel()


def _was_revoked(watch: Watch) -> bool:
    """Whether that is why the call was cancelled; it goes on then, to say so."""
    task = asyncio.current_task()
    if watch.is_revoked and task is not None:
        task.uncancel()
    return watch.is_revoked


def _bound(address: str, shared: bool) -> socket.socket:
    try:
        return bound(address, shared=shared)
    except StartupError as error:
        raise grpc_refused(address, error) from error


def _code_of(status: "definition_pb2.Status") -> str:
    return code_name(status.code)


def _no_message(kind: Any) -> CallRefused:  # noqa: ANN401 - a message class
    return CallRefused(Status.INTERNAL, f"the bytes sent are no {kind.DESCRIPTOR.name}")


async def _end_conversation(error: Exception, status: "definition_pb2.Status", served: ServedCall) -> None:
    """End a Telemetry stream as the error demands (`overview.md, Settings`), of which that is the status."""
    if status.code in (definition_pb2.CLIENT_ID_REQUIRED, definition_pb2.UNAUTHORIZED):
        await served.finish(TelemetryCommand(status=status).SerializeToString())
    elif isinstance(error, MessagingError):
        too_much = error.code == definition_pb2.TOO_MANY_REQUESTS
        raise CallRefused(Status.RESOURCE_EXHAUSTED if too_much else Status.INVALID_ARGUMENT, str(error))
    else:
        raise CallRefused(Status.INTERNAL, status.message)
