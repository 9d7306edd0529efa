"""Calls of `ternmq.admin.v1.Admin` about quotas."""

from typing import TYPE_CHECKING

from ternmq_common.limits import SECOND_MS
from ternmq_common.quotas import (
    DEFAULT_BURST_MS,
    DEFAULT_NAME,
    KINDS_OF_LIMITS,
    Quota,
    QuotaKind,
    check_quota,
    parse_title,
)
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.quotas.shares import name_of
from ternmq_proxy.quotas.uses import most_used, read_uses, sum_uses
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services
    from ternmq_registry.quotas import QuotaUse, Uses


async def put_quota(
    request: admin_pb2.PutQuotaRequest, call: "Call", services: "Services"
) -> admin_pb2.PutQuotaResponse:
    """Have a quota in the place of the one of its kind and name; BAD_REQUEST for one that makes no sense."""
    del call
    created = await services.catalog.put_quota(check_quota(_asked(request.quota)))
    return admin_pb2.PutQuotaResponse(status=OK, created=created)


async def delete_quota(
    request: admin_pb2.DeleteQuotaRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteQuotaResponse:
    """Have no such quota; NOT_FOUND if there is none."""
    del call
    kind, name = parse_title(f"{request.kind}:{request.name}")
    await services.catalog.delete_quota(kind, name)
    return admin_pb2.DeleteQuotaResponse(status=OK)


async def list_quotas(
    request: admin_pb2.ListQuotasRequest, call: "Call", services: "Services"
) -> admin_pb2.ListQuotasResponse:
    """All quotas, and what is taken of them at all proxies together; only here while the registry is away."""
    del request, call
    elsewhere = await _uses_elsewhere(services)
    uses = sum_uses([read_uses(services.quotas), *elsewhere])
    known = services.catalog.quota_snapshot.quotas
    return admin_pb2.ListQuotasResponse(
        status=OK,
        quotas=[_quota(quota) for _, quota in sorted(known.items())],
        uses=[_use(title, use, known) for title, use in most_used(uses).items()],
        names=len(uses),
        proxies=1 + len(elsewhere),
    )


async def _uses_elsewhere(services: "Services") -> "list[Uses]":
    catalog = services.catalog
    if catalog.is_alone or not catalog.quota_snapshot.quotas:
        return []
    try:
        return await catalog.proxies.uses_elsewhere(name_of(services.process))
    except RegistryUnavailable:
        return []  # the answer says of how many proxies it is, and the directory logs why


def _asked(asked: admin_pb2.Quota) -> Quota:
    kind, name = parse_title(f"{asked.kind}:{asked.name}")
    limits = {limit: getattr(asked, limit) for limit in KINDS_OF_LIMITS if asked.HasField(limit)}
    burst_ms = asked.burst.ToMilliseconds() if asked.HasField("burst") else DEFAULT_BURST_MS
    return Quota(kind=kind, name=name, burst_ms=burst_ms, **limits)


def _quota(quota: Quota) -> admin_pb2.Quota:
    burst = Duration(seconds=quota.burst_ms // SECOND_MS, nanos=quota.burst_ms % SECOND_MS * 1_000_000)
    return admin_pb2.Quota(kind=quota.kind.value, name=quota.name, burst=burst, **quota.limits)


def _use(title: str, use: "QuotaUse", known: "Mapping[tuple[QuotaKind, str], Quota]") -> admin_pb2.QuotaUse:
    word, _, name = title.partition(":")
    is_own = (QuotaKind(word), name) in known
    return admin_pb2.QuotaUse(kind=word, name=name, quota=name if is_own else DEFAULT_NAME, **use)
