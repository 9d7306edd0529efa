"""Spans of clients' calls, named and described by OpenTelemetry's conventions for messaging.

send TOPIC      goes on with the trace that the producer left in its first message. If it left none and the call is
                recorded, the messages carry this span, so that their consumers can go on
receive TOPIC   when messages were handed out: linked to all of them, and in the trace of the first that is recorded
ack TOPIC, and `nack` and `reject`: linked to the messages that this process handed out, and in the trace of the header
                `traceparent`, or else of the first of them. Nothing where there is neither: it would be a trace of a
                moment that belongs to no message
All others by the call's name: in the trace of the header, if the client sent one

There is one of these for each kind of call, and none in a process that makes no traces.
"""

from typing import TYPE_CHECKING, Any, Final

from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import AckMessageRequest, EndTransactionRequest, SendMessageRequest
from ternmq_proxy.fronts.grpc.delivered_traces import LOOKED_UP_MAX
from ternmq_runtime.observability.tracing import ActiveSpan, Attribute, SpanFactory, is_recorded, messaging_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import DeliveredMessage
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.delivered_traces import DeliveredTraces

TRACEPARENT: Final = "traceparent"
# The conventions' names of operations on one topic.
_OPERATIONS = {
    "SendMessage": ("send", "send"),
    "ReceiveMessage": ("receive", "receive"),
    "AckMessage": ("ack", "settle"),
    "ChangeInvisibleDuration": ("nack", "settle"),
    "ForwardMessageToDeadLetterQueue": ("reject", "settle"),
}
# The tag of SystemProperties.trace_context: most messages have none, and need not be parsed to see that.
_TRACE_CONTEXT_TAG = b"\x92\x01"


class CallSpans:
    """Makes the spans of one kind of call; `service` is the full name of the gRPC service."""

    def __init__(self, service: str, method: str, tracing: SpanFactory, delivered: "DeliveredTraces") -> None:
        """`delivered` is shared by all calls of the process."""
        self._service = service
        self._method = method
        self._tracing = tracing
        self._delivered = delivered
        self._settles = _OPERATIONS.get(method, ("", ""))[1] == "settle"

    def begin_span(self, request: Any, call: "Call", parent: str) -> ActiveSpan | None:  # noqa: ANN401
        """Begin the span of a call whose request was just received; `parent` is the header. Return None if it is not
        recorded."""
        if self._settles:
            return self._begin_settle_span(request, call, parent)
        if isinstance(request, EndTransactionRequest):
            parent = request.trace_context or parent
        if not isinstance(request, SendMessageRequest):
            return self._tracing.begin_span(self._span_name(request), parent, self._span_attributes(request, call))
        messages = request.messages
        left = [message.system_properties.trace_context for message in messages]
        parent = next((text for text in left if is_recorded(text) is not None), parent)
        span = self._tracing.begin_span(
            self._span_name(request), parent, self._span_attributes(request, call), links=set(left) - {""}
        )
        if span is not None:
            for message in messages:
                properties = message.system_properties
                properties.trace_context = properties.trace_context or span.traceparent
        return span

    def _begin_settle_span(self, request: Any, call: "Call", header: str) -> ActiveSpan | None:  # noqa: ANN401
        left = self._delivered.find_traces(request.group.name, request.topic.name, _receipt_handles(request))
        parent = next((text for text in (header, *left) if is_recorded(text) is not None), "")
        if not parent:
            return None
        return self._tracing.begin_span(
            self._span_name(request), parent, self._span_attributes(request, call), links=dict.fromkeys(left)
        )

    def record_received(
        self,
        request: Any,  # noqa: ANN401
        call: "Call",
        header: str,
        answered: Any,  # noqa: ANN401
        began_ns: int,
    ) -> ActiveSpan | None:
        """Begin the span of a call that was answered with messages."""
        deliveries: Sequence[DeliveredMessage] = getattr(answered, "delivered_messages", ())
        if not deliveries:
            return None
        left = [text for delivery in deliveries if (text := self._remember_trace(delivery, request))]
        parent = next((text for text in left if is_recorded(text)), "") or header
        attributes = self._span_attributes(request, call)
        attributes["messaging.batch.message_count"] = len(deliveries)
        return self._tracing.begin_span(
            self._span_name(request), parent, attributes, links=dict.fromkeys(left), began_ns=began_ns
        )

    def _remember_trace(self, delivery: "DeliveredMessage", request: Any) -> str:  # noqa: ANN401
        """Return the trace context that the producer left in the message; if it is recorded, remember it until the
        message is acknowledged."""
        left = _trace_context(delivery.message.system)
        if is_recorded(left):
            self._delivered.remember_trace(request.group.name, _topic_name(request), delivery.handle, left)
        return left

    def _span_name(self, request: Any) -> str:  # noqa: ANN401
        operation = _OPERATIONS.get(self._method)
        return f"{operation[0]} {_topic_name(request)}" if operation else f"{self._service}/{self._method}"

    def _span_attributes(self, request: Any, call: "Call") -> dict[str, Attribute]:  # noqa: ANN401
        attributes: dict[str, Attribute] = {
            "rpc.system.name": "grpc",
            "rpc.method": f"{self._service}/{self._method}",
            "messaging.client.id": call.client_id,
            "client.address": call.peer,
        }
        operation = _OPERATIONS.get(self._method)
        if operation is not None:
            attributes |= messaging_attributes(operation[0], _topic_name(request))
            attributes["messaging.operation.type"] = operation[1]
        if "group" in request.DESCRIPTOR.fields_by_name:
            attributes["messaging.consumer.group.name"] = getattr(request.group, "name", "")
        if isinstance(request, SendMessageRequest):
            attributes |= _message_attributes(request)
        return attributes


def _message_attributes(request: SendMessageRequest) -> dict[str, Attribute]:
    if len(request.messages) != 1:
        return {"messaging.batch.message_count": len(request.messages)}
    [message] = request.messages
    return {
        "messaging.message.id": message.system_properties.message_id,
        "messaging.message.body.size": len(message.body),
    }


def _receipt_handles(request: Any) -> "Sequence[str]":  # noqa: ANN401 - one of those that settle
    if isinstance(request, AckMessageRequest):
        return [entry.receipt_handle for entry in request.entries[:LOOKED_UP_MAX]]
    return (request.receipt_handle,)


def _topic_name(request: Any) -> str:  # noqa: ANN401 - a request that speaks of one topic, each in a way of its own
    if isinstance(request, SendMessageRequest):
        return request.messages[0].topic.name if request.messages else ""
    holder = request.message_queue if "message_queue" in request.DESCRIPTOR.fields_by_name else request
    return str(holder.topic.name)


def _trace_context(system: bytes) -> str:
    """Return the trace context that the producer left in a message's system properties."""
    if _TRACE_CONTEXT_TAG not in system:
        return ""
    return definition_pb2.SystemProperties.FromString(system).trace_context
