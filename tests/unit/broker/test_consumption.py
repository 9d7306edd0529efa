"""Groups that pop, in order or not, and a group that pulls, on a store and a journal that lose power at any moment.

Whatever happens: no message is skipped; what the journal knew as finished does not come again; in a FIFO group nothing
comes before its predecessor was acknowledged; a pull reads what was sent; and an offset that was set is not forgotten
once the journal was written.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
from ternmq_broker.message_copies import copy_message
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import (
    RETRY_QUEUE_ID,
    ConsumerGroup,
    DeliveredMessage,
    NewMessage,
    PopOrder,
    QueueRef,
    SettleOutcome,
)
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.memory_disk import MemoryFolder, MemoryFolders
from tests.support.spilling import spill_all

TOPIC = "orders"
QUEUES = range(2)
UNORDERED, FIFO, PULLING = "unordered", "fifo", "pulling"
MANY = 1000


@dataclass(frozen=True)
class Sent:
    """A message as it was sent."""

    message_id: str
    lane: str
    tag: str


@dataclass
class Seen:
    """What the model knows of a group that pops: what was acknowledged ever, what since the start or before the last
    journal of the last run, and what the journal knows."""

    ever: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    journalled: set[str] = field(default_factory=set)
    held: list[DeliveredMessage] = field(default_factory=list)


class ConsumptionMachine(RuleBasedStateMachine):
    """Sends, receives, settlements, pulls, ends of claims, restarts and power cuts in any order."""

    @initialize()
    def start(self) -> None:
        self.folders, self.journal_folder = MemoryFolders(), MemoryFolder()
        self.sent: dict[int, list[Sent]] = {queue_id: [] for queue_id in QUEUES}
        self.seen = {UNORDERED: Seen(), FIFO: Seen()}
        self.committed: dict[int, list[int]] = {}  # by queue: as journalled, then every value since
        self.remembered: set[int] = set()
        self.now = 1000
        self.count = 0
        self.open()

    def open(self) -> None:
        self.store = MessageStore(self.folders, segment_bytes=2000)
        self.journal = ProgressJournal(self.journal_folder)
        self.consumption = Consumption(
            self.store,
            self.journal,
            broker="b",
            readable_end=lambda: self.store.log.synced,
            rules=lambda name: ConsumerGroup(name=name, fifo=name == FIFO, max_attempts=MANY),
            now_ms=lambda: self.now,
        )

    # --- sending and time

    @rule(
        queue_id=st.sampled_from(QUEUES),
        batch=st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["red", "blue", ""])), min_size=1, max_size=6),
        synced=st.booleans(),
    )
    def messages_are_sent(self, queue_id: int, batch: list[tuple[str, str]], synced: bool) -> None:
        messages = [Sent(f"m{self.count + number}", lane, tag) for number, (lane, tag) in enumerate(batch)]
        self.count += len(batch)
        incoming = [
            NewMessage(
                tag_hash(each.tag),
                pb.SystemProperties(
                    message_id=each.message_id, message_group=each.lane, tag=each.tag or None
                ).SerializeToString(),
                bytes(50),
                (each.message_id,),
            )
            for each in messages
        ]
        self.store.writer.append_batch(TOPIC, queue_id, incoming, self.now)
        self.sent[queue_id] += messages
        if synced:
            self.store.log.sync_segments()

    @rule(milliseconds=st.integers(1, 30))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule()
    def the_index_is_spilled(self) -> None:
        spill_all(self.store)

    # --- receiving

    @rule(group=st.sampled_from([UNORDERED, FIFO]), batch=st.integers(1, 8), invisible_ms=st.integers(1, 40))
    def a_consumer_receives(self, group: str, batch: int, invisible_ms: int) -> None:
        seen = self.seen[group]
        order = PopOrder(group=group, topic=TOPIC, queues=QUEUES, filter=ALL, batch=batch, invisible_ms=invisible_ms)
        came: set[str] = set()
        for delivery in self.consumption.pop(order, self.now).deliveries:
            properties = pb.SystemProperties.FromString(delivery.message.system)
            assert properties.message_id not in seen.journalled, "finished messages do not come again"
            if group == FIFO:
                self.check_order(delivery, properties, seen.ever | came)
            came.add(properties.message_id)
            seen.held.append(delivery)

    def check_order(self, delivery: DeliveredMessage, properties: pb.SystemProperties, settled: set[str]) -> None:
        before = self.sent[delivery.message.queue.queue_id][: delivery.message.queue_offset]
        lane = {each.message_id for each in before if each.lane == properties.message_group}
        assert lane <= settled, "nothing comes before its predecessor"

    @precondition(lambda self: any(seen.held for seen in self.seen.values()))
    @rule(data=st.data())
    def a_message_is_acknowledged(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from([group for group, seen in self.seen.items() if seen.held]))
        seen = self.seen[group]
        self.acknowledge(group, seen.held.pop(data.draw(st.integers(0, len(seen.held) - 1))))

    def acknowledge(self, group: str, delivery: DeliveredMessage) -> None:
        if self.consumption.acknowledge_message(group, TOPIC, delivery.handle, self.now) is SettleOutcome.DONE:
            message_id = pb.SystemProperties.FromString(delivery.message.system).message_id
            self.seen[group].ever.add(message_id)
            self.seen[group].acknowledged.add(message_id)

    @rule()
    def claims_end(self) -> None:
        """As `Redelivery` does it: to the retry queue at the first failure, then and in order in place."""
        for group in self.seen:
            for queue_id, state in list(self.consumption.find_states(group, TOPIC).items()):
                if isinstance(state, OrderedConsumption):
                    assert state.take_ended(self.now, MANY) == []
                    continue
                for offset, attempts in state.take_ended(self.now):
                    if queue_id == RETRY_QUEUE_ID:
                        state.show_again(offset)
                    else:
                        self.retry(group, queue_id, offset, attempts)
                self.consumption.mark_changed(group, TOPIC, queue_id)

    def retry(self, group: str, queue_id: int, offset: int, attempts: int) -> None:
        record = self.consumption.reader.read_offsets(TOPIC, queue_id, [offset], ALL)[offset]
        copy = self.store.writer.append_batch(retry_topic(group), 0, [copy_message(record)], self.now)
        self.store.log.sync_segments()
        self.consumption.find_states(group, TOPIC)[queue_id].finish_offset(offset)
        self.consumption.find_or_create_retries(group, TOPIC).place_copy(copy.first_offset, attempts)
        self.consumption.mark_changed(group, TOPIC, RETRY_QUEUE_ID)

    # --- by offset

    @rule(
        queue_id=st.sampled_from(QUEUES),
        offset=st.integers(0, 20),
        limit=st.integers(1, 5),
        tags=st.sampled_from(["*", "red", "red || blue"]),
    )
    def a_consumer_pulls(self, queue_id: int, offset: int, limit: int, tags: str) -> None:
        passing = TagFilter.parse_expression(tags)
        pulled = self.consumption.reader.pull_messages(QueueRef(TOPIC, "b", queue_id), offset, passing, limit)
        assert offset <= pulled.next_offset <= offset + limit
        there = list(enumerate(self.sent[queue_id]))[offset : pulled.next_offset]
        assert len(there) == pulled.next_offset - offset
        expected = [
            (number, each.message_id) for number, each in there if passing.tags is None or each.tag in passing.tags
        ]
        found = [
            (stored.queue_offset, pb.SystemProperties.FromString(stored.system).message_id)
            for stored in pulled.messages
        ]
        assert found == expected

    @rule(queue_id=st.sampled_from(QUEUES), data=st.data())
    def a_puller_commits(self, queue_id: int, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.store.indexes.queues.queue_bounds(TOPIC, queue_id)[1]))
        self.consumption.set_committed(PULLING, TOPIC, queue_id, offset)
        self.committed.setdefault(queue_id, []).append(offset)
        assert self.consumption.committed_offset(PULLING, TOPIC, queue_id) == offset

    # --- remembering

    @rule()
    def the_journal_is_written(self) -> None:
        self.store.log.sync_segments()
        self.journal.write_progress(
            [
                (key, state.record_changes(whole=self.journal.wants_snapshot(key)))
                for key, state in self.consumption.take_changes()
            ],
            self.now,
        )
        for seen in self.seen.values():
            seen.journalled = set(seen.acknowledged)
        self.committed = {queue_id: values[-1:] for queue_id, values in self.committed.items()}
        self.remembered = set(self.committed)

    @rule()
    def the_process_is_killed(self) -> None:
        """What was written stays, synced or not."""
        self.open()
        self.check_what_is_left()

    @rule(data=st.data(), noise=st.binary(max_size=30))
    def the_power_is_cut(self, data: st.DataObject, noise: bytes) -> None:
        self.folders = self.folders.crash(lambda count: data.draw(st.integers(0, count)), noise)
        self.journal_folder = self.journal_folder.crash(lambda count: data.draw(st.integers(0, count)), b"")
        self.open()
        self.check_what_is_left()

    def check_what_is_left(self) -> None:
        for seen in self.seen.values():
            seen.acknowledged = set(seen.journalled)
        for queue_id, messages in self.sent.items():
            del messages[self.store.indexes.queues.queue_bounds(TOPIC, queue_id)[1] :]
        for queue_id, values in list(self.committed.items()):
            committed = self.consumption.committed_offset(PULLING, TOPIC, queue_id)
            end = self.store.indexes.queues.queue_bounds(TOPIC, queue_id)[1]
            assert committed in [min(value, end) for value in values] or queue_id not in self.remembered
            if committed is None:
                del self.committed[queue_id]
            else:
                self.committed[queue_id] = [committed]

    def teardown(self) -> None:
        """In the end everything can be had, whatever happened before."""
        if not hasattr(self, "store"):
            return
        self.store.log.sync_segments()
        left: defaultdict[str, set[str]] = defaultdict(set)
        for group, seen in self.seen.items():
            for _ in range(3 * self.count + 10):
                self.now += 100
                self.claims_end()
                self.a_consumer_receives(group, 8, 50)
                while seen.held:
                    self.acknowledge(group, seen.held.pop(0))
            everything = {each.message_id for messages in self.sent.values() for each in messages}
            left[group] = everything - seen.ever
        assert not any(left.values()), f"never came: {dict(left)}"


TestConsumptionMachine = ConsumptionMachine.TestCase
TestConsumptionMachine.settings = settings(max_examples=60, stateful_step_count=40)
