"""Keeps the figures of the last hours of a process that serves clients: calls, their durations, memory."""

import resource
import time
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_runtime.observability.durations import quantile_s
from ternmq_runtime.observability.history_rings import STEP_MS, HistoryRings
from ternmq_runtime.observability.self_report import read_resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ternmq_common.shard.model import FigureHistory
    from ternmq_runtime.observability.durations import DurationHistogram
    from ternmq_runtime.observability.front_figures import FrontFigures

SERIES = (
    "calls",
    "failed_calls",
    "call_p50_ms",
    "call_p99_ms",
    "send_p99_ms",
    "connections",
    "clients",
    "memory",
    "cpu",
)
_SEND, _OK = "SendMessage", "OK"
_MIN_S = 0.001


class FrontHistory(BackgroundLoop):
    """The history of one process, on its event loop; empty before `start_sampling`."""

    def __init__(self, now_ms: "Callable[[], int]") -> None:
        super().__init__(
            self.take_sample, name="history of calls", what="cannot sample the figures of calls", every_s=STEP_MS / 1000
        )
        self._now_ms = now_ms
        self._rings = HistoryRings()
        self._figures: FrontFigures | None = None
        self._looked_s = time.monotonic()
        self._cpu_s = _cpu_s()
        self._before: dict[str, list[int]] = {}
        self.latest: Mapping[str, float] = {}
        """The figures of the last sample, empty before the first."""

    def start_sampling(self, figures: "FrontFigures") -> None:
        """Sample these figures from now on, until `stop`."""
        self._figures = figures
        self.start()

    @property
    def client_count(self) -> int:
        """How many clients have a stream."""
        return 0 if self._figures is None else self._figures.clients

    def read_history(self) -> "FigureHistory":
        """Return the whole history."""
        return self._rings.read_history(SERIES, self._now_ms())

    def take_sample(self) -> None:
        """Take one sample."""
        figures = self._figures
        assert figures is not None
        now_s, cpu_s = time.monotonic(), _cpu_s()
        passed_s = max(_MIN_S, now_s - self._looked_s)
        calls = dict(figures.calls)
        every = self._counts_since_last("calls", calls.values())
        failed = self._counts_since_last("failed", (each for (_, code), each in calls.items() if code != _OK))
        sends = self._counts_since_last("sends", (each for (method, _), each in calls.items() if method == _SEND))
        self.latest = {
            "calls": sum(every) / passed_s,
            "failed_calls": sum(failed) / passed_s,
            "call_p50_ms": 1000 * quantile_s(every, 0.5),
            "call_p99_ms": 1000 * quantile_s(every),
            "send_p99_ms": 1000 * quantile_s(sends),
            "connections": figures.traffic().connections,
            "clients": figures.clients,
            "memory": read_resident_bytes(),
            "cpu": (cpu_s - self._cpu_s) / passed_s,
        }
        self._rings.record_values(self._now_ms(), self.latest)
        self._looked_s, self._cpu_s = now_s, cpu_s

    def _counts_since_last(self, what: str, durations: "Iterable[DurationHistogram]") -> list[int]:
        """Return the counts of these histograms together, since the last sample."""
        now = [sum(column) for column in zip(*(each.counts for each in durations), strict=True)]
        before = self._before.get(what, [])
        self._before[what] = now
        return [count - (before[at] if before else 0) for at, count in enumerate(now)]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
