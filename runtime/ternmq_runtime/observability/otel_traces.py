"""Exports spans through OpenTelemetry's SDK to a collector by OTLP.

This module is imported only when traces are exported. The process that begins a trace decides whether it is recorded;
of calls without a trace, `ratio` are. A call that is not recorded gets no span, and never reaches the SDK.
"""

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ternmq_runtime.observability.tracing import Attribute, is_recorded

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

SCHEDULE_DELAY_MS = 1000
LINKS_MAX = 128
_TRACEPARENT = "traceparent"
_W3C = TraceContextTextMapPropagator()


class OtelSpan:
    """A recorded `ActiveSpan`."""

    __slots__ = ("_span", "_tracer", "traceparent")

    def __init__(self, tracer: trace.Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self.traceparent = _format_traceparent(span)

    def start_child(self, name: str, attributes: Mapping[str, Attribute]) -> "OtelSpan":
        parent = trace.set_span_in_context(self._span, Context())
        return OtelSpan(self._tracer, self._tracer.start_span(name, parent, attributes=dict(attributes)))

    def mark_failed(self, error: str) -> None:
        self._span.set_attribute("error.type", error)
        self._span.set_status(Status(StatusCode.ERROR, error))

    def end_span(self) -> None:
        self._span.end()


class RemoteSpan:
    """An `ActiveSpan` of another process, which ends it."""

    __slots__ = ("_tracer", "traceparent")

    def __init__(self, tracer: trace.Tracer, traceparent: str) -> None:
        self._tracer = tracer
        self.traceparent = traceparent

    def start_child(self, name: str, attributes: Mapping[str, Attribute]) -> OtelSpan:
        span = self._tracer.start_span(
            name, _parent_context(self.traceparent), kind=SpanKind.SERVER, attributes=dict(attributes)
        )
        return OtelSpan(self._tracer, span)

    def mark_failed(self, error: str) -> None:
        """Do nothing: its process learns of the failure by the answer."""

    def end_span(self) -> None:
        """Do nothing: its own process ends it."""


class OtelTraces:
    """Implements `tracing.SpanFactory`."""

    def __init__(self, resource: Mapping[str, str], exporter: "SpanExporter", ratio: float) -> None:
        self._ratio = ratio
        # Calls that are not recorded were sorted out before, by the same ratio, without drawing a trace id.
        self._provider = TracerProvider(
            ParentBased(TraceIdRatioBased(1.0)), Resource.create(dict(resource)), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=SCHEDULE_DELAY_MS))
        self._tracer = self._provider.get_tracer("ternmq")

    def begin_span(
        self,
        name: str,
        parent: str,
        attributes: Mapping[str, Attribute],
        *,
        links: Iterable[str] = (),
        began_ns: int | None = None,
    ) -> OtelSpan | None:
        decided = is_recorded(parent)
        if not (self._should_record() if decided is None else decided):
            return None
        linked = [Link(trace.get_current_span(_parent_context(link)).get_span_context()) for link in links]
        span = self._tracer.start_span(
            name,
            _parent_context(parent),
            kind=SpanKind.SERVER,
            attributes=dict(attributes),
            links=[link for link in linked if link.context.is_valid][:LINKS_MAX],
            start_time=began_ns,
        )
        return OtelSpan(self._tracer, span)

    def remote_span(self, traceparent: str) -> RemoteSpan:
        return RemoteSpan(self._tracer, traceparent)

    def _should_record(self) -> bool:
        return self._ratio > 0 and random.random() < self._ratio  # noqa: S311 - nothing secret

    def flush_spans(self, timeout_ms: int) -> None:
        """Export what waits; for a thread."""
        self._provider.force_flush(timeout_ms)

    def close_exporter(self) -> None:
        """Close the exporter; for a thread."""
        self._provider.shutdown()


def _parent_context(traceparent: str) -> Context:
    """Return the parent that the text names; no parent if it is malformed."""
    return _W3C.extract({_TRACEPARENT: traceparent}, Context())


def _format_traceparent(span: Span) -> str:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(_TRACEPARENT, "")
