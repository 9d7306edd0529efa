"""Values in the registry that tools of RocketMQ keep in a name server: a text for each namespace and name.

They are not in snapshots: they are read one by one. Nothing here depends on any of them.
"""

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_registry.sql.checksums import check_rows
from ternmq_registry.sql.database import raise_version
from ternmq_registry.tables import NAME_SERVER_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_registry.sql.database import RegistryDatabase

NAME_SERVER_VALUES_MAX = 1000


class NameServerValueTable:
    """The part of the registry for these values."""

    _database: "RegistryDatabase"

    def read_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace by name."""
        wanted = select(NAME_SERVER_VALUES).where(NAME_SERVER_VALUES.c.namespace == namespace)
        with self._database.read_transaction() as connection:
            rows = connection.execute(wanted.order_by(NAME_SERVER_VALUES.c.name)).mappings().all()
            check_rows(connection, NAME_SERVER_VALUES, rows)
        return {row["name"]: row["value"] for row in rows}

    def put_value(self, namespace: str, name: str, value: str, *, values_max: int = NAME_SERVER_VALUES_MAX) -> None:
        """Set a value. TOO_MANY_REQUESTS if there are `values_max` others already."""
        with self._database.change_transaction() as connection:
            its = (NAME_SERVER_VALUES.c.namespace == namespace, NAME_SERVER_VALUES.c.name == name)
            values = {"value": value, "changed": raise_version(connection)}
            if connection.execute(update(NAME_SERVER_VALUES).where(*its).values(**values)).rowcount:
                return
            count = int(connection.execute(select(func.count()).select_from(NAME_SERVER_VALUES)).scalar_one())
            if count >= values_max:
                raise MessagingError(
                    ErrorCode.TOO_MANY_REQUESTS,
                    f"there are {values_max} values, the most allowed; delete some (deleteKvConfig)",
                )
            connection.execute(insert(NAME_SERVER_VALUES).values(namespace=namespace, name=name, **values))

    def delete_value(self, namespace: str, name: str) -> bool:
        """Delete the value; False if it was not there."""
        with self._database.change_transaction() as connection:
            its = (NAME_SERVER_VALUES.c.namespace == namespace, NAME_SERVER_VALUES.c.name == name)
            if not connection.execute(delete(NAME_SERVER_VALUES).where(*its)).rowcount:
                return False
            raise_version(connection)
            return True

    def import_values(self, values: "Iterable[tuple[str, str, str]]") -> None:
        """Insert values of another registry, each by namespace and name; this one has none."""
        for namespace, name, value in values:
            self.put_value(namespace, name, value)
