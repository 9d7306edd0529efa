"""Calls of `ternmq.admin.v1.Admin` about quotas (`operations/admin/quotas.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.limits import SECOND_MS
from ternmq_common.resources.quotas import (
    DEFAULT_BURST_MS,
    DEFAULT_NAME,
    LIMITS,
    Quota,
    QuotaKind,
    parse_title,
)
from ternmq_common.resources.resource_settings import read_stored
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin import quotas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services
    from ternmq_registry.quotas import QuotaUse


async def put_quota(
    request: admin_pb2.PutQuotaRequest, call: "Call", services: "Services"
) -> admin_pb2.PutQuotaResponse:
    """Have a quota in the place of the one of its kind and name."""
    created = await quotas.put_quota(request.quota.name, lambda: _asked(request.quota), call, services)
    return admin_pb2.PutQuotaResponse(status=OK, created=created)


async def delete_quota(
    request: admin_pb2.DeleteQuotaRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteQuotaResponse:
    """Have no such quota."""
    await quotas.delete_quota(request.kind, request.name, call, services)
    return admin_pb2.DeleteQuotaResponse(status=OK)


async def list_quotas(
    request: admin_pb2.ListQuotasRequest, call: "Call", services: "Services"
) -> admin_pb2.ListQuotasResponse:
    """Return all quotas, and what is taken of them."""
    del request
    found = await quotas.list_quotas(call, services)
    return admin_pb2.ListQuotasResponse(
        status=OK,
        quotas=[_quota(quota) for _, quota in sorted(found.quotas.items())],
        uses=[_use(title, use, found.quotas) for title, use in found.uses.items()],
        names=found.names,
        proxies=found.proxies,
    )


def _asked(asked: admin_pb2.Quota) -> Quota:
    kind, name = parse_title(f"{asked.kind}:{asked.name}")
    burst_ms = asked.burst.ToMilliseconds() if asked.HasField("burst") else DEFAULT_BURST_MS
    return Quota(kind=kind, name=name, burst_ms=burst_ms, **read_stored(asked, LIMITS))


def _quota(quota: Quota) -> admin_pb2.Quota:
    burst = Duration(seconds=quota.burst_ms // SECOND_MS, nanos=quota.burst_ms % SECOND_MS * 1_000_000)
    return admin_pb2.Quota(kind=quota.kind.value, name=quota.name, burst=burst, **quota.limits)


def _use(title: str, use: "QuotaUse", known: "Mapping[tuple[QuotaKind, str], Quota]") -> admin_pb2.QuotaUse:
    word, _, name = title.partition(":")
    is_own = (QuotaKind(word), name) in known
    return admin_pb2.QuotaUse(kind=word, name=name, quota=name if is_own else DEFAULT_NAME, **use)
