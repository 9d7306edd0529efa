"""Records a broker's figures over the last hours: rates of topics, lags of groups, and its own.

Series  `in`, `out` and `acknowledged` are messages a second, of the broker or, as `NAME/in`, of a topic. Of a group
        `NAME/lag` is in messages, `NAME/oldest` in seconds.
Cost    a sample is some dicts of the topics' counts. Lags are costly where there are many groups: they are counted
        only so often that it takes `_COUNTING_SHARE` of the time, and stand for the slots between.
"""

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.shard.model import FigureHistory, HistoryOf
from ternmq_runtime.observability.durations import quantile_s
from ternmq_runtime.observability.history_rings import STEP_MS, HistoryRings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.inspecting.broker_figures import BrokerFigureSource

BROKER_SERIES = ("in", "out", "acknowledged", "transactions", "polls", "log_bytes", "disk_used", "sync_p99_ms")
_COUNTING_SHARE = 0.003
_LAGS_IN_A_ROW = 64
_MIN_S = 0.001


class BrokerHistory(BackgroundLoop):
    """The recorded figures of one broker; for the event loop."""

    def __init__(
        self,
        figures: "BrokerFigureSource",
        now_ms: "Callable[[], int]",
        *,
        seconds: "Callable[[], float]" = time.monotonic,
        processor_s: "Callable[[], float]" = time.thread_time,
    ) -> None:
        """`processor_s` is the processor time of this thread."""
        super().__init__(
            self.record_sample, name="history", what="figures are missing in plots", every_s=STEP_MS / 1000
        )
        self._seconds, self._processor_s = seconds, processor_s
        self._figures = figures
        self._now_ms = now_ms
        # Three objects, since a series that is missing in a record counts as 0.
        self._own, self._topics, self._groups = HistoryRings(), HistoryRings(), HistoryRings()
        self._looked_s = seconds()
        self._counts: dict[str, dict[str, int]] = {}
        self._rates: dict[str, dict[str, float]] = {}
        self._syncs: list[int] = []
        self._lags: dict[str, float] = {}
        self._lags_again_s = 0.0

    def sent_per_s(self, topic: str) -> float:
        """Messages sent to the topic per second, over the last ten seconds."""
        return self._rates.get("in", {}).get(topic, 0.0)

    def delivered_per_s(self, topic: str) -> float:
        """Messages of the topic delivered per second, over the last ten seconds."""
        return self._rates.get("out", {}).get(topic, 0.0)

    def find_history(self, of: HistoryOf, name: str) -> FigureHistory:
        """The figures of the topic or the group of that name, or of the broker."""
        if of is HistoryOf.TOPIC:
            rings, wanted = self._topics, [f"{name}/{what}" for what in ("in", "out", "acknowledged")]
        elif of is HistoryOf.GROUP:
            rings, wanted = self._groups, [f"{name}/{what}" for what in ("lag", "oldest")]
        else:
            rings, wanted = self._own, list(BROKER_SERIES)
        found = rings.read_history(wanted, self._now_ms())
        series = {each.rpartition("/")[2]: values for each, values in found.series.items()}
        return FigureHistory(step_ms=found.step_ms, end_ms=found.end_ms, series=series)

    # --- sampling

    async def record_sample(self) -> None:
        """Record the figures once."""
        figures = self._figures.current_figures()
        now_s = self._seconds()
        passed_s = max(_MIN_S, now_s - self._looked_s)
        self._looked_s = now_s
        messages = figures.messages
        counts = {
            "in": messages.sent.copy_counts(),
            "out": messages.delivered.copy_counts(),
            "acknowledged": messages.acknowledged.copy_counts(),
        }
        self._rates = {what: _compute_rates(self._counts.get(what, {}), now, passed_s) for what, now in counts.items()}
        self._counts = counts
        now_ms = self._now_ms()
        own: dict[str, float] = {what: sum(rates.values()) for what, rates in self._rates.items()}
        own |= {
            "transactions": figures.transactions,
            "polls": figures.polls_waiting,
            "log_bytes": figures.log_bytes,
            "disk_used": figures.disk_used,
            "sync_p99_ms": self._sync_p99_ms(list(figures.syncs.counts)),
        }
        self._own.record_values(now_ms, own)
        self._topics.record_values(
            now_ms, {f"{topic}/{what}": rate for what, rates in self._rates.items() for topic, rate in rates.items()}
        )
        await self._sample_lags()

    def _sync_p99_ms(self, counts: list[int]) -> float:
        before, self._syncs = self._syncs, counts
        return 1000 * quantile_s([now - then for now, then in zip(counts, before, strict=True)] if before else counts)

    async def _sample_lags(self) -> None:
        if self._seconds() >= self._lags_again_s:
            began_s = self._processor_s()
            await self._count_lags()
            took_s = self._processor_s() - began_s
            self._lags_again_s = self._seconds() + took_s / _COUNTING_SHARE
        self._groups.record_values(self._now_ms(), self._lags)

    async def _count_lags(self) -> None:
        lags: defaultdict[str, float] = defaultdict(float)
        number = 0
        async for lag in self._figures.count_lags():
            if lag.messages:
                lags[f"{lag.group}/lag"] += lag.messages
                oldest = f"{lag.group}/oldest"
                lags[oldest] = max(lags[oldest], lag.oldest_age_ms / 1000)
            number += 1
            if number % _LAGS_IN_A_ROW == 0:
                await asyncio.sleep(0)
        self._lags = lags


def _compute_rates(before: dict[str, int], now: dict[str, int], passed_s: float) -> dict[str, float]:
    """The rates of the counts that have changed.

    A missing count was 0, and so was a count that is smaller now: its topic was deleted and created again.
    """
    rates = {}
    for name, count in now.items():
        counted = before.get(name, 0)
        if count != counted:
            rates[name] = (count - counted if count > counted else count) / passed_s
    return rates
