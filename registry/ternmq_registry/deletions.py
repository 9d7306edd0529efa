"""Deletions, for brokers that were away when topics and groups were deleted.

A deletion is kept until all brokers have done it; without brokers none is kept.
"""

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, func, insert, not_, select, update

from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_registry.tables import BROKERS, DELETIONS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ternmq_registry.sql.database import RegistryDatabase


class DeletionTable:
    """The part of the registry for deletions."""

    _database: "RegistryDatabase"

    def list_deletions(self, after: int) -> list[RegistryDeletion]:
        """The deletions above the version `after`, in order."""
        wanted = select(DELETIONS).where(DELETIONS.c.version > after).order_by(DELETIONS.c.version)
        with self._database.read_transaction() as connection:
            return [
                RegistryDeletion(row.version, DeletedKind(row.kind), row.name) for row in connection.execute(wanted)
            ]

    def applied_version(self, name: str) -> int:
        """The version up to which the broker has done all deletions; 0 if there is no such broker."""
        with self._database.read_transaction() as connection:
            return connection.execute(select(BROKERS.c.applied).where(BROKERS.c.name == name)).scalar() or 0

    def set_applied_version(self, name: str, version: int) -> None:
        """Note that the broker has done all deletions up to this version; it never goes back."""
        done = update(BROKERS).where(BROKERS.c.name == name, BROKERS.c.applied < version).values(applied=version)
        with self._database.write_transaction() as connection:
            if connection.execute(done).rowcount:
                forget_done(connection)


def record_deletion(connection: "Connection", deletion: RegistryDeletion, *, keep: bool = False) -> None:
    """Record a deletion in the transaction that deletes. `keep`: there is a broker that the registry does not know."""
    values = {"version": deletion.version, "kind": deletion.kind.value, "name": deletion.name}
    connection.execute(insert(DELETIONS).values(values))
    if not keep:
        forget_done(connection)


def forget_done(connection: "Connection") -> None:
    """Drop the deletions that all brokers have done."""
    slowest = select(func.min(BROKERS.c.applied)).scalar_subquery()
    no_broker = not_(exists(select(BROKERS.c.name)))
    connection.execute(delete(DELETIONS).where(no_broker | (DELETIONS.c.version <= slowest)))
