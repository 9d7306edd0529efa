"""How many topics and groups have series of their own: clients make both as they like, and whoever keeps metrics pays
for each series. The others are told together, as `other`.

Counts      those that came first have series of their own, and keep them: what is told as `other` may only grow.
Lags        the largest, since these are what somebody has to look at.
"""

import logging
from itertools import islice
from typing import TYPE_CHECKING

from ternmq_runtime.observability.figures import OTHER, Lag

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = logging.getLogger(__name__)


class SeriesLimit:
    """The limit of a process, in any thread; it says once of each kind of names that there are more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._said: set[str] = set()

    def counts(self, kind: str, counts: dict[str, int]) -> dict[str, int]:
        """What is told of counts by name, of which none ever goes away; `kind` says what is named."""
        if len(counts) <= self._most:
            return counts
        self._say(kind, len(counts))
        told = dict(islice(counts.items(), self._most))
        told[OTHER] = told.get(OTHER, 0) + sum(islice(counts.values(), self._most, None))
        return told

    def with_zeros(self, told: dict[str, int], counts: dict[str, int], names: "Iterable[str]") -> dict[str, int]:
        """`told` of `counts`, and a zero for each other name as far as there is room: so the first one that is counted
        is an increase, and not a series that nobody knew."""
        for name in names:
            if len(told) >= self._most:
                break
            if name not in counts:
                told.setdefault(name, 0)
        return told

    def lags(self, lags: list[Lag]) -> list[Lag]:
        """What is told of the lags of all pairs."""
        if len(lags) <= self._most:
            return lags
        self._say("pairs of topic and group", len(lags))
        ranked = sorted(lags, key=lambda lag: lag.messages, reverse=True)
        rest = ranked[self._most :]
        together = Lag(
            OTHER,
            OTHER,
            sum(lag.messages for lag in rest),
            sum(lag.in_flight for lag in rest),
            max(lag.oldest_age_ms for lag in rest),
        )
        return [*ranked[: self._most], together]

    def _say(self, kind: str, found: int) -> None:
        if kind not in self._said:
            self._said.add(kind)
            _log.warning(
                "there are %d %s: %d of them have metrics of their own, the others are told together as %r "
                "(metric_series_max)",
                found,
                kind,
                self._most,
                OTHER,
            )
