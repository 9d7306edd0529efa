"""The use of quotas: here, as reported to other proxies, and at all proxies together."""

from typing import TYPE_CHECKING

from ternmq_registry.quotas import QuotaUse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_proxy.quotas.meter import QuotaMeter
    from ternmq_proxy.quotas.quotas import ClientQuotas
    from ternmq_registry.quotas import Uses

# The names that take most of their quotas, since clients may have any number of names.
USES_MAX = 100


def read_uses(quotas: "ClientQuotas") -> "Uses":
    """Return what each known name takes."""
    now = quotas.now()
    return {meter.quota_title: _meter_use(meter, quotas, now) for meter in quotas.list_meters()}


def most_used(uses: "Uses") -> "Uses":
    """Return the uses that take most of their quotas, for at most `USES_MAX` names."""
    titles = sorted(uses, key=lambda title: _used_share(uses[title]), reverse=True)
    return {title: uses[title] for title in titles[:USES_MAX]}


def sum_uses(all_uses: "Iterable[Uses]") -> "Uses":
    """Return what all proxies together take, by name."""
    total: Uses = {}
    for uses in all_uses:
        for title, use in uses.items():
            before = total.get(title)
            total[title] = use if before is None else _add_uses(before, use)
    return total


def _meter_use(meter: "QuotaMeter", quotas: "ClientQuotas", now: float) -> QuotaUse:
    return QuotaUse(
        refused=meter.refused,
        connections=quotas.connection_count(meter),
        share=meter.rate_shares(),
        rate=meter.taken_rates(now),
    )


def _add_uses(one: QuotaUse, other: QuotaUse) -> QuotaUse:
    return QuotaUse(
        refused=one["refused"] + other["refused"],
        connections=one["connections"] + other["connections"],
        share=_add_rates(one["share"], other["share"]),
        rate=_add_rates(one["rate"], other["rate"]),
    )


def _add_rates(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {limit: one.get(limit, 0.0) + other.get(limit, 0.0) for limit in one.keys() | other.keys()}


def _used_share(use: QuotaUse) -> float:
    """Return the largest used part of all rates."""
    return max(
        (rate / use["share"][limit] for limit, rate in use["rate"].items() if use["share"].get(limit)), default=0.0
    )
