"""Outcomes of unary calls: the answer with its status, or a status alone. The latter is sent as a gRPC status if the
call's answers have none (`overview.md, Status codes`)."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ternmq_common.errors import ErrorCode
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused

_STATUSES: Final[dict[int, GrpcStatus]] = {
    ErrorCode.BAD_REQUEST: GrpcStatus.INVALID_ARGUMENT,
    ErrorCode.UNAUTHORIZED: GrpcStatus.UNAUTHENTICATED,
    ErrorCode.TOO_MANY_REQUESTS: GrpcStatus.RESOURCE_EXHAUSTED,
}

if TYPE_CHECKING:
    Kind = Any  # the class of the call's answers, which no annotation can express for all


class CallOutcome(NamedTuple):
    """The outcome of a call. `answer` is a message or its bytes; None if the call is refused and its answers have no
    status."""

    status: definition_pb2.Status
    answer: Any

    def serialize_answer(self) -> bytes | None:
        """Return the bytes of the answer, None if there is none."""
        answer = self.answer
        return answer if answer is None or isinstance(answer, bytes) else answer.SerializeToString()

    def refusal_error(self) -> CallRefused:
        """Return the error that ends a call without an answer."""
        return CallRefused(_STATUSES.get(self.status.code, GrpcStatus.INTERNAL), self.status.message)


def has_status(kind: "Kind") -> bool:
    """Return whether answers of that class have a status."""
    return "status" in kind.DESCRIPTOR.fields_by_name


def answered_outcome(answer: Any) -> CallOutcome:  # noqa: ANN401
    """Return the outcome of an answered call: the status of the answer, or OK if it has none."""
    return CallOutcome(answer.status if has_status(answer) else OK, answer)


def refused_outcome(kind: "Kind", status: definition_pb2.Status) -> CallOutcome:
    """Return the outcome of a refused call, as an answer of that class if it has a status."""
    return CallOutcome(status, kind(status=status) if has_status(kind) else None)
