"""An OpenTelemetry collector for tests: it takes metrics and traces by OTLP over gRPC, and keeps them."""

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue


class _Requests:
    """Keeps what is exported to it."""

    def __init__(self, answer: object) -> None:
        self.requests: list[Any] = []
        self._answer = answer

    def Export(self, request: object, context: grpc.ServicerContext) -> object:  # noqa: N802 - the service's name
        del context
        self.requests.append(request)
        return self._answer


class Collector:
    """`with Collector() as collector:` listens at `endpoint` until the end."""

    def __init__(self) -> None:
        self._metrics = _Requests(metrics_service_pb2.ExportMetricsServiceResponse())
        self._traces = _Requests(trace_service_pb2.ExportTraceServiceResponse())
        self._server = grpc.server(ThreadPoolExecutor(2))
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(self._metrics, self._server)  # type: ignore[no-untyped-call]
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self._traces, self._server)  # type: ignore[no-untyped-call]
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()

    def metrics(self) -> dict[str, Metric]:
        """The metrics as they were told last, by name."""
        last = self._metrics.requests[-1]
        return {
            metric.name: metric
            for resource in last.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def spans(self) -> list[Span]:
        return [
            span
            for request in self._traces.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def services(self) -> set[str]:
        """Of whom there are traces or metrics."""
        resources = [entry.resource for request in self._traces.requests for entry in request.resource_spans]
        resources += [entry.resource for request in self._metrics.requests for entry in request.resource_metrics]
        return {text_of(resource.attributes)["service.name"] for resource in resources}


def text_of(attributes: "Iterable[KeyValue]") -> dict[str, str]:
    """Those of the attributes that are texts."""
    return {entry.key: entry.value.string_value for entry in attributes if entry.value.HasField("string_value")}
