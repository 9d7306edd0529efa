"""Limits how many topics and groups have metric series of their own. Clients create as many as they like, and each
series costs storage of metrics. The others are reported together, as `other`.

Counts      the names that came first have series of their own, and keep them as long as the topic or group exists. Then
            the next ones get series, from 0 on: what was reported of them as `other` stays there, since a counter may
            only grow.
Lags        the largest have series, since these are what operators have to look at.
"""

import logging
from itertools import islice
from typing import TYPE_CHECKING

from ternmq_runtime.observability.figures import GroupLag
from ternmq_runtime.observability.name_counts import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = logging.getLogger(__name__)


class _CounterSeries:
    """The series of one counter: which names have one of their own, and what was reported of the others."""

    def __init__(self) -> None:
        self._own: dict[str, int] = {}
        """How much of each was reported as `other` before."""
        self._others: dict[str, int] = {}
        """The last reported value of each of the others."""
        self._left = 0
        """The values of forgotten names that stay in `other`."""

    def report_counts(self, counts: dict[str, int], most: int) -> dict[str, int]:
        """Return the counts to report, with at most `most` names of their own."""
        for name in [name for name in self._own if name not in counts]:
            del self._own[name]
        for name, before in list(self._others.items()):
            if counts.get(name, 0) < before:  # it was deleted, or created again
                self._left += self._others.pop(name)
        for name in islice((name for name in counts if name not in self._own), most - len(self._own)):
            before = self._own[name] = self._others.pop(name, 0)
            self._left += before
        limited = {}
        for name, before in self._own.items():
            if counts[name] < before:
                self._own[name] = 0
            limited[name] = counts[name] - self._own[name]
        self._others = {name: count for name, count in counts.items() if name not in self._own}
        if self._others or self._left:
            limited[OTHER] = limited.get(OTHER, 0) + self._left + sum(self._others.values())
        return limited


class SeriesLimit:
    """The limit of a process; it logs once for each kind of names that it was reached. For any thread, one caller at a
    time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._logged_kinds: set[str] = set()
        self._series: dict[str, _CounterSeries] = {}

    def limit_counts(self, counter: str, kind: str, counts: dict[str, int]) -> dict[str, int]:
        """Return the counts to report; each must only grow until its name goes away. `kind`: what the names are."""
        if len(counts) > self._most:
            self._log_limit(kind, len(counts))
        return self._series.setdefault(counter, _CounterSeries()).report_counts(counts, self._most)

    def add_zeros(self, reported: dict[str, int], counts: dict[str, int], names: "Iterable[str]") -> dict[str, int]:
        """Add to `limited` a zero for each other name as far as there is room. So the first count of a name is an
        increase, and not a new series. `counts`: the counts that `limited` was taken from."""
        for name in names:
            if len(reported) >= self._most:
                break
            if name not in counts:
                reported.setdefault(name, 0)
        return reported

    def limit_lags(self, lags: list[GroupLag]) -> list[GroupLag]:
        """Return the lags to report: the largest, and the sum of the others."""
        if len(lags) <= self._most:
            return lags
        self._log_limit("pairs of topic and group", len(lags))
        ranked = sorted(lags, key=lambda lag: lag.messages, reverse=True)
        rest = ranked[self._most :]
        together = GroupLag(
            OTHER,
            OTHER,
            sum(lag.messages for lag in rest),
            sum(lag.in_flight for lag in rest),
            max(lag.oldest_age_ms for lag in rest),
            sum(lag.lost for lag in rest),
        )
        return [*ranked[: self._most], together]

    def _log_limit(self, kind: str, found: int) -> None:
        if kind not in self._logged_kinds:
            self._logged_kinds.add(kind)
            _log.warning(
                "there are %d %s: %d of them have metrics of their own, the others are reported together as %r "
                "(metric_series_max)",
                found,
                kind,
                self._most,
                OTHER,
            )
