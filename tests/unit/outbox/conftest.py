"""Databases of both kinds, empty but for the two tables, and a broker for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, create_engine

from ternmq.outbox import Inbox, Outbox
from ternmq.testing import Stack
from tests.support.postgres import Postgres

METADATA = MetaData()
OUTBOX = Outbox(METADATA)
INBOX = Inbox(METADATA)


@pytest.fixture
def postgres_engine(postgres: Postgres) -> Iterator[Engine]:
    name = postgres.new_database()
    engine = create_engine(postgres.url_of(name).replace("postgresql:", "postgresql+psycopg:"))
    METADATA.create_all(engine)
    yield engine
    engine.dispose()
    postgres.drop_database(name)


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(test_clock=False) as running:
        yield running
