"""The file of one run, the watermarks in its footer, and the merge of sorted sources."""

import errno
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.timers.settled_watermarks import SettledWatermarks
from ternmq_broker.store.timers.timer_merge import drop_settled, merge_sources
from ternmq_broker.store.timers.timer_run import BadRun, RunName, TimerRun, id_hash, make_tombstone
from ternmq_broker.store.timers.timer_run_writer import RunWriter
from tests.support.memory_disk import MemoryFile, MemoryFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.store.timers.settled_watermarks import Watermark
    from ternmq_broker.store.timers.timer_run import RunRow

U32, U64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
KEYS = st.tuples(st.integers(0, 6) | U64, st.integers(0, 6) | U64)
ROWS = st.dictionaries(KEYS, st.tuples(U32, U32), max_size=30).map(
    lambda found: [(*key, *found[key]) for key in sorted(found)]
)
ZONES = st.lists(st.tuples(U64, U64), max_size=3)
NAME = RunName(100, 200, 7)
SOME_ROWS: "list[RunRow]" = [(due_ms, 100 + due_ms, 9, due_ms % 3) for due_ms in range(10)]


def written(
    rows: "Sequence[RunRow]", *, block_entries: int = 3, watermarks: "Sequence[Watermark]" = (), log_start: int = 0
) -> tuple[MemoryFile, TimerRun]:
    folder = MemoryFolder()
    with RunWriter(folder, NAME, tier=2, block_entries=block_entries) as writer:
        writer.add_rows(rows)
        run = writer.finish_run(watermarks, log_start=log_start)
    return folder.files[str(NAME)], run


def write_some_rows(folder: MemoryFolder) -> None:
    with RunWriter(folder, NAME, tier=0) as writer:
        writer.add_rows(SOME_ROWS)
        writer.finish_run([], log_start=0)


def read_again(file: MemoryFile) -> TimerRun:
    run = TimerRun(NAME, file)
    run.check_blocks()
    return run


def listed(run: TimerRun, start: tuple[int, int] = (0, 0), end: tuple[int, int] = (1 << 64, 0)) -> "list[RunRow]":
    return [row for rows in run.read_pieces(start, end) for row in rows]


@given(rows=ROWS, block_entries=st.integers(1, 5), watermarks=ZONES, log_start=U64, start=KEYS, end=KEYS)
def test_what_was_written_is_read(
    rows: "list[RunRow]",
    block_entries: int,
    watermarks: "list[Watermark]",
    log_start: int,
    start: tuple[int, int],
    end: tuple[int, int],
) -> None:
    file, run = written(rows, block_entries=block_entries, watermarks=watermarks, log_start=log_start)
    for found in (run, read_again(file)):
        assert listed(found) == rows
        assert listed(found, start, end) == [row for row in rows if start <= row < end]
        assert found.watermarks == watermarks
        assert (found.log_from, found.log_to, found.log_start, found.tier) == (100, 200, log_start, 2)
        assert found.entries == len(rows)
        assert found.tombstones == sum(row[2] == 0 for row in rows)
        assert found.relies_on_log_to == max([200, *(log_to for log_to, _ in watermarks)])
        for due_ms in {start[0], *(row[0] for row in rows)}:
            at_once = [row for some in found.read_due_at(due_ms) for row in some]
            assert at_once == [row for row in rows if row[0] == due_ms]
            assert found.may_hold(due_ms) or not at_once


@given(rows=ROWS, data=st.data())
def test_it_does_not_matter_how_a_run_comes_to_the_writer(rows: "list[RunRow]", data: st.DataObject) -> None:
    folder = MemoryFolder()
    with RunWriter(folder, NAME, tier=2, block_entries=3) as writer:
        left = rows
        while left:
            count = data.draw(st.integers(1, len(left)))
            writer.add_rows(left[:count])
            left = left[count:]
        writer.finish_run([], log_start=0)
    assert folder.files[str(NAME)].content == written(rows)[0].content


def test_a_finished_run_survives_a_power_cut() -> None:
    folder = MemoryFolder()
    write_some_rows(folder)
    assert listed(read_again(folder.crash(lambda _: 0, b"").files[str(NAME)])) == SOME_ROWS


def test_the_bytes_of_a_run_are_as_specified() -> None:
    file, _ = written([(0x0102, 0x0304, 5, 6)], watermarks=[(8, 9)], log_start=4)
    entry = bytes.fromhex("0201000000000000 0403000000000000 05000000 06000000")
    fences = entry[:16]
    assert file.content[:40] == entry + fences
    assert file.content[44:60] == bytes.fromhex("0800000000000000 0900000000000000")
    footer = bytes(file.content[60:])
    assert footer[:4] == b"TMTR"
    numbers = [int.from_bytes(footer[at : at + 8], "little") for at in range(8, 56, 8)]
    assert numbers == [100, 200, 4, 1, 0, 0x0102]
    assert [int.from_bytes(footer[at : at + 4], "little") for at in range(56, 72, 4)] == [3, 2, 1, 0]
    assert len(footer) == 72


@given(rows=ROWS, watermarks=ZONES, data=st.data())
def test_a_run_that_is_cut_off_or_garbled_is_refused(
    rows: "list[RunRow]", watermarks: "list[Watermark]", data: st.DataObject
) -> None:
    file, _ = written(rows, watermarks=watermarks)
    at = data.draw(st.integers(0, file.size - 1))
    if data.draw(st.booleans(), label="cut"):
        file.truncate(at)
        file.content += data.draw(st.just(b"") | st.integers(0, 200).map(bytes), label="zeros behind")
    else:
        file.content[at] ^= data.draw(st.integers(1, 255))
    if file.content != written(rows, watermarks=watermarks)[0].content:
        with pytest.raises(BadRun):
            read_again(file)


def test_a_run_under_another_name_is_refused() -> None:
    file, _ = written(SOME_ROWS)
    with pytest.raises(BadRun):
        TimerRun(RunName(100, 300, 7), file)


def test_a_block_that_is_damaged_later_is_found_when_it_is_read() -> None:
    file, run = written(SOME_ROWS)
    file.content[3 * 24] ^= 1
    pieces = run.read_pieces((0, 0), (100, 0))
    assert next(pieces) == SOME_ROWS[:3]
    with pytest.raises(BadRun):
        next(pieces)
    with pytest.raises(BadRun):
        list(run.read_due_at(4))


class FullFolder(MemoryFolder):
    def create(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        file = super().create(name, reserve_bytes=reserve_bytes)
        file.full_after = 100
        return file


def test_a_run_that_has_no_room_leaves_nothing_behind() -> None:
    folder = FullFolder()
    with pytest.raises(OSError, match="No space") as full:
        write_some_rows(folder)
    assert full.value.errno == errno.ENOSPC
    assert folder.names() == []


@given(log_from=U64, log_to=U64, serial=st.integers(0, 10**10 - 1))
def test_a_name_says_what_a_run_covers(log_from: int, log_to: int, serial: int) -> None:
    name = RunName(log_from, log_to, serial)
    assert RunName.parse_name(str(name)) == name


@pytest.mark.parametrize("name", ["", "00000000000000000000", f"{NAME}.new", "checkpoint"])
def test_other_files_have_no_such_name(name: str) -> None:
    assert RunName.parse_name(name) is None


def test_the_hash_of_an_id_stays_the_same() -> None:
    assert id_hash("123456789") == 0xCBF43926


@given(watermarks=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), gone=st.integers(0, 9))
def test_zones_know_all_that_was_said_and_keep_few(watermarks: "list[Watermark]", gone: int) -> None:
    known = SettledWatermarks(watermarks)
    for log_to in range(11):
        said = max((due_ms for zone_to, due_ms in watermarks if zone_to >= log_to), default=0)
        assert known.settled_before_ms(log_to) == said
    kept = list(known)
    assert kept == sorted(set(kept))
    assert all(earlier[1] > later[1] for earlier, later in pairwise(kept))
    known.forget_below(gone)
    assert list(known) == [watermark for watermark in kept if watermark[0] >= gone]


@given(parts=st.lists(ROWS, max_size=5), piece=st.integers(1, 4), slice_rows=st.integers(1, 12))
def test_a_merge_gives_all_in_order_in_small_slices(parts: "list[list[RunRow]]", piece: int, slice_rows: int) -> None:
    sources = [iter([rows[at : at + piece] for at in range(0, len(rows), piece)]) for rows in parts]
    slices = list(merge_sources(sources, slice_rows=slice_rows))
    assert [row for rows in slices for row in rows] == sorted(row for rows in parts for row in rows)
    assert all(0 < len(rows) <= slice_rows + len(parts) for rows in slices)
    for rows, following in pairwise(slices):
        assert rows[-1][:2] < following[0][:2]


def test_a_mark_takes_its_timer_away_and_stays_for_older_runs() -> None:
    timer, other = (5, 50, 9, 1), (5, 60, 9, 1)
    rows = sorted([timer, other, make_tombstone(5, 50), make_tombstone(5, 20)])
    assert drop_settled(rows) == [other]
    assert drop_settled(rows, keep_tombstones_below=40) == [make_tombstone(5, 20), other]
    assert drop_settled(rows, keep_tombstones_below=40, log_start=30) == [other]
