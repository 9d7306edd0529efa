"""The snapshot in memory: when it is read again, what an outage does to it, and who is told."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, RegistrySnapshot
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.directory import RegistryDirectory, connect_registry
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.sql.checksums import seal_changes
from ternmq_registry.sql.database import RegistryDatabase, create_sqlite_engine
from tests.support.hand_clock import Clock
from tests.support.postgres import Postgres

LEASE_MS = 60_000
GRACE_S = 6.0


class Shaky(Registry):
    """A registry that is out when the test says so, and counts how often it is asked."""

    def __init__(self, path: Path) -> None:
        self._database = RegistryDatabase(create_sqlite_engine(path))
        self.attempts = self.snapshots = 0
        self.is_out = False
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.while_asked: Callable[[], None] = lambda: None

    def read_brokers(self) -> tuple[int, dict[str, BrokerEntry]]:
        self._attempt()
        return super().read_brokers()

    def read_snapshot(self, known: RegistrySnapshot | None = None) -> RegistrySnapshot:
        if known is None:  # else it follows a look
            self._attempt()
        self.snapshots += 1
        return super().read_snapshot(known)

    def _attempt(self) -> None:
        self.attempts += 1
        is_out = self.is_out
        self.asked.set()
        self.may_answer.wait()
        self.while_asked()
        if is_out:
            raise RegistryUnavailable("the cable is cut")

    def let_leases_end(self) -> None:
        with self._database.write_transaction() as connection:
            connection.execute(text("UPDATE brokers SET lease_end_ms = 1"))

    async def is_asked(self) -> None:
        assert await asyncio.to_thread(self.asked.wait, 10)
        self.asked.clear()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Shaky]:
    Registry.open_sqlite(tmp_path / "registry.db").close()
    opened = Shaky(tmp_path / "registry.db")
    yield opened
    opened.may_answer.set()
    opened.close()


@pytest.fixture
def seconds() -> Clock:
    return Clock(100.0)


@pytest.fixture
async def directory(registry: Shaky, seconds: Clock) -> AsyncIterator[RegistryDirectory]:
    """One that reads when it is told to."""
    made = RegistryDirectory(registry, interval_s=None, grace_s=GRACE_S, seconds=seconds)
    await made.start()
    yield made
    await made.stop()


def registered(registry: Registry, name: str = "b1") -> int:
    return registry.register_broker(name, f"store of {name}", "host:1", "1.0", LEASE_MS)


def live(directory: RegistryDirectory) -> set[str]:
    return {name for name, broker in directory.snapshot.brokers.items() if broker.live}


async def failed_refresh(directory: RegistryDirectory) -> None:
    with pytest.raises(RegistryUnavailable, match="the cable is cut"):
        await directory.refresh_snapshot()


async def test_a_start_knows_what_there_is(directory: RegistryDirectory, registry: Shaky) -> None:
    assert directory.snapshot == registry.read_snapshot()
    assert (directory.registry, directory.problem) == (registry, None)


async def test_everything_is_read_only_when_the_version_changed(directory: RegistryDirectory, registry: Shaky) -> None:
    before = registry.snapshots
    await directory.refresh_snapshot()
    assert registry.snapshots == before
    registry.create_group(ConsumerGroup(name="billing"))
    await directory.refresh_snapshot()
    assert registry.snapshots == before + 1
    assert directory.snapshot == registry.read_snapshot()


async def test_loads_are_read_without_the_version(directory: RegistryDirectory, registry: Shaky) -> None:
    epoch = registered(registry)
    await directory.refresh_snapshot()
    registry.record_heartbeat("b1", epoch, BrokerLoad(transactions=9), LEASE_MS)
    await directory.refresh_snapshot()
    assert directory.snapshot.brokers["b1"].load.transactions == 9


async def test_a_running_directory_sees_changes_by_itself(registry: Shaky) -> None:
    directory = RegistryDirectory(registry, interval_s=0.01)
    seen = asyncio.Event()
    directory.on_change(lambda snapshot: seen.set() if "billing" in snapshot.groups else None)
    await directory.start()
    registry.create_group(ConsumerGroup(name="billing"))
    await asyncio.wait_for(seen.wait(), 10)
    await directory.stop()


async def test_a_running_directory_outlives_an_outage(registry: Shaky) -> None:
    directory = RegistryDirectory(registry, interval_s=0.01)
    await directory.start()
    registry.is_out = True
    for _ in range(3):  # the last of them begins after a failure
        registry.asked.clear()
        await registry.is_asked()
    assert directory.problem == "the cable is cut"
    seen = asyncio.Event()
    directory.on_change(lambda _: seen.set())
    registry.create_group(ConsumerGroup(name="billing"))
    registry.is_out = False
    await asyncio.wait_for(seen.wait(), 10)
    await directory.stop()


async def test_a_running_directory_outlives_a_callback_that_fails(
    registry: Shaky, caplog: pytest.LogCaptureFixture
) -> None:
    directory = RegistryDirectory(registry, interval_s=0.01)
    await directory.start()
    seen = asyncio.Event()

    def fails_first(snapshot: RegistrySnapshot) -> None:
        if "letters" not in snapshot.groups:
            raise ValueError("a bug in a callback")
        seen.set()

    failed = asyncio.Event()
    directory.on_change(lambda _: failed.set())
    directory.on_change(fails_first)
    registry.create_group(ConsumerGroup(name="billing"))
    await asyncio.wait_for(failed.wait(), 10)
    registry.create_group(ConsumerGroup(name="letters"))
    await asyncio.wait_for(seen.wait(), 10)
    await directory.stop()
    assert "a bug in a callback" in caplog.text


async def test_only_changes_are_told(directory: RegistryDirectory, registry: Shaky) -> None:
    told: list[RegistrySnapshot] = []
    directory.on_change(told.append)
    epoch = registered(registry)
    await directory.refresh_snapshot()
    await directory.refresh_snapshot()
    registry.record_heartbeat("b1", epoch, BrokerLoad(transactions=9), LEASE_MS)
    await directory.refresh_snapshot()
    assert [snapshot.brokers["b1"].live for snapshot in told] == [True]
    registry.let_leases_end()  # which raises no version
    await directory.refresh_snapshot()
    await directory.refresh_snapshot()
    assert [snapshot.brokers["b1"].live for snapshot in told] == [True, False]
    registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    await directory.refresh_snapshot()
    assert [snapshot.brokers["b1"].live for snapshot in told] == [True, False, True]
    assert told[-1] is directory.snapshot


async def test_while_the_registry_is_out_nothing_changes(directory: RegistryDirectory, registry: Shaky) -> None:
    registered(registry)
    await directory.refresh_snapshot()
    before = directory.snapshot
    registry.is_out = True
    registry.let_leases_end()
    await failed_refresh(directory)
    await directory.wait_for_version(2**60)
    assert directory.snapshot is before
    assert directory.problem == "the cable is cut"
    registry.is_out = False
    await directory.refresh_snapshot()
    assert directory.problem is None


async def test_an_outage_is_logged_once(
    directory: RegistryDirectory, registry: Shaky, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ternmq_registry")
    registry.is_out = True
    for _ in range(3):
        await failed_refresh(directory)
    registry.is_out = False
    for _ in range(3):
        await directory.refresh_snapshot()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_after_an_outage_brokers_have_one_lease_to_come_back(
    directory: RegistryDirectory, registry: Shaky, seconds: Clock
) -> None:
    registered(registry, "was away before")
    registry.let_leases_end()
    epoch = registered(registry, "comes back")
    registered(registry, "stays away")
    await directory.refresh_snapshot()
    registry.is_out = True
    await failed_refresh(directory)
    registry.let_leases_end()
    registry.is_out = False
    told: list[RegistrySnapshot] = []
    directory.on_change(told.append)
    seconds.now_s += 3600
    await directory.refresh_snapshot()
    assert live(directory) == {"comes back", "stays away"}
    assert told == []
    registry.record_heartbeat("comes back", epoch, BrokerLoad(), LEASE_MS)
    seconds.now_s += GRACE_S - 1
    await directory.refresh_snapshot()
    assert live(directory) == {"comes back", "stays away"}
    seconds.now_s += 1
    await directory.refresh_snapshot()
    assert live(directory) == {"comes back"}


async def test_who_came_back_after_an_outage_and_stops_is_gone_at_once(
    directory: RegistryDirectory, registry: Shaky
) -> None:
    epoch = registered(registry)
    await directory.refresh_snapshot()
    registry.is_out = True
    await failed_refresh(directory)
    registry.is_out = False
    await directory.refresh_snapshot()
    registry.deregister_broker("b1", epoch)
    await directory.refresh_snapshot()
    assert live(directory) == set()


async def test_who_was_removed_during_an_outage_of_ours_is_gone(directory: RegistryDirectory, registry: Shaky) -> None:
    registered(registry)
    await directory.refresh_snapshot()
    registry.is_out = True
    await failed_refresh(directory)
    registry.remove_broker("b1")
    registry.is_out = False
    await directory.refresh_snapshot()
    assert directory.snapshot.brokers == {}


async def test_after_an_outage_everything_is_read_as_the_last_changes_may_be_lost(
    directory: RegistryDirectory, registry: Shaky
) -> None:
    registry.create_group(ConsumerGroup(name="billing", max_attempts=3))
    await directory.refresh_snapshot()
    registry.is_out = True
    await failed_refresh(directory)
    with (
        registry._database.write_transaction() as connection
    ):  # a change that nobody made after the version that we know
        connection.execute(text("UPDATE consumer_groups SET max_attempts = 7"))
        seal_changes(connection, since=0)
    registry.is_out = False
    await directory.refresh_snapshot()
    assert directory.snapshot.groups["billing"].max_attempts == 7


async def test_a_slow_answer_counts_as_an_outage(directory: RegistryDirectory, registry: Shaky, seconds: Clock) -> None:
    registered(registry)
    await directory.refresh_snapshot()
    registry.let_leases_end()

    def long_pause() -> None:
        seconds.now_s += 5

    registry.while_asked = long_pause
    await directory.refresh_snapshot()
    assert live(directory) == {"b1"}


async def test_what_is_known_is_not_asked_for(directory: RegistryDirectory, registry: Shaky) -> None:
    before = registry.attempts
    await directory.wait_for_version(directory.snapshot.version)
    assert registry.attempts == before


async def test_a_newer_version_is_read_by_one_attempt_for_all(directory: RegistryDirectory, registry: Shaky) -> None:
    registry.create_group(ConsumerGroup(name="billing"))
    before = registry.attempts
    await asyncio.gather(*(directory.wait_for_version(2) for _ in range(20)))
    assert registry.attempts == before + 1
    assert "billing" in directory.snapshot.groups


async def test_who_asks_while_an_attempt_runs_shares_it_if_it_is_enough(
    directory: RegistryDirectory, registry: Shaky
) -> None:
    registry.create_group(ConsumerGroup(name="billing"))
    before = registry.attempts
    registry.may_answer.clear()
    registry.asked.clear()
    first = asyncio.create_task(directory.wait_for_version(2))
    await registry.is_asked()
    others = [asyncio.create_task(directory.wait_for_version(2)) for _ in range(20)]
    registry.may_answer.set()
    await asyncio.gather(first, *others)
    assert registry.attempts == before + 1


async def test_a_version_that_nobody_has_is_asked_for_once(directory: RegistryDirectory, registry: Shaky) -> None:
    before = registry.attempts
    await directory.wait_for_version(2**60)
    assert registry.attempts <= before + 2


async def test_a_refresh_sees_everything_from_before_it(directory: RegistryDirectory, registry: Shaky) -> None:
    registry.may_answer.clear()
    registry.asked.clear()
    attempts = registry.attempts
    early = asyncio.create_task(directory.refresh_snapshot())
    await registry.is_asked()
    # The early one may have read already; these need one that begins now, and share it.
    late = [asyncio.create_task(directory.refresh_snapshot()) for _ in range(20)]
    registry.may_answer.set()
    await asyncio.gather(early, *late)
    assert registry.attempts == attempts + 2


async def test_a_failure_is_shared_and_the_next_attempt_is_a_second_later(
    directory: RegistryDirectory, registry: Shaky, seconds: Clock
) -> None:
    registry.is_out = True
    before = registry.attempts
    await asyncio.gather(*(directory.wait_for_version(2**60) for _ in range(20)))
    for _ in range(20):
        await directory.wait_for_version(2**60)
    assert registry.attempts == before + 1
    seconds.now_s += 1
    await directory.wait_for_version(2**60)
    assert registry.attempts == before + 2


async def test_a_caller_that_leaves_takes_nothing_from_the_others(
    directory: RegistryDirectory, registry: Shaky
) -> None:
    registry.create_group(ConsumerGroup(name="billing"))
    registry.may_answer.clear()
    registry.asked.clear()
    leaves = asyncio.create_task(directory.refresh_snapshot())
    await registry.is_asked()
    stays = asyncio.create_task(directory.wait_for_version(2))
    await asyncio.wait([stays], timeout=0)
    leaves.cancel()
    registry.may_answer.set()
    await stays
    assert "billing" in directory.snapshot.groups


async def test_a_start_waits_for_the_registry_and_gives_up(registry: Shaky) -> None:
    registry.is_out = True
    with pytest.raises(StartupError, match="the registry can't be reached: the cable is cut; check --registry"):
        await RegistryDirectory(registry, interval_s=None).start()
    with pytest.raises(StartupError, match="the cable is cut"):
        await RegistryDirectory(registry, interval_s=None, retry_interval_s=0.01).start(wait_s=0.05)
    directory = RegistryDirectory(registry, interval_s=None, retry_interval_s=0.01)
    registry.asked.clear()
    starting = asyncio.create_task(directory.start(wait_s=60))
    await registry.is_asked()
    registry.is_out = False
    await starting
    assert (directory.problem, directory.snapshot.version) == (None, 1)


async def test_a_cluster_waits_for_its_database(postgres: Postgres, url: str) -> None:
    postgres.kill()
    try:
        with pytest.raises(StartupError, match=r"the registry can't be reached: .*; check --registry"):
            await connect_registry(url, wait_s=0.05, retry_interval_s=0.01)
        waiting = asyncio.create_task(connect_registry(url, wait_s=60, retry_interval_s=0.01))
    finally:
        await asyncio.to_thread(postgres.start)
    registry = await waiting
    assert registry.read_brokers() == (1, {})
    registry.close()


async def test_an_outage_of_postgresql_is_survived(postgres: Postgres, url: str) -> None:
    registry = await connect_registry(url, wait_s=0)
    directory = RegistryDirectory(registry, interval_s=None)
    registered(registry)
    await directory.start()
    postgres.kill()
    try:
        with pytest.raises(RegistryUnavailable):
            await directory.refresh_snapshot()
        assert live(directory) == {"b1"}
    finally:
        await asyncio.to_thread(postgres.start)
    registry.create_group(ConsumerGroup(name="billing"))
    await directory.refresh_snapshot()
    assert (directory.problem, set(directory.snapshot.groups), live(directory)) == (None, {"billing"}, {"b1"})
    await directory.stop()
    registry.close()
