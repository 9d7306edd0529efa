"""Turns failures of gRPC into errors of the library that name the endpoint."""

from typing import cast

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
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken, status_name

# A server that ends cancels calls that have just arrived; our own cancelled calls end in another way.
_BROKEN = frozenset(
    {
        GrpcStatus.UNAVAILABLE,
        GrpcStatus.CANCELLED,
        GrpcStatus.UNKNOWN,
        GrpcStatus.INTERNAL,
        GrpcStatus.ABORTED,
    }
)

# By these statuses a server explains a refusal, where the answers of a call have no status.
_REFUSED_BY_STATUS = frozenset({GrpcStatus.INVALID_ARGUMENT, GrpcStatus.RESOURCE_EXHAUSTED})
_CODES = {name: cast("pb.Code", code) for name, code in pb.Code.items() if code >= pb.BAD_REQUEST}
_REFUSALS: dict[int, tuple[type[ClientError], pb.Code]] = {
    GrpcStatus.INVALID_ARGUMENT: (BadRequest, pb.BAD_REQUEST),
    GrpcStatus.UNIMPLEMENTED: (Unsupported, pb.NOT_IMPLEMENTED),
    # From something in front of a server; servers of the protocol use the status of an answer.
    GrpcStatus.UNAUTHENTICATED: (Unauthorized, pb.UNAUTHORIZED),
    GrpcStatus.PERMISSION_DENIED: (Forbidden, pb.FORBIDDEN),
}


def error_of_call(endpoint: str, call: str, broken: StreamBroken, *, uses_tls: bool) -> ClientError:
    """Return the library's error for a failed call. One that broke with its connection has no status."""
    status = GrpcStatus.UNAVAILABLE if broken.status is None else broken.status
    return error_of_status(endpoint, call, status, broken.details or str(broken), uses_tls=uses_tls)


def error_of_status(endpoint: str, call: str, status: int, grpc_details: str, *, uses_tls: bool) -> ClientError:
    """Return the library's error for a gRPC status."""
    details = f"{call}: {status_name(status)}: {grpc_details}"
    if status == GrpcStatus.UNAVAILABLE:
        advised, is_passing = advise_on_failure(grpc_details, uses_tls=uses_tls)
        if not is_passing:
            return TlsFailed(endpoint, f"{advised} ({details})")
        return ConnectionFailed(endpoint, f"{details}; {advised}" if advised else details)
    if status in _REFUSED_BY_STATUS and (refusal := _read_refusal(endpoint, grpc_details)) is not None:
        return refusal
    if status in _REFUSALS:
        family, code = _REFUSALS[status]
        return family(code, f"{endpoint}: {details}")
    if status == GrpcStatus.DEADLINE_EXCEEDED:
        return DeadlineExceeded(endpoint, details)
    return ConnectionFailed(endpoint, details, retryable=status in _BROKEN, connected=status == GrpcStatus.CANCELLED)


def _read_refusal(endpoint: str, details: str) -> ClientError | None:
    """Read a refusal that a server sends by a gRPC status because the answers of the call have none of their own, as
    for the settings on a Telemetry stream. It begins with the protocol's code, as `MessagingError` writes it."""
    name, separator, text = details.partition(": ")
    code = _CODES.get(name) if separator else None
    return None if code is None else create_error(code, f"{endpoint}: {text}")
