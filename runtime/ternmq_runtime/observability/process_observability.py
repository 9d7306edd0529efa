"""Metrics and traces of one process: one `ProcessObservability`, created at its start, to which the parts add their
figures.

OpenTelemetry is not loaded before it is needed: by a scrape of /metrics, or a configured collector. The parts count
from the start all the same.
"""

import asyncio
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.installing import install_hint
from ternmq_common.process.own_version import own_version
from ternmq_runtime.observability.samples import FigureSources
from ternmq_runtime.observability.series_limit import SeriesLimit
from ternmq_runtime.observability.tracing import NOTHING, SpanContext, is_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from ternmq_common.server_settings import ProcessSettings
    from ternmq_runtime.observability.figures import (
        BrokerSource,
        CertificateFigures,
        FollowerReadFigures,
        GroupLag,
        LinkFigures,
        MemberFigures,
        ReplicaFigures,
    )
    from ternmq_runtime.observability.front_figures import FrontFigures
    from ternmq_runtime.observability.otel_metrics import OtelMetrics
    from ternmq_runtime.observability.otel_traces import OtelTraces
    from ternmq_runtime.observability.tracing import SpanFactory

COUNT_INTERVAL_S = 10.0
EXPORT_INTERVAL_S = 10.0
LAST_WORDS_S = 2.0
# Counting timers reads files, so it may take only this share of the time.
_COUNTING_SHARE = 0.01
_LAGS_IN_A_ROW = 64
_OTLP_TIMEOUT_S = 3.0


class ProcessObservability:
    """Metrics and traces of one process; `tracing` is None while no traces are recorded."""

    def __init__(
        self,
        settings: "ProcessSettings",
        *,
        service: str,
        instance: str = "",
        count_interval_s: float = COUNT_INTERVAL_S,
    ) -> None:
        """`service` is `ternmq`, `ternmq-proxy` or `ternmq-broker`; `instance` distinguishes its processes. What takes
        long to count is counted again after `count_interval_s`."""
        self._count_interval_s = count_interval_s
        self._endpoint = settings.otlp_endpoint
        self._ratio = settings.trace_ratio
        self._resource = {
            "service.name": service,
            "service.instance.id": instance or str(uuid.uuid4()),
            "service.version": own_version(),
        }
        self._sources = FigureSources(SeriesLimit(settings.metric_series_max))
        self._counted_at = self._timers_counted_at = -float("inf")
        self._timers_took_s = 0.0
        self._turn = asyncio.Lock()
        self._metrics: OtelMetrics | None = None
        self._traces: OtelTraces | None = None
        self._export = BackgroundLoop(
            self._export_all,
            name="export of metrics",
            what="cannot export to the collector",
            every_s=EXPORT_INTERVAL_S,
        )

    # --- sources of figures

    def watch_front(self, front: "FrontFigures") -> None:
        self._sources.fronts.append(front)

    def watch_broker(self, broker: "BrokerSource | None") -> None:
        """Report this broker's figures, and no longer those of an earlier one; None: there is none for now."""
        self._sources.broker = broker
        self._sources.lags, self._sources.timers = [], None
        self._counted_at = self._timers_counted_at = -float("inf")

    def watch_links(self, links: "Callable[[], Iterable[LinkFigures]]") -> None:
        """`links` is called in any thread, so what it returns must not change during iteration."""
        self._sources.links = links

    def watch_follower_reads(self, reads: "Callable[[], Iterable[FollowerReadFigures]]") -> None:
        """Called in any thread."""
        self._sources.follower_reads = reads

    def watch_member(self, member: "Callable[[], MemberFigures]") -> None:
        """Called in any thread."""
        self._sources.member = member

    def watch_replica(self, replica: "Callable[[], ReplicaFigures]") -> None:
        """Called in any thread."""
        self._sources.replica = replica

    def watch_certificates(self, certificates: "Callable[[], Iterable[CertificateFigures]]") -> None:
        """Called in any thread."""
        self._sources.certificates = certificates

    # --- metrics

    async def start_export(self) -> None:
        """Begin to export to the collector, if one is configured; StartupError without the packages for it."""
        if self._endpoint is None:
            return
        try:
            self._metrics, self._traces = await asyncio.to_thread(self._create_exporters, self._endpoint)
        except ModuleNotFoundError as missing:
            raise StartupError(
                f"otlp_endpoint is set, and {missing.name} is not installed: {install_hint('otel,server')}"
            ) from None
        self._export.start()

    def _create_exporters(self, endpoint: str) -> "tuple[OtelMetrics, OtelTraces]":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        from ternmq_runtime.observability.otel_metrics import OtelMetrics
        from ternmq_runtime.observability.otel_traces import OtelTraces

        insecure = not endpoint.startswith("https://")
        metrics = OTLPMetricExporter(endpoint, insecure, timeout=_OTLP_TIMEOUT_S)
        spans = OTLPSpanExporter(endpoint, insecure, timeout=_OTLP_TIMEOUT_S)
        return (
            OtelMetrics(self._resource, self._sources.take_samples, metrics),
            OtelTraces(self._resource, spans, self._ratio),
        )

    async def render_metrics(self) -> bytes:
        """Return all metrics in Prometheus's text format; one call at a time, so that they use only one thread."""
        async with self._turn:
            await self._count_slowly()
            if self._metrics is None:
                self._metrics = await asyncio.to_thread(self._create_metrics)
            return await asyncio.to_thread(self._metrics.render_text)

    def _create_metrics(self) -> "OtelMetrics":
        from ternmq_runtime.observability.otel_metrics import OtelMetrics

        return OtelMetrics(self._resource, self._sources.take_samples)

    async def _export_all(self) -> None:
        assert self._metrics is not None
        async with self._turn:
            await self._count_slowly()
        await _run_in_thread(self._metrics.export_metrics)

    async def _count_slowly(self) -> None:
        """Count what takes long, unless that was done a moment ago."""
        broker = self._sources.broker
        if broker is None:
            return
        if time.monotonic() - self._counted_at >= self._count_interval_s:
            self._counted_at = time.monotonic()
            lags: list[GroupLag] = []
            async for lag in broker.count_lags():
                lags.append(lag)
                if len(lags) % _LAGS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            if self._sources.broker is not broker:
                return
            self._sources.lags = lags
        if time.monotonic() - self._timers_counted_at >= max(
            self._count_interval_s, self._timers_took_s / _COUNTING_SHARE
        ):
            self._timers_counted_at = began = time.monotonic()
            self._sources.timers = await broker.count_timers()
            self._timers_took_s = time.monotonic() - began

    async def stop_export(self) -> None:
        """Export once more, if the collector takes it soon, and stop."""
        await self._export.stop()
        if self._traces is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(_run_in_thread(self._close_exporters), LAST_WORDS_S)

    def _close_exporters(self) -> None:
        assert self._traces is not None
        assert self._metrics is not None
        self._traces.flush_spans(int(LAST_WORDS_S * 1000))
        self._metrics.export_metrics()
        self._traces.close_exporter()
        self._metrics.close_exporter(LAST_WORDS_S * 1000)

    # --- traces

    @property
    def tracing(self) -> "SpanFactory | None":
        return self._traces

    def continue_trace(self, traceparent: str) -> "AbstractContextManager[object]":
        """Continue the trace of the calling process within the context; does nothing if there is none."""
        if self._traces is None or not is_recorded(traceparent):
            return NOTHING
        return SpanContext(self._traces.remote_span(traceparent))


def _run_in_thread(step: "Callable[[], None]") -> "asyncio.Future[None]":
    """Run `step` in a daemon thread, which does not delay the end of the process: a collector may be silent for
    long."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def set_outcome(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        failure = None
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the outermost of this thread; the future has it
            failure = error
        with suppress(RuntimeError):  # the loop did not wait
            loop.call_soon_threadsafe(set_outcome, failure)

    threading.Thread(target=run, name="telemetry", daemon=True).start()
    return ended
