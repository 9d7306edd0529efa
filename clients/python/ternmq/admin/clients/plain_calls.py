"""Blocking admin calls without gRPC, for programs that must start fast, such as a command.

Importing grpc alone takes three times as long as such a call with everything that it needs.
"""

import os
import time
from typing import TYPE_CHECKING, Any, Self

from ternmq.admin.requests.call import CALL_TIMEOUT_S, SERVICE, AdminCall, ValueT
from ternmq.times.durations import Seconds, seconds_above_0
from ternmq_common.addresses import parse_address
from ternmq_protos.v2 import definition_pb2
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.blocking_calls import BlockingConnection

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ternmq.connections.credentials import CredentialsSource, CurrentCredentials
    from ternmq.connections.identity import Metadata
    from ternmq.connections.tls import TlsOptions

# Statuses of a call that did not end in order.
BROKEN = frozenset({GrpcStatus.CANCELLED, GrpcStatus.UNKNOWN, GrpcStatus.ABORTED, GrpcStatus.INTERNAL})


class PlainCalls:
    """Sends one call at a time on one connection, which is opened by the first call and again after a failure.

    Raises the errors of the library; a subclass may raise others.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        name: str = "ternmq-tool",
        tls: "TlsOptions | None" = None,
        credentials: "CredentialsSource | None" = None,
        request_timeout: Seconds = CALL_TIMEOUT_S,
    ) -> None:
        self._request_timeout_s = seconds_above_0("request_timeout", request_timeout)
        self._endpoint = endpoint
        self._metadata = client_metadata(name)
        self._tls = tls
        self._source = credentials
        self._current: CurrentCredentials | None = None
        self._connection: BlockingConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def send_call(self, call: AdminCall[ValueT]) -> ValueT:
        """Send a call of the admin service; return its value."""
        timeout_s = max(self._request_timeout_s, call.at_least_s)
        answer = self._answer_call(f"/{SERVICE}/{call.name}", call.request, call.response, timeout_s)
        try:
            return call.read_value(answer)
        except ValueError as error:
            raise self._refusal_error(definition_pb2.INTERNAL_ERROR, f"{self._endpoint}: {error}") from None

    def _answer_call(self, path: str, request: "Message", response: Any, timeout_s: float) -> Any:  # noqa: ANN401 - of any call
        """Call a method; return the answer, whose status is OK."""
        answers = self._exchange_messages(path, request, timeout_s)
        if len(answers) != 1:
            raise self._failure_error(GrpcStatus.INTERNAL, f"{len(answers)} answers came, one was expected", timeout_s)
        answer = response.FromString(answers[0])
        if answer.status.code != definition_pb2.OK:
            raise self._refusal_error(answer.status.code, answer.status.message)
        return answer

    def _exchange_messages(self, path: str, request: "Message", timeout_s: float) -> list[bytes]:
        try:
            return self._open_connection(timeout_s).call_method(
                path, self._create_headers(), request.SerializeToString(), timeout_s=timeout_s
            )
        except StreamBroken as broken:
            raise self._failure_error(broken.status, str(broken), timeout_s) from None

    def _open_connection(self, timeout_s: float) -> BlockingConnection:
        if self._connection is None or not self._connection.can_call:
            self._connection = BlockingConnection(
                (parse_address(self._endpoint),),
                timeout_s=timeout_s,
                tls=None if self._tls is None else self._tls.ssl_context(),
                server_name=None if self._tls is None else self._tls.server_name,
            )
        return self._connection

    def _create_headers(self) -> "Metadata":
        if self._source is None:
            return self._metadata
        from ternmq.connections.credentials import CurrentCredentials, sign_headers

        self._current = self._current or CurrentCredentials(self._source)
        if self._current.is_due:
            self._current.read_source()
        assert self._current.credentials is not None
        return self._metadata + sign_headers(self._current.credentials, int(time.time()))

    def _refusal_error(self, code: "definition_pb2.Code", message: str) -> Exception:
        """Return the exception for an answer with a refusal."""
        from ternmq.errors import create_error

        return create_error(code, message)

    def _failure_error(self, status: int | None, details: str, timeout_s: float) -> Exception:
        """Return the exception for a call without an answer; `status` is None if the connection broke."""
        from ternmq.connections.tls import advise_on_failure
        from ternmq.errors import ConnectionFailed, DeadlineExceeded, TlsFailed, Unsupported

        if status == GrpcStatus.DEADLINE_EXCEEDED:
            return DeadlineExceeded(self._endpoint, f"no answer within {timeout_s:g} s")
        if status == GrpcStatus.UNIMPLEMENTED:
            return Unsupported(definition_pb2.NOT_IMPLEMENTED, f"{self._endpoint} does not have this call: {details}")
        advised, is_passing = advise_on_failure(details, uses_tls=self._tls is not None)
        if not is_passing:
            return TlsFailed(self._endpoint, f"{advised} ({details})")
        if advised:
            details = f"{details}; {advised}"
        is_away = status is None or status == GrpcStatus.UNAVAILABLE or status in BROKEN
        return ConnectionFailed(self._endpoint, details, retryable=is_away)


def client_metadata(name: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata that every call must have; the id is new for each client."""
    return (("x-mq-client-id", new_client_name(name)), ("x-mq-language", "PYTHON"))


def new_client_name(name: str) -> str:
    return f"{name}@{os.getpid()}@{os.urandom(4).hex()}"
