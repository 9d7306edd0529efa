"""Hands the figures of a process to OpenTelemetry's SDK: for Prometheus when it scrapes, and for a collector by OTLP.

This module is imported only when metrics are needed, since the SDK takes 50 ms and 10 MB to load.

Nothing is recorded with the SDK: its readers call observable instruments, which report samples taken a moment before.
There are no observable histograms, so the readers add ours to what they have collected (the specification calls that a
metric producer). They do the same for metrics with names of topics and groups, which come and go: the SDK keeps each
series of an instrument for ever, and reports at most 2000 of them. Nothing is global: several stacks in one process
have figures of their own.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
    NumberDataPoint,
    PeriodicExportingMetricReader,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from ternmq_runtime.observability.durations import DURATION_BOUNDS_S, DurationHistogram
from ternmq_runtime.observability.instruments import INSTRUMENTS, OF_NAMES, Instrument, InstrumentKind
from ternmq_runtime.observability.samples import Samples

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

SCOPE = "ternmq"


class OtelMetrics:
    """The metrics of one process. `take_samples` returns the samples of now; it is called in the calling thread."""

    def __init__(
        self, resource: Mapping[str, str], take_samples: Callable[[], Samples], exporter: "MetricExporter | None" = None
    ) -> None:
        self._latest = _LatestSamples(take_samples)
        self._registry = CollectorRegistry()
        readers: list[MetricReader] = [_PrometheusReader(self._latest, self._registry)]
        self._exporting = None if exporter is None else _ExportingReader(self._latest, exporter)
        if self._exporting is not None:
            readers.append(self._exporting)
        self._provider = MeterProvider(readers, Resource.create(dict(resource)), shutdown_on_exit=False)
        _create_instruments(self._provider, self._latest)
        self._turn = threading.Lock()

    def render_text(self) -> bytes:
        """Return everything in Prometheus's text format; for a thread, as it takes some milliseconds."""
        with self._turn:
            self._latest.renew_samples()
            return generate_latest(self._registry)

    def export_metrics(self) -> None:
        """Export to the collector; for a thread, as it may wait for the network."""
        assert self._exporting is not None
        with self._turn:
            self._latest.renew_samples()
            self._exporting.collect()
        self._exporting.send_collected()

    def close_exporter(self, timeout_ms: float) -> None:
        """Close the exporter; for a thread."""
        self._provider.shutdown(timeout_ms)


class _LatestSamples:
    """The samples of the collection in progress."""

    def __init__(self, take: Callable[[], Samples]) -> None:
        self._take = take
        self._since_ns = time.time_ns()
        self.samples: Samples = {}

    def renew_samples(self) -> None:
        self.samples = self._take()

    def instrument_observations(self, instrument: Instrument) -> Iterable[Observation]:
        for value, attributes in self.samples.get(instrument, ()):
            assert not isinstance(value, DurationHistogram)
            yield Observation(value, attributes)

    def complete_data(self, data: MetricsData) -> MetricsData:
        """Add our histograms, and the metrics with names of topics and groups, to what was collected."""
        metrics = [
            _histogram_metric(instrument, [(value, attributes) for value, attributes in values])
            for instrument, values in self.samples.items()
            if instrument.kind is InstrumentKind.DURATION
        ]
        metrics += [self._names_metric(instrument) for instrument in self.samples if instrument in OF_NAMES]
        # Into the existing scope: the exporter keeps one scope of a name.
        [resource] = data.resource_metrics
        [scope] = resource.scope_metrics
        scope = replace(scope, metrics=[*scope.metrics, *metrics])
        return MetricsData([replace(resource, scope_metrics=[scope])])

    def _names_metric(self, instrument: Instrument) -> Metric:
        now_ns = time.time_ns()
        points = [
            NumberDataPoint(
                attributes=each.attributes,
                start_time_unix_nano=self._since_ns,
                time_unix_nano=now_ns,
                value=each.value,
            )
            for each in self.instrument_observations(instrument)
        ]
        data: Sum | Gauge = Gauge(points)
        if instrument.kind is not InstrumentKind.GAUGE:
            data = Sum(
                points, AggregationTemporality.CUMULATIVE, is_monotonic=instrument.kind is InstrumentKind.COUNTER
            )
        return Metric(instrument.name, instrument.description, instrument.unit, data)


def _create_instruments(provider: MeterProvider, latest: _LatestSamples) -> None:
    meter = provider.get_meter(SCOPE)
    makers: dict[InstrumentKind, Callable[..., object]] = {
        InstrumentKind.COUNTER: meter.create_observable_counter,
        InstrumentKind.LEVEL: meter.create_observable_up_down_counter,
        InstrumentKind.GAUGE: meter.create_observable_gauge,
    }

    def observer(instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: latest.instrument_observations(instrument)

    for instrument in INSTRUMENTS:
        if instrument.kind in makers and instrument not in OF_NAMES:
            makers[instrument.kind](
                instrument.name, [observer(instrument)], unit=instrument.unit, description=instrument.description
            )


def _histogram_metric(instrument: Instrument, values: "list[tuple[Any, Mapping[str, str]]]") -> Metric:
    now_ns = time.time_ns()
    points = [_histogram_point(durations, attributes, now_ns) for durations, attributes in values]
    data = Histogram(points, AggregationTemporality.CUMULATIVE)
    return Metric(instrument.name, instrument.description, instrument.unit, data)


def _histogram_point(durations: DurationHistogram, attributes: Mapping[str, str], now_ns: int) -> HistogramDataPoint:
    counts = durations.counts.copy()
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=durations.since_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=durations.total_s,
        bucket_counts=counts,
        explicit_bounds=DURATION_BOUNDS_S,
        min=durations.shortest_s if any(counts) else 0.0,
        max=durations.longest_s,
    )


class _PrometheusReader(PrometheusMetricReader):
    def __init__(self, latest: _LatestSamples, registry: CollectorRegistry) -> None:
        self._latest = latest
        super().__init__(scope_info_enabled=False, registry=registry)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:  # noqa: ANN401
        super()._receive_metrics(self._latest.complete_data(metrics_data), timeout_millis, **kwargs)


class _ExportingReader(PeriodicExportingMetricReader):
    """An exporting reader without a thread of its own: `collect` keeps the data, and `send_collected` exports it."""

    def __init__(self, latest: _LatestSamples, exporter: "MetricExporter") -> None:
        self._latest = latest
        self._collected: MetricsData | None = None
        super().__init__(exporter, math.inf)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:  # noqa: ANN401
        del timeout_millis, kwargs
        self._collected = self._latest.complete_data(metrics_data)

    def send_collected(self) -> None:
        if self._collected is not None:
            super()._receive_metrics(self._collected)
