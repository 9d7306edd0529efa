"""How far behind a stream is, by what Spark reports of its micro-batches.

    spark.streams.addListener(LagListener())

Figures   PySpark gives a source in Python no place in Spark's progress for figures of its own (`metrics` stays empty).
          But it says where the topics ended when a micro-batch was planned (`latestOffset`), and where that ended
          itself (`endOffset`). The difference is the lag: the offsets that it leaves to later ones. What the source
          itself counts is in `latestOffset` too, under `@metrics` (`source/figures.py`).
Sources   of other formats are passed over; ours are known by their queues, which are called `broker/queue id`.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_ternmq.source.figures import METRICS

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger(__name__)
Topics = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of one query after one micro-batch. `query` is its name, or its id if it has none; `lost` messages went
    before it could read them, since the micro-batch before."""

    query: str
    batch: int
    by_topic: Mapping[str, int]
    lost: int = 0

    @property
    def total(self) -> int:
        return sum(self.by_topic.values())

    def __str__(self) -> str:
        """`reports, batch 3: lag 17 (orders 12, payments 5)`."""
        topics = ", ".join(f"{topic} {lag:,}" for topic, lag in self.by_topic.items())
        lost = f", lost {self.lost:,}" if self.lost else ""
        return f"{self.query}, batch {self.batch}: lag {self.total:,} ({topics}){lost}"


class LagListener(StreamingQueryListener):
    """Tells `report` the lag of each query that reads topics, after each micro-batch: a function that sets a metric,
    say. Without one there is a line in the log, at INFO. It is called in a thread of Spark's."""

    def __init__(self, report: Callable[[Lag], None] | None = None) -> None:
        self._report = report or _log_lag

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802 - Spark's names, here and below
        progress = event.progress
        by_topic = lag_by_topic(progress.sources)
        if by_topic is not None:
            query = progress.name or str(progress.id)
            lost = sum(int(metrics_of(source).get("lostMessages", 0)) for source in progress.sources)
            self._report(Lag(query=query, batch=progress.batchId, by_topic=by_topic, lost=lost))

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """The last lag is still that of the checkpoint."""


def lag_of(source: object) -> int | None:
    """The lag of a source as Spark reports it, an object or a dict; None if it is none of ours, or has no offsets."""
    by_topic = lag_by_topic([source])
    return None if by_topic is None else sum(by_topic.values())


def metrics_of(source: object) -> Mapping[str, Any]:
    """Return the metrics of a source's last trigger, empty for another format: `minOffsetsBehindLatest`,
    `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`, `lostMessages`, and by topic and queue `lostByQueue`."""
    report = _report_of(source, "latestOffset")
    metrics = report.get(METRICS) if isinstance(report, Mapping) else None
    return metrics if isinstance(metrics, Mapping) else {}


def lag_by_topic(sources: Sequence[object]) -> dict[str, int] | None:
    """The same of all sources of a query."""
    lags: dict[str, int] = {}
    is_any = False
    for source in sources:
        end, latest = _parse_offsets(source, "endOffset"), _parse_offsets(source, "latestOffset")
        if end is None or latest is None:
            continue
        is_any = True
        for topic, queues in latest.items():
            read = end.get(topic, {})
            lags[topic] = lags.get(topic, 0) + sum(max(0, stop - read.get(name, 0)) for name, stop in queues.items())
    return lags if is_any else None


def _parse_offsets(source: object, name: str) -> Topics | None:
    """Parse offsets of this source, with identities of topics beside their queues; None for another form."""
    value = _report_of(source, name)
    if not isinstance(value, Mapping) or not value:
        return None
    topics = {topic: queues for topic, queues in value.items() if not topic.startswith("@")}
    return topics if all(map(_is_queues, topics.values())) else None


def _report_of(source: object, name: str) -> object:
    """Return Spark's report of that name, an object or its JSON; None for any other text."""
    value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value


def _is_queues(queues: object) -> bool:
    return isinstance(queues, Mapping) and all("/" in name and isinstance(at, int) for name, at in queues.items())


def _log_lag(lag: Lag) -> None:
    _log.info("%s", lag)
