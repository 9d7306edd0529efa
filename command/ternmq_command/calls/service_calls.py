"""The base class of the command's clients of gRPC services, and the failures of their calls."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from ternmq.plain_calls import BROKEN, PlainCalls
from ternmq_command.calls.access import access, refused
from ternmq_command.terminal.failures import (
    CallBroken,
    CallMissing,
    CommandFailure,
    TlsRefused,
    Unreachable,
    WrongUsage,
)
from ternmq_protos.v2 import definition_pb2
from ternmq_rpc.grpc_http2.messages import Status

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ternmq_rpc.grpc_stream.blocking_calls import BlockingConnection

CALL_TIMEOUT_S = 10
CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1),)
CLIENT_NAME = "ternmq-command"


class _Answer(Protocol):
    @property
    def status(self) -> definition_pb2.Status: ...


A = TypeVar("A", bound=_Answer)
I = TypeVar("I", bound="Message")  # noqa: E741  (an item of a stream)


class Calls(PlainCalls):
    """A client of one service, with one short connection and one client id; raises `Refused` and `Unreachable`."""

    service: ClassVar[str]

    def __init__(self, endpoint: str) -> None:
        said = access()
        super().__init__(endpoint, name=CLIENT_NAME, tls=said.tls(), credentials=said.credentials())

    def _call(self, method: str, request: "Message", answer_type: type[A], *, timeout_s: float = CALL_TIMEOUT_S) -> A:
        """Call a method and return its answer, whose status is OK."""
        answer: A = self._answer(f"/{self.service}/{method}", request, answer_type, timeout_s)
        return answer

    def _stream(self, method: str, request: "Message", item_type: type[I]) -> Iterator[I]:
        """Call a streaming method and yield its items; the caller checks a status among them."""
        yield from map(item_type.FromString, self._exchange(f"/{self.service}/{method}", request, CALL_TIMEOUT_S))

    def _refused(self, code: "definition_pb2.Code", message: str) -> Exception:
        return refused(code, message)

    def _connected(self, timeout_s: float) -> "BlockingConnection":
        if self._tls is None:
            return super()._connected(timeout_s)
        from ternmq.errors import UnusableFile

        try:
            return super()._connected(timeout_s)
        except UnusableFile as error:
            raise WrongUsage(str(error)) from None

    def _broken(self, status: int | None, details: str, timeout_s: float) -> Exception:
        return call_failure(self._endpoint, status, details, timeout_s=timeout_s, uses_tls=self._tls is not None)


def call_failure(
    endpoint: str, status: int | None, details: str, *, timeout_s: float = CALL_TIMEOUT_S, uses_tls: bool = False
) -> CommandFailure:
    """Return the failure for a gRPC status that is not OK, which a server never sends for a refusal.

    `status` is None if the connection broke.
    """
    if status is None or status == Status.UNAVAILABLE:
        from ternmq.tls import advice

        advised, is_passing = advice(details, uses_tls=uses_tls)
        if not is_passing:
            return TlsRefused(endpoint, advised)
        details = f"{details}; {advised}" if advised else details
        return Unreachable(endpoint, "connection refused" if "refused" in details else details or "unavailable")
    if status == Status.DEADLINE_EXCEEDED:
        return Unreachable(endpoint, f"no answer within {timeout_s:g} s")
    if status == Status.UNIMPLEMENTED:
        return CallMissing(
            f"the server at {endpoint} does not have this call; it is no TernMQ, or an older one, or it has another "
            "address for administration (its setting `admin`)"
        )
    failure = CallBroken if status in BROKEN else CommandFailure
    return failure(f"the call to {endpoint} failed: gRPC status {status}: {details}")
