"""Quotas, and what is taken of them."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.resources.quotas import Quota, QuotaKind, check_quota, parse_title
from ternmq_proxy.access.needs import CLUSTER_GET, SUPER_USER
from ternmq_proxy.quotas.shares import name_of
from ternmq_proxy.quotas.uses import most_used, read_uses, sum_uses
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services
    from ternmq_registry.quotas import Uses


class QuotaUses(NamedTuple):
    """All quotas by kind and name, and the titles that use most, of `names`, at so many `proxies`."""

    quotas: "Mapping[tuple[QuotaKind, str], Quota]"
    uses: "Uses"
    names: int
    proxies: int


async def put_quota(name: str, read: "Callable[[], Quota]", call: "Call", services: "Services") -> bool:
    """Put the quota that `read` returns in the place of the one of its kind and name; return whether it is new.
    BAD_REQUEST for one that makes no sense."""
    services.access.require_change("PutQuota", call, _need_of(name))
    return await services.catalog.put_quota(check_quota(read()))


async def delete_quota(kind_text: str, name: str, call: "Call", services: "Services") -> None:
    """Delete the quota; NOT_FOUND if there is none."""
    services.access.require_change("DeleteQuota", call, _need_of(name))
    kind, checked = parse_title(f"{kind_text}:{name}")
    await services.catalog.delete_quota(kind, checked)


async def list_quotas(call: "Call", services: "Services") -> QuotaUses:
    """Return all quotas, and what is taken of them at all proxies together; only here while the registry is away."""
    services.access.require_all("ListQuotas", call, (CLUSTER_GET, "quotas"))
    elsewhere = await _uses_elsewhere(services)
    uses = sum_uses([read_uses(services.quotas), *elsewhere])
    return QuotaUses(services.catalog.quota_snapshot.quotas, most_used(uses), len(uses), 1 + len(elsewhere))


async def _uses_elsewhere(services: "Services") -> "list[Uses]":
    catalog = services.catalog
    if catalog.is_alone or not catalog.quota_snapshot.quotas:
        return []
    try:
        return await catalog.proxies.uses_elsewhere(name_of(services.process))
    except RegistryUnavailable:
        return []  # the answer says of how many proxies it is, and the directory logs why


def _need_of(name: str) -> "NamedNeed":
    return SUPER_USER, f"quotas/{name}"
