"""Registries of older versions are brought up to date with all that is in them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import ProgrammingError

from ternmq_common.catalog.cluster import ReplicationMode
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.catalog.retry_backoff import parse_backoff
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry import migrations
from ternmq_registry.registry import Registry
from ternmq_registry.sql.checksums import is_checked, seal_changes
from ternmq_registry.sql.schema import MigrationResult, migrate_schema, schema_version
from ternmq_registry.tables import METADATA

BROKER = (
    "INSERT INTO brokers (name, store_id, address, epoch, permission, draining, version, started_ms, lease_end_ms, "
    "load, applied) VALUES ('b1', 'store', 'host:1', 7, 'read-write', false, '1.0', 17, 18, '{}', 7)"
)
TOPIC = "INSERT INTO topics (name, type, queues, created_ms) VALUES ('orders', 'FIFO', 3, 17)"
FIRST_GROUP = "INSERT INTO consumer_groups (name, fifo, max_attempts, created_ms) VALUES ('billing', true, 5, 18)"
SECOND_GROUP = (
    "INSERT INTO consumer_groups (name, fifo, max_attempts, created_ms, retry_backoff, consume_from, assignment, "
    "queue_lock_hold_ms) VALUES ('report', false, 7, 19, 'customized:1s', 'earliest', 'consistent-hash', 30000)"
)
BILLING = ConsumerGroup(name="billing", fifo=True, max_attempts=5, created_ms=18)
REPORT = ConsumerGroup(
    name="report",
    max_attempts=7,
    created_ms=19,
    retry_backoff=parse_backoff("customized:1s"),
    consume_from="earliest",
    assignment="consistent-hash",
    queue_lock_hold_ms=30_000,
)


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
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


def opened(url: str) -> Registry:
    if url.startswith("sqlite:"):
        return Registry.open_sqlite(Path(url.removeprefix("sqlite:///")))
    migrate_schema(url)
    return Registry.open_postgres(url)


@pytest.fixture(params=["sqlite", "postgres"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.db'}"
    url: str = request.getfixturevalue("empty_url")
    return url


@pytest.mark.parametrize(
    ("revision", "rows", "groups"),
    [
        ("0001", [FIRST_GROUP], [BILLING]),
        ("0002", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0003", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0004", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0005", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0006", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0010", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0013", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
        ("0014", [FIRST_GROUP, SECOND_GROUP], [BILLING, REPORT]),
    ],
)
def test_an_older_registry_is_upgraded_with_its_rows(
    any_url: str, revision: str, rows: list[str], groups: list[ConsumerGroup]
) -> None:
    with connected(any_url) as connection:
        command.upgrade(steps(connection), revision)
        for row in [TOPIC, *rows]:
            connection.execute(text(row))
        if revision >= "0006" and is_checked(connection):
            seal_changes(connection, since=0)
    for _ in range(2):  # the second time nothing is left to do
        registry = opened(any_url)
        assert registry.list_topics() == [Topic(name="orders", type=MessageType.FIFO, queues=3, created_ms=17)]
        assert registry.list_groups() == groups
        assert registry.read_snapshot().version == 1
        registry.close()


def test_what_an_older_registry_has_was_made_nobody_knows_when(any_url: str) -> None:
    with connected(any_url) as connection:
        command.upgrade(steps(connection), "0004")
        connection.execute(text(TOPIC))
        connection.execute(text(FIRST_GROUP))
    registry = opened(any_url)
    (older,) = registry.list_topics()
    registry.update_topic(replace(older, queues=5))
    assert registry.list_topics()[0].identity == older.identity
    registry.update_group(replace(BILLING, max_attempts=6))
    newer, _ = registry.create_topic(Topic(name="new", type=MessageType.NORMAL))
    assert {topic.name: topic.created_version for topic in registry.list_topics()} == {
        "orders": 0,
        "new": newer.created_version,
    }
    assert newer.created_version == registry.read_snapshot().version
    group, _ = registry.create_group(REPORT)
    assert {group.name: group.created_version for group in registry.list_groups()} == {
        "billing": 0,
        "report": group.created_version,
    }
    assert group.created_version == registry.read_snapshot().version
    registry.close()


def opened_with(url: str, schema: str, row: str) -> Registry:
    """A registry that had this row when it was of that schema."""
    with connected(url) as connection:
        command.upgrade(steps(connection), schema)
        connection.execute(text(row))
        if is_checked(connection):
            seal_changes(connection, since=0)
    return opened(url)


def test_a_broker_of_an_older_registry_has_no_replicas(any_url: str) -> None:
    registry = opened_with(any_url, "0010", BROKER)
    found = registry.read_brokers()[1]["b1"]
    assert (found.store_id, found.replicas, found.replicas_wanted, found.min_insync) == ("store", (), 1, 1)
    assert (found.replication, found.move_to) == (ReplicationMode.SYNC, "")
    registry.close()


def test_a_proxy_of_an_older_registry_shares_quotas_and_has_told_nothing(any_url: str) -> None:
    row = "INSERT INTO proxies (name, lease_end_ms, demand, uses) VALUES ('old', 9000000000000, '{}', '{}')"
    registry = opened_with(any_url, "0014", row)
    assert registry.list_proxies() == []
    assert registry.exchange_demand("new", {}, {}, 60_000) == {"old": {}, "new": {}}
    registry.close()


def test_a_step_back_keeps_the_rows(any_url: str) -> None:
    registry = opened(any_url)
    registry.create_topic(Topic(name="chats", type=MessageType.LITE, lite_ttl_ms=900_000))
    registry.create_group(replace(REPORT, lite=LiteGroup("chats", exclusive=True)))
    registry.close()
    with connected(any_url) as connection:
        for revision in ("0014", "0013", "0010", "0006", "0005", "0004", "0003", "0002", "0001"):
            command.downgrade(steps(connection), revision)
        row = connection.execute(text("SELECT * FROM consumer_groups")).mappings().one()
        assert dict(row) == {"name": "report", "fifo": 0, "max_attempts": 7, "created_ms": 19}


def test_the_tables_are_those_that_the_newest_step_leaves(any_url: str) -> None:
    opened(any_url).close()
    with connected(any_url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert ScriptDirectory.from_config(steps(connection)).get_heads() == [migrations.NEWEST]


def test_columns_have_the_order_and_defaults_that_the_newest_step_leaves(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    Registry.open_sqlite(path).close()
    with connected(f"sqlite:///{path}") as upgraded, connected(f"sqlite:///{tmp_path / 'new.db'}") as new:
        METADATA.create_all(new)
        for table in METADATA.tables:
            columns = text(f"PRAGMA table_info({table})")
            assert upgraded.execute(columns).all() == new.execute(columns).all()


def test_a_clusters_registry_is_not_migrated_by_opening_it(empty_url: str) -> None:
    with pytest.raises(StartupError, match=r"has no tables yet, .* is needed: run `ternmq registry migrate`"):
        Registry.open_postgres(empty_url)
    with connected(empty_url) as connection:
        command.upgrade(steps(connection), "0003")
    with pytest.raises(StartupError, match=r"has the older schema 0003, .* is needed: run `ternmq registry migrate`"):
        Registry.open_postgres(empty_url)
    assert schema_version(empty_url) == "0003"
    assert migrate_schema(empty_url) == MigrationResult("0003", migrations.NEWEST)
    assert migrate_schema(empty_url) == MigrationResult(migrations.NEWEST, migrations.NEWEST)
    Registry.open_postgres(empty_url).close()


def test_a_registry_of_a_newer_version_is_left_alone(any_url: str) -> None:
    opened(any_url).close()
    with connected(any_url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StartupError, match="schema 9999 is of a newer TernMQ, this one knows those up to"):
        opened(any_url)


def test_a_newer_registry_is_not_opened_by_a_process_of_a_cluster(url: str) -> None:
    with connected(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StartupError, match="schema 9999 is of a newer TernMQ"):
        Registry.open_postgres(url)


def test_of_migrations_at_once_one_does_it_and_the_others_wait(empty_url: str) -> None:
    barrier = threading.Barrier(3)

    def wait_and_migrate(_: int) -> MigrationResult:
        barrier.wait()
        return migrate_schema(empty_url)

    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(wait_and_migrate, range(3)))
    assert sorted(each.before or "" for each in done) == ["", migrations.NEWEST, migrations.NEWEST]


def test_a_migration_that_fails_changes_nothing(empty_url: str) -> None:
    with connected(empty_url) as connection:
        command.upgrade(steps(connection), "0003")
        connection.execute(text("CREATE TABLE deletions (id integer)"))  # what the next step is to make
    with pytest.raises(ProgrammingError, match="already exists"):
        migrate_schema(empty_url)
    assert schema_version(empty_url) == "0003"
    with connected(empty_url) as connection:
        assert not inspect(connection).has_table("registry_version")
