"""Registries on both databases: a file for each test, and the PostgreSQL of all tests of a process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from ternmq_registry.registry import Registry
from ternmq_registry.sql.checksums import is_checked, seal_changes
from ternmq_registry.sql.schema import migrate_schema
from tests.support.postgres import Postgres

MIGRATED = "migrated"

Open = Callable[[], Registry]
Sql = Callable[[str], None]


@pytest.fixture(scope="session")
def postgres(postgres: Postgres) -> Postgres:
    postgres.execute(f"CREATE DATABASE {MIGRATED}")
    migrate_schema(postgres.url_of(MIGRATED))
    return postgres


@contextmanager
def database(postgres: Postgres, template: str) -> Iterator[str]:
    """The URL of a database that goes with the test."""
    name = postgres.new_database(template)
    yield postgres.url_of(name)
    postgres.drop_database(name)


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A database with the newest schema."""
    with database(postgres, MIGRATED) as made:
        yield made


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """A database without anything."""
    with database(postgres, "template1") as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def open_registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the test's registry, as often as it is called, as processes would."""
    url: str | None = request.getfixturevalue("url") if request.param == "postgres" else None
    opened: list[Registry] = []

    def another() -> Registry:
        opened.append(Registry.open_sqlite(tmp_path / "registry.db") if url is None else Registry.open_postgres(url))
        return opened[-1]

    yield another
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(open_registry: Open) -> Registry:
    return open_registry()


@pytest.fixture
def sql(registry: Registry) -> Sql:
    """Does what no call of the registry can, such as letting time pass in the database; checksums follow."""

    def run(statement: str) -> None:
        with registry._database.write_transaction() as connection:
            connection.execute(text(statement))
            if is_checked(connection):
                seal_changes(connection, since=0)

    return run
