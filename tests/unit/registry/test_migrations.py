"""Registries of older versions are brought up to date with all that is in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from ternmq_common.model import Group, Topic
from ternmq_common.retry_backoff import parse_backoff
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry import migrations
from ternmq_registry.registry import Registry
from ternmq_registry.tables import METADATA

TOPIC = "INSERT INTO topics (name, type, queues, created_ms) VALUES ('orders', 'FIFO', 3, 17)"
FIRST_GROUP = "INSERT INTO consumer_groups (name, fifo, max_attempts, created_ms) VALUES ('billing', 1, 5, 18)"
SECOND_GROUP = (
    "INSERT INTO consumer_groups (name, fifo, max_attempts, created_ms, retry_backoff, consume_from, assignment, "
    "queue_lock_hold_ms) VALUES ('report', 0, 7, 19, 'customized:1s', 'earliest', 'consistent-hash', 30000)"
)
BILLING = Group(name="billing", fifo=True, max_attempts=5, created_ms=18)
REPORT = Group(
    name="report",
    max_attempts=7,
    created_ms=19,
    retry_backoff=parse_backoff("customized:1s"),
    consume_from="earliest",
    assignment="consistent-hash",
    queue_lock_hold_ms=30_000,
)


@contextmanager
def connected(path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def steps(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.db"


@pytest.mark.parametrize(
    ("revision", "rows", "groups"),
    [("0001", [FIRST_GROUP], [BILLING]), ("0002", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT])],
)
def test_an_older_registry_is_upgraded_with_its_rows(
    path: Path, revision: str, rows: list[str], groups: list[Group]
) -> None:
    with connected(path) as connection:
        command.upgrade(steps(connection), revision)
        for row in [TOPIC, *rows]:
            connection.execute(text(row))
    for _ in range(2):  # the second time nothing is left to do
        registry = Registry.sqlite(path)
        assert registry.topics() == [Topic(name="orders", type=pb.FIFO, queues=3, created_ms=17)]
        assert registry.groups() == groups
        registry.close()


def test_a_step_back_keeps_the_rows(path: Path) -> None:
    registry = Registry.sqlite(path)
    registry.create_group(REPORT)
    registry.close()
    with connected(path) as connection:
        command.downgrade(steps(connection), "0002")
        command.downgrade(steps(connection), "0001")
        row = connection.execute(text("SELECT * FROM consumer_groups")).mappings().one()
        assert dict(row) == {"name": "report", "fifo": 0, "max_attempts": 7, "created_ms": 19}


def test_the_tables_are_those_that_the_newest_step_leaves(path: Path) -> None:
    Registry.sqlite(path).close()
    with connected(path) as upgraded, connected(path.with_name("new.db")) as new:
        METADATA.create_all(new)
        for table in METADATA.tables:
            columns = text(f"PRAGMA table_info({table})")
            assert upgraded.execute(columns).all() == new.execute(columns).all()
        assert ScriptDirectory.from_config(steps(upgraded)).get_heads() == [migrations.NEWEST]
