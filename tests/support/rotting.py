"""A store whose disk rots: bits of its log flip when a test says so."""

from dataclasses import dataclass, field

from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.message_store import MessageStore
from tests.support.memory_disk import MemoryFile, MemoryFolders
from tests.support.replica_pair import Leader, content, log_of, opened

TOPIC = "orders"


@dataclass
class Rotting:
    """A store of a few segments, and what its log is when it is whole."""

    messages: int = 30
    leader: Leader = field(default_factory=Leader)

    def __post_init__(self) -> None:
        for number in range(self.messages):
            self.leader.append(TOPIC, number % 2, 1, b"body %d" % number * (1 + number % 7), "")
        self.store.log.sync_segments()
        self.store.damage.may_be_repaired = True
        self.whole = log_of(self.store)
        self.content = content(self.store)

    @property
    def store(self) -> MessageStore:
        return self.leader.store

    def flip(self, log_offset: int, bit: int = 0) -> None:
        base = max(each for each in self.whole if each <= log_offset)
        self.file(base).content[log_offset - base] ^= 1 << bit

    def file(self, base: int) -> MemoryFile:
        return self.leader.folders.commit_log.files[f"{base:020d}"]

    def truth(self, begin: int, end: int) -> bytes:
        """What the log has there while it is whole."""
        base = max(each for each in self.whole if each <= begin)
        return self.whole[base][begin - base : end - base]

    def location(self, offset: int, queue_id: int = 0) -> MessageLocation:
        [location] = self.store.indexes.queues.locate_messages(TOPIC, queue_id, offset, 1, may_block=True)
        return location

    def scrub(self, piece_bytes: int = 1 << 20) -> list[tuple[int, int]]:
        check_all(self.store, piece_bytes)
        return self.store.damage.damaged_ranges

    def mend_all(self) -> None:
        for begin, end in self.store.damage.damaged_ranges:
            data = self.truth(begin, end)
            assert self.store.repair.count_fitting(begin, data) == len(data)
            self.store.repair.write_repair(begin, data)

    def reopen(self, folders: MemoryFolders) -> MessageStore:
        self.leader.folders = folders
        self.leader.store = opened(folders, spill_limit=1 << 62)
        return self.store


def check_all(store: MessageStore, piece_bytes: int = 1 << 20) -> None:
    position = store.log.log_start
    while position < store.repair.checked_end:
        position = store.repair.check_piece(position, piece_bytes).following
