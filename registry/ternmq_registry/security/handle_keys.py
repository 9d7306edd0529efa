"""The keys of handles in the registry: the newest three, which every process reads (`common/catalog/handle_keys`).

The schema step that created the table created the first two keys, once for all processes of the registry.
"""

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select

from ternmq_common.catalog.handle_keys import KEY_BYTES, KEYS_AT_FIRST, KEYS_MAX, HandleKey
from ternmq_common.clock import now_ms
from ternmq_registry.sql.checksums import check_rows
from ternmq_registry.sql.database import raise_version
from ternmq_registry.tables import HANDLE_KEYS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ternmq_registry.sql.database import RegistryDatabase


class HandleKeyTable:
    """The part of the registry for the keys of handles."""

    _database: "RegistryDatabase"

    def rotate_handle_keys(self, *, all_at_once: bool = False) -> tuple[HandleKey, ...]:
        """Sign with the next key, and create another one for later; returns the keys accepted from now on.

        `all_at_once`: no former key is accepted, so all handles given before are refused.
        """
        with self._database.change_transaction() as connection:
            newest = connection.execute(select(func.max(HANDLE_KEYS.c.number))).scalar() or 0
            kept_after = newest if all_at_once else newest + 1 - KEYS_MAX
            connection.execute(delete(HANDLE_KEYS).where(HANDLE_KEYS.c.number <= kept_after))
            changed = raise_version(connection)
            numbers = range(newest + 1, newest + 1 + (1 if newest and not all_at_once else KEYS_AT_FIRST))
            rows = [
                {"number": number, "secret": secrets.token_hex(KEY_BYTES), "created_ms": now_ms(), "changed": changed}
                for number in numbers
            ]
            connection.execute(insert(HANDLE_KEYS), rows)
            # Their checksums are written at the end of this transaction.
            return _read_keys(connection, is_sealed=False)


def handle_keys_in(connection: "Connection") -> tuple[HandleKey, ...]:
    """All keys, the oldest first."""
    return _read_keys(connection, is_sealed=True)


def _read_keys(connection: "Connection", *, is_sealed: bool) -> tuple[HandleKey, ...]:
    rows = connection.execute(select(HANDLE_KEYS).order_by(HANDLE_KEYS.c.number)).mappings().all()
    if is_sealed:
        check_rows(connection, HANDLE_KEYS, rows)
    return tuple(HandleKey(row["number"], bytes.fromhex(row["secret"]), row["created_ms"]) for row in rows)
