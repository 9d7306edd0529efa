"""The schema of a cluster's registry; only `ternmq registry migrate` migrates it."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from ternmq_registry import migrations
from ternmq_registry.errors import unavailable_if_unreachable
from ternmq_registry.sql.database import create_postgres_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

# Any number that nothing else locks in this database: "ternmq" in ASCII.
LOCK = 0x7465726E6D71


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The schema's version before, None if there was none, and after a migration."""

    before: str | None
    after: str


def migrate_schema(url: str, password_file: "Path | None" = None) -> MigrationResult:
    """Migrate the schema, once even if several processes do it at the same time; the others wait."""
    with _connect_patiently(url, password_file) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        before = migrations.current_version(connection)
        migrations.upgrade_schema(connection)
        return MigrationResult(before, migrations.NEWEST)


def schema_version(url: str, password_file: "Path | None" = None) -> str | None:
    """The version of the database's schema now, None if there is no registry."""
    with _connect_patiently(url, password_file) as connection:
        return migrations.current_version(connection)


@contextmanager
def _connect_patiently(url: str, password_file: "Path | None") -> "Iterator[Connection]":
    engine = create_postgres_engine(url, password_file, patient=True)
    try:
        with unavailable_if_unreachable(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
