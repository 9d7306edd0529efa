"""Turns failures of gRPC into errors of the library that name the endpoint."""

from typing import cast

import grpc
import grpc.aio

from ternmq.connections.tls import advise_on_failure
from ternmq.errors import (
    BadRequest,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    TlsFailed,
    Unauthorized,
    Unsupported,
    create_error,
)
from ternmq_protos.v2 import definition_pb2 as pb

# A server that ends cancels calls that have just arrived; our own cancelled calls end in another way.
_BROKEN = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
    }
)

# By these statuses a server explains a refusal, where the answers of a call have no status.
_REFUSED_BY_STATUS = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED})
_CODES = {name: cast("pb.Code", code) for name, code in pb.Code.items() if code >= pb.BAD_REQUEST}
_REFUSALS: dict[grpc.StatusCode, tuple[type[ClientError], pb.Code]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (BadRequest, pb.BAD_REQUEST),
    grpc.StatusCode.UNIMPLEMENTED: (Unsupported, pb.NOT_IMPLEMENTED),
    # From something in front of a server; servers of the protocol use the status of an answer.
    grpc.StatusCode.UNAUTHENTICATED: (Unauthorized, pb.UNAUTHORIZED),
    grpc.StatusCode.PERMISSION_DENIED: (Forbidden, pb.FORBIDDEN),
}


def error_of_call(endpoint: str, call: str, error: grpc.aio.AioRpcError, *, uses_tls: bool) -> ClientError:
    """Return the library's error for a failed gRPC call."""
    return error_of_status(endpoint, call, error.code(), error.details() or "no details", uses_tls=uses_tls)


def error_of_status(
    endpoint: str, call: str, status: grpc.StatusCode, grpc_details: str, *, uses_tls: bool
) -> ClientError:
    """Return the library's error for a gRPC status."""
    details = f"{call}: {status.name}: {grpc_details}"
    if status is grpc.StatusCode.UNAVAILABLE:
        advised, is_passing = advise_on_failure(grpc_details, uses_tls=uses_tls)
        if not is_passing:
            return TlsFailed(endpoint, f"{advised} ({details})")
        return ConnectionFailed(endpoint, f"{details}; {advised}" if advised else details)
    if status in _REFUSED_BY_STATUS and (refusal := _read_refusal(endpoint, grpc_details)) is not None:
        return refusal
    if status in _REFUSALS:
        family, code = _REFUSALS[status]
        return family(code, f"{endpoint}: {details}")
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(endpoint, details)
    return ConnectionFailed(
        endpoint, details, retryable=status in _BROKEN, connected=status is grpc.StatusCode.CANCELLED
    )


def _read_refusal(endpoint: str, details: str) -> ClientError | None:
    """Read a refusal that a server sends by a gRPC status because the answers of the call have none of their own, as
    for the settings on a Telemetry stream. It begins with the protocol's code, as `MessagingError` writes it."""
    name, separator, text = details.partition(": ")
    code = _CODES.get(name) if separator else None
    return None if code is None else create_error(code, f"{endpoint}: {text}")
