"""A start tells a torn tail from damage: what was durable is never cut off, and what is cut off is set aside."""

import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_broker.store.disk.checked_file import NewerFormat
from ternmq_broker.store.log.log_recovery import CommitLogCorrupted
from ternmq_broker.store.log.record import HEADER_BYTES, Record, RecordKind, to_unplaced
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.shard.model import NewMessage
from tests.support.encoded_records import encode_record
from tests.support.memory_disk import MemoryFile, MemoryFolders

SEGMENT_BYTES = 20_000
BODY = 100


def opened(folders: MemoryFolders, *, accept: bool = False) -> MessageStore:
    return MessageStore(folders, segment_bytes=SEGMENT_BYTES, accept_corruption=accept)


def body(number: int) -> bytes:
    return b"%06d" % number * (BODY // 6)


def filled(folders: MemoryFolders, count: int, *, batch: int = 5) -> list[int]:
    """A store that ended without a word, after every batch was synced; where each message begins, and the end."""
    store = opened(folders)
    places = []
    for first in range(0, count, batch):
        for number in range(first, first + batch):
            places.append(store.log.log_end)
            store.writer.append_batch("orders", 0, [NewMessage(0, b"", body(number), ())], 1)
        store.log.sync_segments()
    return [*places, store.log.log_end]


def file_at(folders: MemoryFolders, log_offset: int) -> tuple[MemoryFile, int]:
    base = max(int(name) for name in folders.commit_log.files if int(name) <= log_offset)
    return folders.commit_log.files[f"{base:020d}"], log_offset - base


def flip(folders: MemoryFolders, log_offset: int, mask: int = 0xFF) -> None:
    file, position = file_at(folders, log_offset)
    file.content[position] ^= mask


def found(store: MessageStore) -> list[bytes | None]:
    """What every offset of the queue has."""
    first, end = store.indexes.queues.queue_bounds("orders", 0)
    assert first == 0, "a queue whose first messages were lost has not begun later"
    bodies: list[bytes | None] = []
    while len(bodies) < end:
        locations = store.indexes.queues.locate_messages("orders", 0, len(bodies), 100, may_block=True)
        bodies += [record.rest if record else None for record in store.reader.read_records(locations, may_block=True)]
    return bodies


def forget_indexes(folders: MemoryFolders) -> None:
    """All that is derived from the log is gone."""
    for folder, names in ((folders.index, list(folders.index.files)), (folders.root, ["checkpoint", "durable"])):
        for name in names:
            folder.files.pop(name, None)


def test_a_damaged_byte_after_a_kill_refuses_the_start_and_erases_nothing() -> None:
    folders = MemoryFolders()
    places = filled(folders, 500)
    flip(folders, places[5] + 70)
    before = {name: bytes(file.content) for name, file in folders.commit_log.files.items()}
    with pytest.raises(CommitLogCorrupted, match=f"log offset {places[5]} "):
        opened(folders)
    assert {name: bytes(file.content) for name, file in folders.commit_log.files.items()} == before


def test_accepted_damage_costs_that_record_alone_is_set_aside_and_stays_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    folders = MemoryFolders()
    places = filled(folders, 500)
    flip(folders, places[5] + 70)
    damaged = bytes(folders.commit_log.files[f"{0:020d}"].content[places[5] : places[6]])
    store = opened(folders, accept=True)
    expected = [None if number == 5 else body(number) for number in range(500)]
    assert found(store) == expected
    assert store.recovery.skipped_bytes == len(damaged)
    name = f"commitlog-{places[5]:020d}-{places[6]:020d}"
    assert bytes(folders.set_aside.files[name].content) == damaged
    [line] = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert f"from log offset {places[5]} up to {places[6]}" in line
    assert name in line
    store.close()
    forget_indexes(folders)
    assert found(opened(folders)) == expected, "what was accepted once is not asked again"


def test_a_torn_tail_is_set_aside_before_it_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    folders = MemoryFolders()
    places = filled(folders, 20)
    last, _ = file_at(folders, places[-1] - 1)
    torn = encode_record(Record(RecordKind.MESSAGE, "orders", 0, 20, 1, 0, b"", body(20)), places[-1], places[-1])
    last.content += torn + bytes(1000)
    store = opened(folders)
    assert found(store) == [body(number) for number in range(20)]
    assert (store.log.log_end, store.recovery.torn_bytes) == (places[-1], len(torn))
    [kept] = folders.set_aside.files.values()
    assert bytes(kept.content) == torn
    assert any("torn tail" in record.message and str(places[-1]) in record.message for record in caplog.records)


def test_room_that_was_reserved_is_given_back_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    folders = MemoryFolders()
    places = filled(folders, 20)
    file_at(folders, places[-1] - 1)[0].content += bytes(5000)
    assert opened(folders).log.log_end == places[-1]
    assert not folders.set_aside.files
    assert not caplog.records


@pytest.mark.parametrize("accept", [False, True])
def test_records_of_a_newer_layout_are_refused_and_never_cut(*, accept: bool) -> None:
    folders = MemoryFolders()
    places = filled(folders, 20)
    for place in places[15:20]:
        file, position = file_at(folders, place)
        file.content[position + 2] = 3
    before = {name: bytes(file.content) for name, file in folders.commit_log.files.items()}
    with pytest.raises(NewerFormat, match=f"log offset {places[15]} has layout 3"):
        opened(folders, accept=accept)
    assert {name: bytes(file.content) for name, file in folders.commit_log.files.items()} == before


def test_a_version_byte_that_was_damaged_among_known_records_is_damage() -> None:
    folders = MemoryFolders()
    places = filled(folders, 20)
    flip(folders, places[3] + 2, 0x41)
    with pytest.raises(CommitLogCorrupted, match=f"log offset {places[3]} "):
        opened(folders)
    assert found(opened(folders, accept=True))[3:5] == [None, body(4)]


def test_a_record_within_a_body_is_not_believed() -> None:
    """A client may know the layout, and where its message will be, but not the key of the log."""
    folders = MemoryFolders()
    store = opened(folders)
    forged_at = store.log.log_end + HEADER_BYTES + len("orders")
    forged = Record(RecordKind.MESSAGE, "payments", 0, 2**40, 1, 0, b"", b"forged")
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", encode_record(forged, forged_at, forged_at), ())], 1)
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"honest", ())], 1)
    store.log.sync_segments()
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"last", ())], 1)
    store.log.sync_segments()
    flip(folders, 10)
    again = opened(folders, accept=True)
    assert found(again) == [None, b"honest", b"last"]
    assert again.indexes.queues.queue_bounds("payments", 0) == (0, 0)


def test_a_body_full_of_headers_does_not_hold_up_the_start() -> None:
    folders = MemoryFolders()
    store = opened(folders)
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"TM\x02\x01" * 4000, ())], 1)
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"honest", ())], 1)
    store.log.sync_segments()
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"last", ())], 1)
    flip(folders, 10)
    assert found(opened(folders, accept=True)) == [None, b"honest", b"last"]


def test_an_offset_that_can_not_be_is_damage() -> None:
    folders = MemoryFolders()
    store = opened(folders)
    store.writer.append_batch("orders", 0, [NewMessage(0, b"", b"first", ())], 1)
    log = store.log
    for offset in (2**40, 0):
        log.append_records([to_unplaced(Record(RecordKind.MESSAGE, "orders", 0, offset, 1, 0, b"", b"impossible"))])
    store.log.sync_segments()
    log.append_records([to_unplaced(Record(RecordKind.MESSAGE, "orders", 0, 1, 1, 0, b"", b"second"))])
    with pytest.raises(CommitLogCorrupted, match=f"offset {2**40} in queue 0 .* next offset is 1"):
        opened(folders)
    assert found(opened(folders, accept=True)) == [b"first", b"second"]


def test_bytes_that_are_missing_at_the_end_of_a_segment_are_damage() -> None:
    folders = MemoryFolders()
    places = filled(folders, 500)
    first = folders.commit_log.files[f"{0:020d}"]
    del first.content[-10:]
    with pytest.raises(CommitLogCorrupted):
        opened(folders)
    lost = [number for number, each in enumerate(found(opened(folders, accept=True))) if each is None]
    assert lost == [max(number for number, place in enumerate(places) if place < first.size)]


def test_a_log_that_lost_its_end_is_damage_when_the_store_was_closed() -> None:
    folders = MemoryFolders()
    filled(folders, 20)
    opened(folders).close()
    [segment] = folders.commit_log.files.values()
    del segment.content[-5:]
    with pytest.raises(CommitLogCorrupted, match="is missing at the log's end"):
        opened(folders)
    store = opened(folders, accept=True)
    assert found(store) == [body(number) for number in range(19)]
    assert store.writer.append_batch("orders", 0, [NewMessage(0, b"", body(19), ())], 1).first_offset == 19
    store.log.sync_segments()
    assert found(opened(folders)) == [body(number) for number in range(20)]


def test_while_nothing_is_written_the_last_messages_are_vouched_for_too() -> None:
    folders = MemoryFolders()
    filled(folders, 20)
    store = opened(folders)
    places_end = store.log.log_end
    store.checkpoints.mark_durable()
    flip(folders, places_end - 1)
    with pytest.raises(CommitLogCorrupted):
        opened(folders)


@given(
    at=st.floats(0, 1, exclude_max=True),
    mask=st.integers(1, 255),
    closed=st.booleans(),
    derived=st.booleans(),
)
@example(at=0.0001, mask=2, closed=False, derived=False)
def test_a_flipped_byte_never_loses_a_message_in_silence(at: float, mask: int, closed: bool, derived: bool) -> None:
    folders = MemoryFolders()
    places = filled(folders, 300, batch=3)
    if closed:
        opened(folders).close()
    if not derived:
        forget_indexes(folders)
    flip(folders, int(at * places[-1]), mask)
    expected = [body(number) for number in range(300)]
    try:
        store = opened(folders)
    except (CommitLogCorrupted, NewerFormat):
        try:
            store = opened(folders, accept=True)
        except NewerFormat:
            return
    survived = found(store)
    survived += [None] * (300 - len(survived))
    assert all(each in (None, wanted) for each, wanted in zip(survived, expected, strict=True))
    lost = survived.count(None)
    if derived and closed:
        assert lost == 1, "the record that was hit, told when it is read"
    else:
        # What nobody vouches for is at most what was written since the last sync but one.
        assert lost == 1 or (lost <= 3 and folders.set_aside.files)
