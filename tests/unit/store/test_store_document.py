"""`broker/STORE.md` is enough to read a store: a reader that knows nothing else finds what was stored."""

from pathlib import Path

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
    assert header == ["ternmq consumption journal", 2]
    assert [line[:4] for line in progress] == [[GROUP, TOPIC, 0, ACKNOWLEDGED]]
