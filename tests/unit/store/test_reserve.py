"""The file that holds room: given in slices, and made whole again."""

import os
from pathlib import Path

import pytest

from ternmq_broker.store.disk.reserve import MIB, SLICES, DiskReserve, reserve_bytes

SIZE = 64 << 10
SLICE = SIZE // SLICES


@pytest.fixture
def reserve(tmp_path: Path) -> DiskReserve:
    made = DiskReserve(tmp_path, SIZE)
    made.fill_reserve()
    return made


def test_the_room_is_taken_from_the_disk_and_is_no_hole(reserve: DiskReserve, tmp_path: Path) -> None:
    assert reserve.left_bytes == SIZE
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE


def test_the_last_half_is_for_who_makes_room(reserve: DiskReserve) -> None:
    slices = 0
    while reserve.give_slice(may_use_all=False):
        slices += 1
        assert reserve.left_bytes == SIZE - slices * SLICE
    assert slices == SLICES // 2
    while reserve.give_slice(may_use_all=True):
        slices += 1
    assert (slices, reserve.left_bytes) == (SLICES, 0)


def test_what_is_missing_is_made_again(reserve: DiskReserve, tmp_path: Path) -> None:
    reserve.give_slice(may_use_all=True)
    reserve.fill_reserve()
    assert reserve.left_bytes == SIZE
    (tmp_path / "reserve").unlink()
    assert not reserve.give_slice(may_use_all=True)
    reserve.fill_reserve()
    assert reserve.left_bytes == SIZE


def test_if_the_disk_has_less_after_all_nothing_is_taken(
    reserve: DiskReserve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve.give_slice(may_use_all=True)

    def full(fd: int, at: int, size: int) -> None:
        (tmp_path / "reserve").write_bytes(bytes(at + size // 2))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    reserve.fill_reserve()
    assert reserve.left_bytes == SIZE - SLICE


@pytest.mark.parametrize(("disk_mib", "mib"), [(10, 2), (1000, 10), (10_000, 32), (10_000_000, 32)])
def test_its_size_goes_by_that_of_the_disk(disk_mib: int, mib: int) -> None:
    assert reserve_bytes(disk_mib * MIB) == mib * MIB
