"""Metrics and traces of one process: one `Observability`, created at its start, to which the parts add their figures.

OpenTelemetry is not loaded before it is needed: by a scrape of /metrics, or a configured collector. The parts count
from the start all the same.
"""

import asyncio
import logging
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.installing import install_hint
from ternmq_common.own_version import own_version
from ternmq_runtime.observability.samples import Sources
from ternmq_runtime.observability.series_limit import SeriesLimit
from ternmq_runtime.observability.tracing import NOTHING, Within, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from ternmq_common.server_settings import ProcessSettings
    from ternmq_runtime.observability.figures import (
        BrokerSource,
        CertificateFigures,
        FollowerReadFigures,
        FrontFigures,
        Lag,
        LinkFigures,
        MemberFigures,
        ReplicaFigures,
    )
    from ternmq_runtime.observability.otel_metrics import Metrics
    from ternmq_runtime.observability.otel_traces import Traces
    from ternmq_runtime.observability.tracing import Tracing

_log = logging.getLogger(__name__)
COUNT_INTERVAL_S = 10.0
EXPORT_INTERVAL_S = 10.0
LAST_WORDS_S = 2.0
# Counting timers reads files, so it may take only this share of the time.
_COUNTING_SHARE = 0.01
_LAGS_IN_A_ROW = 64
_OTLP_TIMEOUT_S = 3.0


class Observability:
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
        self._sources = Sources(SeriesLimit(settings.metric_series_max))
        self._counted_at = self._timers_counted_at = -float("inf")
        self._timers_took_s = 0.0
        self._turn = asyncio.Lock()
        self._metrics: Metrics | None = None
        self._traces: Traces | None = None
        self._exporting: asyncio.Task[None] | None = None

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

    async def start(self) -> None:
        """Begin to export to the collector, if one is configured; StartupError without the packages for it."""
        if self._endpoint is None:
            return
        try:
            metrics, self._traces = await asyncio.to_thread(self._with_collector, self._endpoint)
        except ModuleNotFoundError as missing:
            raise StartupError(
                f"otlp_endpoint is set, and {missing.name} is not installed: {install_hint('otel,server')}"
            ) from None
        self._metrics = metrics
        self._exporting = asyncio.create_task(self._export_forever(metrics), name="export of metrics")

    def _with_collector(self, endpoint: str) -> "tuple[Metrics, Traces]":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        from ternmq_runtime.observability.otel_metrics import Metrics
        from ternmq_runtime.observability.otel_traces import Traces

        insecure = not endpoint.startswith("https://")
        metrics = OTLPMetricExporter(endpoint, insecure, timeout=_OTLP_TIMEOUT_S)
        spans = OTLPSpanExporter(endpoint, insecure, timeout=_OTLP_TIMEOUT_S)
        return (
            Metrics(self._resource, self._sources.take, metrics),
            Traces(self._resource, spans, self._ratio),
        )

    async def scrape(self) -> bytes:
        """Return all metrics in Prometheus's text format; one call at a time, so that they use only one thread."""
        async with self._turn:
            await self._count()
            if self._metrics is None:
                self._metrics = await asyncio.to_thread(self._for_prometheus)
            return await asyncio.to_thread(self._metrics.text)

    def _for_prometheus(self) -> "Metrics":
        from ternmq_runtime.observability.otel_metrics import Metrics

        return Metrics(self._resource, self._sources.take)

    async def _export_forever(self, metrics: "Metrics") -> None:
        while True:
            await asyncio.sleep(EXPORT_INTERVAL_S)
            try:
                async with self._turn:
                    await self._count()
                await _in_thread(metrics.export)
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("cannot export to the collector; retrying in %g s", EXPORT_INTERVAL_S)

    async def _count(self) -> None:
        """Count what takes long, unless that was done a moment ago."""
        broker = self._sources.broker
        if broker is None:
            return
        if time.monotonic() - self._counted_at >= self._count_interval_s:
            self._counted_at = time.monotonic()
            lags: list[Lag] = []
            async for lag in broker.lags():
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
            self._sources.timers = await broker.pending_timers()
            self._timers_took_s = time.monotonic() - began

    async def stop(self) -> None:
        """Export once more, if the collector takes it soon, and stop."""
        if self._exporting is not None:
            self._exporting.cancel()
            await asyncio.gather(self._exporting, return_exceptions=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(_in_thread(self._close), LAST_WORDS_S)

    def _close(self) -> None:
        assert self._traces is not None
        assert self._metrics is not None
        self._traces.flush(int(LAST_WORDS_S * 1000))
        self._metrics.export()
        self._traces.close()
        self._metrics.close(LAST_WORDS_S * 1000)

    # --- traces

    @property
    def tracing(self) -> "Tracing | None":
        return self._traces

    def continued(self, traceparent: str) -> "AbstractContextManager[object]":
        """Continue the trace of the calling process within the context; does nothing if there is none."""
        if self._traces is None or not recorded(traceparent):
            return NOTHING
        return Within(self._traces.remote(traceparent))


def _in_thread(step: "Callable[[], None]") -> "asyncio.Future[None]":
    """Run `step` in a daemon thread, which does not delay the end of the process: a collector may be silent for
    long."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(error: Exception | None) -> None:
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
            loop.call_soon_threadsafe(tell, failure)

    threading.Thread(target=run, name="telemetry", daemon=True).start()
    return ended
