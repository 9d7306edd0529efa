"""Quotas of users, topics, groups and clients, and their admin calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict, Unpack

from ternmq.admin.given_settings import read_given, write_given
from ternmq.admin.requests.call import AdminCall, read_nothing
from ternmq.admin.requests.checks import check_choice, check_text
from ternmq.times.durations import check_span
from ternmq_common.resources.quotas import LIMITS
from ternmq_protos.admin_v1 import admin_pb2

QuotaKindName = Literal["user", "topic", "group", "client"]
QUOTA_KINDS = ("user", "topic", "group", "client")


class QuotaLimits(TypedDict, total=False):
    """The limits of a quota, all proxies together; one that is left out or None is no limit."""

    messages_in: int | None
    """Messages sent each second; of users, topics and clients."""

    bytes_in: int | None
    """Bytes of send requests, each second; of users, topics and clients."""

    messages_out: int | None
    """Messages delivered each second."""

    bytes_out: int | None
    """Bytes of messages delivered each second."""

    in_flight: int | None
    """Messages in flight at one time: received and not settled; of topics and groups."""

    connections: int | None
    """Connections at one time; of users and clients."""

    topics_per_hour: int | None
    """Topics that are created by their first message; of users."""

    burst: timedelta | None
    """How much of a rate may be used at once; by default that of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota. `name` is `*` for all of the kind without a quota of their own; the limits are those of
    `QuotaLimits`."""

    kind: str
    name: str
    messages_in: int | None
    bytes_in: int | None
    messages_out: int | None
    bytes_out: int | None
    in_flight: int | None
    connections: int | None
    topics_per_hour: int | None
    burst: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of quota `quota` by one name, at all proxies that know it together: the recent `rate` a second for each
    limit, of the `share` that is theirs now. `refused` counts since they know the name."""

    kind: str
    name: str
    quota: str
    refused: int
    connections: int
    share: Mapping[str, float]
    rate: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaList:
    """All quotas, and the uses of up to a hundred names that use most of theirs. `names` is how many are counted, at
    `proxies` proxies (or workers); that is 1 while it can't read what the others wrote in the registry."""

    quotas: tuple[Quota, ...]
    uses: tuple[QuotaUse, ...]
    names: int
    proxies: int


def put_quota(kind: QuotaKindName, name: str, **limits: Unpack[QuotaLimits]) -> AdminCall[bool]:
    """Set the quota of a user, topic, group or client to these limits and no others; True if there was none.

    The name `*` is the default of its kind. A quota holds for all proxies together.
    """
    quota = admin_pb2.Quota(kind=check_choice("kind", kind, QUOTA_KINDS), name=check_text("name", name))
    burst = limits.get("burst")
    given = {limit: value for limit, value in limits.items() if limit != "burst"}
    write_given(quota, "a quota has no limit", LIMITS, given, others=["burst"])
    if burst is not None:
        quota.burst.FromTimedelta(check_span("burst", burst))
    request = admin_pb2.PutQuotaRequest(quota=quota)
    return AdminCall(request, lambda answer: answer.created)


def delete_quota(kind: QuotaKindName, name: str) -> AdminCall[None]:
    """Remove a quota."""
    request = admin_pb2.DeleteQuotaRequest(kind=check_choice("kind", kind, QUOTA_KINDS), name=check_text("name", name))
    return AdminCall(request, read_nothing)


def list_quotas() -> AdminCall[QuotaList]:
    """List all quotas, and the names that use most of them at the server that answers."""
    return AdminCall(admin_pb2.ListQuotasRequest(), _read_list)


def _read_list(answer: admin_pb2.ListQuotasResponse) -> QuotaList:
    return QuotaList(
        quotas=tuple(map(_read_quota, answer.quotas)),
        uses=tuple(map(_read_use, answer.uses)),
        names=answer.names,
        proxies=answer.proxies,
    )


def _read_quota(found: admin_pb2.Quota) -> Quota:
    return Quota(kind=found.kind, name=found.name, burst=found.burst.ToTimedelta(), **read_given(found, LIMITS))


def _read_use(found: admin_pb2.QuotaUse) -> QuotaUse:
    return QuotaUse(
        kind=found.kind,
        name=found.name,
        quota=found.quota,
        refused=found.refused,
        connections=found.connections,
        share=dict(found.share),
        rate=dict(found.rate),
    )
