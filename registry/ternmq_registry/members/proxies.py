"""Processes of proxies in the registry: a row for each, while its lease lives.

Two writers: the process reports itself (`report_proxy`), and it shares quotas (`quotas.exchange_demand`), which is why
each leaves the other's columns alone. Neither raises the version.

Deadlocks  after an outage all leases have ended, and all proxies write at once. Each writes its own row before it
           removes others, and removes none that another proxy is writing, so that no two proxies wait for each other.
"""

from typing import TYPE_CHECKING, Any

from sqlalchemy import case, delete, select

from ternmq_common.catalog.cluster import ProxyEntry
from ternmq_registry.sql.rows import load_text, proxy_of
from ternmq_registry.tables import DATABASE_NOW_MS, PROXIES

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.dialects import postgresql, sqlite

    from ternmq_registry.sql.database import RegistryDatabase

NO_DEMAND = "{}"


class ProxyTable:
    """The part of the registry for proxies."""

    _database: "RegistryDatabase"

    def report_proxy(self, proxy: ProxyEntry, lease_ms: int) -> None:
        """Write the row of the process, with a lease of at least that long."""
        lease_end_ms = DATABASE_NOW_MS + lease_ms
        reported = {
            "server": proxy.server,
            "address": proxy.address,
            "version": proxy.version,
            "started_ms": proxy.started_ms,
            "load": load_text(proxy.load),
        }
        longer = case((PROXIES.c.lease_end_ms > lease_end_ms, PROXIES.c.lease_end_ms), else_=lease_end_ms)
        first = {"lease_end_ms": lease_end_ms, "demand": NO_DEMAND}
        with self._database.write_transaction() as connection:
            write_proxy(connection, proxy.name, {**reported, "lease_end_ms": longer}, first)

    def list_proxies(self) -> list[ProxyEntry]:
        """All live processes that have reported themselves, by name."""
        # A process of an older version only shares quotas.
        conditions = (PROXIES.c.lease_end_ms >= DATABASE_NOW_MS, PROXIES.c.server.is_not(None))
        with self._database.read_transaction() as connection:
            rows = connection.execute(select(PROXIES).where(*conditions).order_by(PROXIES.c.name)).mappings().all()
        return [proxy_of(row) for row in rows]

    def remove_proxy(self, proxy: str) -> None:
        """Remove the row of a process that ends, so that the others need not wait for its lease."""
        with self._database.write_transaction() as connection:
            connection.execute(delete(PROXIES).where(PROXIES.c.name == proxy))


def write_proxy(connection: "Connection", name: str, values: dict[str, Any], first: dict[str, Any]) -> None:
    """Write these values into the row of that process, and `first` too if it is new; remove rows whose leases ended."""
    row = insert_statement(connection.dialect.name).values(name=name, **{**values, **first})
    connection.execute(row.on_conflict_do_update(index_elements=[PROXIES.c.name], set_=values))
    over = select(PROXIES.c.name).where(PROXIES.c.lease_end_ms < DATABASE_NOW_MS, PROXIES.c.name != name)
    connection.execute(delete(PROXIES).where(PROXIES.c.name.in_(over.with_for_update(skip_locked=True))))


def insert_statement(dialect: str) -> "postgresql.Insert | sqlite.Insert":
    """Return an insertion into the table; a process needs one dialect, and each takes long to import."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(PROXIES)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(PROXIES)
