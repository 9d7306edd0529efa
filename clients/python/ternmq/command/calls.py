"""Calls of one service of a broker: what our clients of such services share.

One connection of our own HTTP/2 and one call at a time: to import grpc alone takes three times as long as a command.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

from ternmq.command.failures import CallBroken, CommandFailure, Refused, Unreachable
from ternmq_common.addresses import parsed_address
from ternmq_common.grpc_http2.messages import Status, StreamBroken
from ternmq_common.grpc_stream.blocking_calls import BlockingConnection
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

CALL_TIMEOUT_S = 10
# A broker is not on the far side of the proxy that a company's environment names for the web.
CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1))
# Of a call that did not get to its end.
_BROKEN = frozenset({Status.CANCELLED, Status.UNKNOWN, Status.ABORTED, Status.INTERNAL})


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
        self._connection: BlockingConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def _call(self, method: str, request: "Message", answer_type: type[A], *, timeout_s: int = CALL_TIMEOUT_S) -> A:
        """The answer, whose status is OK."""
        answers = self._exchange(method, request, timeout_s)
        if len(answers) != 1:
            raise CommandFailure(f"the call to {self._endpoint} failed: {len(answers)} answers came, one was expected")
        answer: A = answer_type.FromString(answers[0])  # type: ignore[attr-defined]
        if answer.status.code != definition_pb2.OK:
            raise Refused(answer.status.code, answer.status.message)
        return answer

    def _stream(self, method: str, request: "Message", item_type: type[I]) -> Iterator[I]:
        """The items of the answer; a status among them is for the caller to look at."""
        yield from map(item_type.FromString, self._exchange(method, request, CALL_TIMEOUT_S))

    def _exchange(self, method: str, request: "Message", timeout_s: int) -> list[bytes]:
        try:
            return self._connected(timeout_s).call(
                f"/{self.service}/{method}", self._metadata, request.SerializeToString(), timeout_s=timeout_s
            )
        except StreamBroken as broken:
            raise call_failure(self._endpoint, broken.status, str(broken), timeout_s=timeout_s) from None

    def _connected(self, timeout_s: int) -> BlockingConnection:
        if self._connection is None or not self._connection.usable:
            self._connection = BlockingConnection((parsed_address(self._endpoint),), timeout_s=timeout_s)
        return self._connection


def client_metadata() -> tuple[tuple[str, str], ...]:
    """What every call must carry; the id is new for each command."""
    return (("x-mq-client-id", f"ternmq-command@{os.getpid()}@{os.urandom(4).hex()}"), ("x-mq-language", "PYTHON"))


def call_failure(endpoint: str, status: int | None, details: str, *, timeout_s: int = CALL_TIMEOUT_S) -> CommandFailure:
    """The failure behind a gRPC status that isn't OK, which a server of the contract never sends for a refusal; None
    when the connection broke."""
    if status is None or status == Status.UNAVAILABLE:
        return Unreachable(endpoint, "connection refused" if "refused" in details else details or "unavailable")
    if status == Status.DEADLINE_EXCEEDED:
        return Unreachable(endpoint, f"no answer within {timeout_s} s")
    if status == Status.UNIMPLEMENTED:
        return CommandFailure(f"the server at {endpoint} does not have this call; it is no TernMQ, or an older one")
    failure = CallBroken if status in _BROKEN else CommandFailure
    return failure(f"the call to {endpoint} failed: gRPC status {status}: {details}")
