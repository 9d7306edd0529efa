"""Quotas in the registry, and the proxies' demand of them.

Demand  each proxy writes it into a row of its own (`proxies`), with a lease, and reads those of all live proxies: a
        JSON object of `kind:name` to limit to demand, a rate or a count. It raises no version.
Uses    what the proxy has used of its shares, in the same row, for queries: a JSON object of `kind:name` to the fields
        of `QuotaUse`. No decision depends on it.
"""

import json
from typing import TYPE_CHECKING, TypedDict, cast

from sqlalchemy import delete, func, insert, or_, select, update

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.resources.quotas import QUOTAS_MAX, Quota, QuotaKind, QuotaSnapshot
from ternmq_registry.members.proxies import write_proxy
from ternmq_registry.sql.checksums import check_rows
from ternmq_registry.sql.database import raise_version
from ternmq_registry.sql.rows import quota_of, quota_row
from ternmq_registry.tables import DATABASE_NOW_MS, PROXIES, QUOTAS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_registry.sql.database import RegistryDatabase

Demand = dict[str, dict[str, float]]
"""By `kind:name`, then by limit."""


class QuotaUse(TypedDict):
    """The use of a quota at one proxy.

    Recent rates per second, its share of each limit, its refusals since it knows the name, and connections at this
    moment.
    """

    refused: int
    connections: int
    share: dict[str, float]
    rate: dict[str, float]


Uses = dict[str, QuotaUse]
"""By `kind:name`."""


class QuotaTable:
    """The part of the registry for quotas."""

    _database: "RegistryDatabase"

    def put_quota(self, quota: Quota) -> bool:
        """Create the quota, or replace the one of its kind and name; returns whether there was none.

        TOO_MANY_REQUESTS if there are `QUOTAS_MAX` already.
        """
        with self._database.change_transaction() as connection:
            its = (QUOTAS.c.kind == quota.kind.value, QUOTAS.c.name == quota.name)
            values = {**quota_row(quota), "changed": raise_version(connection)}
            if connection.execute(update(QUOTAS).where(*its).values(**values)).rowcount:
                return False
            if _count_quotas(connection) >= QUOTAS_MAX:
                raise MessagingError(
                    ErrorCode.TOO_MANY_REQUESTS,
                    f"there are {QUOTAS_MAX} quotas, the most allowed; delete some with `ternmq quota remove`",
                )
            connection.execute(insert(QUOTAS).values(**values))
            return True

    def delete_quota(self, kind: QuotaKind, name: str) -> bool:
        """Delete the quota; False if it was not there."""
        with self._database.change_transaction() as connection:
            its = (QUOTAS.c.kind == kind.value, QUOTAS.c.name == name)
            if not connection.execute(delete(QUOTAS).where(*its)).rowcount:
                return False
            raise_version(connection)
            return True

    def exchange_demand(self, proxy: str, demand: Demand, uses: Uses, lease_ms: int) -> dict[str, Demand]:
        """Write what this proxy demands and uses; returns the demand of all live proxies, this one too, by name."""
        values = {"lease_end_ms": DATABASE_NOW_MS + lease_ms, "demand": json.dumps(demand), "uses": json.dumps(uses)}
        with self._database.write_transaction() as connection:
            write_proxy(connection, proxy, values, {})
            # Rows whose leases ended may be there for a moment longer.
            is_heard = or_(PROXIES.c.lease_end_ms >= DATABASE_NOW_MS, PROXIES.c.name == proxy)
            rows = connection.execute(select(PROXIES.c.name, PROXIES.c.demand).where(is_heard)).all()
        return {name: cast("Demand", json.loads(text)) for name, text in rows}

    def uses_elsewhere(self, proxy: str) -> list[Uses]:
        """Return the last reported use at all other live proxies."""
        others = (PROXIES.c.name != proxy, PROXIES.c.lease_end_ms >= DATABASE_NOW_MS, PROXIES.c.uses.is_not(None))
        with self._database.read_transaction() as connection:
            texts = connection.execute(select(PROXIES.c.uses).where(*others)).scalars().all()
        return [cast("Uses", json.loads(text)) for text in texts]


def quotas_in(connection: "Connection", since: "RegistrySnapshot") -> QuotaSnapshot:
    """All quotas; the object of `since` itself if nothing has changed since then."""
    changed = {**since.quotas.quotas, **_read_changed(connection, since.version)}
    if len(changed) != _count_quotas(connection):
        # A quota was deleted, which no row shows.
        changed = _read_changed(connection, 0)
    return since.quotas if changed == since.quotas.quotas else QuotaSnapshot(changed)


def _read_changed(connection: "Connection", since: int) -> dict[tuple[QuotaKind, str], Quota]:
    rows = connection.execute(select(QUOTAS).where(QUOTAS.c.changed > since)).mappings().all()
    check_rows(connection, QUOTAS, rows)
    quotas = map(quota_of, rows)
    return {(quota.kind, quota.name): quota for quota in quotas}


def _count_quotas(connection: "Connection") -> int:
    return int(connection.execute(select(func.count()).select_from(QUOTAS)).scalar_one())
