"""Queues of lite topics come and go: what is sent to one that came again is read, and nothing of before, whatever
happens to the process in between."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ternmq_broker.store.message_store import MessageStore
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import HeldTopic
from tests.support.memory_disk import MemoryFolders
from tests.support.replica_pair import Follower, Leader
from tests.support.spilling import spill_all, spill_once
from tests.unit.store.test_message_store import bodies, incoming

SEGMENT_BYTES = 2000
PARENT = "chats"
NAMES = [lite_queue_topic(PARENT, name) for name in "abc"]
PLAIN = "orders"


class LiteMachine(RuleBasedStateMachine):
    """`lives` has what was sent to each lite topic since it came last. A lite topic that was dropped may be back after
    a restart, until something is sent to it or its LITE topic is deleted."""

    @initialize()
    def start(self) -> None:
        self.folders = MemoryFolders()
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        self.lives: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.safe = dict.fromkeys(NAMES, 0)
        self.dropped: set[str] = set()  # and nothing was sent to them since
        self.before: dict[str, list[list[bytes]]] = {name: [] for name in NAMES}
        self.next_offset = dict.fromkeys(NAMES, 0)
        self.plain: list[bytes] = []
        self.plain_safe = 0
        self.number = 0

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4), size=st.integers(1, 300))
    def send(self, name: str, count: int, size: int) -> None:
        sent = []
        for _ in range(count):
            self.number += 1
            sent.append(b"%d " % self.number + b"x" * size)
        done = self.store.writer.append_batch(name, 0, [incoming(body) for body in sent], 1)
        assert done.first_offset >= self.next_offset[name], "an offset is given once"
        self.next_offset[name] = done.first_offset + count
        self.lives[name] += sent
        self.dropped.discard(name)

    @rule(size=st.integers(1, 300))
    def send_to_another_topic(self, size: int) -> None:
        self.number += 1
        body = b"%d " % self.number + b"x" * size
        assert self.store.writer.append_batch(PLAIN, 0, [incoming(body)], 1).first_offset == len(self.plain)
        self.plain.append(body)

    @rule(name=st.sampled_from(NAMES))
    def drop(self, name: str) -> None:
        self.store.indexes.queues.drop_lite_topic(name)
        self.dropped.add(name)
        self.before[name].append(self.lives[name])
        self.lives[name] = []
        self.safe[name] = 0
        assert self.store.indexes.queues.queue_bounds(name, 0) == (0, 0)

    @rule()
    def delete_the_topic(self) -> None:
        self.store.log.sync_segments()
        self.store.deletions.forget_topic(PARENT)()
        for name in NAMES:
            self.lives[name] = []
            self.before[name] = []
            self.safe[name] = 0
        self.dropped.clear()

    @rule()
    def sync(self) -> None:
        self.store.log.sync_segments()
        self.safe = {name: len(life) for name, life in self.lives.items()}
        self.plain_safe = len(self.plain)

    @rule()
    def spill(self) -> None:
        spill_once(self.store)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        assert self.store.replayed_records == 0
        self.take_what_is_back()
        self.sync()

    @rule(data=st.data(), noise=st.binary(max_size=64))
    def lose_power(self, data: st.DataObject, noise: bytes) -> None:
        self.folders = self.folders.crash(lambda count: data.draw(st.integers(0, count)), noise)
        self.store = MessageStore(self.folders, segment_bytes=SEGMENT_BYTES)
        survived = bodies(self.store, PLAIN, 0)
        assert survived == self.plain[: len(survived)]
        assert len(survived) >= self.plain_safe
        self.plain = survived
        for name, life in self.lives.items():
            found = bodies(self.store, name, 0)
            if name not in self.dropped:
                self.keep_what_survived(name, life, found)
            self.next_offset[name] = self.store.indexes.queues.queue_bounds(name, 0)[1]
        self.take_what_is_back()
        self.sync()

    def keep_what_survived(self, name: str, life: list[bytes], found: list[bytes]) -> None:
        if found == life[: len(found)]:
            assert len(found) >= self.safe[name]
        else:  # all of this life was lost, and one before is back
            assert not self.safe[name]
            assert self.was_sent_before(name, found)
        self.lives[name] = found

    def was_sent_before(self, name: str, found: list[bytes]) -> bool:
        return any(found == life[: len(found)] for life in self.before[name])

    def take_what_is_back(self) -> None:
        for name in self.dropped:
            found = bodies(self.store, name, 0)
            assert self.was_sent_before(name, found) or not found
            self.lives[name] = found
        self.dropped.clear()

    @invariant()
    def what_was_sent_since_it_came_is_read(self) -> None:
        assert bodies(self.store, PLAIN, 0) == self.plain
        for name, life in self.lives.items():
            assert bodies(self.store, name, 0) == life
        held = sum(map(len, self.lives.values()))
        assert self.store.indexes.queues.held_topics().get(PARENT) == (HeldTopic(1, held) if held else None)
        assert PARENT not in self.store.indexes.queues.topic_names()
        assert set(self.store.indexes.queues.lite_topics()) >= {name for name, life in self.lives.items() if life}
        assert self.store.indexes.queues.lite_queues == len(self.store.indexes.queues.lite_topics())


TestLiteMachine = LiteMachine.TestCase
TestLiteMachine.settings = settings(stateful_step_count=40)


def test_what_retention_has_emptied_is_no_more_known() -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    store.writer.append_batch(NAMES[0], 0, [incoming(b"x" * 1500)], 1)
    store.writer.append_batch(NAMES[1], 0, [incoming(b"y" * 1500)], 2)
    store.writer.append_batch(NAMES[2], 0, [incoming(b"z" * 1500)], 3)
    store.log.sync_segments()
    remove_segments(store, 2)
    assert store.indexes.queues.lite_topics() == [NAMES[2]]
    log_end = store.log.log_end
    first = store.writer.append_batch(NAMES[0], 0, [incoming(b"new")], 4).first_offset
    assert first == log_end
    store.close()
    again = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    assert bodies(again, NAMES[0], 0) == [b"new"]
    assert again.indexes.queues.queue_bounds(NAMES[1], 0) == (0, 0)
    assert bodies(again, NAMES[2], 0) == [b"z" * 1500]


def remove_segments(store: MessageStore, count: int) -> None:
    spill_all(store)
    removal = store.deletions.prepare_removal(count)
    removal.write()
    store.deletions.finish_removal(removal)
    store.deletions.delete_removed()


def test_when_something_was_sent_last_is_known_after_a_restart() -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    store.writer.append_batch(NAMES[0], 0, [incoming(b"1")], 100)
    store.writer.append_batch(NAMES[0], 0, [incoming(b"2")], 200)
    assert store.reader.lite_sent_ms(NAMES[0]) == 200
    store.close()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    assert store.reader.lite_sent_ms(NAMES[0]) == 0
    store.reader.read_lite_sent_ms([NAMES[0], NAMES[1]])
    assert store.reader.lite_sent_ms(NAMES[0]) == 200


def test_a_copy_takes_a_lite_topic_that_came_again_at_its_leader() -> None:
    leader, follower = Leader(), Follower()
    leader.store.replica_log.begin_epoch(1)()
    follower.begin(leader.store.replica_log.join_state())
    store = leader.store
    store.writer.append_batch(NAMES[0], 0, [incoming(b"old")] * 3, 1)
    store.log.sync_segments()
    follower.take(store, 1 << 20)
    store.indexes.queues.drop_lite_topic(NAMES[0])
    store.writer.append_batch(NAMES[0], 0, [incoming(b"new")], 2)
    store.log.sync_segments()
    follower.take(store, 1 << 20)
    assert bodies(follower.store, NAMES[0], 0) == bodies(store, NAMES[0], 0) == [b"new"]
    assert follower.store.indexes.queues.queue_bounds(NAMES[0], 0) == store.indexes.queues.queue_bounds(NAMES[0], 0)
    store.deletions.forget_topic(PARENT, 5)()
    store.log.sync_segments()
    follower.take(store, 1 << 20)
    assert follower.store.indexes.queues.lite_topics() == store.indexes.queues.lite_topics() == []
