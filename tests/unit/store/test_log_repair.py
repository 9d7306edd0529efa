"""Damage of a log that is in use: it is found where it is, and repaired by what another replica has, or not at all."""

import copy
import errno
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.copying.copy_start import begin_copy
from ternmq_broker.store.copying.log_truncation import truncate_store
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.repairing.damage import AwaitsRepair
from tests.support.replica_pair import content, log_of, opened, spill
from tests.support.rotting import Rotting, check_all

if TYPE_CHECKING:
    from tests.support.memory_disk import MemoryFolders


@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=8),
    piece_bytes=st.integers(1, 3000),
)
def test_whatever_bits_flip_is_found_and_nothing_else_and_repaired_to_the_byte(
    flips: list[tuple[float, int]], piece_bytes: int
) -> None:
    rotting = Rotting()
    places = {int(share * rotting.store.log.log_end): bit for share, bit in flips}
    for place, bit in places.items():
        rotting.flip(place, bit)
    found = rotting.scrub(piece_bytes)
    assert all(any(begin <= place < end for begin, end in found) for place in places)
    assert all(any(begin <= place < end for place in places) for begin, end in found)
    rotting.mend_all()
    assert log_of(rotting.store) == rotting.whole
    assert content(rotting.store) == rotting.content
    assert not rotting.store.damage.is_known
    assert rotting.scrub() == []


@given(flip=st.integers(0, 1 << 20), kept=st.lists(st.floats(0, 1), min_size=4, max_size=4), after=st.integers(0, 3))
def test_a_power_cut_in_the_middle_of_a_repair_leaves_what_was_or_what_is_to_be(
    flip: int, kept: list[float], after: int
) -> None:
    rotting = Rotting()
    spill(rotting.store)
    place = flip % rotting.store.log.log_end
    rotting.flip(place)
    [(begin, end)] = rotting.scrub()
    shares = iter([*kept, *[1.0] * 1000])
    crashed: list[MemoryFolders] = []
    steps = iter(range(100))

    def cut() -> None:
        if next(steps) == after:
            crashed.append(rotting.leader.folders.crash(lambda count: round(next(shares) * count), b""))

    root, file = rotting.leader.folders.root, rotting.file(max(each for each in rotting.whole if each <= begin))
    sync, remove = file.sync, root.remove

    def cut_and_sync() -> None:
        cut()
        sync()

    def cut_and_remove(name: str) -> None:
        cut()
        remove(name)
        cut()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "sync", cut_and_sync)
        patch.setattr(root, "remove", cut_and_remove)
        rotting.store.repair.write_repair(begin, rotting.truth(begin, end))
    again = rotting.reopen((crashed or [rotting.leader.folders])[0])
    assert "overwriting" not in rotting.leader.folders.root.files
    check_all(again)
    assert again.damage.damaged_ranges == []
    assert log_of(again) == rotting.whole


def test_a_reader_waits_for_a_repair_only_while_another_replica_may_have_it() -> None:
    rotting = Rotting()
    store, place = rotting.store, rotting.location(7)
    rotting.flip(place.log_offset + place.size - 1)
    with pytest.raises(AwaitsRepair):
        store.reader.read_records([place], may_block=False)
    assert store.reader.read_records([place], may_block=True) == [None]
    [(log_offset, size)] = store.damage.open_reports()
    store.repair.check_report(log_offset, size)
    assert store.damage.damaged_ranges == [(place.log_offset, place.log_offset + place.size)]
    with pytest.raises(AwaitsRepair):
        store.reader.read_records([place], may_block=False)
    store.damage.postpone_repair(place.log_offset, 1e9, is_given_up=True)
    assert store.reader.read_records([place], may_block=False) == [None]
    rotting.mend_all()
    [record] = store.reader.read_records([place], may_block=False)
    assert record is not None
    assert record.queue_offset == 7


def test_without_replicas_nobody_waits_and_the_damage_is_known(caplog: pytest.LogCaptureFixture) -> None:
    rotting = Rotting()
    store, place = rotting.store, rotting.location(7)
    store.damage.may_be_repaired = False
    rotting.flip(place.log_offset)
    for _ in range(3):
        assert store.reader.read_records([place], may_block=False) == [None]
    for log_offset, size in store.damage.open_reports():
        store.repair.check_report(log_offset, size)
    assert store.damage.damaged_ranges == [(place.log_offset, place.log_offset + place.size)]
    [said] = [record.getMessage() for record in caplog.records if "is damaged from" in record.getMessage()]
    base = max(each for each in rotting.whole if each <= place.log_offset)
    assert f"log offset {place.log_offset} " in said
    assert f"byte {place.log_offset - base} of its file {base:020d}" in said
    assert (
        store.damage.degraded_reason
        == f"{place.size} bytes of the commit log are damaged, in 1 place from log offset "
        + (str(place.log_offset) + " on")
    )


@pytest.mark.parametrize("shift", [-3, 5])
def test_a_place_where_the_index_is_wrong_is_no_damage_of_the_log(shift: int) -> None:
    rotting = Rotting()
    store, place = rotting.store, rotting.location(7)
    nowhere = MessageLocation(place.log_offset + shift, place.size, 0)
    with pytest.raises(AwaitsRepair):
        store.reader.read_records([nowhere], may_block=False)
    for log_offset, size in store.damage.open_reports():
        store.repair.check_report(log_offset, size)
    assert not store.damage.is_known
    assert store.reader.read_records([nowhere], may_block=False) == [None]


@pytest.mark.plain
def test_a_place_that_the_disk_refuses_to_read_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    rotting = Rotting()
    store, place = rotting.store, rotting.location(7)
    base = max(each for each in rotting.whole if each <= place.log_offset)
    file = rotting.file(base)
    read, bad = file.read, range(place.log_offset - base, place.log_offset - base + place.size)

    def refusing(position: int, size: int, *, may_block: bool = True) -> bytes:
        if position < bad.stop and bad.start < position + size:
            raise OSError(errno.EIO, "Input/output error")
        return read(position, size, may_block=may_block)

    monkeypatch.setattr(file, "read", refusing)
    with pytest.raises(AwaitsRepair):
        store.reader.read_records([place], may_block=False)
    [(log_offset, size)] = store.damage.open_reports()
    store.repair.check_report(log_offset, size)
    assert store.damage.damaged_ranges == [(place.log_offset, place.log_offset + place.size)]
    store.damage.may_be_repaired = False
    with pytest.raises(OSError, match="Input/output"):
        store.reader.read_records([place], may_block=False)


def test_bytes_that_are_not_the_record_are_not_taken() -> None:
    rotting, other = Rotting(), Rotting()
    store, place = rotting.store, rotting.location(7)
    rotting.flip(place.log_offset + place.size - 1)
    [(begin, end)] = rotting.scrub()
    right = rotting.truth(begin, end)
    assert store.repair.count_fitting(begin, right) == len(right)
    for wrong in (
        b"",
        right[:-1],
        bytes(len(right)),
        right[:-1] + bytes([right[-1] ^ 1]),
        other.truth(begin, end),  # the log of another store
        rotting.truth(end, end + len(right)),
    ):
        assert store.repair.count_fitting(begin, wrong) == 0


def test_damage_is_known_to_the_next_start_until_it_is_repaired() -> None:
    rotting = Rotting()
    spill(rotting.store)
    place = rotting.location(3)
    rotting.flip(place.log_offset + place.size - 1)
    found = rotting.scrub()
    rotting.store.repair.save_damage()
    again = rotting.reopen(copy.deepcopy(rotting.leader.folders))
    assert again.damage.damaged_ranges == found
    rotting.mend_all()
    again.repair.save_damage()
    again = rotting.reopen(copy.deepcopy(rotting.leader.folders))
    assert not again.damage.is_known


def test_damage_of_what_was_cut_off_is_not_that_of_what_comes_in_its_place() -> None:
    rotting = Rotting()
    spill(rotting.store)
    kept, place = rotting.location(1), rotting.location(13)
    for each in (kept, place):
        rotting.flip(each.log_offset + each.size - 1)
    rotting.scrub()
    rotting.store.repair.save_damage()
    rotting.flip(kept.log_offset + kept.size - 1)  # a start may read it
    folders = copy.deepcopy(rotting.leader.folders)
    truncate_store(folders, place.log_offset)
    again = rotting.reopen(folders)
    assert again.damage.damaged_ranges == [(kept.log_offset, kept.log_offset + kept.size)]
    assert again.repair.is_unsaved


def test_a_log_that_begins_as_a_copy_has_no_damage() -> None:
    rotting = Rotting()
    spill(rotting.store)
    rotting.flip(rotting.location(3).log_offset + 70)
    assert rotting.scrub()
    rotting.store.repair.save_damage()
    folders = rotting.leader.folders
    begin_copy(folders, rotting.store.replica_log.join_state())
    assert not opened(folders).damage.is_known


def test_damage_in_segments_that_retention_removes_is_forgotten() -> None:
    rotting = Rotting()
    spill(rotting.store)
    rotting.flip(rotting.location(0).log_offset + 70)
    assert rotting.scrub()
    removal = rotting.store.deletions.prepare_removal(1)
    removal.write()
    rotting.store.deletions.finish_removal(removal)
    rotting.store.repair.save_damage()
    assert not rotting.store.damage.is_known


def test_bytes_that_are_missing_at_a_segments_end_are_written_again() -> None:
    rotting = Rotting()
    first, second, *_ = rotting.whole
    file = rotting.file(first)
    del file.content[-10:]
    [(begin, end)] = rotting.scrub()
    assert end == second
    rotting.mend_all()
    assert log_of(rotting.store) == rotting.whole
    assert begin < second - 10
