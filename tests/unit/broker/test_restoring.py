"""Groups go on after a restart with a journal of which lines were lost, or with a store that ends earlier than they."""

import logging

import pytest

from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.message_copies import copy_message
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import (
    RETRY_QUEUE_ID,
    ConsumerGroup,
    DeliveredMessage,
    NewMessage,
    PopOrder,
    SettleOutcome,
)
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.memory_disk import MemoryFolder, MemoryFolders

NOW_MS = 1_000_000


class Node:
    """A broker's store and consumption, which are opened again and again."""

    def __init__(self) -> None:
        self.folders, self.journal_folder = MemoryFolders(), MemoryFolder()
        self.count = 0
        self.rules: dict[str, ConsumerGroup] = {}
        self.open()

    def open(self) -> None:
        self.store = MessageStore(self.folders, segment_bytes=1 << 20)
        self.journal = ProgressJournal(self.journal_folder)
        self.consumption = Consumption(
            self.store,
            self.journal,
            broker="b",
            readable_end=lambda: self.store.log.synced,
            rules=lambda name: self.rules.get(name, ConsumerGroup(name=name)),
            now_ms=lambda: NOW_MS,
        )

    def send(self, topic: str, count: int) -> list[str]:
        names = [f"m{self.count + number}" for number in range(count)]
        self.count += count
        incoming = [
            NewMessage(0, pb.SystemProperties(message_id=name).SerializeToString(), b"body", (name,)) for name in names
        ]
        self.store.writer.append_batch(topic, 0, incoming, NOW_MS)
        self.store.log.sync_segments()
        return names

    def receive(self, group: str, topic: str, batch: int = 32) -> list[DeliveredMessage]:
        order = PopOrder(group=group, topic=topic, queues=range(1), filter=ALL, batch=batch, invisible_ms=60_000)
        return self.consumption.pop(order, NOW_MS).deliveries

    def consume(self, group: str, topic: str, batch: int = 32) -> list[str]:
        """Receive and acknowledge."""
        deliveries = self.receive(group, topic, batch)
        for delivery in deliveries:
            assert self.consumption.acknowledge_message(group, topic, delivery.handle, NOW_MS) is SettleOutcome.DONE
        return names(deliveries)

    def fail(self, group: str, topic: str, delivery: DeliveredMessage) -> None:
        """As `Redelivery` does it at the first failure."""
        (record,) = self.store.reader.find_by_key(topic, names([delivery])[0], 1)
        copy = self.store.writer.append_batch(retry_topic(group), 0, [copy_message(record)], NOW_MS)
        self.store.log.sync_segments()
        self.consumption.find_states(group, topic)[0].finish_offset(delivery.handle.queue_offset)
        self.consumption.find_or_create_retries(group, topic).place_copy(copy.first_offset, 1)
        self.consumption.mark_changed(group, topic, 0)
        self.consumption.mark_changed(group, topic, RETRY_QUEUE_ID)

    def remember(self) -> None:
        changes = self.consumption.take_changes()
        self.journal.write_progress(
            [(key, state.record_changes(whole=self.journal.wants_snapshot(key))) for key, state in changes], NOW_MS
        )

    def spoil_line(self, beginning: str) -> None:
        """Several bytes of the last line of that queue."""
        content = self.journal_folder.files["journal"].content
        at = content.rindex(beginning.encode())
        content[at : at + len(beginning)] = b"?" * len(beginning)


def names(deliveries: list[DeliveredMessage]) -> list[str]:
    return [pb.SystemProperties.FromString(delivery.message.system).message_id for delivery in deliveries]


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.mark.parametrize("consume_from", ["latest", "auto", "earliest"])
def test_a_group_whose_line_was_lost_gets_everything_again_and_others_nothing(node: Node, consume_from: str) -> None:
    """Issue 6: one bad line discarded the progress of all groups; and a group must not begin at the queue's end."""
    for group in ("lost", "other"):
        node.rules[group] = ConsumerGroup(name=group, consume_from=consume_from)
        assert node.receive(group, "t") == []
    sent = node.send("t", 20)
    for group in ("lost", "other"):
        assert node.consume(group, "t", batch=15) == sent[:15]
    node.remember()
    node.spoil_line('["lost","t",0')
    node.open()
    assert node.consume("other", "t") == sent[15:]
    assert node.consume("lost", "t") == sent
    node.remember()
    node.open()
    assert node.consume("other", "t") == node.consume("lost", "t") == []


def test_where_a_group_may_have_been_is_remembered_over_restarts(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.rules["late"] = ConsumerGroup(name="late", consume_from="latest")
    sent = node.send("t", 3)
    node.consume("some", "t")
    node.remember()
    node.spoil_line('["some","t",0')
    for _ in range(3):
        node.open()
        node.consume("another", "t")
        node.remember()
    assert node.consumption.committed_offset("late", "t", 0) == 0, "a pull consumer goes there too"
    assert node.consume("late", "t") == sent
    assert "group late begins with the first message of queue 0 of topic t" in caplog.text
    node.send("new", 2)
    assert node.consume("late", "new") == [], "nobody can have been there when the lines were lost"


def test_copies_that_wait_are_delivered_again_in_their_topics_when_their_lines_were_lost(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    sent = {topic: node.send(topic, 4) for topic in ("t", "u")}
    for topic in sent:
        received = node.receive("g", topic)
        node.fail("g", topic, received[0])
        node.fail("g", topic, received[1])
        for delivery in received[2:]:
            node.consumption.acknowledge_message("g", topic, delivery.handle, NOW_MS)
    node.remember()
    node.spoil_line(f'["g","t",{RETRY_QUEUE_ID}')
    node.open()
    assert "in %RETRY%g may or may not be finished" in caplog.text
    for topic, ids in sent.items():
        state = node.consumption.find_or_create_retries("g", topic)
        for offset, _ in state.take_ended(NOW_MS):
            state.show_again(offset)
        assert node.consume("g", topic) == ids[:2]
    node.remember()
    node.open()
    assert node.consume("g", "t") == node.consume("g", "u") == []


def test_progress_beyond_the_end_of_a_queue_is_said(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.send("t", 20)
    for number in range(12):
        node.consume(f"g{number:02}", "t")
    node.remember()
    (segment,) = node.folders.commit_log.files.values()
    (location,) = node.store.indexes.queues.locate_messages("t", 0, 15, 1, may_block=True)
    segment.truncate(location.log_offset)
    with caplog.at_level(logging.WARNING):
        node.open()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "group g00 was 5 messages beyond the present end of queue 0 of topic t: these messages are gone"
    assert len(said) == 11
    assert said[-1] == "the same is true of 12 queues, and 60 messages in all"
    assert node.consumption.committed_offset("g00", "t", 0) == 15


@pytest.mark.parametrize("is_line_lost", [False, True])
def test_what_members_of_a_fifo_group_sent_back_is_still_there_after_a_restart(
    node: Node, *, is_line_lost: bool
) -> None:
    node.rules["ordered"] = ConsumerGroup(name="ordered", fifo=True)
    sent = node.send("t", 3)
    assert node.consume("ordered", "t") == sent
    (record,) = node.store.reader.find_by_key("t", sent[1], 1)
    copy = node.store.writer.append_batch(retry_topic("ordered"), 0, [copy_message(record)], NOW_MS)
    node.store.log.sync_segments()
    node.consumption.find_or_create_retries("ordered", "t").place_copy(copy.first_offset, 1)
    node.consumption.mark_changed("ordered", "t", RETRY_QUEUE_ID)
    node.remember()
    if is_line_lost:
        node.spoil_line(f'["ordered","t",{RETRY_QUEUE_ID}')
    node.open()
    state = node.consumption.find_or_create_retries("ordered", "t")
    for offset, _ in state.take_ended(NOW_MS):
        state.show_again(offset)
    [delivery] = node.receive("ordered", "t")
    assert (names([delivery]), delivery.handle.queue_id) == ([sent[1]], RETRY_QUEUE_ID)
    assert delivery.attempt == (1 if is_line_lost else 2)
    assert node.consumption.acknowledge_message("ordered", "t", delivery.handle, NOW_MS) is SettleOutcome.DONE
    node.remember()
    node.open()
    assert node.consume("ordered", "t") == []
