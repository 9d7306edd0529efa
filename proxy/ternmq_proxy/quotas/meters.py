"""The meters of one kind, by name. Clients may invent names, so their number is limited.

Forgotten   are only names that have taken nothing for so long that their meter is as new. While there is none, and as
            many are known as the limit allows, all new names share one meter: inventing names gains nothing.
"""

from typing import TYPE_CHECKING, Final

from ternmq_common.resources.quotas import DEFAULT_NAME, Quota
from ternmq_proxy.quotas.meter import QuotaMeter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

METERS_MAX: Final = 10_000
# Apart from all names: no name of a user, topic, group or client begins with a space.
OTHERS: Final = " others"


class QuotaMeters:
    """The meters. Invariant: `_by_name` is in the order of the last use, and has at most `most` names without an own
    quota."""

    __slots__ = ("_by_name", "_default", "_most", "_others", "_own", "part", "quotas")

    def __init__(self, quotas: "Mapping[str, Quota]", most: int = METERS_MAX) -> None:
        """`quotas` are those of the kind, by name."""
        self.quotas = quotas
        self._default = quotas.get(DEFAULT_NAME)
        self._own: dict[str, QuotaMeter] = {}
        self._by_name: dict[str, QuotaMeter] = {}
        self._others: QuotaMeter | None = None
        self._most = most
        self.part = 1.0
        """The part of each limit for a new meter; how proxies share what no one has requested yet."""

    def find_meter(self, name: str, now: float) -> QuotaMeter | None:
        """Return the meter of a name, None if it has no quota."""
        meter = self._own.get(name)
        if meter is not None:
            return meter
        if self._default is None and name not in self.quotas:
            return None
        meter = self._by_name.pop(name, None)
        if meter is not None:
            self._by_name[name] = meter
            return meter
        return self._make_meter(name, now)

    def _make_meter(self, name: str, now: float) -> QuotaMeter:
        own = None if name == DEFAULT_NAME else self.quotas.get(name)
        if own is not None:
            meter = self._own[name] = QuotaMeter(own, name, now, self.part)
            return meter
        assert self._default is not None
        if len(self._by_name) >= self._most:
            oldest = next(iter(self._by_name))
            if not self._by_name[oldest].is_idle(now):
                if self._others is None:
                    self._others = QuotaMeter(self._default, OTHERS, now, self.part)
                return self._others
            del self._by_name[oldest]
        meter = self._by_name[name] = QuotaMeter(self._default, name, now, self.part)
        return meter

    def quota_of(self, name: str) -> Quota | None:
        """Return the quota of the name; this creates no meter."""
        return self.quotas.get(name, self._default)

    def list_meters(self) -> "Iterator[QuotaMeter]":
        """Return the existing meters."""
        yield from self._own.values()
        yield from self._by_name.values()
        if self._others is not None:
            yield self._others

    def with_quotas(self, quotas: "Mapping[str, Quota]") -> "QuotaMeters":
        """Return meters with other quotas; a name whose quota is unchanged keeps what it has taken."""
        meters = QuotaMeters(quotas, self._most)
        meters.part = self.part
        for name, meter in self._own.items():
            if quotas.get(name) == meter.quota:
                meters._own[name] = meter
        for name, meter in self._by_name.items():
            if name not in quotas and meters._default == meter.quota:
                meters._by_name[name] = meter
        return meters
