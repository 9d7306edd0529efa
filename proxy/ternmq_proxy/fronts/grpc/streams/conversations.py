"""Calls that go on for as long as both sides like: Telemetry, and reflection, which is for users alone."""

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ternmq_common.eager import ensure_task
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.v2.service_pb2 import TelemetryCommand
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.access.control import RightsRevoked, Watch
from ternmq_proxy.call import Call, current_call
from ternmq_proxy.fronts.grpc.activities.status import status_of
from ternmq_proxy.fronts.grpc.activities.telemetry import serialize_command, telemetry
from ternmq_proxy.fronts.grpc.parsing import no_message
from ternmq_proxy.fronts.grpc.streams.revocation import cancel_call
from ternmq_proxy.fronts.grpc.streams.telemetry_stream import TelemetryStream
from ternmq_proxy.operations.client_life import detach
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.fronts.grpc.callers import Callers
    from ternmq_proxy.fronts.grpc.streams.waiting_polls import WaitingPolls
    from ternmq_proxy.services import Services
    from ternmq_runtime.observability.figures import FrontFigures

_FIRST_COMMAND_S = 5.0
_NAME = "Telemetry"


class Conversations:
    """Talks with clients, each in a task of its own."""

    def __init__(
        self, services: "Services", callers: "Callers", figures: "FrontFigures", polls: "WaitingPolls"
    ) -> None:
        self._services = services
        self._callers = callers
        self._figures = figures
        self._polls = polls
        self._serialize = functools.partial(serialize_command, store_host=services.store_host)

    def telemetry(self) -> ServedMethod:
        """Settings of clients, and commands to them."""
        return ServedMethod(self._converse, is_conversation=True)

    def for_users(self, path: str, method: ServedMethod) -> ServedMethod:
        """A conversation that is for those alone who say who they are."""

        async def serve(served: ServedCall) -> None:
            try:
                self._callers.identified(served, path)
            except NotAuthenticated as error:
                await _first_command(served)
                raise CallRefused(GrpcStatus.UNAUTHENTICATED, error.message) from error
            await method.serve(served)

        return ServedMethod(serve, is_conversation=True)

    async def _converse(self, served: ServedCall) -> None:
        try:
            call = self._callers.call(served, self._callers.caller(served, _NAME).identity)
        except NotAuthenticated as unknown:
            served.send_headers()
            await self._turn_away(unknown, served)
            return
        except MessagingError as error:
            raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED, error.message) from error
        # Rust takes its start for done when the headers arrive.
        served.send_headers()
        stream = TelemetryStream(served, self._serialize)
        watch = Watch(self._services.access, call, _NAME, [], functools.partial(cancel_call, served))
        self._services.access.watch(watch)
        self._figures.count_stream(call.client_id)
        in_order = False
        try:
            while (data := await served.read_message()) is not None:
                if not await self._heard(data, call, stream, watch, served):
                    return
                del data  # a stream waits for the next command for hours
                await asyncio.sleep(0)  # thousands may be there at once
            in_order = True
        except asyncio.CancelledError:
            if not watch.take_cancellation():
                raise
            await _end(revoked := RightsRevoked(), status_of(revoked, _NAME), served)
        finally:
            self._services.access.unwatch(watch)
            self._figures.uncount_stream(call.client_id)
            stream.close()
            if detach(call.client_id, stream, self._services) and in_order:
                self._polls.end(call.client_id)  # it is about to go

    async def _turn_away(self, error: NotAuthenticated, served: ServedCall) -> None:
        """End a Telemetry stream of nobody."""
        status = status_of(error, _NAME)
        self._callers.refused(_NAME, status, served)
        await _first_command(served)
        await _end(error, status, served)

    async def _heard(self, data: bytes, call: Call, stream: TelemetryStream, watch: Watch, served: ServedCall) -> bool:
        """Answer one command; whether the conversation goes on."""
        self._figures.bytes_in += len(data)
        try:
            command = TelemetryCommand.FromString(data)
        except DecodeError as unreadable:
            raise no_message(TelemetryCommand) from unreadable
        current_call.set(call)
        try:
            self._services.access.require_own_client(_NAME, call, self._services)
            configured = await telemetry(command, call, self._services)
        except Exception as error:  # noqa: BLE001 - the outermost of this command; `status_of` logs
            status = status_of(error, _NAME)
            self._callers.refused(_NAME, status, served)
            await _end(error, status, served)
            return False
        if configured is not None:
            if self._services.access.is_on:  # else nobody looks, and each of thousands of streams would keep them
                watch.asked = configured.needs
            # Commands come after the first answer: clients begin with it.
            await stream.answer(configured.answer)
            self._services.clients.attach(call.client_id, stream, user=call.user)
        return True


async def _first_command(served: ServedCall) -> None:
    """Wait for what a stream of nobody begins with: clients can't write to one that has ended, and would not hear
    why."""
    await ensure_task()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_COMMAND_S):
            await served.read_message()


async def _end(error: Exception, status: "definition_pb2.Status", served: ServedCall) -> None:
    """End a Telemetry stream as the error demands (`overview.md, Settings`), of which that is the status."""
    if int(status.code) in (ErrorCode.CLIENT_ID_REQUIRED, ErrorCode.UNAUTHORIZED):
        await served.finish_answer(TelemetryCommand(status=status).SerializeToString())
    elif isinstance(error, MessagingError):
        too_much = error.code == ErrorCode.TOO_MANY_REQUESTS
        raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED if too_much else GrpcStatus.INVALID_ARGUMENT, str(error))
    else:
        raise CallRefused(GrpcStatus.INTERNAL, status.message)
