"""`where(...)` in a batch query, as far as the broker or the plan can do it: tags, topics, brokers, queues, offsets,
and times of storing, which brokers know as offsets. Kafka's names of columns mean the same.

Spark looks at a condition on times too. It may leave out messages that a broker stored while its clock was behind.

Only with the option `pushFilters`, for Spark refuses readers that take filters while its own setting
`spark.sql.python.filterPushdown.enabled` is false, which it is by default.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.source.batch import TopicReader
from pyspark_ternmq.source.offsets.splitting import QueueRange
from ternmq import TagFilter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Kafka's names, and ours.
_ALIASES = {"partition": "queue_id", "timestamp": "store_timestamp"}
_MS = timedelta(milliseconds=1)
_Comparison = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
_MAX = 2**63 - 1
# The offsets that each comparison leaves, as a range without its end.
_RANGES: dict[type[Filter], Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, _MAX),
    GreaterThanOrEqual: lambda value: (value, _MAX),
    LessThan: lambda value: (0, value),
    LessThanOrEqual: lambda value: (0, value + 1),
}


@dataclass(frozen=True, slots=True)
class WantedRanges:
    """The ranges of a read that conditions leave; None: any."""

    topics: frozenset[object] | None = None
    brokers: frozenset[object] | None = None
    queue_ids: frozenset[object] | None = None
    first: int = 0
    behind_last: int = _MAX
    since: datetime | None = None
    until: datetime | None = None
    """Whole milliseconds, as brokers have them: stored at or after `since`, and before `until`."""

    def cut_range(self, wanted: QueueRange) -> QueueRange:
        """The range, or as much of it as is left; an empty one if nothing is."""
        broker, _, queue_id = wanted.queue.rpartition("/")
        for value, allowed in ((wanted.topic, self.topics), (broker, self.brokers), (int(queue_id), self.queue_ids)):
            if allowed is not None and value not in allowed:
                return replace(wanted, stop=wanted.start)
        start = max(wanted.start, self.first)
        return replace(wanted, start=start, stop=max(start, min(wanted.stop, self.behind_last)))

    def with_time(self, condition: Filter) -> "WantedRanges":
        """Return the ranges that a condition on the time of storing leaves."""
        path, values = _column_and_values(condition)
        if path != "store_timestamp" or type(condition) not in _RANGES:
            return self
        [value] = values
        if not isinstance(value, datetime) or value.tzinfo is None:
            return self
        floor = value - timedelta(microseconds=value.microsecond % 1000)
        ceiling = floor if floor == value else floor + _MS
        since = {GreaterThan: floor + _MS, GreaterThanOrEqual: ceiling, EqualTo: ceiling}.get(type(condition))
        until = {LessThan: ceiling, LessThanOrEqual: floor + _MS, EqualTo: floor + _MS}.get(type(condition))
        return replace(
            self,
            since=max(filter(None, (self.since, since)), default=None),
            until=min(filter(None, (self.until, until)), default=None),
        )

    def with_filter(self, condition: Filter) -> "WantedRanges | None":
        """Return the filter with one more condition; None if it can't be expressed."""
        path, values = _column_and_values(condition)
        if path == "offset" and type(condition) in _RANGES:
            [value] = values
            if not isinstance(value, int):
                return None
            first, behind_last = _RANGES[type(condition)](value)
            return replace(self, first=max(self.first, first), behind_last=min(self.behind_last, behind_last))
        if path == "topic" and isinstance(condition, EqualTo | In):
            return replace(self, topics=_intersect_values(self.topics, values))
        if path == "broker" and isinstance(condition, EqualTo | In):
            return replace(self, brokers=_intersect_values(self.brokers, values))
        if path == "queue_id" and isinstance(condition, EqualTo | In):
            return replace(self, queue_ids=_intersect_values(self.queue_ids, values))
        return None


class FilteringTopicReader(TopicReader):
    """A batch reader that takes conditions of the query."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        super().__init__(options, schema)
        self._wanted = WantedRanges()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Return the filters that Spark must check itself."""
        for condition in filters:
            self._wanted = self._wanted.with_time(condition)
            wanted = self._wanted.with_filter(condition)
            if wanted is not None:
                self._wanted = wanted
            elif not self._take_tags(condition):
                yield condition

    @in_one_line()
    def partitions(self) -> list[InputPartition]:
        return self._plan_partitions(self._wanted.cut_range, since=self._wanted.since, until=self._wanted.until)

    def _take_tags(self, condition: Filter) -> bool:
        """Have the broker leave out other tags. One filter for a read: those of the options come first."""
        reading = self._options.reading
        path, values = _column_and_values(condition)
        if path != "tag" or not isinstance(condition, EqualTo | In) or reading.passing is not None:
            return False
        tags = [value for value in values if isinstance(value, str)]
        if len(tags) != len(values) or not all(_is_plain(tag) for tag in tags):
            return False
        self._options = replace(self._options, reading=replace(reading, passing=TagFilter("||".join(tags))))
        return True


def _column_and_values(condition: Filter) -> tuple[str, tuple[object, ...]]:
    if isinstance(condition, In) and condition.value:
        return _column_name(condition.attribute), tuple(condition.value)
    if isinstance(condition, _Comparison):
        return _column_name(condition.attribute), (condition.value,)
    return "", ()


def _column_name(attribute: tuple[str, ...]) -> str:
    path = ".".join(attribute)
    return _ALIASES.get(path, path)


def _intersect_values(known: frozenset[object] | None, values: tuple[object, ...]) -> frozenset[object]:
    return frozenset(values) if known is None else known & frozenset(values)


def _is_plain(tag: str) -> bool:
    """Whether an expression of tags means exactly this one."""
    return bool(tag) and tag == tag.strip() and tag != "*" and "|" not in tag
