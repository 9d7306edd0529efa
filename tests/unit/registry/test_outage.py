"""PostgreSQL that can't be reached, doesn't answer, or isn't what it should be; and passwords, which nobody sees."""

import logging
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from ternmq_common.catalog.cluster import BrokerLoad
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.sql.database import CONNECTIONS_MAX, DatabaseTiming, create_postgres_engine
from ternmq_registry.sql.schema import migrate_schema
from tests.support.postgres import Postgres

CALLS: dict[str, Callable[[Registry], object]] = {
    "look": lambda registry: registry.read_brokers(),
    "snapshot": lambda registry: registry.read_snapshot(),
    "create topic": lambda registry: registry.create_topic(Topic(name="orders", type=MessageType.NORMAL)),
    "delete group": lambda registry: registry.delete_group("billing"),
    "heartbeat": lambda registry: registry.record_heartbeat("b1", 1, BrokerLoad(), 60_000),
    "deletions": lambda registry: registry.list_deletions(0),
}


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    opened = Registry.open_postgres(url)
    yield opened
    opened.close()


def test_an_outage_is_an_error_of_its_own_and_heals(postgres: Postgres, registry: Registry) -> None:
    registry.create_group(ConsumerGroup(name="billing"))
    postgres.kill()
    try:
        for call in CALLS.values():
            with pytest.raises(RegistryUnavailable, match=r"can't be reached: .*; what is known goes on") as refused:
                call(registry)
            assert refused.value.code == pb.HA_NOT_AVAILABLE
            assert "\n" not in refused.value.message
    finally:
        postgres.start()
    for call in CALLS.values():
        call(registry)


def test_connections_that_died_while_nobody_used_them_are_not_noticed(postgres: Postgres, registry: Registry) -> None:
    version, _ = registry.read_brokers()
    postgres.restart()
    assert registry.read_brokers() == (version, {})


def test_a_server_that_does_not_answer_is_given_up(postgres: Postgres, url: str) -> None:
    registry = Registry(create_postgres_engine(url, timing=DatabaseTiming(answer_s=0.2)))

    def paused_in_the_middle() -> None:
        with registry._database.read_transaction() as connection:
            postgres.pause()
            connection.execute(text("SELECT 1"))

    try:
        with pytest.raises(RegistryUnavailable, match=r"the server didn't answer within 0\.2 s"):
            paused_in_the_middle()
    finally:
        postgres.resume()
    registry.read_brokers()
    registry.close()


def test_a_standby_that_cannot_be_changed_is_an_outage(registry: Registry) -> None:
    registry._database._engine.dispose()
    with registry._database.write_transaction() as connection:
        connection.execute(
            text(
                "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || "
                "' SET default_transaction_read_only = on'; END $$"
            )
        )
    registry._database._engine.dispose()
    with pytest.raises(RegistryUnavailable, match="cannot execute"):
        registry.delete_group("billing")


@pytest.mark.parametrize("damage", ["DROP SCHEMA public CASCADE", "DROP TABLE quotas"])
def test_a_database_without_our_tables_is_an_outage_with_one_plain_line(registry: Registry, damage: str) -> None:
    """Made anew, or restored from before a migration, while we run."""
    registry.read_brokers()
    with registry._database.write_transaction() as connection:
        connection.execute(text(damage))
    with pytest.raises(
        RegistryUnavailable, match=r"it lacks tables that it should have: run `ternmq registry migrate`; what is"
    ) as refused:
        registry.read_snapshot()
    assert "SELECT" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_change_behind_another_that_never_ends_is_given_up(registry: Registry, url: str) -> None:
    other = Registry(create_postgres_engine(url, timing=DatabaseTiming(statement_ms=100)))
    try:
        with registry._database.change_transaction():
            other.read_brokers()
            with pytest.raises(RegistryUnavailable, match="statement timeout"):
                other.delete_group("billing")
        assert other.delete_group("billing") == 0
    finally:
        other.close()


def test_nobody_waits_for_a_process_that_stopped_in_the_middle_of_a_change(url: str) -> None:
    # It is at work in between, on a busy machine too.
    stopped = Registry(create_postgres_engine(url, timing=DatabaseTiming(idle_ms=1000)))
    other = Registry(create_postgres_engine(url, timing=DatabaseTiming(idle_ms=0)))

    def stopped_in_the_middle() -> None:
        with stopped._database.change_transaction() as connection:
            assert other.delete_group("billing") == 0  # it has waited for the other one's end
            connection.execute(text("SELECT 1"))

    try:
        with pytest.raises(RegistryUnavailable, match=r"idle-in-transaction timeout|closed the connection"):
            stopped_in_the_middle()
        assert stopped.delete_group("billing") == 0
    finally:
        stopped.close()
        other.close()


def test_more_callers_than_connections_are_told_so(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry._database._engine.pool, "_timeout", 0.05)
    held = [registry._database.read_transaction() for _ in range(CONNECTIONS_MAX)]
    for each in held:
        each.__enter__()
    with pytest.raises(RegistryUnavailable, match="all connections to it are waiting"):
        registry.read_brokers()
    for each in held:
        each.__exit__(None, None, None)
    registry.read_brokers()


def test_a_bug_is_no_outage(registry: Registry) -> None:
    with (
        pytest.raises(Exception, match="does not exist") as raised,
        registry._database.read_transaction() as connection,
    ):
        connection.execute(text("SELECT moon FROM topics"))
    assert not isinstance(raised.value, RegistryUnavailable)


def test_a_registry_that_cannot_be_reached_is_not_opened(postgres: Postgres) -> None:
    for open_it in (Registry.open_postgres, migrate_schema):
        with pytest.raises(RegistryUnavailable, match='database "nowhere" does not exist'):
            open_it(postgres.url_of("nowhere"))


@pytest.mark.parametrize("url", ["mysql://u:secret@h/db", "sqlite:///x", "postgresql+asyncpg://u:secret@h/db"])
def test_a_database_of_another_kind_is_refused(url: str) -> None:
    for open_it in (Registry.open_postgres, migrate_schema):
        with pytest.raises(StartupError, match=r"is no PostgreSQL database: postgresql://USER@HOST") as refused:
            open_it(url)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "h", "host=h password=secret", "postgresql://u:se:cr/et@h:x/db", "postgresql://u:p@secret@h/d"]
)
def test_a_url_that_cannot_be_read_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(StartupError, match="URL can't be read; characters like / and @ are written %2F") as refused:
        Registry.open_postgres(url)
    assert "secret" not in str(refused.value)


def test_a_password_is_in_no_error_and_no_log(postgres: Postgres, url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with_password = url.replace("ternmq@", "ternmq:hush%2Fhush@")
    registry = Registry.open_postgres(with_password)
    shown = [repr(registry), repr(registry._database._engine)]
    postgres.kill()
    try:
        for call in (
            registry.read_brokers,
            lambda: Registry.open_postgres(with_password),
            lambda: migrate_schema(with_password),
        ):
            with pytest.raises(RegistryUnavailable) as refused:
                call()
            shown += [str(refused.value), repr(refused.value), repr(refused.value.__cause__)]
    finally:
        postgres.start()
        registry.close()
    assert not any("hush" in text for text in (*shown, caplog.text))
