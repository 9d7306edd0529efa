"""A log that several processes read makes the index that one makes, whatever is in it."""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.index.log_index import BlockSpill
from ternmq_broker.store.log.log_recovery import CommitLogCorrupted
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store.replaying import stretches
from ternmq_broker.store.replaying.replay import REPLAY_SIZES, ReplaySizes
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2

MESSAGES = 4000
SEGMENT_BYTES = 200_000
# Several processes, though the log is short, and stretches that no record fits well.
SEVERAL = ReplaySizes(parallel_bytes=0, stretch_bytes=70_001)
SPILLING = replace(SEVERAL, spill_entries=1000)
QUEUES = [("orders", 0), ("orders", 1), ("payments", 0)]


def incoming(number: int) -> NewMessage:
    system = definition_pb2.SystemProperties(message_id=f"m{number}", keys=[f"k{number % 7}"], tag="red")
    return NewMessage(number % 5, system.SerializeToString(), b"%06d" % number * 20, (f"m{number}", f"k{number % 7}"))


def fill(folder: Path) -> None:
    store = MessageStore(DiskFolders(folder), segment_bytes=SEGMENT_BYTES)
    for number in range(MESSAGES):
        store.writer.append_batch(*QUEUES[number * number % 3], [incoming(number)], number)
        if number % 500 == 250:  # what is not plain
            store.writer.append_drafts(
                [RecordDraft(RecordKind.MESSAGE, "orders", 0, incoming(number), origin=RecordOrigin(0))], number
            )
            store.writer.append_drafts([RecordDraft(RecordKind.HALF_MESSAGE, "paid", 0, incoming(number))], number)
            store.log.sync_segments()
    store.log.sync_segments()
    store.abandon_files()


def opened(folder: Path, sizes: ReplaySizes = REPLAY_SIZES, *, accept_corruption: bool = False) -> MessageStore:
    return MessageStore(
        DiskFolders(folder), segment_bytes=SEGMENT_BYTES, accept_corruption=accept_corruption, replay_sizes=sizes
    )


def contents(folder: Path, sizes: ReplaySizes = REPLAY_SIZES) -> dict[object, object]:
    store = opened(folder, sizes)
    found: dict[object, object] = {"recovered": store.replayed_records, "halves": set(store.indexes.halves.waiting)}
    for topic, queue_id in QUEUES:
        first, end = store.indexes.queues.queue_bounds(topic, queue_id)
        bodies: list[bytes | None] = []
        while first + len(bodies) < end:
            located = store.indexes.queues.locate_messages(topic, queue_id, first + len(bodies), 1000, may_block=True)
            bodies += [record.rest if record else None for record in store.reader.read_records(located, may_block=True)]
        found[topic, queue_id] = (first, bodies)
        found[topic, "keys"] = [record.queue_offset for record in store.reader.find_by_key(topic, "k3", 10_000)]
    found["stored_ms"] = store.writer.last_stored_ms
    store.abandon_files()
    return found


def forget_index(folder: Path) -> None:
    for path in (folder / "index").glob("0*"):
        path.unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def test_several_processes_make_the_same_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = contents(folder)
    forget_index(folder)
    taken = []
    take = stretches.StretchReaders.stretch_at

    def told(self: stretches.StretchReaders, log_offset: int) -> object:
        found = take(self, log_offset)
        taken.append(found[0])
        return found

    monkeypatch.setattr(stretches.StretchReaders, "stretch_at", told)
    assert contents(folder, SEVERAL) == alone
    assert sum(stretch.records for stretch in taken if stretch) > MESSAGES / 2


def test_damage_is_met_where_it_is(folder: Path) -> None:
    segment = sorted((folder / "commitlog").iterdir())[1]
    content = bytearray(segment.read_bytes())
    content[50_000] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(CommitLogCorrupted):
        opened(folder, SEVERAL)
    forget_index(folder)
    store = opened(folder, SEVERAL, accept_corruption=True)
    lost = 0
    for topic, queue_id in QUEUES:
        end = store.indexes.queues.queue_bounds(topic, queue_id)[1]
        located = [
            store.indexes.queues.locate_messages(topic, queue_id, offset, 1, may_block=True)[0] for offset in range(end)
        ]
        lost += sum(record is None for record in store.reader.read_records(located, may_block=True))
    assert lost == 1
    store.abandon_files()


def test_processes_that_die_are_done_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = contents(folder)
    forget_index(folder)
    monkeypatch.setattr(sys, "executable", "true")
    with caplog.at_level(logging.WARNING):
        assert contents(folder, SEVERAL) == expected
    assert "this process reads it" in caplog.text


def test_what_was_made_anew_is_not_made_again_by_the_next_start(folder: Path) -> None:
    store = opened(folder, SPILLING)
    assert store.replayed_records > MESSAGES
    store.abandon_files()
    assert opened(folder, SPILLING).replayed_records == 0


@pytest.mark.plain
def test_a_disk_that_takes_nothing_does_not_keep_a_store_from_opening(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = contents(folder)
    forget_index(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(BlockSpill, "write_block", full)
        assert contents(folder, SPILLING) == expected
    assert caplog.text.count("can't be moved to disk") == 1
