"""A byte of the embedded registry's file that is not what was written is noticed, wherever it is."""

import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text

from ternmq_common.catalog.cluster import RegistrySnapshot
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.errors import RegistryDamaged, RegistryFileDamaged
from ternmq_registry.registry import Registry

pytestmark = pytest.mark.slow

HEADER_BYTES = 100
STEP_BYTES = 256
GROUP = ConsumerGroup(name="billing", fifo=True, max_attempts=5, created_ms=1_795_310_547_155)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A registry with topics and groups of which some were deleted."""
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    for number in range(12):
        registry.create_topic(
            Topic(name=f"topic-{number}", type=MessageType.FIFO if number % 2 else MessageType.NORMAL, queues=8)
        )
        registry.create_group(ConsumerGroup(name=f"group-{number}", fifo=number % 2 > 0, created_ms=1_795_310_547_155))
    registry.delete_topic("topic-3")
    registry.delete_group("group-4")
    registry.close()
    return tmp_path / "registry.db"


def content(path: Path) -> RegistrySnapshot:
    registry = Registry.open_sqlite(path)
    try:
        assert registry.list_deletions(0) == []
        return registry.read_snapshot()
    finally:
        registry.close()


def test_a_flipped_byte_is_refused_or_changes_nothing(file: Path) -> None:
    written, whole, rng = content(file), file.read_bytes(), random.Random(17)
    places = [*range(HEADER_BYTES), *range(HEADER_BYTES + rng.randrange(STEP_BYTES), len(whole), STEP_BYTES)]
    outcomes: Counter[str] = Counter()
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        file.write_bytes(damaged)
        try:
            assert content(file) == written, f"byte {place}: {whole[place]} became {damaged[place]}"
            outcomes["same"] += 1
        except StartupError:
            outcomes["refused"] += 1
    assert outcomes["same"] > 10  # unused bytes
    assert outcomes["refused"] > 50


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("UPDATE topics SET queues = 9 WHERE name = 'topic-1'", r"row 'topic-1' of table topics has a wrong checksum"),
        ("UPDATE consumer_groups SET fifo = 2 WHERE name = 'group-1'", r"row 'group-1' of table consumer_groups"),
        ("UPDATE consumer_groups SET assignment = x'00'", r"of table consumer_groups has a wrong checksum"),
        ("INSERT INTO topic_brokers VALUES ('topic-1', 'b1', 0)", r"row 'topic-1', 'b1' of table topic_brokers"),
        ("DELETE FROM topics WHERE name = 'topic-1'", "rows are missing, or there are others"),
        ("DELETE FROM registry_version", "rows are missing, or there are others"),
        ("UPDATE registry_version SET version = 7", "rows are missing, or there are others"),
        ("CREATE TABLE other (id INTEGER)", "rows are missing, or there are others"),
        ("UPDATE alembic_version SET version_num = 'A006'", "its schema is called 'A006'"),
        ("UPDATE alembic_version SET version_num = x'30303036'", r"its schema is called b'0006'"),
        ("UPDATE alembic_version SET version_num = '0005'", r"duplicate column name: checksum"),
        ("DROP TABLE alembic_version", "the name of its schema can't be read"),
    ],
)
def test_what_nobody_wrote_through_the_registry_is_refused_with_the_place(
    file: Path, change: str, finding: str
) -> None:
    database = sqlite3.connect(file)
    database.execute(change)
    database.commit()
    database.close()
    before = file.read_bytes()
    advice = rf": restore it from a copy, or create another with `ternmq registry rebuild --data-dir {file.parent}`"
    with pytest.raises(RegistryFileDamaged, match=rf"the registry {file} is damaged \(.*{finding}.*\){advice}"):
        Registry.open_sqlite(file)
    assert file.read_bytes() == before


def test_a_change_does_not_vouch_for_what_is_damaged(file: Path) -> None:
    registry = Registry.open_sqlite(file)
    with registry._database.write_transaction() as connection:
        connection.execute(text("DELETE FROM topics WHERE name = 'topic-1'"))
    with pytest.raises(RegistryDamaged, match="rows are missing"):
        registry.create_group(GROUP)
    registry.close()
    with pytest.raises(RegistryFileDamaged):
        Registry.open_sqlite(file)


def test_what_is_committed_is_in_the_file_itself(file: Path) -> None:
    """A write-ahead log would lose its end, without a word, with one byte of it."""
    registry = Registry.open_sqlite(file)
    made, _ = registry.create_group(GROUP)
    copy = file.with_name("copy.db")
    copy.write_bytes(file.read_bytes())
    assert {path.name for path in file.parent.iterdir()} == {"copy.db", "registry.db", "registry.db-journal"}
    registry.close()
    assert content(copy).groups["billing"] == made


def test_an_empty_file_is_a_new_registry(tmp_path: Path) -> None:
    (tmp_path / "registry.db").touch()
    assert content(tmp_path / "registry.db").topics == {}


def test_what_can_be_written_by_nobody_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"can't be opened: unable to open database file; check the file") as refused:
        Registry.open_sqlite(tmp_path / "nowhere" / "registry.db")
    assert not isinstance(refused.value, RegistryFileDamaged)
