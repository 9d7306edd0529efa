"""What is taken over of a damaged registry is exactly what was written, and the damaged file is kept."""

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import QueuePermission, RegistrySnapshot
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.catalog.retry_backoff import parse_backoff
from ternmq_common.errors import StartupError
from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.copies.salvage import SalvagedRegistry, find_sidecars, replace_damaged, salvage_registry
from ternmq_registry.registry import Registry

pytestmark = pytest.mark.slow

STEP_BYTES = 1021
LONG = "-" * 80
"""In the names, so that the topics need several pages."""
GROUP = ConsumerGroup(name="billing", fifo=True, max_attempts=5, retry_backoff=parse_backoff("exponential:1s,10m,2"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    for number in range(60):
        registry.create_topic(
            Topic(name=f"topic-{number}{LONG}", type=MessageType.FIFO, queues=8, permission=QueuePermission.READ)
        )
    registry.create_group(GROUP)
    registry.create_topic(Topic(name="chats", type=MessageType.LITE, lite_ttl_ms=900_000))
    registry.create_group(ConsumerGroup(name="agents", lite=LiteGroup("chats", wildcard=True)))
    registry.close()
    return tmp_path / "registry.db"


@pytest.fixture
def written(file: Path) -> RegistrySnapshot:
    registry = Registry.open_sqlite(file)
    snapshot = registry.read_snapshot()
    registry.close()
    return snapshot


def change(file: Path, statement: str) -> None:
    database = sqlite3.connect(file)
    database.execute(statement)
    database.commit()
    database.close()


def test_of_a_whole_file_everything_is_read_and_of_none_nothing(
    file: Path, written: RegistrySnapshot, tmp_path: Path
) -> None:
    assert salvage_registry(file) == SalvagedRegistry(dict(written.topics), dict(written.groups))
    assert salvage_registry(tmp_path / "nowhere.db") == SalvagedRegistry()


def test_a_damaged_header_costs_nothing(file: Path, written: RegistrySnapshot) -> None:
    whole = file.read_bytes()
    for place in (0, 15, 16, 18, 19, 20, 21, 23, 47, 52, 64):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        found = salvage_registry(file)
        assert found.damage is not None, place
        assert (found.topics, found.groups, found.unreadable) == (written.topics, written.groups, []), place


def test_a_row_that_was_changed_is_named_and_not_taken(file: Path, written: RegistrySnapshot) -> None:
    change(file, "UPDATE topics SET queues = 9 WHERE name LIKE 'topic-7-%'")
    found = salvage_registry(file)
    assert found.damage == f"row 'topic-7{LONG}' of table topics has a wrong checksum"
    assert found.unreadable == [f"topics 'topic-7{LONG}'"]
    assert found.topics == {name: topic for name, topic in written.topics.items() if name != f"topic-7{LONG}"}
    assert found.groups == written.groups


def test_a_page_of_zeros_hides_its_own_rows_only(file: Path, written: RegistrySnapshot) -> None:
    whole = file.read_bytes()
    page = whole.index(f"topic-30{LONG}FIFO".encode()) // 4096 * 4096
    file.write_bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
    found = salvage_registry(file)
    assert 0 < len(found.topics) < len(written.topics)
    assert found.topics.items() <= written.topics.items()
    assert found.groups == written.groups


def test_whatever_byte_is_flipped_what_is_taken_is_as_it_was_written(file: Path, written: RegistrySnapshot) -> None:
    whole, rng = file.read_bytes(), random.Random(5)
    for place in range(rng.randrange(STEP_BYTES), len(whole), STEP_BYTES):
        damaged = bytearray(whole)
        damaged[place] ^= rng.randrange(1, 256)
        file.write_bytes(damaged)
        found = salvage_registry(file)
        assert found.topics.items() <= written.topics.items(), place
        assert found.groups.items() <= written.groups.items(), place
        assert found.damage is not None or (found.topics, found.groups) == (written.topics, written.groups), place
        assert file.read_bytes() == damaged


def test_quotas_are_told_apart_by_kind_and_name_and_the_others_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    registry = Registry.open_sqlite(file)
    quotas = [Quota(kind=kind, name="*", messages_in=5, burst_ms=2000) for kind in (QuotaKind.TOPIC, QuotaKind.USER)]
    for quota in quotas:
        registry.put_quota(quota)
    registry.put_quota(Quota(kind=QuotaKind.CLIENT, name="*", connections=5))
    registry.close()
    change(file, "UPDATE quotas SET connections = 6 WHERE kind = 'client'")
    found = salvage_registry(file)
    assert found.unreadable == ["quotas 'client:*'"]
    assert found.quotas == quotas
    replace_damaged(file, [], [], quotas=found.quotas)
    registry = Registry.open_sqlite(file)
    assert [*registry.read_snapshot().quotas.quotas.values()] == quotas
    registry.close()


@pytest.mark.parametrize("content", [b"", b"no database", bytes(5000)])
def test_of_a_file_that_is_none_nothing_is_taken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "registry.db").write_bytes(content)
    found = salvage_registry(tmp_path / "registry.db")
    assert (found.topics, found.groups, found.damage is None) == ({}, {}, not content)


def test_a_registry_of_a_newer_version_is_not_called_damaged(file: Path) -> None:
    change(file, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StartupError, match="is of a newer TernMQ"):
        salvage_registry(file)


def test_a_damaged_registry_is_kept_beside_the_one_that_replaces_it(file: Path) -> None:
    in_a_year = 2_000_000_000_000
    topic = Topic(name="orders", type=MessageType.PRIORITY, queues=3, created_ms=17, created_version=in_a_year)
    older = Topic(name="returns", type=MessageType.NORMAL, created_ms=16)
    group = replace(GROUP, created_version=in_a_year - 1)
    for number in (1, 2):
        damaged = b"damaged %d" % number
        file.write_bytes(damaged)
        journal = file.with_name("registry.db-journal")
        journal.write_bytes(b"its journal")
        aside = replace_damaged(file, [topic, older], [group])
        assert aside == file.with_name(f"registry.db.damaged-{number}")
        assert aside.read_bytes() == damaged
        assert aside.with_name(f"{aside.name}-journal").read_bytes() == b"its journal"
        assert find_sidecars(file) == []
        registry = Registry.open_sqlite(file)
        assert registry.list_topics() == [topic, older]
        assert registry.list_groups() == [group]
        anew, _ = registry.create_topic(Topic(name="new", type=MessageType.NORMAL))
        assert anew.created_version > in_a_year
        registry.close()
    assert not file.with_name("registry.db.new").exists()


def test_values_of_tools_are_told_apart_by_namespace_and_name_and_the_others_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    registry = Registry.open_sqlite(file)
    values = [("one", "key", "1"), ("two", "key", "2")]
    for value in [*values, ("three", "key", "3")]:
        registry.put_value(*value)
    registry.close()
    change(file, "UPDATE name_server_values SET value = '4' WHERE namespace = 'three'")
    found = salvage_registry(file)
    assert found.unreadable == ["name_server_values 'three:key'"]
    assert found.values == values
    replace_damaged(file, [], [], values=found.values)
    registry = Registry.open_sqlite(file)
    assert [registry.read_values(namespace) for namespace in ("one", "two", "three")] == [
        {"key": "1"},
        {"key": "2"},
        {},
    ]
    registry.close()
