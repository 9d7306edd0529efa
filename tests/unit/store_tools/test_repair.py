"""After a repair a store is sound, holds all but what was damaged, and what was damaged is set aside."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFile, DiskFolder, DiskFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.index.index_block import BlockContent
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store_tools.checking.verification import verify_store
from ternmq_broker.store_tools.repair import plan_repair, repair_store
from ternmq_common.errors import StartupError
from tests.support.disk_store import (
    Contents,
    contents,
    files_of,
    fill,
    flip,
    flip_record,
    incoming,
    opened,
    rewritten_block,
    segment_of,
    state_of,
)
from tests.support.retention import remove_segments

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected(whole: Path) -> Contents:
    return contents(whole)


def lost(now: Contents, expected: Contents) -> int:
    """How many messages are missing; all others are what they were, at the offsets that they had."""
    count = 0
    for key, bodies in expected.queues.items():
        there = now.queues[key]
        assert len(there) == len(bodies), f"{key} has another end"
        for was, found in zip(bodies, there, strict=True):
            assert found in (None, was)
            count += found is None and was is not None
    return count


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.integers(0, 100), at=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@example(file=0, at=0.99, mask=1)
def test_a_repair_after_a_flipped_byte(
    whole: Path, expected: Contents, tmp_path: Path, file: int, at: float, mask: int
) -> None:
    data_dir = tmp_path / "flipped"
    shutil.copytree(whole, data_dir)
    try:
        paths = files_of(data_dir)
        path = paths[file % len(paths)]
        flip(path, int(at * path.stat().st_size), mask)
        before = verify_store(data_dir)
        if before.newer_from is not None:
            return
        done = repair_store(data_dir)
        assert done.after.findings.is_sound, done.after.findings.kept_findings
        assert done.before.findings.is_sound or done.done
        again = verify_store(data_dir)
        assert again.findings.is_sound
        now = contents(data_dir)
        damaged = len(before.damage)
        # A message that shares the bytes of a damaged one is lost with it.
        assert lost(now, expected) <= 2 * damaged
        if path.name == "forgotten":
            return  # nothing else tells that a topic was deleted
        if not damaged:
            assert (now.timers, now.halves) == (expected.timers, expected.halves)
        if path.name != "journal":
            assert now.progress == expected.progress
    finally:
        shutil.rmtree(data_dir)


def test_damaged_records_are_set_aside_and_their_offsets_are_not_given_again(
    store_at: Path, expected: Contents
) -> None:
    store = opened(store_at)
    places = [store.indexes.queues.locate_messages("orders", 0, offset, 1, may_block=True)[0] for offset in (3, 19)]
    store.abandon_files()
    damaged = []
    for place in places:
        flip_record(store_at, place.log_offset)
        path = segment_of(store_at, place.log_offset)
        at = place.log_offset - int(path.name)
        damaged.append(path.read_bytes()[at : at + place.size])
    done = repair_store(store_at)
    assert done.after.findings.is_sound
    assert done.after.accepted == [(place.log_offset, place.log_offset + place.size) for place in places]
    kept = sorted((store_at / "store" / "set-aside").glob("commitlog-*"))
    assert [path.read_bytes() for path in kept] == damaged
    now = contents(store_at)
    assert (now.queues["orders", 0][3], now.queues["orders", 0][19], lost(now, expected)) == (None, None, 2)


def other_tag(content: BlockContent) -> None:
    """So that the index has to go."""
    content.rows[2] += 1


def test_the_offset_of_a_lost_last_message_stays_taken(store_at: Path) -> None:
    store = opened(store_at)
    [place] = store.indexes.queues.locate_messages("orders", 1, 19, 1, may_block=True)
    store.abandon_files()
    flip_record(store_at, place.log_offset)
    rewritten_block(store_at, other_tag)
    assert repair_store(store_at).after.findings.is_sound
    store = opened(store_at)
    assert store.writer.append_batch("orders", 1, [incoming("next")], 300).first_offset == 20
    store.close()
    assert verify_store(store_at).findings.is_sound


def test_the_key_of_the_log_is_found_out(store_at: Path, expected: Contents) -> None:
    before = (store_at / "store" / "format").read_bytes()
    for name in ("format", "format.copy"):
        flip(store_at / "store" / name, 30)
    assert not verify_store(store_at).findings.is_sound
    assert repair_store(store_at).after.findings.kept_findings == []
    assert (store_at / "store" / "format").read_bytes() == before
    assert contents(store_at) == expected


def test_floors_are_told_by_progress_and_deletions(tmp_path: Path) -> None:
    data_dir = fill(tmp_path / "data")
    store = opened(data_dir)
    remove_segments(store, store.log.segment_count - 1)
    store.close()
    journal = ProgressJournal(DiskFolders(data_dir / "store").consumption)
    journal.write_progress([(("billing", "orders", 0), ClaimsSnapshot(20, 1, []))], 1)
    journal.close()
    whole = contents(data_dir)
    flip(data_dir / "store" / "index" / "floors", 40)
    assert repair_store(data_dir).after.findings.is_sound
    now = contents(data_dir)
    assert len(now.queues["orders", 0]) == len(whole.queues["orders", 0]) == 20


def test_a_deleted_topic_stays_deleted_without_floors(store_at: Path, expected: Contents) -> None:
    flip(store_at / "store" / "index" / "floors", 40)
    done = repair_store(store_at)
    assert done.after.findings.is_sound
    assert contents(store_at).queues["deleted", 0] == expected.queues["deleted", 0] == [None]
    store = opened(store_at)
    assert store.indexes.queues.queue_bounds("deleted", 0) == (1, 1)
    assert store.indexes.queues.is_complete("deleted", 0)
    store.abandon_files()


def test_records_of_a_newer_layout_are_cut_only_when_asked(store_at: Path, expected: Contents) -> None:
    last = segment_of(store_at, 1 << 62)
    data = bytearray(last.read_bytes())
    data[2] = 3
    last.write_bytes(data[: data.find(b"TM\x02", 3)])
    before = state_of(store_at)
    assert "refuse" in plan_repair(verify_store(store_at), cut_newer=False)[0]
    with pytest.raises(StartupError, match="--cut-newer"):
        repair_store(store_at)
    after = {name: data for name, data in state_of(store_at).items() if "/process" not in name and "/lock/" not in name}
    assert after == before
    done = repair_store(store_at, cut_newer=True)
    assert done.after.findings.is_sound
    [kept] = (store_at / "store" / "set-aside").glob("commitlog-*")
    assert kept.read_bytes()[:3] == b"TM\x03"
    assert done.after.log_end == int(last.name)


def test_a_group_beyond_the_end_is_moved_back(store_at: Path) -> None:
    journal = ProgressJournal(DiskFolders(store_at / "store").consumption)
    journal.write_progress([(("billing", "orders", 0), ClaimsSnapshot(1000, 1, []))], 1)
    journal.close()
    assert repair_store(store_at).after.findings.is_sound
    assert contents(store_at).progress["billing", "orders", 0] == 20


def test_a_store_that_a_broker_has_is_left_alone(store_at: Path) -> None:
    with StoreLock(store_at / "store"), pytest.raises(StartupError, match="in use by another stack"):
        repair_store(store_at)


def test_a_sound_store_stays_as_it_is(store_at: Path) -> None:
    before = state_of(store_at)
    assert repair_store(store_at).done == []
    after = {name: data for name, data in state_of(store_at).items() if "/process" not in name and "/lock/" not in name}
    assert after == before


class Died(BaseException):
    """The process ended."""


OPERATIONS: list[tuple[type, str]] = [
    *((DiskFile, name) for name in ("append", "sync", "truncate")),
    *((DiskFolder, name) for name in ("create", "remove", "replace")),
]


def test_who_dies_in_a_repair_repairs_again(
    whole: Path, expected: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(whole)
    [place] = store.indexes.queues.locate_messages("orders", 0, 3, 1, may_block=True)
    store.abandon_files()
    number, done = 0, False
    while not done:
        number += 1
        left = number
        data_dir = tmp_path / str(number)
        shutil.copytree(whole, data_dir)
        flip_record(data_dir, place.log_offset)
        rewritten_block(data_dir, other_tag)
        for name in ("format", "format.copy", "index/floors"):
            flip(data_dir / "store" / name, 30)
        with monkeypatch.context() as patch:
            for kind, operation in OPERATIONS:
                operate = getattr(kind, operation)

                def dying(*arguments: object, operate: Callable[..., object] = operate, **options: object) -> object:
                    nonlocal left
                    left -= 1
                    if left == 0:
                        raise Died
                    return operate(*arguments, **options)

                patch.setattr(kind, operation, dying)
            try:
                repair_store(data_dir)
                done = True
            except Died:
                pass
        assert repair_store(data_dir).after.findings.is_sound
        now = contents(data_dir)
        assert lost(now, expected) == 1, number
        assert (now.timers, now.halves, now.progress) == (expected.timers, expected.halves, expected.progress)
        shutil.rmtree(data_dir)
    assert number > 20
