"""One gRPC channel to one endpoint, and the calls of the protocol on it.

An error of gRPC becomes a `TransportError` that names the endpoint; code above this module does not see gRPC's errors.
Calls that fail because the channel was closed raise `NotRunning`.

Forks       grpc.aio has one thread for all channels of a process, which a forked child lacks: a channel that is opened
            there hangs, or crashes the process (grpcio 1.85, with any GRPC_ENABLE_FORK_SUPPORT). The thread ends
            with the last channel; if it ran at the fork, opening a channel in the child raises `NotRunning`.
            gRPC's core ends its own threads some 30 ms after that. After a fork in between, the child's core relies on
            threads that it lacks, and about one such child in fifty hung. So a fork waits for these threads.
"""

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message as Proto

from ternmq.connections.endpoints import Endpoints
from ternmq.connections.grpc_errors import error_of_call
from ternmq.connections.identity import ClientIdentity, Metadata
from ternmq.connections.send_request import SendRequest
from ternmq.errors import (
    ClientError,
    ConnectionFailed,
    NotRunning,
)
from ternmq.process.forks import run_around_forks
from ternmq.process.green_threads import check_threads
from ternmq_protos.v2 import service_pb2 as rpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq.connections.tls import TlsOptions

# How long a fork waits for gRPC's threads to end after the last channel was closed, and how often it checks.
THREADS_END_S = 5.0
THREADS_LOOK_S = 0.001
# It must see none so often in a row: a thread that has just begun has no name yet.
THREADS_LOOKS = 5
# The threads of gRPC's core (its event engine, its timers, its shutdown), as Linux names them.
_CORE_THREADS = ("event_engine", "lifeguard", "grpc_")
SERVICE = "/apache.rocketmq.v2.MessagingService/"
# A web proxy of the environment (`http_proxy`) is not the way to a broker: gRPC would use it even for addresses of this
# machine, and such a proxy mostly refuses ports other than the web's, and ends calls that wait.
NO_WEB_PROXY = ("grpc.enable_http_proxy", 0)
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Channels to one target share a connection by default: closing one client would then not close its connection,
    # and two producers of one process would queue behind each other.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


class SerializableRequest(Protocol):
    """A request, which is serialized when it is sent."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - as messages of protobuf have it


RequestT = TypeVar("RequestT", bound=SerializableRequest)
ResponseT = TypeVar("ResponseT", bound=Proto)


@dataclass(frozen=True)
class RpcMethod(Generic[RequestT, ResponseT]):
    """One method of a gRPC service."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]
    service: str = SERVICE


QUERY_ROUTE = RpcMethod("QueryRoute", rpc.QueryRouteRequest, rpc.QueryRouteResponse)
HEARTBEAT = RpcMethod("Heartbeat", rpc.HeartbeatRequest, rpc.HeartbeatResponse)
SEND_MESSAGE = RpcMethod("SendMessage", SendRequest, rpc.SendMessageResponse)
QUERY_ASSIGNMENT = RpcMethod("QueryAssignment", rpc.QueryAssignmentRequest, rpc.QueryAssignmentResponse)
RECEIVE_MESSAGE = RpcMethod("ReceiveMessage", rpc.ReceiveMessageRequest, rpc.ReceiveMessageResponse)
END_TRANSACTION = RpcMethod("EndTransaction", rpc.EndTransactionRequest, rpc.EndTransactionResponse)
ACK_MESSAGE = RpcMethod("AckMessage", rpc.AckMessageRequest, rpc.AckMessageResponse)
RECALL_MESSAGE = RpcMethod("RecallMessage", rpc.RecallMessageRequest, rpc.RecallMessageResponse)
CHANGE_INVISIBLE_DURATION = RpcMethod(
    "ChangeInvisibleDuration", rpc.ChangeInvisibleDurationRequest, rpc.ChangeInvisibleDurationResponse
)
FORWARD_TO_DEAD_LETTER_QUEUE = RpcMethod(
    "ForwardMessageToDeadLetterQueue",
    rpc.ForwardMessageToDeadLetterQueueRequest,
    rpc.ForwardMessageToDeadLetterQueueResponse,
)
PULL_MESSAGE = RpcMethod("PullMessage", rpc.PullMessageRequest, rpc.PullMessageResponse)
GET_OFFSET = RpcMethod("GetOffset", rpc.GetOffsetRequest, rpc.GetOffsetResponse)
UPDATE_OFFSET = RpcMethod("UpdateOffset", rpc.UpdateOffsetRequest, rpc.UpdateOffsetResponse)
QUERY_OFFSET = RpcMethod("QueryOffset", rpc.QueryOffsetRequest, rpc.QueryOffsetResponse)
SYNC_LITE_SUBSCRIPTION = RpcMethod(
    "SyncLiteSubscription", rpc.SyncLiteSubscriptionRequest, rpc.SyncLiteSubscriptionResponse
)
NOTIFY_CLIENT_TERMINATION = RpcMethod(
    "NotifyClientTermination", rpc.NotifyClientTerminationRequest, rpc.NotifyClientTerminationResponse
)


class CallEndpoint(Protocol):
    """Sends one request to one endpoint, by default with the client's request timeout; raises any `ClientError`."""

    async def __call__(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT, timeout_s: float = 0.0
    ) -> ResponseT: ...


class GrpcConnection:
    """A channel; it is created on the event loop that uses it."""

    def __init__(
        self, endpoints: Endpoints, identity: ClientIdentity, tls: "TlsOptions | None", *options: tuple[str, int]
    ) -> None:
        """`UnusableFile` if certificates or keys are not valid."""
        self.endpoints = endpoints
        self._tls = tls
        self._identity = identity
        self._closed = False
        _check_not_forked()
        self._channel: grpc.aio.Channel = open_channel(grpc.aio, endpoints.grpc_target, tls, *CHANNEL_OPTIONS, *options)
        _poller.channel_opened()
        self._callables: dict[str, Callable[..., Any]] = {}
        self._telemetry = self._channel.stream_stream(
            SERVICE + "Telemetry",
            request_serializer=rpc.TelemetryCommand.SerializeToString,
            response_deserializer=rpc.TelemetryCommand.FromString,
        )

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection, as far as gRPC knows."""
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def call_unary(
        self, method: RpcMethod[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        """Call a method once; the caller checks the answer's status."""
        self._check_open()
        call = self._callables.get(method.name)
        if call is None:
            call = self._callables[method.name] = self._channel.unary_unary(
                method.service + method.name,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
        try:
            if self._identity.may_have_changed:
                await self._identity.refresh_credentials()
            response: ResponseT = await call(request, timeout=timeout_s, metadata=self._identity.sign_metadata())
        except grpc.aio.AioRpcError as error:
            self._raise_typed(method.name, error)
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        return response

    async def call_streaming(
        self, method: RpcMethod[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[ResponseT]:
        """Call a method once, and yield the parts of the answer as they arrive."""
        self._check_open()
        call = self._callables.get(method.name)
        if call is None:
            call = self._callables[method.name] = self._channel.unary_stream(
                method.service + method.name,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
        answer = call(request, timeout=timeout_s, metadata=await self._current_metadata())
        try:
            async for part in answer:
                yield part
        except grpc.aio.AioRpcError as error:
            self._raise_typed(method.name, error)
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            answer.cancel()

    async def open_telemetry(self) -> "TelemetryStream":
        """Open the stream on which server and client exchange settings and commands."""
        self._check_open()
        metadata = await self._current_metadata()
        self._check_open()
        return TelemetryStream(self, self._telemetry(metadata=metadata))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._channel.close()
            # References to the channel would keep gRPC's thread alive.
            self._callables.clear()
            del self._telemetry, self._channel
            _poller.channels -= 1

    def describe_failure(self, name: str, error: grpc.aio.AioRpcError) -> ClientError:
        """Return the error of this library for a failed call."""
        return error_of_call(str(self.endpoints), name, error, uses_tls=self._tls is not None)

    async def _current_metadata(self) -> Metadata:
        if self._identity.may_have_changed:
            await self._identity.refresh_credentials()
        return self._identity.sign_metadata()

    def _check_open(self) -> None:
        if self._closed:
            self._raise_closed()

    def _raise_closed(self) -> NoReturn:
        raise NotRunning(f"the client was closed, and with it the connection to {self.endpoints}")

    def _raise_if_closed(self) -> None:
        """Closing the channel cancels its calls; only then a `CancelledError` isn't the caller's own."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            self._raise_closed()

    def _raise_typed(self, name: str, error: grpc.aio.AioRpcError) -> NoReturn:
        self._check_open()
        raise self.describe_failure(name, error) from None


class TelemetryStream:
    """The open Telemetry stream; one reader, any number of writers one after the other."""

    def __init__(self, connection: GrpcConnection, call: Any) -> None:  # noqa: ANN401 - grpc has no types
        self._connection = connection
        self._call = call
        self._writing = asyncio.Lock()

    async def write_command(self, command: rpc.TelemetryCommand) -> None:
        try:
            async with self._writing:  # gRPC takes one write at a time
                await self._call.write(command)
        except grpc.aio.AioRpcError as error:
            raise self._connection.describe_failure("Telemetry", error) from None
        except asyncio.InvalidStateError:
            raise ConnectionFailed(str(self._connection.endpoints), "the Telemetry stream has ended") from None

    async def end_writing(self) -> None:
        """End this side of the stream; the server sees that."""
        try:
            async with self._writing:
                await self._call.done_writing()
        except grpc.aio.AioRpcError as error:
            raise self._connection.describe_failure("Telemetry", error) from None

    async def read_command(self) -> rpc.TelemetryCommand | None:
        """Return the next command; None when the server ended the stream in order."""
        try:
            command = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._connection.describe_failure("Telemetry", error) from None
        return command if isinstance(command, rpc.TelemetryCommand) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.cancel()


def open_channel(kind: Any, target: str, tls: "TlsOptions | None", *options: tuple[str, int]) -> Any:  # noqa: ANN401 - grpc has no types
    """Open a channel of `grpc` or of `grpc.aio`, as all clients do. `UnusableFile` if certificates or keys are not
    valid, NotRunning where gRPC would hang."""
    check_threads()
    if tls is None:
        return kind.insecure_channel(target, options=(NO_WEB_PROXY, *options))
    named = (("grpc.ssl_target_name_override", tls.server_name),) if tls.server_name else ()
    credentials = tls.channel_credentials()
    return kind.secure_channel(target, credentials, options=(NO_WEB_PROXY, *options, *named))


class _GrpcThreads:
    """The threads of gRPC as far as forks are concerned; `channels` counts the open ones."""

    def __init__(self) -> None:
        self.channels = 0
        self.was_lost = False
        self._ends = False
        self._ran = False
        run_around_forks(self._await_end, self._note_fork)

    def channel_opened(self) -> None:
        self.channels += 1
        self._ends = True

    def _await_end(self) -> None:
        if self._ends and not self.channels:
            self._ends = False  # threads that stay belong to other code's channels: the next fork need not wait
            gc.collect()  # gRPC keeps calls of closed channels in cycles, and these keep the threads
            until, unseen = time.monotonic() + THREADS_END_S, 0
            while unseen < THREADS_LOOKS and time.monotonic() < until:
                unseen = 0 if _poller_thread() or _has_core_threads() else unseen + 1
                time.sleep(THREADS_LOOK_S)
        self._ran = _poller_thread() is not None

    def _note_fork(self) -> None:
        self.was_lost |= self._ran
        self.channels = 0


def _poller_thread() -> threading.Thread | None:
    return next((thread for thread in threading.enumerate() if "(_poll_wrapper)" in thread.name), None)


def _has_core_threads() -> bool:
    """Return whether gRPC's core has threads; False where the system does not list them (not Linux)."""
    for name in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            if name.read_text().startswith(_CORE_THREADS):
                return True
    return False


_poller = _GrpcThreads()


def _check_not_forked() -> None:
    """NotRunning if gRPC can't be used because this process was forked while its parent was connected."""
    if _poller.was_lost:
        raise NotRunning(
            "this process was forked while its parent was connected, and gRPC can't be used in both: fork before the "
            "first client is started or after the last one was closed, or start the process by 'spawn'"
        )
