"""One flipped byte anywhere in a store: what was stored is there, or its loss is told, and nothing else is there."""

import logging
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store import store_format
from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile, NewerFormat
from ternmq_broker.store.log.log_recovery import CommitLogCorrupted
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import NO_MESSAGE, RecordDraft
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.memory_disk import MemoryFolder, MemoryFolders
from tests.support.spilling import spill_all

SEGMENT_BYTES = 3000
MESSAGES = 40
REFUSALS = (CommitLogCorrupted, DamagedFile, NewerFormat)


def incoming(name: str) -> NewMessage:
    system = definition_pb2.SystemProperties(message_id=name).SerializeToString()
    return NewMessage(0, system, f"body of {name} ".encode() * 4, (name,))


@dataclass
class Contents:
    """What can be had of a store."""

    queues: dict[tuple[str, int], list[bytes | None]] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)
    halves: set[int] = field(default_factory=set)


def contents(store: MessageStore) -> Contents:
    found = Contents(halves=set(store.indexes.halves.waiting))
    for key in (("orders", 0), ("orders", 1), ("deleted", 0)):
        first, end = store.indexes.queues.queue_bounds(*key)
        bodies: list[bytes | None] = [None] * first
        while len(bodies) < end:
            locations = store.indexes.queues.locate_messages(*key, len(bodies), 100, may_block=True)
            assert locations
            for record in store.reader.read_records(locations, may_block=True):
                is_it = record is not None and (record.topic, record.queue_id) == key
                bodies.append(record.rest if record is not None and is_it else None)
        found.queues[key] = bodies
    job = store.indexes.timers.prepare_scan(store.log.log_end, limit=1000)
    job.run_job()
    found.timers = {
        entry.log_offset
        for entry in store.indexes.timers.finish_scan(job)[0]
        if not store.deletions.is_forgotten("deleted" if entry.due_ms == 2 else "timed", entry.log_offset)
    }
    return found


def filled(*, closed: bool) -> MemoryFolders:
    """A store with two queues, of which retention took a part; a deleted topic; timers and half messages."""
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    timers = [
        store.writer.append_drafts([RecordDraft(RecordKind.TIMER, "timed", 0, incoming(f"t{n}"), due_ms=10**12)], 1)
        for n in (1, 2)
    ]
    store.writer.append_batch("deleted", 0, [incoming("gone")], 1)
    store.writer.append_drafts([RecordDraft(RecordKind.TIMER, "deleted", 0, incoming("never"), due_ms=2)], 1)
    store.deletions.forget_topic("deleted")()
    halves = [
        store.writer.append_drafts([RecordDraft(RecordKind.HALF_MESSAGE, "paid", 0, incoming(f"h{n}"))], 1)
        for n in (1, 2)
    ]
    for number in range(MESSAGES):
        store.writer.append_batch("orders", number % 2, [incoming(f"m{number}")], 10 + number)
        if number % 5 == 4:
            store.log.sync_segments()
        if number == MESSAGES // 2:
            spill_all(store)
            store.checkpoints.save_checkpoint()
    settled = RecordOrigin(timers[1][0].log_offset, 10**12), RecordOrigin(halves[1][0].log_offset)
    store.writer.append_drafts([RecordDraft(RecordKind.TOMBSTONE, "timed", 0, NO_MESSAGE, origin=settled[0])], 100)
    store.writer.append_drafts(
        [RecordDraft(RecordKind.OPERATION, "paid", 0, NewMessage(0, b"", b"rollback", ()), origin=settled[1])], 100
    )
    store.log.sync_segments()
    store.checkpoints.mark_durable()
    if closed:
        store.close()
    return folders


def copied(folders: MemoryFolders) -> MemoryFolders:
    return folders.crash(lambda count: count, b"")


def every_file(folders: MemoryFolders) -> list[tuple[MemoryFolder, str]]:
    parts = (folders.root, folders.commit_log, folders.index, folders.timers)
    return [(part, name) for part in parts for name in part.names() if part.files[name].content]


@given(closed=st.booleans(), file=st.integers(0, 100), at=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_one_flipped_byte_anywhere(closed: bool, file: int, at: float, mask: int) -> None:
    whole = filled(closed=closed)
    expected = contents(MessageStore(copied(whole), segment_bytes=SEGMENT_BYTES))
    damaged = copied(whole)
    files = every_file(damaged)
    folder, name = files[file % len(files)]
    content = folder.files[name].content
    content[int(at * len(content))] ^= mask
    lines = _Lines()
    logging.getLogger("ternmq_broker").addHandler(lines)
    try:
        try:
            store = MessageStore(damaged, segment_bytes=SEGMENT_BYTES)
        except REFUSALS as refusal:
            lines.said.append(str(refusal))
            try:
                store = MessageStore(damaged, segment_bytes=SEGMENT_BYTES, accept_corruption=True)
            except REFUSALS:
                return
    finally:
        logging.getLogger("ternmq_broker").removeHandler(lines)
    found = contents(store)
    for key, bodies in expected.queues.items():
        there = found.queues[key]
        there += [None] * (len(bodies) - len(there))
        for was, now in zip(bodies, there, strict=True):
            assert now is None or now == was or lines.said, f"{key}: {now!r} instead of {was!r}, and nothing was said"
            assert now is None or was is None or now == was
        told_at_reading = folder is damaged.commit_log
        assert there == bodies or lines.said or told_at_reading, f"{key}: lost in silence"
    assert (found.timers == expected.timers and found.halves == expected.halves) or lines.said


class _Lines(logging.Handler):
    """What was said at least as a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.mark.parametrize("name", ["forgotten", "floors"])
def test_what_nothing_else_can_tell_refuses_the_start_and_names_the_file(name: str) -> None:
    folders = filled(closed=True)
    folder = folders.root if name == "forgotten" else folders.index
    folder.files[name].content[-3] ^= 1
    damaged = bytes(folder.files[name].content)
    with pytest.raises(DamagedFile, match=f"'{name}' is damaged: the checksum"):
        MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    MessageStore(folders, segment_bytes=SEGMENT_BYTES, accept_corruption=True)
    assert bytes(folders.set_aside.files[name].content) == damaged


def test_a_damaged_checkpoint_is_made_anew_with_what_waits(caplog: pytest.LogCaptureFixture) -> None:
    folders = filled(closed=True)
    waiting = set(MessageStore(copied(folders), segment_bytes=SEGMENT_BYTES).indexes.halves.waiting)
    folders.root.files["checkpoint"].content[60] ^= 1
    again = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    assert set(again.indexes.halves.waiting) == waiting
    assert len(waiting) == 1
    assert "'checkpoint' is damaged" in caplog.text


def test_the_format_heals_from_its_copy_and_a_store_without_either_is_refused() -> None:
    folders = filled(closed=True)
    folders.root.files["format"].content[20] ^= 1
    MessageStore(copied(folders), segment_bytes=SEGMENT_BYTES)
    del folders.root.files["format"]
    MessageStore(copied(folders), segment_bytes=SEGMENT_BYTES)
    folders.root.files["format.copy"].content[30] ^= 1
    with pytest.raises(DamagedFile, match=r"format.copy|format"):
        MessageStore(copied(folders), segment_bytes=SEGMENT_BYTES)
    del folders.root.files["format.copy"]
    with pytest.raises(DamagedFile, match="it is missing, and so is its copy"):
        MessageStore(folders, segment_bytes=SEGMENT_BYTES)


def test_a_store_of_a_newer_layout_is_refused() -> None:
    folders = filled(closed=True)
    checked_file.write_checked(folders.root, "format", "format", store_format.LAYOUT + 1, {"anything": "else"})
    with pytest.raises(NewerFormat, match="layout 3, and this program knows layouts up to 2"):
        MessageStore(folders, segment_bytes=SEGMENT_BYTES)


def test_a_damaged_index_is_made_anew_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    folders = filled(closed=True)
    expected = contents(MessageStore(copied(folders), segment_bytes=SEGMENT_BYTES))
    index = folders.index.files[min(name for name in folders.index.files if name.isdigit())]
    index.content[100] ^= 1
    assert contents(MessageStore(folders, segment_bytes=SEGMENT_BYTES)) == expected
    assert "is damaged from byte 0 on" in caplog.text
