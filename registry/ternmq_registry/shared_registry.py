"""The embedded registry shared by several processes of one stack: workers, and the broker between them.

The file has the same content as that of a stack in one process, so that each can go on where the other ended: it has
no brokers, and topics name none. The one broker is added to what is read. Deletions are kept until that broker has
done them, as in a cluster: a worker may create a topic again before another worker has informed the broker of its
deletion.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from sqlalchemy import delete

from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot
from ternmq_registry.registry import Registry
from ternmq_registry.sql.database import keep_room
from ternmq_registry.sql.file_opening import open_engine
from ternmq_registry.tables import DELETIONS

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from ternmq_registry.security.secret_encryption import SecretEncryption


class SharedRegistry(Registry):
    """A `Registry` with one broker that is not in the file. SQLite makes changes wait for each other."""

    _keeps_deletions = True

    def __init__(
        self, engine: "Engine", broker: str, address: str, secret_encryption: "SecretEncryption | None" = None
    ) -> None:
        super().__init__(engine, secret_encryption)
        self._brokers = {broker: BrokerEntry(name=broker, address=address, epoch=1)}

    @classmethod
    def open_shared(
        cls, path: "Path", *, broker: str, address: str, secret_encryption: "SecretEncryption | None" = None
    ) -> Self:
        """Open or create the file; the stack has a broker of this name at this address. StartupError."""
        engine = open_engine(path)
        keep_room(engine, path)
        return cls(engine, broker, address, secret_encryption)

    def drop_deletions(self) -> None:
        """Drop all deletions, which an earlier stack has done at once.

        For the broker, when it alone has the store, and before anything is deleted.
        """
        with self._database.write_transaction() as connection:
            connection.execute(delete(DELETIONS))

    def read_brokers(self) -> tuple[int, dict[str, BrokerEntry]]:
        version, _ = super().read_brokers()
        return version, self._brokers

    def read_snapshot(self, known: RegistrySnapshot | None = None) -> RegistrySnapshot:
        return replace(super().read_snapshot(known), brokers=self._brokers, is_placed=False)

    def set_applied_version(self, name: str, version: int) -> None:
        del name
        with self._database.write_transaction() as connection:
            connection.execute(delete(DELETIONS).where(DELETIONS.c.version <= version))
