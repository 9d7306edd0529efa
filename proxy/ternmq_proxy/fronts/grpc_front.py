"""The gRPC front: takes calls from official clients and tools, with health and reflection, on one port or several.

The outcome of a call is in its answer; a gRPC status other than OK means that the call could not be carried out as a
call (`producer.md` 1.3): bytes that don't parse, or settings that end a Telemetry stream.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from ternmq_common.errors import MessagingError
from ternmq_common.observability.figures import FrontFigures
from ternmq_common.observability.tracing import NOTHING, Within, mark_failed
from ternmq_common.server_settings import Listener
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import TelemetryCommand
from ternmq_proxy.activities.client_life import detach
from ternmq_proxy.activities.status import status_of
from ternmq_proxy.activities.telemetry import telemetry
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.call_spans import CallSpans
from ternmq_proxy.fronts.calls import ADMIN_SERVICE, MESSAGING_SERVICE, Streamed, Unary, admin_calls, messaging_calls
from ternmq_proxy.fronts.grpc_server import bound_server, check_free, start_described
from ternmq_proxy.fronts.telemetry_stream import TelemetryStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from grpc_health.v1.health.aio import HealthServicer

    from ternmq_common.observability.observability import Observability
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)

_LAST_ANSWERS_S = 0.1
_CODE_NAMES = {number: name for name, number in definition_pb2.Code.items()}
# What becomes of a call that gets no answer.
_UNPARSED, _CUT = "UNPARSED", "CUT"


class GrpcFront:
    """All listeners of a process; takes their addresses when made, serves from `start` on.

    Raises StartupError if one can't be had.
    """

    def __init__(self, listeners: "Sequence[Listener]", observability: "Observability") -> None:
        # All before the first is taken: gRPC keeps the port of a server that was never started.
        for listener in listeners:
            check_free(listener.address)
        figures = FrontFigures()
        observability.watch_front(figures)
        self._doors = [_Door(listener, figures, observability) for listener in listeners]

    @property
    def addresses(self) -> list[str]:
        """`host:port` of each listener, in their order."""
        return [door.listener.address for door in self._doors]

    async def start(self, services: "Services") -> None:
        for door in self._doors:
            await door.start(services)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls; let those under way end, at most `grace_s` seconds; end the Telemetry streams."""
        await asyncio.gather(*(door.stop(grace_s) for door in self._doors))


class _Door:
    """One listener, with a server of its own: so every call knows by which it came in."""

    def __init__(self, listener: Listener, figures: FrontFigures, observability: "Observability") -> None:
        self._figures = figures
        self._observability = observability
        self._server, address = bound_server(listener.address)
        self.listener = replace(listener, address=address)
        self._health: HealthServicer | None = None
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._services: Services

    async def start(self, services: "Services") -> None:
        self._services = services
        messaging = {name: self._handler(name, call) for name, call in messaging_calls().items()}
        messaging["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._converse, response_serializer=TelemetryCommand.SerializeToString
        )
        admin = {name: self._handler(name, call) for name, call in admin_calls().items()}
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(MESSAGING_SERVICE.full_name, messaging),
                grpc.method_handlers_generic_handler(ADMIN_SERVICE.full_name, admin),
            )
        )
        self._health = await start_described(self._server, (MESSAGING_SERVICE.full_name, ADMIN_SERVICE.full_name))

    async def stop(self, grace_s: float) -> None:
        if self._health is not None:
            await self._health.enter_graceful_shutdown()
        draining = asyncio.ensure_future(self._server.stop(grace_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        # What is left now is the sending of the last answers, and Telemetry streams, which have no end of their own.
        await self._server.stop(_LAST_ANSWERS_S)
        await draining

    @contextlib.contextmanager
    def _under_way(self) -> "Iterator[None]":
        """Count a call for `stop`, from its beginning to its last byte."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def _handler(self, name: str, call: Unary | Streamed) -> grpc.RpcMethodHandler:
        if isinstance(call, Streamed):
            return grpc.unary_stream_rpc_method_handler(self._streamed(name, call))
        return grpc.unary_unary_rpc_method_handler(self._unary(name, call))

    def _unary(self, name: str, call: Unary) -> "Callable[[bytes, aio.ServicerContext], Awaitable[bytes]]":
        figures, spans = self._figures, self._spans(name, call)

        async def answer(data: bytes, context: aio.ServicerContext) -> bytes:
            figures.bytes_in += len(data)
            with _Measured(figures.called, name) as measured:
                request = await _parsed(call.request, data, context)
                measured.code = _CUT
                with self._under_way():
                    made = self._call(context)
                    span = None if spans is None else spans.begin(request, made, context)
                    with NOTHING if span is None else Within(span):
                        response = await self._response(name, call, request, made)
                    measured.code = _code_of(response.status)
                    answered: bytes = response.SerializeToString()
            figures.bytes_out += len(answered)
            return answered

        return answer

    async def _response(self, name: str, call: Unary, request: Any, made: Call) -> Any:  # noqa: ANN401 - of the call's own types
        try:
            return await call.activity(request, made, self._services)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
            status = status_of(error, name)
            mark_failed(_code_of(status))
            return call.response(status=status)

    def _streamed(self, name: str, call: Streamed) -> "Callable[[bytes, aio.ServicerContext], Awaitable[None]]":
        figures, spans = self._figures, self._spans(name, call)

        async def answer(data: bytes, context: aio.ServicerContext) -> None:
            figures.bytes_in += len(data)
            began_ns = 0 if spans is None else time.time_ns()
            with _Measured(figures.polled, name) as measured:
                request = await _parsed(call.request, data, context)
                measured.code = _CUT
                with self._under_way():
                    made = self._call(context)
                    figures.polls_waiting += 1
                    try:
                        answered = await call.activity(request, made, self._services)
                    finally:
                        figures.polls_waiting -= 1
                    whole = False
                    try:
                        span = None if spans is None else spans.received(request, made, context, answered, began_ns)
                        with NOTHING if span is None else Within(span):
                            await self._write(answered.frames, context)
                        whole = True
                    finally:
                        if not whole:
                            await asyncio.shield(answered.undelivered())
                    measured.code = _code_of(call.response.FromString(answered.frames[0]).status)

        return answer

    async def _write(self, frames: list[bytes], context: aio.ServicerContext) -> None:
        for frame in frames:
            await context.write(frame)
            self._figures.bytes_out += len(frame)

    def _spans(self, name: str, call: Unary | Streamed) -> CallSpans | None:
        """What makes the spans of such calls; None in a process that makes none."""
        tracing = self._observability.tracing
        service = ADMIN_SERVICE if name in ADMIN_SERVICE.methods_by_name else MESSAGING_SERVICE
        return None if tracing is None else CallSpans(service.full_name, name, tracing)

    async def _converse(self, commands: "AsyncIterator[bytes]", context: aio.ServicerContext) -> None:
        call = self._call(context)
        # Rust takes its start for done when the headers arrive.
        await context.send_initial_metadata(())
        stream = TelemetryStream(context)
        self._figures.stream_began(call.client_id)
        try:
            async for data in commands:
                if not await self._heard(data, call, stream, context):
                    return
                del data  # a stream waits for the next command for hours
        finally:
            self._figures.stream_ended(call.client_id)
            stream.close()
            detach(call.client_id, stream, self._services)

    async def _heard(self, data: bytes, call: Call, stream: TelemetryStream, context: aio.ServicerContext) -> bool:
        """Answer one command; whether the conversation goes on."""
        self._figures.bytes_in += len(data)
        command = await _parsed(TelemetryCommand, data, context)
        try:
            answer = await telemetry(command, call, self._services)
        except Exception as error:  # noqa: BLE001 - the outermost of this command; `status_of` logs
            await _end_conversation(error, context)
            return False
        if answer is not None:
            # Commands come after the first answer: clients begin with it.
            await stream.answer(answer)
            self._services.clients.attach(call.client_id, stream)
        return True

    def _call(self, context: aio.ServicerContext) -> Call:
        # A key that comes several times counts with its last value: Go repeats all headers on each retry.
        metadata = dict(context.invocation_metadata() or ())
        return Call(
            client_id=metadata.get("x-mq-client-id", ""),
            language=metadata.get("x-mq-language", ""),
            version=metadata.get("x-mq-client-version", ""),
            peer=_address(context.peer()),
            listener=self.listener,
            remaining_s=context.time_remaining(),
        )


class _Measured:
    """Tells how long a call took, and what became of it. A class, as a generator costs several times as much."""

    __slots__ = ("_began", "_name", "_tell", "code")

    def __init__(self, tell: "Callable[[str, str, float], None]", name: str) -> None:
        self._tell = tell
        self._name = name
        self.code = _UNPARSED

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._tell(self._name, self.code, time.perf_counter() - self._began)


def _code_of(status: "definition_pb2.Status") -> str:
    return _CODE_NAMES.get(status.code) or str(status.code)


async def _parsed(kind: Any, data: bytes, context: aio.ServicerContext) -> Any:  # noqa: ANN401 - a message class
    """The request that `data` is. Bytes that are none end the call with INTERNAL; grpc itself would say UNKNOWN."""
    try:
        return kind.FromString(data)
    except DecodeError:
        await context.abort(grpc.StatusCode.INTERNAL, f"the bytes sent are no {kind.DESCRIPTOR.name}")


async def _end_conversation(error: Exception, context: aio.ServicerContext) -> None:
    """End a Telemetry stream as the contract says for the error (`producer.md` 5.5)."""
    status = status_of(error, "Telemetry")
    if status.code == definition_pb2.CLIENT_ID_REQUIRED:
        await context.write(TelemetryCommand(status=status))
    elif isinstance(error, MessagingError):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    else:
        await context.abort(grpc.StatusCode.INTERNAL, status.message)


def _address(peer: str) -> str:
    """`127.0.0.1:5000` of gRPC's `ipv4:127.0.0.1:5000`; what is of no such form as it is."""
    kind, _, address = peer.partition(":")
    return address.replace("%5B", "[").replace("%5D", "]") if kind in ("ipv4", "ipv6") else peer
