"""Calls of one service of a broker over grpc's synchronous channel: what our clients of such services share.

The module imports grpc, so subcommands import it when they run.
"""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

import grpc
import grpc.experimental

from ternmq.command.failures import CallBroken, CommandFailure, Refused, Unreachable
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

CALL_TIMEOUT_S = 10
# A broker is not on the far side of the proxy that a company's environment names for the web.
CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1))
# Else grpc starts a thread for a stream, and when Ctrl-C meets it in that moment, closing the channel never ends.
IN_THIS_THREAD = ((grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),)
_BROKEN = frozenset(
    {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.ABORTED}
)


class _Answer(Protocol):
    @property
    def status(self) -> definition_pb2.Status: ...


A = TypeVar("A", bound=_Answer)
I = TypeVar("I", bound="Message")  # noqa: E741  (an item of a stream)


class Calls:
    """One short connection per command, under one client id; raises `Refused` and `Unreachable`."""

    service: ClassVar[str]

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._metadata = client_metadata()
        self._channel = grpc.insecure_channel(endpoint, options=(*CHANNEL_OPTIONS, *IN_THIS_THREAD))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def _call(self, method: str, request: "Message", answer_type: type[A], *, timeout_s: int = CALL_TIMEOUT_S) -> A:
        """The answer, whose status is OK."""
        call = self._channel.unary_unary(
            f"/{self.service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_type.FromString,  # type: ignore[attr-defined]
        )
        try:
            answer: A = call(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise call_failure(self._endpoint, error.code(), error.details(), timeout_s=timeout_s) from None
        if answer.status.code != definition_pb2.OK:
            raise Refused(answer.status.code, answer.status.message)
        return answer

    def _stream(self, method: str, request: "Message", item_type: type[I]) -> Iterator[I]:
        """The items of the answer; a status among them is for the caller to look at."""
        call = self._channel.unary_stream(
            f"/{self.service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=item_type.FromString,
        )
        try:
            yield from call(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            raise call_failure(self._endpoint, error.code(), error.details()) from None


def client_metadata() -> tuple[tuple[str, str], ...]:
    """What every call must carry; the id is new for each command."""
    return (("x-mq-client-id", f"ternmq-command@{os.getpid()}@{uuid.uuid4().hex[:8]}"), ("x-mq-language", "PYTHON"))


def call_failure(
    endpoint: str, code: grpc.StatusCode, details: str | None, *, timeout_s: int = CALL_TIMEOUT_S
) -> CommandFailure:
    """The failure behind a gRPC status that isn't OK, which a server of the contract never sends for a refusal."""
    if code is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(endpoint, "connection refused" if "refused" in (details or "") else details or "unavailable")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(endpoint, f"no answer within {timeout_s} s")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return CommandFailure(f"the server at {endpoint} does not have this call; it is no TernMQ, or an older one")
    failure = CallBroken if code in _BROKEN else CommandFailure
    return failure(f"the call to {endpoint} failed: {code.name}: {details}")
