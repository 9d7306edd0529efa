"""Serves conversations: Telemetry, and reflection, which is for users alone."""

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.eager import ensure_task
from ternmq_protos.v2.service_pb2 import TelemetryCommand
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.access.control import RightsRevoked, RightsWatch
from ternmq_proxy.call import Call, current_call
from ternmq_proxy.fronts.grpc.activities.status import status_of
from ternmq_proxy.fronts.grpc.activities.telemetry import serialize_command, telemetry
from ternmq_proxy.fronts.grpc.parsing import invalid_message
from ternmq_proxy.fronts.grpc.streams.revocation import cancel_call
from ternmq_proxy.fronts.grpc.streams.telemetry_stream import TelemetryStream
from ternmq_proxy.operations.client_life import detach_stream
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.fronts.grpc.callers import ClientCallers
    from ternmq_proxy.fronts.grpc.streams.waiting_polls import WaitingPolls
    from ternmq_proxy.services import Services
    from ternmq_runtime.observability.front_figures import FrontFigures

_FIRST_COMMAND_S: Final = 5.0
_NAME: Final = "Telemetry"


class ClientConversations:
    """Serves conversations with clients, each in a task of its own."""

    def __init__(
        self, services: "Services", callers: "ClientCallers", figures: "FrontFigures", polls: "WaitingPolls"
    ) -> None:
        self._services = services
        self._callers = callers
        self._figures = figures
        self._polls = polls
        self._serialize = functools.partial(serialize_command, store_host=services.store_host)

    def telemetry_method(self) -> ServedMethod:
        """Return the method for Telemetry: settings of clients, and commands to them."""
        return ServedMethod(self._serve_telemetry, is_conversation=True)

    def for_users(self, path: str, method: ServedMethod) -> ServedMethod:
        """Return the method restricted to authenticated users."""

        async def serve_user(served: ServedCall) -> None:
            try:
                self._callers.authenticate_caller(served, path)
            except NotAuthenticated as error:
                await _first_command(served)
                raise CallRefused(GrpcStatus.UNAUTHENTICATED, error.message) from error
            await method.serve(served)

        return ServedMethod(serve_user, is_conversation=True)

    async def _serve_telemetry(self, served: ServedCall) -> None:
        try:
            call = self._callers.make_call(served, self._callers.identify_caller(served, _NAME).identity)
        except NotAuthenticated as unknown:
            served.send_headers()
            await self._turn_away(unknown, served)
            return
        except MessagingError as error:
            raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED, error.message) from error
        # Rust considers its start done when the headers arrive.
        served.send_headers()
        stream = TelemetryStream(served, self._serialize)
        watch = RightsWatch(self._services.access, call, _NAME, [], functools.partial(cancel_call, served))
        self._services.access.watch(watch)
        self._figures.count_stream(call.client_id)
        in_order = False
        try:
            while (data := await served.read_message()) is not None:
                if not await self._answer_command(data, call, stream, watch, served):
                    return
                del data  # a stream waits for the next command for hours
                await asyncio.sleep(0)  # there may be thousands of them
            in_order = True
        except asyncio.CancelledError:
            if not watch.take_cancellation():
                raise
            await _end_stream(revoked := RightsRevoked(), status_of(revoked, _NAME), served)
        finally:
            self._services.access.remove_watch(watch)
            self._figures.uncount_stream(call.client_id)
            stream.close()
            if detach_stream(call.client_id, stream, self._services) and in_order:
                self._polls.end_client_polls(call.client_id)  # the client is about to leave

    async def _turn_away(self, error: NotAuthenticated, served: ServedCall) -> None:
        """End a Telemetry stream that is not authenticated."""
        status = status_of(error, _NAME)
        self._callers.log_refused(_NAME, status, served)
        await _first_command(served)
        await _end_stream(error, status, served)

    async def _answer_command(
        self, data: bytes, call: Call, stream: TelemetryStream, watch: RightsWatch, served: ServedCall
    ) -> bool:
        """Answer one command; return whether the conversation goes on."""
        self._figures.bytes_in += len(data)
        try:
            command = TelemetryCommand.FromString(data)
        except DecodeError as unreadable:
            raise invalid_message(TelemetryCommand) from unreadable
        current_call.set(call)
        try:
            self._services.access.require_own_client(_NAME, call, self._services)
            configured = await telemetry(command, call, self._services)
        except Exception as error:  # noqa: BLE001 - the outermost of this command; `status_of` logs
            status = status_of(error, _NAME)
            self._callers.log_refused(_NAME, status, served)
            await _end_stream(error, status, served)
            return False
        if configured is not None:
            if self._services.access.is_on:  # no check reads them otherwise, and there are thousands of streams
                watch.needs = configured.needs
            # Commands follow the first answer, which clients expect first.
            await stream.send_answer(configured.answer)
            self._services.clients.attach_stream(call.client_id, stream, user=call.user)
        return True


async def _first_command(served: ServedCall) -> None:
    """Wait for the first command of an unauthenticated stream: clients can't write to a stream that has ended, and
    would not see why."""
    await ensure_task()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_COMMAND_S):
            await served.read_message()


async def _end_stream(error: Exception, status: "definition_pb2.Status", served: ServedCall) -> None:
    """End a Telemetry stream as the error demands (`overview.md, Settings`); `status` is the error's status."""
    if int(status.code) in (ErrorCode.CLIENT_ID_REQUIRED, ErrorCode.UNAUTHORIZED):
        await served.finish_answer(TelemetryCommand(status=status).SerializeToString())
    elif isinstance(error, MessagingError):
        too_much = error.code == ErrorCode.TOO_MANY_REQUESTS
        raise CallRefused(GrpcStatus.RESOURCE_EXHAUSTED if too_much else GrpcStatus.INVALID_ARGUMENT, str(error))
    else:
        raise CallRefused(GrpcStatus.INTERNAL, status.message)
