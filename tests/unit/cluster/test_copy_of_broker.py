"""A broker that begins with a copy of the registry: which copies are for it, and what it knows of deletions."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.registry_copy import check_copy_fits
from ternmq_broker.server.store_identity import store_id
from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot, ReplicaEntry
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.server_settings import BrokerServerSettings
from ternmq_common.shard.model import Topic
from ternmq_registry.copies.copy_form import RegistryCopy, UnusableCopy
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from tests.support.all_parts import AllParts

if TYPE_CHECKING:
    from ternmq_broker.broker import Broker

ADDRESS = "10.0.0.1:10911"
LEASE_MS = 60_000


def copy_of(entry: BrokerEntry | None) -> RegistryCopy:
    brokers = {} if entry is None else {entry.name: entry}
    return RegistryCopy(registry="r", holder="h", read_ms=1, snapshot=RegistrySnapshot(version=1, brokers=brokers))


def test_a_copy_is_for_the_store_and_the_address_that_it_names(tmp_path: Path) -> None:
    settings = BrokerServerSettings(data_dir=tmp_path, broker_name="b")
    own = store_id(tmp_path, is_used=False)
    entry = BrokerEntry(name="b", address=ADDRESS, epoch=5, store_id=own)
    fits = check_copy_fits(settings, ADDRESS)
    fits(copy_of(entry))
    for other, told in (
        (None, "it has no broker 'b'"),
        (replace(entry, store_id="f" * 32), f"has store {'f' * 32} by it, and this data directory has {own}"),
        (
            replace(entry, address="10.0.0.2:10911"),
            "look for the broker at 10.0.0.2:10911, and this one is at 10.0.0.1",
        ),
    ):
        with pytest.raises(UnusableCopy, match=told):
            fits(copy_of(other))


def test_a_directory_without_a_store_has_no_copy_to_begin_with(tmp_path: Path) -> None:
    fits = check_copy_fits(BrokerServerSettings(data_dir=tmp_path, broker_name="b"), ADDRESS)
    with pytest.raises(UnusableCopy, match="this data directory has none"):
        fits(copy_of(BrokerEntry(name="b", address=ADDRESS, epoch=5, store_id="f" * 32)))
    assert list(tmp_path.iterdir()) == []


def test_any_copy_tells_a_replica_to_wait(tmp_path: Path) -> None:
    replica = ReplicaEntry(name="r", store_id="f" * 32, address=ADDRESS, in_sync=True, live=True)
    shard = BrokerEntry(name="b", address="elsewhere:1", epoch=5, replicas=(replica,))
    check_copy_fits(BrokerServerSettings(data_dir=tmp_path, broker_name="b"), ADDRESS)(copy_of(shard))
    check_copy_fits(BrokerServerSettings(data_dir=tmp_path, broker_name="b", replicas=3), ADDRESS)(copy_of(None))


class Store(AllParts):
    """What a broker was told to forget."""

    name = "b"

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    async def forget_topic(self, name: str, *, version: int) -> None:
        del version
        self.forgotten.append(name)


async def test_nothing_is_asked_of_the_registry_before_the_broker_is_registered(tmp_path: Path) -> None:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    registry.register_broker("b", "s" * 32, ADDRESS, "1", LEASE_MS)
    for name in ("gone", "stays"):
        registry.create_topic(Topic(name=name, type=MessageType.NORMAL, brokers=("b",)))
    before = registry.read_snapshot()
    deleted = registry.delete_topic("gone")
    directory = RegistryDirectory(registry, interval_s=None)
    directory.start_from_copy(before, 1, RegistryUnavailable("it is dark"))
    broker = Store()
    deletion_log = DeletionLog(cast("Broker", broker), directory, tmp_path)
    synced = asyncio.Event()
    deletion_log.on_synced = synced.set
    await deletion_log.begin_from_copy(before.version)
    assert deletion_log.synced_up_to == before.version
    await directory.refresh_snapshot()  # the registry is back
    assert directory.snapshot.version == deleted
    await deletion_log.catch_up()
    assert (broker.forgotten, deletion_log.synced_up_to, synced.is_set()) == ([], before.version, False)
    registry.register_broker("b", "s" * 32, ADDRESS, "1", LEASE_MS)
    await directory.refresh_snapshot()
    await deletion_log.begin_with_registry()
    assert broker.forgotten == ["gone"]
    assert deletion_log.synced_up_to == directory.snapshot.version
    assert synced.is_set()
    assert registry.applied_version("b") == deleted
    again = registry.delete_topic("stays")
    await directory.refresh_snapshot()
    await deletion_log.catch_up()
    assert (broker.forgotten, registry.applied_version("b")) == (["gone", "stays"], again)
    registry.close()


async def test_what_was_deleted_just_before_the_end_is_removed_once(tmp_path: Path) -> None:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    registry.register_broker("b", "s" * 32, ADDRESS, "1", LEASE_MS)
    registry.create_topic(Topic(name="gone", type=MessageType.NORMAL, brokers=("b",)))
    before = registry.read_snapshot()
    deleted = registry.delete_topic("gone")
    directory = RegistryDirectory(registry, interval_s=None)
    await directory.start()
    broker = Store()
    await DeletionLog(cast("Broker", broker), directory, tmp_path).delete_topic("gone", deleted)
    assert broker.forgotten == ["gone"]
    # The process dies, and its copy is of before.
    directory = RegistryDirectory(registry, interval_s=None)
    directory.start_from_copy(before, 1, RegistryUnavailable("it is dark"))
    deletion_log = DeletionLog(cast("Broker", broker), directory, tmp_path)
    await deletion_log.begin_from_copy(before.version)
    await deletion_log.delete_topic("gone", deleted)
    await directory.refresh_snapshot()
    await deletion_log.begin_with_registry()
    assert broker.forgotten == ["gone"]
    registry.close()
