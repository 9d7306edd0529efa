"""A leader's store and a follower's, driven by a test: what is between them is a function call."""

from dataclasses import dataclass, field

from ternmq_broker.store.copying.copy_start import JoinState, begin_copy, wipe_store
from ternmq_broker.store.copying.log_copy import BadCopy
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store.replaying.replay import ReplaySizes
from ternmq_common.catalog.cluster import RegistryDeletion
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.memory_disk import MemoryFolders

SEGMENT_BYTES = 2000
SIZES = ReplaySizes(spill_entries=4)


def message(name: str, body: bytes = b"", key: str = "") -> NewMessage:
    keys = [key] if key else []
    system = definition_pb2.SystemProperties(message_id=name, keys=keys).SerializeToString(deterministic=True)
    return NewMessage(len(body), system, body, (name, *keys))


def opened(folders: MemoryFolders, *, spill_limit: int = 0) -> MessageStore:
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES, spill_limit=spill_limit, replay_sizes=SIZES)
    store.deletions.is_replicated = True
    return store


def spill(store: MessageStore) -> None:
    """Move to disk what may be, and make a checkpoint."""
    while job := store.checkpoints.prepare_spill(entries_min=1):
        job.write()
        store.checkpoints.finish_spill(job)
    store.checkpoints.save_checkpoint()


def content(store: MessageStore) -> dict[str, object]:
    """All that must be the same on two replicas."""
    queues = {
        queue: store.indexes.queues.queue_bounds(*queue)
        for queue in store.indexes.queues.used_queues()
        if store.indexes.queues.queue_bounds(*queue)[1]
    }
    return {
        "topics": store.indexes.queues.held_topics(),
        "queues": queues,
        "messages": {queue: _messages(store, *queue) for queue in queues},
        "timers": timers(store),
        "halves": {half.log_offset: half.size for half in store.indexes.halves.waiting.values()},
        "epochs": store.replica_log.epoch_marks,
    }


def _messages(store: MessageStore, topic: str, queue_id: int) -> list[object]:
    first, end = store.indexes.queues.queue_bounds(topic, queue_id)
    found: list[object] = []
    while first < end:
        located = store.indexes.queues.locate_messages(topic, queue_id, first, 7, may_block=True)
        found += [
            record and (record.queue_offset, record.system, record.rest)
            for record in store.reader.read_records(located, may_block=True)
        ]
        first += len(located)
    return found


def timers(store: MessageStore) -> set[int]:
    """Log offsets of the timers that are pending and not of a deleted topic."""
    job = store.indexes.timers.prepare_scan(NO_LIMIT, start=(0, 0), limit=1 << 30)
    job.run_job()
    found, _ = store.indexes.timers.finish_scan(job)
    pending = set()
    for entry in found:
        record = store.reader.read_record_at(entry.log_offset)
        if record is not None and not store.deletions.is_forgotten(record.topic, entry.log_offset):
            pending.add(entry.log_offset)
    return pending


def log_of(store: MessageStore, since: int = 0) -> dict[int, bytes]:
    """The segments from a log offset on, by where they begin."""
    found: dict[int, bytes] = {}
    position = max(since, store.log.log_start)
    while position < store.log.log_end:
        base, data = store.replica_log.log_bytes(position, 1 << 20, may_block=True)
        found[base] = data
        position += len(data)
    return found


@dataclass
class Leader:
    """A store that appends; `acknowledged` is as far as its replicas have everything."""

    folders: MemoryFolders = field(default_factory=MemoryFolders)
    clock: int = 1
    named: int = 0

    def __post_init__(self) -> None:
        self.store = opened(self.folders, spill_limit=NO_LIMIT)

    def name(self) -> str:
        self.named += 1
        return f"m{self.named}"

    def append(self, topic: str, queue_id: int, count: int, body: bytes, key: str) -> None:
        self.clock += 1
        self.store.writer.append_batch(
            topic, queue_id, [message(self.name(), body, key) for _ in range(count)], self.clock
        )

    def draft(self, kind: RecordKind, topic: str, *, due_ms: int = 0, origin: RecordOrigin | None = None) -> int:
        self.clock += 1
        draft = RecordDraft(kind, topic, 0, message(self.name(), b"half"), due_ms=due_ms, origin=origin, sender="s")
        return self.store.writer.append_drafts([draft], self.clock)[0].log_offset


@dataclass
class Follower:
    """A store that takes what a leader has. `kept` are the bytes that are no whole record yet."""

    folders: MemoryFolders = field(default_factory=MemoryFolders)
    kept: bytes = b""
    noted: set[RegistryDeletion] = field(default_factory=set)

    def begin(self, state: JoinState) -> None:
        wipe_store(self.folders)
        begin_copy(self.folders, state)
        self.store = opened(self.folders)
        self.kept = b""
        self.catch_up()

    def catch_up(self) -> None:
        self.store.replica_log.begin_catching_up()()

    def take(self, leader: MessageStore, size: int) -> int:
        """Take up to `size` more bytes of the leader; how many came."""
        base, data = leader.replica_log.log_bytes(self.store.log.log_end + len(self.kept), size, may_block=True)
        if not data:
            return 0
        buffer = self.kept + data
        whole = self.store.replica_log.whole_bytes(buffer)
        if whole:
            taken = self.store.replica_log.append_copied(base, buffer[:whole])
            assert taken.log_end == self.store.log.log_end
            self.noted.update(taken.deletions)
        self.kept = buffer[whole:]
        return len(data)

    def take_all(self, leader: MessageStore, size: int = 1 << 20) -> None:
        while self.take(leader, size):
            continue
        assert not self.kept

    def reopen(self, folders: MemoryFolders) -> None:
        """After a crash or a close: what was kept is to be asked for again."""
        self.folders = folders
        self.store = opened(folders)
        self.kept = b""


__all__ = ["BadCopy", "Follower", "Leader", "content", "log_of", "message", "opened", "spill", "timers"]
