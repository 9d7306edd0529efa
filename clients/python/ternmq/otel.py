"""Traces of producers and consumers by OpenTelemetry (`pip install '.[otel]'` in a checkout).

    hooks = [OpenTelemetryHooks()]
    Producer(..., hooks=hooks)
    PushConsumer(..., hooks=hooks)

Names and attributes follow the semantic conventions of messaging. A message carries the trace of its producer as the
text of a W3C `traceparent` in its `trace_context`, the field that the protocol has for it. Spans of consumers are
linked to it and not its children: a batch has many producers, and a message may be consumed days later.

    send orders      PRODUCER   one per request, with all its attempts; all its messages carry this span
    receive orders   CLIENT     one per poll that brought messages, linked to their producers
    process orders   CONSUMER   around a push consumer's listener, current in it, linked to the producer
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from ternmq.errors import ClientError
from ternmq.hooks import ConsumeResult, Consuming, Hooks, Sending
from ternmq.messages.message import SendReceipt
from ternmq.messages.message_view import MessageView
from ternmq_common.errors import code_name
from ternmq_protos.v2 import definition_pb2 as pb

LINKS_MAX = 128
_TRACEPARENT = "traceparent"
_W3C = TraceContextTextMapPropagator()
_MESSAGE_TYPES = {
    pb.NORMAL: "normal",
    pb.FIFO: "fifo",
    pb.DELAY: "delay",
    pb.TRANSACTION: "transaction",
    pb.PRIORITY: "priority",
    pb.LITE: "lite",
}


@dataclass(frozen=True, slots=True)
class _ProcessingSpan:
    span: Span
    token: object


class OpenTelemetryHooks(Hooks):
    """Creates spans with the tracer of `tracer_provider`, or of the global one."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("ternmq", tracer_provider=tracer_provider)

    def send_started(self, sending: Sending) -> Span:
        span = self._tracer.start_span(
            f"send {sending.topic}", kind=SpanKind.PRODUCER, attributes=_sending_attributes(sending)
        )
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, trace.set_span_in_context(span))
        sending.trace_context = carrier.get(_TRACEPARENT)
        return span

    def send_finished(self, token: object, sending: Sending, outcomes: Sequence[SendReceipt | ClientError]) -> None:
        assert isinstance(token, Span)
        errors = [outcome for outcome in outcomes if isinstance(outcome, ClientError)]
        if errors:
            _set_error(token, errors[0])
        elif not outcomes:
            token.set_status(Status(StatusCode.ERROR, "cancelled"))
        token.end()

    def delivered(self, client_id: str, group: str, views: Sequence[MessageView]) -> None:
        attributes = _consumer_attributes("receive", views[0].topic, group, client_id)
        attributes["messaging.batch.message_count"] = len(views)
        self._tracer.start_span(
            f"receive {views[0].topic}", kind=SpanKind.CLIENT, attributes=attributes, links=list(_producer_links(views))
        ).end()

    def consume_started(self, consuming: Consuming) -> _ProcessingSpan:
        view = consuming.view
        attributes = _consumer_attributes("process", view.topic, consuming.group, consuming.client_id)
        attributes["messaging.message.id"] = view.message_id
        attributes["messaging.message.body.size"] = view.stored_bytes
        attributes["messaging.rocketmq.message.delivery_attempt"] = view.delivery_attempt
        _add_rocketmq(attributes, view.tag, view.keys, view.message_group)
        span = self._tracer.start_span(
            f"process {view.topic}",
            context=Context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=list(_producer_links([view])),
        )
        return _ProcessingSpan(span, context.attach(trace.set_span_in_context(span)))

    def consume_finished(
        self, token: object, consuming: Consuming, result: ConsumeResult, error: BaseException | None
    ) -> None:
        assert isinstance(token, _ProcessingSpan)
        context.detach(token.token)  # type: ignore[arg-type]
        if error is not None:
            token.span.record_exception(error)
            _set_error(token.span, error)
        elif result is ConsumeResult.FAILURE:
            token.span.set_status(Status(StatusCode.ERROR, "the listener returned FAILURE"))
        token.span.end()


def _sending_attributes(sending: Sending) -> dict[str, AttributeValue]:
    attributes = _common_attributes("send", sending.topic, sending.client_id)
    message = sending.messages[0]
    kind = pb.TRANSACTION if sending.transactional else message.message_type
    attributes["messaging.rocketmq.message.type"] = _MESSAGE_TYPES.get(kind, "normal")
    if len(sending.messages) > 1:
        attributes["messaging.batch.message_count"] = len(sending.messages)
    else:
        attributes["messaging.message.id"] = sending.message_ids[0]
        attributes["messaging.message.body.size"] = len(message.body)
        _add_rocketmq(attributes, message.tag, message.keys, message.message_group)
    return attributes


def _consumer_attributes(operation: str, topic: str, group: str, client_id: str) -> dict[str, AttributeValue]:
    attributes = _common_attributes(operation, topic, client_id)
    attributes["messaging.consumer.group.name"] = group
    return attributes


def _common_attributes(operation: str, topic: str, client_id: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.client.id": client_id,
    }


def _add_rocketmq(
    attributes: dict[str, AttributeValue], tag: str | None, keys: Sequence[str], message_group: str | None
) -> None:
    if tag is not None:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = tuple(keys)
    if message_group is not None:
        attributes["messaging.rocketmq.message.group"] = message_group


def _producer_links(views: Iterable[MessageView]) -> Iterable[Link]:
    """Yield a link for each message with its producer's trace; a malformed trace gives none."""
    for view in islice(views, LINKS_MAX):
        if view.trace_context is not None:
            parent = _W3C.extract({_TRACEPARENT: view.trace_context}, Context())
            producer = trace.get_current_span(parent).get_span_context()
            if producer.is_valid:
                yield Link(producer, {"messaging.message.id": view.message_id})


def _set_error(span: Span, error: BaseException) -> None:
    code = error.code if isinstance(error, ClientError) else pb.CODE_UNSPECIFIED
    span.set_attribute("error.type", code_name(code) if code else type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
