"""`broker/STORE.md` is enough to read a store: a reader that knows nothing else finds what was stored."""

from pathlib import Path
from zlib import crc32

from ternmq_broker.store.copying.copy_start import begin_copy
from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.shard.model import NewMessage
from tests.support import independent_reader
from tests.support.released_store import ACKNOWLEDGED, FAR_MS, GROUP, MESSAGES, TOPIC, fill, message


async def test_a_reader_that_knows_the_document_only_finds_everything(tmp_path: Path) -> None:
    await fill(tmp_path, killed=False)
    store = tmp_path / "store"
    records = independent_reader.log(store)
    queues = {
        number: [record for record in records if (record.kind, record.topic, record.queue_id) == (1, TOPIC, number)]
        for number in range(2)
    }
    for number, found in queues.items():
        names = [f"m{each}" for each in range(number, MESSAGES, 2)]
        assert [(record.system, record.rest) for record in found] == [
            (message(name).system, message(name).rest) for name in names
        ]
        assert [record.queue_offset for record in found] == list(range(len(names)))
    placed = {
        (record.topic, record.queue_id, record.queue_offset): (record.log_offset, record.size, record.tag_hash)
        for record in records
        if record.kind == 1
    }
    assert independent_reader.index(store) == placed
    assert independent_reader.keys(store) == {
        (crc32(f"{record.topic}\n{key}".encode()), record.log_offset)
        for record in records
        if record.kind == 1
        for key in keys_of(record.system)
    }
    assert all(record.durable_to <= record.log_offset for record in records)
    halves = {record.log_offset for record in records if record.kind == 2}
    settled = {record.origin[0] for record in records if record.origin}
    assert len(halves - settled) == 1
    timers = [(record.queue_offset, record.log_offset) for record in records if record.kind == 4]
    pending = [timer for timer in timers if timer[1] not in settled]
    assert sorted(independent_reader.timers(store)) == sorted(pending)
    assert {due_ms for due_ms, _ in pending} == {FAR_MS}
    assert independent_reader.checked(store / "forgotten") == {
        "deleted": max(record.log_offset for record in records) + records[-1].size
    }
    header, *progress = independent_reader.journal(store)
    assert header == ["ternmq consumption journal", 3]
    assert [line[:4] for line in progress] == [[GROUP, TOPIC, 0, ACKNOWLEDGED]]


def test_a_reader_that_knows_the_document_only_finds_what_replicas_do(tmp_path: Path) -> None:
    leader = MessageStore(DiskFolders(tmp_path / "leader"), segment_bytes=1 << 20)
    leader.deletions.is_replicated = True
    mark = leader.log.log_end
    leader.replica_log.begin_epoch(7)()
    leader.writer.append_batch("orders", 2, [NewMessage(0, b"", b"body", ()) for _ in range(3)], 5)
    leader.log.sync_segments()
    leader.log.vouch_limit = leader.log.log_end - 1
    leader.deletions.purge_queue("orders", 2, 1)()
    leader.deletions.forget_topic("orders", 12)()
    leader.deletions.forget_group("buyers", 13)
    state = leader.replica_log.join_state()
    begin_copy(DiskFolders(tmp_path / "copy"), state)
    copy = MessageStore(DiskFolders(tmp_path / "copy"), segment_bytes=1 << 20, spill_limit=0)
    copy.deletions.is_replicated = True
    copy.replica_log.append_copied(*leader.replica_log.log_bytes(0, 1 << 20, may_block=True))
    copy.log.sync_segments()
    copy.indexes.spill_limit = copy.log.log_end
    copy.close()
    leader.close()
    for name in ("leader", "copy"):
        store = tmp_path / name
        assert [operation[1:] for operation in independent_reader.operations(store)] == [
            ("", 0, "epoch", 7),
            ("orders", 2, "purged", 1),
            ("orders", 0, "forgotten", 12),
            ("buyers", 0, "group forgotten", 13),
        ]
        assert independent_reader.epochs(store) == [[7, mark]]
        assert independent_reader.checked(store / "index" / "floors") == [["orders", 2, 3, 3]]
        records = independent_reader.log(store)
        assert {record.durable_to for record in records[4:]} == {records[4].log_offset - 1}
        forgotten = next(record for record in records if record.rest == b"forgotten 12")
        assert independent_reader.checked(store / "forgotten") == {"orders": forgotten.log_offset + forgotten.size}
    assert independent_reader.log(tmp_path / "copy") == independent_reader.log(tmp_path / "leader")
    assert independent_reader.checked(tmp_path / "copy" / "catching-up") == state.log_start
    assert independent_reader.checked(tmp_path / "copy" / "joined") == {
        "end": state.log_end,
        "floors": [["orders", 2, 3, 3]],
    }
