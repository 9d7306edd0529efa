"""The base class of the command's clients of gRPC services, and the failures of their calls."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from ternmq.admin.clients.plain_calls import BROKEN, PlainCalls
from ternmq_command.calls.access import current_access, explain_refusal
from ternmq_command.terminal.failures import (
    CallBroken,
    CallMissing,
    CommandFailure,
    ServerUnreachable,
    TlsRefused,
    WrongUsage,
)
from ternmq_protos.v2 import definition_pb2
from ternmq_rpc.grpc_http2.messages import GrpcStatus

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ternmq_rpc.grpc_stream.blocking_calls import BlockingConnection

CALL_TIMEOUT_S = 10
CLIENT_NAME = "ternmq-command"


class _StatusAnswer(Protocol):
    @property
    def status(self) -> definition_pb2.Status: ...


A = TypeVar("A", bound=_StatusAnswer)
I = TypeVar("I", bound="Message")  # noqa: E741  (an item of a stream)


class ServiceCalls(PlainCalls):
    """A client of one service, with one short connection and one client id; raises `Refused` and
    `ServerUnreachable`."""

    service: ClassVar[str]

    def __init__(self, endpoint: str) -> None:
        access = current_access()
        super().__init__(endpoint, name=CLIENT_NAME, tls=access.tls_options(), credentials=access.credentials())

    def _call_method(
        self, method: str, request: "Message", answer_type: type[A], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> A:
        """Call a method and return its answer, whose status is OK."""
        answer: A = self._answer_call(f"/{self.service}/{method}", request, answer_type, timeout_s)
        return answer

    def _call_stream(self, method: str, request: "Message", item_type: type[I]) -> Iterator[I]:
        """Call a streaming method and yield its items; the caller checks a status among them."""
        yield from map(
            item_type.FromString, self._exchange_messages(f"/{self.service}/{method}", request, CALL_TIMEOUT_S)
        )

    def _refusal_error(self, code: "definition_pb2.Code", message: str) -> Exception:
        return explain_refusal(code, message)

    def _open_connection(self, timeout_s: float) -> "BlockingConnection":
        if self._tls is None:
            return super()._open_connection(timeout_s)
        from ternmq.errors import UnusableFile

        try:
            return super()._open_connection(timeout_s)
        except UnusableFile as error:
            raise WrongUsage(str(error)) from None

    def _failure_error(self, status: int | None, details: str, timeout_s: float) -> Exception:
        return call_failure(self._endpoint, status, details, timeout_s=timeout_s, uses_tls=self._tls is not None)


def call_failure(
    endpoint: str, status: int | None, details: str, *, timeout_s: float = CALL_TIMEOUT_S, uses_tls: bool = False
) -> CommandFailure:
    """Return the failure for a gRPC status that is not OK, which a server never sends for a refusal.

    `status` is None if the connection broke.
    """
    if status is None or status == GrpcStatus.UNAVAILABLE:
        from ternmq.connections.tls import advise_on_failure

        advised, is_passing = advise_on_failure(details, uses_tls=uses_tls)
        if not is_passing:
            return TlsRefused(endpoint, advised)
        details = f"{details}; {advised}" if advised else details
        return ServerUnreachable(endpoint, "connection refused" if "refused" in details else details or "unavailable")
    if status == GrpcStatus.DEADLINE_EXCEEDED:
        return ServerUnreachable(endpoint, f"no answer within {timeout_s:g} s")
    if status == GrpcStatus.UNIMPLEMENTED:
        return CallMissing(
            f"the server at {endpoint} does not have this call; it is no TernMQ, or an older one, or it has another "
            "address for administration (its setting `admin`)"
        )
    failure = CallBroken if status in BROKEN else CommandFailure
    return failure(f"the call to {endpoint} failed: gRPC status {status}: {details}")
