"""A store on the disk is held against itself: what is sound is called so, and one flipped byte is found."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.index.index_block import BlockContent
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.timers.timer_run import RunName, TimerRun
from ternmq_broker.store.timers.timer_run_writer import RunWriter
from ternmq_broker.store_tools.checking.findings import StorePart
from ternmq_broker.store_tools.checking.verification import VerificationResult, verify_store
from ternmq_common.errors import StartupError
from ternmq_common.names import lite_queue_topic
from tests.support.disk_store import (
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
from tests.support.log_order_blocks import make_old

SEGMENT_OF_A_BROKER = 1 << 20


def reasons(found: VerificationResult) -> list[str]:
    return [finding.reason for finding in found.findings.kept_findings if finding.is_problem]


@pytest.mark.parametrize("closed", [True, False])
def test_a_store_that_nothing_happened_to_is_sound_and_stays_as_it_was(tmp_path: Path, *, closed: bool) -> None:
    data_dir = fill(tmp_path / "data", closed=closed)
    before = state_of(data_dir)
    found = verify_store(data_dir)
    assert found.findings.kept_findings == []
    assert (found.messages, found.pending_timers, found.waiting_halves, found.journal_lines) == (42, 2, 1, 3)
    assert found.records == 42 + 3 + 2 + 2
    assert (found.index_rows == 42) is closed
    assert state_of(data_dir) == before


def test_index_blocks_of_a_version_before_are_held_against_the_log_too(store_at: Path) -> None:
    folder = store_at / "store"
    store = MessageStore(DiskFolders(folder), segment_bytes=SEGMENT_OF_A_BROKER)
    make_old(store, folder)
    store.abandon_files()
    found = verify_store(store_at)
    assert found.findings.kept_findings == []
    assert found.index_rows == 42
    flip(folder / "index" / f"{0:020d}", -20)
    assert not verify_store(store_at).findings.is_sound


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.integers(0, 100), at=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_a_flipped_byte_is_found_or_did_not_matter(
    whole: Path, tmp_path: Path, file: int, at: float, mask: int
) -> None:
    data_dir = tmp_path / "flipped"
    shutil.copytree(whole, data_dir)
    try:
        paths = files_of(data_dir)
        path = paths[file % len(paths)]
        flip(path, int(at * path.stat().st_size), mask)
        assert not verify_store(data_dir).findings.is_sound or contents(data_dir) == contents(whole), path
    finally:
        shutil.rmtree(data_dir)


def test_a_damaged_record_is_named_by_the_index(store_at: Path) -> None:
    store = opened(store_at)
    [location] = store.indexes.queues.locate_messages("orders", 1, 4, 1, may_block=True)
    store.abandon_files()
    flip_record(store_at, location.log_offset)
    found = verify_store(store_at)
    [finding] = [each for each in found.findings.kept_findings if each.is_problem]
    assert (finding.part, finding.log_offset, finding.size) == (StorePart.LOG, location.log_offset, location.size)
    assert [str(message) for message in finding.messages] == ["orders queue 1 offset 4"]
    assert found.damage == [(location.log_offset, location.log_offset + location.size)]


def test_a_message_whose_shared_bytes_are_damaged_is_told(store_at: Path) -> None:
    store = opened(store_at)
    [location] = store.indexes.queues.locate_messages("orders", 0, 0, 1, may_block=True)
    store.abandon_files()
    flip(store_at / "store" / "commitlog" / f"{0:020d}", location.log_offset + location.size - 1)
    told = [each for each in verify_store(store_at).findings.kept_findings if "the rest of this record" in each.reason]
    assert [str(message) for finding in told for message in finding.messages] == ["copies queue 0 offset 0"]


def wrong_place(content: BlockContent) -> None:
    content.rows[0] += 1


def wrong_size(content: BlockContent) -> None:
    content.rows[1] += 1


def wrong_tag(content: BlockContent) -> None:
    content.rows[2] += 1


def wrong_key(content: BlockContent) -> None:
    content.key_hashes[1] ^= 1


def missing_run(content: BlockContent) -> None:
    content.runs.pop()


def other_end(content: BlockContent) -> None:
    content.log_to -= 10


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (wrong_place, "the index has another place, size or tag for this message"),
        (wrong_size, "the index has another place, size or tag for this message"),
        (wrong_tag, "the index has another place, size or tag for this message"),
        (wrong_key, "the index does not know its key"),
        (missing_run, "the index does not know this message"),
        (other_end, "the block begins at log offset"),
    ],
)
def test_an_index_that_is_whole_and_wrong_is_found(
    store_at: Path, change: Callable[[BlockContent], None], reason: str
) -> None:
    rewritten_block(store_at, change)
    found = verify_store(store_at)
    assert {finding.part for finding in found.findings.kept_findings} == {StorePart.INDEX}
    assert any(each.startswith(reason) for each in reasons(found)), reasons(found)


def test_a_timer_that_the_timer_index_does_not_know_is_found(store_at: Path) -> None:
    timers = DiskFolders(store_at / "store").timers
    [name] = [name for name in map(RunName.parse_name, timers.names()) if name and name.log_from == 0]
    run = TimerRun(name, timers.open(str(name)))
    rows = [row for piece in run.read_pieces((0, 0), (1 << 64, 0)) for row in piece]
    watermarks, log_start = run.watermarks, run.log_start
    run.close()
    timers.remove(str(name))
    with RunWriter(timers, name, tier=0) as writer:
        writer.add_rows(rows[1:])
        writer.finish_run(watermarks, log_start=log_start).close()
    assert reasons(verify_store(store_at)) == ["2 timers are pending by the log, and 1 by the timer index"]
    with RunWriter(timers, name._replace(serial=name.serial + 1000), tier=0) as writer:
        writer.add_rows([(rows[0][0] + 1, *rows[0][1:3], rows[0][3] ^ 1), *rows[1:]])
        writer.finish_run(watermarks, log_start=log_start).close()
    assert "the run has another due time or size for this timer" in reasons(verify_store(store_at))


def test_a_group_beyond_the_end_of_its_queue_is_found(store_at: Path) -> None:
    journal = ProgressJournal(DiskFolders(store_at / "store").consumption)
    journal.write_progress([(("billing", "orders", 0), ClaimsSnapshot(1000, 1, []))], 1)
    journal.close()
    assert reasons(verify_store(store_at)) == ["is at offset 1000 of queue 0 of topic orders, which ends at 20"]


def test_a_torn_tail_is_harmless(tmp_path: Path) -> None:
    data_dir = fill(tmp_path / "data", closed=False)
    last = segment_of(data_dir, 1 << 62)
    last.write_bytes(last.read_bytes() + b"TM\x02torn")
    found = verify_store(data_dir)
    assert found.findings.is_sound
    assert [finding.harmless for finding in found.findings.kept_findings] == [True]
    assert found.torn_bytes == 7


def test_a_store_that_a_broker_writes_to_is_sound_at_every_moment(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    fill(data_dir)
    with StoreLock(data_dir / "store"):
        store = MessageStore(DiskFolders(data_dir / "store"), segment_bytes=SEGMENT_OF_A_BROKER)
        store.writer.append_batch("orders", 0, [incoming("more")], 200)
        found = verify_store(data_dir)
        assert (found.is_running, found.findings.kept_findings, found.messages) == (True, [], 43)
        last = segment_of(data_dir, 1 << 62)
        assert last.stat().st_size > store.log.log_end - int(last.name), "room is reserved"
        torn = last.read_bytes()
        end = store.log.log_end - int(last.name)
        last.write_bytes(torn[:end] + b"TM\x02\x01" + torn[end + 4 :])
        assert verify_store(data_dir).findings.is_sound, "a record that is being written"
        store.abandon_files()


def test_what_is_no_store_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="there is no store in"):
        verify_store(tmp_path)


def test_the_folder_of_the_store_will_do(whole: Path) -> None:
    assert verify_store(whole / "store").records == verify_store(whole).records


@pytest.mark.parametrize("together", [True, False], ids=["in one block", "in two"])
def test_a_lite_topic_that_was_dropped_and_came_again_is_sound(tmp_path: Path, *, together: bool) -> None:
    topic = lite_queue_topic("chats", "a")
    store = opened(tmp_path / "data")
    store.writer.append_batch(topic, 0, [incoming("old")] * 3, 1)
    store.writer.append_batch("orders", 0, [incoming("other")], 1)
    if not together:
        store.log.sync_segments()
        spill = store.checkpoints.prepare_spill(entries_min=1)
        assert spill is not None
        spill.write()
        store.checkpoints.finish_spill(spill)
    store.indexes.queues.drop_lite_topic(topic)
    store.writer.append_batch(topic, 0, [incoming("new")] * 2, 2)
    store.close()
    found = verify_store(tmp_path / "data")
    assert found.findings.kept_findings == []
    assert (found.messages, found.index_rows) == (6, 6)
    again = opened(tmp_path / "data")
    first, end = again.indexes.queues.queue_bounds(topic, 0)
    assert (end - first, first > 3) == (2, True)
    again.close()
