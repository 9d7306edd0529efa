"""The store against any history, any power cut, any torn tail."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ternmq_broker.store.message_store import MessageStore
from ternmq_common.shard.model import NewMessage
from tests.support.memory_disk import MemoryFolders
from tests.support.spilling import spill_once

SEGMENT_BYTES = 2000
QUEUES = [("orders", 0), ("orders", 1), ("payments", 0)]


def incoming(body: bytes) -> NewMessage:
    return NewMessage(tag_hash=len(body), system=b"", rest=body, keys=())


def bodies(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    """Everything that can be read from a queue, from its first offset on."""
    first, end = store.indexes.queues.queue_bounds(topic, queue_id)
    found: list[bytes] = []
    while first < end:
        locations = store.indexes.queues.locate_messages(topic, queue_id, first, 5, may_block=True)
        assert locations
        for record in store.reader.read_records(locations, may_block=True):
            assert record is not None
            assert record.queue_offset == first
            found.append(record.rest)
            first += 1
    return found


class StoreMachine(RuleBasedStateMachine):
    """Append, sync, spill, restart and lose power in any order; nothing synced is lost and nothing is made up."""

    @initialize()
    def start(self) -> None:
        self.folders = MemoryFolders()
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        self.written: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in QUEUES}
        self.safe = dict.fromkeys(QUEUES, 0)
        self.clock = 1

    @rule(queue=st.sampled_from(QUEUES), batch=st.lists(st.binary(min_size=1, max_size=400), min_size=1, max_size=8))
    def append(self, queue: tuple[str, int], batch: list[bytes]) -> None:
        self.clock += 1
        done = self.store.writer.append_batch(*queue, [incoming(body) for body in batch], self.clock)
        assert done.first_offset == len(self.written[queue])
        self.written[queue] += batch

    @rule(queue=st.sampled_from(QUEUES), body=st.binary(min_size=1, max_size=400))
    def a_full_disk_refuses_a_batch_whole(self, queue: tuple[str, int], body: bytes) -> None:
        last = self.folders.commit_log.files[max(self.folders.commit_log.files)]
        last.full_after = last.size + 10
        try:
            self.store.writer.append_batch(*queue, [incoming(body), incoming(body)], self.clock)
        except OSError:
            pass
        else:  # it went into a new segment
            self.written[queue] += [body, body]
        last.full_after = None

    @rule()
    def sync(self) -> None:
        assert self.store.log.sync_segments() == self.store.log.log_end
        self.safe = {queue: len(written) for queue, written in self.written.items()}

    @rule()
    def spill(self) -> None:
        spill_once(self.store)

    @rule()
    def save_checkpoint(self) -> None:
        self.store.checkpoints.save_checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        assert self.store.replayed_records == 0
        self.safe = {queue: len(written) for queue, written in self.written.items()}

    @rule(data=st.data(), noise=st.binary(max_size=64) | st.integers(0, 600).map(bytes))
    def lose_power(self, data: st.DataObject, noise: bytes) -> None:
        self.folders = self.folders.crash(lambda count: data.draw(st.integers(0, count)), noise)
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        for queue, written in self.written.items():
            survived = bodies(self.store, *queue)
            assert survived == written[: len(survived)]
            assert len(survived) >= self.safe[queue]
            self.written[queue] = survived
            self.safe[queue] = len(survived)

    @invariant()
    def all_that_was_written_is_read(self) -> None:
        for queue, written in self.written.items():
            assert bodies(self.store, *queue) == written


TestStoreMachine = StoreMachine.TestCase


@given(sizes=st.lists(st.integers(1, 900), min_size=3, max_size=12), data=st.data())
def test_an_accepted_corruption_costs_that_record_and_no_other(sizes: list[int], data: st.DataObject) -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    written = [bytes([number]) * size for number, size in enumerate(sizes, start=1)]
    starts = [store.writer.append_batch("orders", 0, [incoming(body)], 1).log_end for body in written]
    store.log.sync_segments()
    store.checkpoints.save_checkpoint()
    victim = data.draw(st.integers(0, len(written) - 2))
    damage_at = starts[victim] - 1
    base = max(int(name) for name in folders.commit_log.files if int(name) <= damage_at)
    folders.commit_log.files[f"{base:020d}"].content[damage_at - base] ^= 0xFF
    again = MessageStore(folders, segment_bytes=SEGMENT_BYTES, accept_corruption=True)
    found: list[bytes | None] = [None] * len(written)
    for offset in range(len(written)):
        for record in again.reader.read_records(
            again.indexes.queues.locate_messages("orders", 0, offset, 1, may_block=True), may_block=True
        ):
            found[offset] = record.rest if record else None
    assert found == [None if number == victim else body for number, body in enumerate(written)]


def test_a_queue_goes_on_where_its_messages_end_though_its_floor_was_higher() -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    store.writer.append_batch("orders", 0, [incoming(b"kept")], 1)
    store.log.sync_segments()
    store.writer.append_batch("orders", 0, [incoming(b"lost")], 1)
    store.writer.append_batch("orders", 1, [incoming(b"lost")], 1)
    store.deletions.forget_topic("orders")()
    survivor = folders.crash(lambda _: 0, b"")
    again = MessageStore(survivor, segment_bytes=SEGMENT_BYTES)
    assert (again.indexes.queues.queue_bounds("orders", 0), again.indexes.queues.queue_bounds("orders", 1)) == (
        (1, 1),
        (0, 0),
    )
    for queue_id, offset in ((0, 1), (1, 0)):
        assert again.writer.append_batch("orders", queue_id, [incoming(b"later")], 1).first_offset == offset
    again.close()
    survivor.index.files = {name: file for name, file in survivor.index.files.items() if name == "floors"}
    rebuilt = MessageStore(survivor, segment_bytes=SEGMENT_BYTES)
    assert (rebuilt.indexes.queues.queue_bounds("orders", 0), rebuilt.indexes.queues.queue_bounds("orders", 1)) == (
        (1, 2),
        (0, 1),
    )
