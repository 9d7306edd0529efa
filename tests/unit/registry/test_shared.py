"""The embedded registry between the processes of one stack."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import BrokerEntry, DeletedKind, RegistryDeletion
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.registry import Registry
from ternmq_registry.shared_registry import SharedRegistry

ADDRESS = "unix:/somewhere/storage"
BROKER = {"broker-0": BrokerEntry(name="broker-0", address=ADDRESS, epoch=1)}


def opened(folder: Path) -> SharedRegistry:
    return SharedRegistry.open_shared(folder / "registry.db", broker="broker-0", address=ADDRESS)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedRegistry]:
    registry = opened(tmp_path)
    yield registry
    registry.close()


@pytest.fixture
def other(tmp_path: Path, shared: SharedRegistry) -> Iterator[SharedRegistry]:
    """As another process has it."""
    registry = opened(tmp_path)
    yield registry
    registry.close()


def test_its_broker_is_known_and_not_in_the_file(shared: SharedRegistry, tmp_path: Path) -> None:
    assert shared.read_snapshot().brokers == BROKER
    assert shared.read_brokers()[1] == BROKER
    alone = Registry.open_sqlite(tmp_path / "registry.db")
    assert alone.read_snapshot().brokers == {}
    alone.close()


def test_topics_name_no_broker_and_are_the_same_for_a_stack_in_one_process(
    shared: SharedRegistry, tmp_path: Path
) -> None:
    shared.create_topic(Topic(name="orders", type=MessageType.NORMAL))
    shared.create_group(ConsumerGroup(name="billing"))
    assert not shared.read_snapshot().is_placed
    alone = Registry.open_sqlite(tmp_path / "registry.db")
    assert alone.read_snapshot().topics == shared.read_snapshot().topics
    assert alone.read_snapshot().groups == shared.read_snapshot().groups
    assert alone.read_snapshot().is_placed
    assert alone.read_snapshot().topics["orders"].brokers == ()
    alone.close()


def test_a_deletion_is_kept_until_the_broker_has_done_it(shared: SharedRegistry, other: SharedRegistry) -> None:
    shared.create_topic(Topic(name="orders", type=MessageType.NORMAL))
    version = shared.delete_topic("orders")
    other.create_group(ConsumerGroup(name="billing"))
    later = other.delete_group("billing")
    assert other.list_deletions(0) == [
        RegistryDeletion(version, DeletedKind.TOPIC, "orders"),
        RegistryDeletion(later, DeletedKind.GROUP, "billing"),
    ]
    other.set_applied_version("broker-0", version)
    assert [deletion.version for deletion in shared.list_deletions(0)] == [later]


def test_what_an_earlier_stack_deleted_is_done(shared: SharedRegistry, other: SharedRegistry) -> None:
    shared.create_topic(Topic(name="orders", type=MessageType.NORMAL))
    shared.delete_topic("orders")
    other.drop_deletions()
    assert shared.list_deletions(0) == []


async def test_changes_of_others_are_seen_and_those_at_one_time_wait_for_each_other(
    shared: SharedRegistry, other: SharedRegistry
) -> None:
    directory = RegistryDirectory(shared, interval_s=None)
    await directory.start()
    made = (
        asyncio.to_thread(registry.create_topic, Topic(name=f"t{number}", type=MessageType.NORMAL))
        for number in range(20)
        for registry in (shared, other)
    )
    results = await asyncio.gather(*made)
    assert sum(is_new for _, is_new in results) == 20
    await directory.refresh_snapshot()
    assert directory.snapshot.topics.keys() == {f"t{number}" for number in range(20)}
    assert directory.snapshot.brokers == BROKER
    assert not directory.snapshot.is_placed
