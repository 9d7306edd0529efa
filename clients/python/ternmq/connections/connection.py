"""One connection to one endpoint, and the calls of the protocol on it.

An error of a call becomes a `TransportError` that names the endpoint; code above this module does not see those of
`ternmq_rpc`. Calls that fail because the connection was closed raise `NotRunning`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, Self, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from ternmq.connections.endpoints import Endpoints
from ternmq.connections.grpc_errors import error_of_call
from ternmq.connections.identity import ClientIdentity, Metadata
from ternmq.connections.send_request import SendRequest
from ternmq.errors import ClientError, NotRunning
from ternmq.process.green_threads import check_threads
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.channel import Channel

if TYPE_CHECKING:
    from ternmq.connections.tls import TlsOptions
    from ternmq_rpc.grpc_stream.calls_connection import ClientCall

SERVICE = "/apache.rocketmq.v2.MessagingService/"


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

    @cached_property
    def path(self) -> str:
        """The method by its full name."""
        return self.service + self.name


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
    """A connection, which is opened by the first call, and again when it was lost; it belongs to the event loop that
    creates it."""

    def __init__(
        self, endpoints: Endpoints, identity: ClientIdentity, tls: "TlsOptions | None", *, repeats: bool = True
    ) -> None:
        """`repeats`: calls that a server refused without looking at them are repeated on another connection.
        `UnusableFile` if certificates or keys are not valid, NotRunning where the event loop would hang."""
        check_threads()
        self.endpoints = endpoints
        self._tls = tls
        self._identity = identity
        self._closed = False
        self._channel = Channel(
            endpoints.addresses,
            tls=None if tls is None else tls.ssl_context(),
            server_name=None if tls is None else tls.server_name,
            repeats=repeats,
        )

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection."""
        return self._channel.is_ready

    async def call_unary(
        self, method: RpcMethod[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        """Call a method once; the caller checks the answer's status."""
        if self._closed:
            self._raise_closed()
        identity = self._identity
        try:
            if identity.may_have_changed:
                await identity.refresh_credentials()
            answer = await self._channel.call_unary(
                method.path, identity.sign_metadata(), request.SerializeToString(), timeout_s
            )
        except StreamBroken as broken:
            self._raise_typed(method.name, broken)
        return self._read_part(method, answer)

    async def call_streaming(
        self, method: RpcMethod[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> AsyncIterator[list[ResponseT]]:
        """Call a method once, and yield the parts of the answer as they arrive: those that are there together."""
        try:
            call = await self._open_call(method.path, connect_timeout_s=timeout_s, timeout_s=timeout_s)
            try:
                call.send_request(request.SerializeToString())
                while parts := await call.read_all():
                    yield [self._read_part(method, part) for part in parts]
            finally:
                call.abort_stream("the caller reads no further")
        except StreamBroken as broken:
            self._raise_typed(method.name, broken)

    async def open_telemetry(self, *, timeout_s: float) -> "TelemetryStream":
        """Open the stream on which server and client exchange settings and commands. `timeout_s`: how long to wait for
        a connection."""
        try:
            return TelemetryStream(self, await self._open_call(SERVICE + "Telemetry", connect_timeout_s=timeout_s))
        except StreamBroken as broken:
            self._raise_typed("Telemetry", broken)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._channel.close()

    def describe_failure(self, name: str, broken: StreamBroken) -> ClientError:
        """Return the error of this library for a failed call."""
        return error_of_call(str(self.endpoints), name, broken, uses_tls=self._tls is not None)

    def _read_part(self, method: RpcMethod[RequestT, ResponseT], data: bytes) -> ResponseT:
        try:
            return method.response.FromString(data)
        except DecodeError:
            broken = StreamBroken("the answer can't be read", status=GrpcStatus.INTERNAL)
            raise self.describe_failure(method.name, broken) from None

    async def _open_call(self, path: str, *, connect_timeout_s: float, timeout_s: float = 0.0) -> "ClientCall":
        self._check_open()
        metadata = await self._current_metadata()
        self._check_open()
        return await self._channel.open_call(path, metadata, connect_timeout_s=connect_timeout_s, timeout_s=timeout_s)

    async def _current_metadata(self) -> Metadata:
        if self._identity.may_have_changed:
            await self._identity.refresh_credentials()
        return self._identity.sign_metadata()

    def _check_open(self) -> None:
        if self._closed:
            self._raise_closed()

    def _raise_closed(self) -> NoReturn:
        raise NotRunning(f"the client was closed, and with it the connection to {self.endpoints}")

    def _raise_typed(self, name: str, broken: StreamBroken) -> NoReturn:
        self._check_open()
        raise self.describe_failure(name, broken) from None


class TelemetryStream:
    """The open Telemetry stream; one reader, any number of writers."""

    def __init__(self, connection: GrpcConnection, call: "ClientCall") -> None:
        self._connection = connection
        self._call = call

    async def write_command(self, command: rpc.TelemetryCommand) -> None:
        try:
            self._call.write_messages(command.SerializeToString())
            await self._call.wait_drained()
        except StreamBroken as broken:
            raise self._connection.describe_failure("Telemetry", broken) from None

    async def end_writing(self) -> None:
        """End this side of the stream; the server sees that."""
        try:
            await self._call.end_stream()
        except StreamBroken as broken:
            raise self._connection.describe_failure("Telemetry", broken) from None

    async def read_command(self) -> rpc.TelemetryCommand | None:
        """Return the next command; None when the server ended the stream in order."""
        try:
            command = await self._call.read_message()
        except StreamBroken as broken:
            raise self._connection.describe_failure("Telemetry", broken) from None
        return None if command is None else rpc.TelemetryCommand.FromString(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.abort_stream("the session has ended")
