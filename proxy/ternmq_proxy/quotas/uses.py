"""What is taken of quotas: here, as the other proxies hear it, and at all of them together."""

from typing import TYPE_CHECKING

from ternmq_registry.quotas import QuotaUse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_proxy.quotas.meter import Meter
    from ternmq_proxy.quotas.quotas import Quotas
    from ternmq_registry.quotas import Uses

# Those that take most of theirs: a client of each name could be there.
USES_MAX = 100


def uses_of(quotas: "Quotas") -> "Uses":
    """Of each name that is known here."""
    now = quotas.now()
    return {meter.title: _use(meter, quotas, now) for meter in quotas.meters()}


def most_used(uses: "Uses") -> "Uses":
    """Those that take most of what they may, of `USES_MAX` names at most."""
    titles = sorted(uses, key=lambda title: _used(uses[title]), reverse=True)
    return {title: uses[title] for title in titles[:USES_MAX]}


def summed(all_uses: "Iterable[Uses]") -> "Uses":
    """Of each name, what all take together."""
    total: Uses = {}
    for uses in all_uses:
        for title, use in uses.items():
            before = total.get(title)
            total[title] = use if before is None else _both(before, use)
    return total


def _use(meter: "Meter", quotas: "Quotas", now: float) -> QuotaUse:
    return QuotaUse(
        refused=meter.refused, connections=quotas.connections(meter), share=meter.shares(), rate=meter.rates(now)
    )


def _both(one: QuotaUse, other: QuotaUse) -> QuotaUse:
    return QuotaUse(
        refused=one["refused"] + other["refused"],
        connections=one["connections"] + other["connections"],
        share=_added(one["share"], other["share"]),
        rate=_added(one["rate"], other["rate"]),
    )


def _added(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {limit: one.get(limit, 0.0) + other.get(limit, 0.0) for limit in one.keys() | other.keys()}


def _used(use: QuotaUse) -> float:
    """The part of what it may take that it takes, of the rate of which that is most."""
    return max(
        (rate / use["share"][limit] for limit, rate in use["rate"].items() if use["share"].get(limit)), default=0.0
    )
