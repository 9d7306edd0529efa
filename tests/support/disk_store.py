"""A small store on the disk with something of everything, and what can be had of a store."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.index import index_block
from ternmq_broker.store.index.index_block import BlockContent
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.record import RecordKind, RecordOrigin, RestReference
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import NO_MESSAGE, RecordDraft
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.spilling import spill_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.index.queue_index import MessageLocation

SEGMENT_BYTES = 3000
MESSAGES = 40
QUEUES = (("orders", 0), ("orders", 1), ("deleted", 0), ("copies", 0))
FAR_MS = 10**13


def incoming(name: str) -> NewMessage:
    system = definition_pb2.SystemProperties(message_id=name, keys=[f"key-{name}"]).SerializeToString()
    rest = definition_pb2.Message(body=f"body of {name} ".encode() * 4).SerializeToString()
    return NewMessage(7, system, rest, (name, f"key-{name}"))


def opened(data_dir: Path, *, accept: bool = False) -> MessageStore:
    return MessageStore(DiskFolders(data_dir / "store"), segment_bytes=SEGMENT_BYTES, accept_corruption=accept)


def spill(store: MessageStore) -> None:
    spill_all(store)
    store.checkpoints.save_checkpoint()


def fill(data_dir: Path, *, closed: bool = True) -> Path:
    """Two queues; a deleted topic with a timer; a pending and a recalled timer; a waiting half message and one that was
    rolled back; a message that shares the rest of another; progress of a group."""
    store = opened(data_dir)
    timers = [
        _draft(store, RecordDraft(RecordKind.TIMER, "timed", 0, incoming(f"t{n}"), due_ms=FAR_MS)) for n in (1, 2)
    ]
    store.writer.append_batch("deleted", 0, [incoming("gone")], 1)
    _draft(store, RecordDraft(RecordKind.TIMER, "deleted", 0, incoming("never"), due_ms=FAR_MS + 1))
    store.deletions.forget_topic("deleted")()
    halves = [_draft(store, RecordDraft(RecordKind.HALF_MESSAGE, "paid", 0, incoming(f"h{n}"))) for n in (1, 2)]
    for number in range(MESSAGES):
        store.writer.append_batch("orders", number % 2, [incoming(f"m{number}")], 10 + number)
        if number % 5 == 4:
            store.log.sync_segments()
        if number == MESSAGES // 2:
            spill(store)
    [first] = store.indexes.queues.locate_messages("orders", 0, 0, 1, may_block=True)
    shared = incoming("copy")
    reference = RestReference(first.log_offset, first.size)
    store.writer.append_batch("copies", 0, [NewMessage(7, shared.system, b"", shared.keys)], 99, [reference])
    _draft(
        store,
        RecordDraft(RecordKind.TOMBSTONE, "timed", 0, NO_MESSAGE, origin=RecordOrigin(timers[1].log_offset, FAR_MS)),
    )
    rollback = NewMessage(0, b"", b"rollback", ())
    _draft(store, RecordDraft(RecordKind.OPERATION, "paid", 0, rollback, origin=RecordOrigin(halves[1].log_offset)))
    store.log.sync_segments()
    journal = ProgressJournal(DiskFolders(data_dir / "store").consumption)
    journal.write_progress(
        [(("billing", "orders", 0), ClaimsSnapshot(5, 1, [])), (("billing", "orders", 1), ClaimsSnapshot(3, 1, []))], 1
    )
    journal.close()
    if closed:
        store.close()
    else:
        store.checkpoints.mark_durable()
        store.abandon_files()
    return data_dir


def _draft(store: MessageStore, draft: RecordDraft) -> "MessageLocation":
    [location] = store.writer.append_drafts([draft], 1)
    return location


@dataclass
class Contents:
    """What can be had of a store; a message that can't be read is None."""

    queues: dict[tuple[str, int], list[bytes | None]] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)
    halves: set[int] = field(default_factory=set)
    progress: dict[tuple[str, str, int], int] = field(default_factory=dict)


def contents(data_dir: Path) -> Contents:
    """Of a copy, so that nothing changes."""
    copy = data_dir.with_name(f"{data_dir.name}.looked-at")
    shutil.copytree(data_dir, copy)
    store = opened(copy)
    found = Contents(halves=set(store.indexes.halves.waiting))
    for key in QUEUES:
        first, end = store.indexes.queues.queue_bounds(*key)
        bodies: list[bytes | None] = [None] * first
        while len(bodies) < end:
            for record in store.reader.read_records(
                store.indexes.queues.locate_messages(*key, len(bodies), 100, may_block=True), may_block=True
            ):
                is_it = record is not None and (record.topic, record.queue_id) == key
                bodies.append(record.rest if record is not None and is_it else None)
        found.queues[key] = bodies
    job = store.indexes.timers.prepare_scan(store.log.log_end, limit=1000)
    job.run_job()
    found.timers = {entry.log_offset for entry in store.indexes.timers.finish_scan(job)[0]}
    journal = ProgressJournal(DiskFolders(copy / "store").consumption)
    found.progress = {key: snapshot.cursor for key, snapshot in journal.queue_snapshots().items()}
    journal.close()
    store.abandon_files()
    shutil.rmtree(copy)
    return found


def files_of(data_dir: Path) -> list[Path]:
    """Every file that holds something of the store."""
    store = data_dir / "store"
    return sorted(
        path
        for path in store.rglob("*")
        if path.is_file() and path.stat().st_size and path.name != "process" and path.parent.name != "lock"
    )


def state_of(data_dir: Path) -> dict[str, bytes]:
    """Every byte below the directory."""
    return {str(path.relative_to(data_dir)): path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}


def flip(path: Path, at: int, mask: int = 0xFF) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def segment_of(data_dir: Path, log_offset: int) -> Path:
    """The file of the log that has that byte."""
    return max(path for path in (data_dir / "store" / "commitlog").iterdir() if int(path.name) <= log_offset)


def flip_record(data_dir: Path, log_offset: int) -> None:
    """Damage the record there, behind its header."""
    path = segment_of(data_dir, log_offset)
    flip(path, log_offset - int(path.name) + 70)


def rewritten_block(data_dir: Path, change: "Callable[[BlockContent], None]") -> None:
    """The first block of the index with other content, and a checksum that fits."""
    path = data_dir / "store" / "index" / f"{0:020d}"
    data = path.read_bytes()
    size = index_block.announced_size(data)
    head, runs = index_block.decode_block(data[:size], file_position=0)
    content = BlockContent(head.log_from, head.log_to, head.base, runs)
    content.rows.frombytes(data[head.rows_at : head.keys_at])
    hashes, positions = index_block.decode_keys(data, head, file_position=0)
    in_log_order = sorted(range(head.keys), key=positions.__getitem__)
    content.key_hashes.extend(hashes[place] for place in in_log_order)
    content.key_positions.extend(positions[place] for place in in_log_order)
    change(content)
    path.write_bytes(index_block.encode_block(content) + data[size:])
