"""The broker's lease: renewed whatever happens, and given to nobody who is not the broker any more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from ternmq_broker.server.lease import BrokerLease
from ternmq_common.catalog.cluster import BrokerLoad
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.tables import REMOVED_STORES
from tests.support.until import until

PATIENCE_S = 20.0
LEASE_MS = 60


def no_load() -> BrokerLoad:
    return BrokerLoad()


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    registry = await asyncio.to_thread(Registry.open_sqlite, tmp_path / "registry.db")
    async with asyncio.timeout(PATIENCE_S):
        yield registry
    registry.close()


def lease_of(registry: Registry, *, store_id: str = "store", address: str = "here:1") -> BrokerLease:
    return BrokerLease(registry, name="broker-0", store_id=store_id, address=address, version="test", lease_ms=LEASE_MS)


async def epoch(registry: Registry) -> int:
    _, brokers = await asyncio.to_thread(registry.read_brokers)
    return brokers["broker-0"].epoch if "broker-0" in brokers else 0


async def test_a_load_that_can_not_be_told_does_not_end_the_heartbeat(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    beats = 0

    def load() -> BrokerLoad:
        nonlocal beats
        beats += 1
        if beats < 3:
            raise OSError("the disk says nothing of itself")
        return BrokerLoad(proxies=beats)

    lease = lease_of(registry)
    await lease.register_broker()
    lease.start(load)
    await until(lambda: beats > 3)
    assert lease.problem is None
    assert "failed unexpectedly" in caplog.text
    await lease.give_up()


async def test_a_lease_that_could_not_be_renewed_is_when_the_registry_is_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = 0
    heartbeat = registry.record_heartbeat

    def out(*arguments: object) -> bool:
        nonlocal failed
        failed += 1
        raise RegistryUnavailable("a test")

    lease = lease_of(registry)
    await lease.register_broker()
    before = await epoch(registry)
    monkeypatch.setattr(registry, "record_heartbeat", out)
    lease.start(no_load)
    await until(lambda: failed > 5)
    assert lease.problem is not None
    monkeypatch.setattr(registry, "record_heartbeat", heartbeat)
    await until(lambda: lease.problem is None)
    assert await epoch(registry) == before
    await lease.give_up()


async def test_of_two_processes_with_one_store_the_earlier_one_ends(registry: Registry) -> None:
    earlier, later = lease_of(registry, address="here:1"), lease_of(registry, address="there:1")
    await earlier.register_broker()
    await later.register_broker()
    taken = await epoch(registry)
    earlier.start(no_load)
    await earlier.superseded.wait()
    assert await epoch(registry) == taken
    await earlier.give_up()
    _, brokers = await asyncio.to_thread(registry.read_brokers)
    assert brokers["broker-0"].address == "there:1"
    await later.give_up()


async def test_a_broker_that_was_removed_ends(registry: Registry) -> None:
    lease = lease_of(registry)
    await lease.register_broker()
    await asyncio.to_thread(registry.remove_broker, "broker-0")
    lease.start(no_load)
    await lease.superseded.wait()
    await lease.give_up()
    assert await asyncio.to_thread(registry.read_brokers) is not None
    await lease.register_broker(rejoin=True)
    assert await epoch(registry) > 0
    await lease.give_up()


async def test_a_broker_that_the_registry_has_lost_registers_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    register, loop = registry.register_broker, asyncio.get_running_loop()
    registered = asyncio.Event()

    def told(*arguments: str, **more: object) -> int:
        epoch = register(*arguments, **more)  # type: ignore[arg-type]
        loop.call_soon_threadsafe(registered.set)
        return epoch

    lease = lease_of(registry)
    await lease.register_broker()
    before = await epoch(registry)
    await asyncio.to_thread(lose, registry)
    monkeypatch.setattr(registry, "register_broker", told)
    lease.start(no_load)
    await registered.wait()
    assert await epoch(registry) > before
    assert not lease.superseded.is_set()
    await lease.give_up()


def lose(registry: Registry) -> None:
    """As a database does that goes back to an older copy."""
    registry.remove_broker("broker-0")
    with registry._database.write_transaction() as connection:
        connection.execute(delete(REMOVED_STORES))


async def test_a_registration_whose_answer_was_lost_is_no_other_process(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = registry.register_broker
    lost = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer_lost(*arguments: str, **more: object) -> int:
        register(*arguments, **more)  # type: ignore[arg-type]
        loop.call_soon_threadsafe(lost.set)
        raise RegistryUnavailable("the answer was lost")

    lease = lease_of(registry)
    await lease.register_broker()
    await asyncio.to_thread(lose, registry)
    monkeypatch.setattr(registry, "register_broker", answer_lost)
    lease.start(no_load)
    await lost.wait()
    monkeypatch.setattr(registry, "register_broker", register)
    await until(lambda: lease.problem is not None)
    await until(lambda: lease.problem is None)
    assert not lease.superseded.is_set()
    await lease.give_up()


async def test_a_broker_that_ends_leaves_the_routes_at_once(registry: Registry) -> None:
    lease = lease_of(registry)
    await lease.register_broker()
    lease.start(no_load)
    await lease.give_up()
    _, brokers = await asyncio.to_thread(registry.read_brokers)
    assert not brokers["broker-0"].live
