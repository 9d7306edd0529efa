"""SQLite's registry on a disk that is really full."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.registry import Registry
from tests.support.full_disk import Ballast, free_bytes, small_disk

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8 * MIB) as mounted:
        yield mounted


def test_groups_are_made_while_nothing_is_free(disk: Path) -> None:
    registry = Registry.open_sqlite(disk / "registry.db")
    Ballast(disk).fill()
    assert free_bytes(disk) == 0
    for number in range(300):
        assert registry.create_group(ConsumerGroup(name=f"group-{number}"))[1]
    assert free_bytes(disk) == 0
    registry.close()
    Ballast(disk).remove()
    again = Registry.open_sqlite(disk / "registry.db")
    assert len(again.list_groups()) == 300
    again.close()


def test_room_is_kept_after_every_start(disk: Path) -> None:
    for start in range(5):
        registry = Registry.open_sqlite(disk / "registry.db")
        Ballast(disk).fill()
        for number in range(50):
            assert registry.create_group(ConsumerGroup(name=f"group-{start}-{number}"))[1]
        registry.close()
        Ballast(disk).remove()
    assert (disk / "registry.db").stat().st_size < MIB


def test_a_disk_without_room_does_not_keep_a_registry_from_opening(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Registry.open_sqlite(disk / "registry.db").close()
    (disk / "registry.db-journal").unlink()  # the room that was kept
    Ballast(disk).fill(leave_bytes=64 << 10)
    registry = Registry.open_sqlite(disk / "registry.db")
    assert registry.list_groups() == []
    assert "no room kept" in caplog.text
    registry.close()
