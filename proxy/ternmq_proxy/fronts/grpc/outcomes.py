"""What a unary call comes to: its answer and the status of that, or, of a call whose answers have no status, a status
alone, which gRPC's own has to tell (`overview.md, Status codes`)."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ternmq_common.errors import ErrorCode
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused

_STATUSES: "dict[int, GrpcStatus]" = {
    ErrorCode.BAD_REQUEST: GrpcStatus.INVALID_ARGUMENT,
    ErrorCode.UNAUTHORIZED: GrpcStatus.UNAUTHENTICATED,
    ErrorCode.TOO_MANY_REQUESTS: GrpcStatus.RESOURCE_EXHAUSTED,
}

if TYPE_CHECKING:
    Kind = Any  # the class of the call's answers, which no annotation here can say for all


class CallOutcome(NamedTuple):
    """`answer` is a message, or the bytes of one; None where the call is refused and its answers can't say so."""

    status: definition_pb2.Status
    answer: Any

    def serialize_answer(self) -> bytes | None:
        """The answer's bytes, None if there is none."""
        answer = self.answer
        return answer if answer is None or isinstance(answer, bytes) else answer.SerializeToString()

    def refusal_error(self) -> CallRefused:
        """What ends the call where there is no answer."""
        return CallRefused(_STATUSES.get(self.status.code, GrpcStatus.INTERNAL), self.status.message)


def has_status(kind: "Kind") -> bool:
    """Whether answers of that class tell their outcome."""
    return "status" in kind.DESCRIPTOR.fields_by_name


def answered_outcome(answer: Any) -> CallOutcome:  # noqa: ANN401
    """The call was carried out, as the answer says or, if it says nothing of that, well."""
    return CallOutcome(answer.status if has_status(answer) else OK, answer)


def refused_outcome(kind: "Kind", status: definition_pb2.Status) -> CallOutcome:
    """The call was refused, and an answer of that class says so if it can."""
    return CallOutcome(status, kind(status=status) if has_status(kind) else None)
