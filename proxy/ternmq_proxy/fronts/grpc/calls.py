"""The calls that are served, and the activity that answers each of them."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import service_pb2
from ternmq_proxy.fronts.grpc.activities.admin.modules import MODULES as ADMIN_MODULES
from ternmq_proxy.fronts.grpc.activities.client_life import begin_heartbeat, heartbeat, notify_client_termination
from ternmq_proxy.fronts.grpc.activities.end_transaction import begin_end, end_transaction
from ternmq_proxy.fronts.grpc.activities.lite_subscription import sync_lite_subscription
from ternmq_proxy.fronts.grpc.activities.offsets import get_offset, query_offset, update_offset
from ternmq_proxy.fronts.grpc.activities.published_admin.modules import MODULES as PUBLISHED_MODULES
from ternmq_proxy.fronts.grpc.activities.pull_message import pull_message
from ternmq_proxy.fronts.grpc.activities.query_route import query_assignment, query_route
from ternmq_proxy.fronts.grpc.activities.recall_message import recall_message
from ternmq_proxy.fronts.grpc.activities.receive_message import NOTHING_NEW_FRAME, receive_message
from ternmq_proxy.fronts.grpc.activities.send_batch import send_batch
from ternmq_proxy.fronts.grpc.activities.send_message import AnswerCallback, begin_send, send_message
from ternmq_proxy.fronts.grpc.activities.settle_message import (
    ack_message,
    begin_ack,
    change_invisible_duration,
    forward_message_to_dead_letter_queue,
)
from ternmq_proxy.operations.send_special import QUICK_BYTES_MAX

if TYPE_CHECKING:
    from types import ModuleType

    from ternmq_protos.v2.definition_pb2 import Status
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# A longer request is served in a coroutine, which gives other tasks turns meanwhile. A body whose digest is computed on
# the event loop has no turns in a coroutine either, and costs half as much again there.
AT_ONCE_BYTES_MAX: Final = QUICK_BYTES_MAX + (32 << 10)
# Smaller requests that did not begin directly are mostly not ordinary.
OF_BYTES_MIN: Final = 8 << 10

MESSAGING_SERVICE: Final = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
PUBLISHED_ADMIN_SERVICE: Final = published_pb2.DESCRIPTOR.services_by_name["Admin"]
ADMIN_SERVICE: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"]


class FramedAnswer(Protocol):
    """An answer of several serialized frames; the status of the first has this code."""

    @property
    def code(self) -> int: ...

    @property
    def frames(self) -> list[bytes]: ...

    async def return_undelivered(self) -> None:
        """Give back messages after the call was cut before the client had all frames."""


# The request is of the type in the service's descriptor, which no annotation can express for all.
Activity = Callable[[Any, "Call", "Services"], Awaitable[Any]]
BeginCall = Callable[[bytes, "Call", "Services", AnswerCallback], bool]
AnswerFromBytes = Callable[[bytes, "Call", "Services"], Awaitable["tuple[bytes, Status] | None"]]
StreamedActivity = Callable[[Any, "Call", "Services"], Awaitable[FramedAnswer]]


@dataclass(frozen=True, slots=True)
class UnaryCall:
    """A call of one request and one answer, `response`, whose `status`, if it has one, is the outcome. `begin` answers
    most requests from their bytes, without a coroutine; it leaves the others to `activity`, also by raising
    DecodeError. `of_bytes` answers larger requests from their bytes, and returns None if it did nothing."""

    activity: Activity
    request: Any
    response: Any
    begin: "BeginCall | None" = None
    of_bytes: "AnswerFromBytes | None" = None


@dataclass(frozen=True, slots=True)
class StreamedCall:
    """A call of one request; the activity returns all frames of the answer, serialized, the first being a `response`
    with the status. `nothing` is the answer to a waiting call that is to end (`waiting_polls.py`); None if it goes
    on."""

    activity: StreamedActivity
    request: Any
    response: Any
    nothing: bytes | None = None


_MESSAGING_UNARY: dict[str, Activity] = {
    "QueryRoute": query_route,
    "Heartbeat": heartbeat,
    "SendMessage": send_message,
    "QueryAssignment": query_assignment,
    "AckMessage": ack_message,
    "ChangeInvisibleDuration": change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": forward_message_to_dead_letter_queue,
    "EndTransaction": end_transaction,
    "RecallMessage": recall_message,
    "NotifyClientTermination": notify_client_termination,
    "UpdateOffset": update_offset,
    "GetOffset": get_offset,
    "QueryOffset": query_offset,
    "SyncLiteSubscription": sync_lite_subscription,
}
_MESSAGING_BEGUN: dict[str, BeginCall] = {
    "Heartbeat": begin_heartbeat,
    "SendMessage": begin_send,
    "AckMessage": begin_ack,
    "EndTransaction": begin_end,
}
_MESSAGING_OF_BYTES: dict[str, AnswerFromBytes] = {"SendMessage": send_batch}
_MESSAGING_STREAMED: dict[str, StreamedActivity] = {"ReceiveMessage": receive_message, "PullMessage": pull_message}
_NOTHING = {"ReceiveMessage": NOTHING_NEW_FRAME}


def messaging_calls() -> "dict[str, UnaryCall | StreamedCall]":
    """Return the calls of MessagingService except Telemetry, which is a conversation."""
    calls: dict[str, UnaryCall | StreamedCall] = {}
    for method in MESSAGING_SERVICE.methods:
        request = getattr(service_pb2, method.input_type.name)
        response = getattr(service_pb2, method.output_type.name)
        if method.name in _MESSAGING_STREAMED:
            streamed = _MESSAGING_STREAMED[method.name]
            calls[method.name] = StreamedCall(streamed, request, response, _NOTHING.get(method.name))
        elif method.name != "Telemetry":
            activity = _MESSAGING_UNARY[method.name]
            calls[method.name] = UnaryCall(
                activity, request, response, _MESSAGING_BEGUN.get(method.name), _MESSAGING_OF_BYTES.get(method.name)
            )
    return calls


def admin_calls() -> "dict[str, UnaryCall]":
    """Return the calls of our own Admin service."""
    return _unary_calls(ADMIN_SERVICE, admin_pb2, ADMIN_MODULES)


def published_admin_calls() -> "dict[str, UnaryCall]":
    """Return the calls of the Admin service that is published with the protocol."""
    return _unary_calls(PUBLISHED_ADMIN_SERVICE, published_pb2, PUBLISHED_MODULES)


def _unary_calls(service: Any, messages: Any, modules: "tuple[ModuleType, ...]") -> "dict[str, UnaryCall]":  # noqa: ANN401
    return {
        method.name: UnaryCall(
            _find_activity(method.name, modules),
            getattr(messages, method.input_type.name),
            getattr(messages, method.output_type.name),
        )
        for method in service.methods
    }


def _find_activity(call: str, modules: "tuple[ModuleType, ...]") -> Activity:
    """Return the function that answers a call: `list_timers` of one of the modules answers ListTimers."""
    name = re.sub(r"\B(?=[A-Z])", "_", call).lower()
    [activity] = [vars(module)[name] for module in modules if name in vars(module)]
    found: Activity = activity
    return found
