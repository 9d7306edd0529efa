"""Messages that can't be read any more: said once, counted once, given to nobody, and a FIFO group stops at them."""

import logging
from dataclasses import replace

import pytest

from ternmq_broker.consumption.consumption import Consumption
from ternmq_broker.consumption.queue_reader import QueueReader
from ternmq_broker.store.index.queue_index import MessageLocation
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, NewMessage, PopOrder, QueueRef, SettleOutcome
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.memory_disk import MemoryFolder, MemoryFolders

TOPIC = "orders"
QUEUE = QueueRef(TOPIC, "b", 0)
NOW_MS = 1_000_000


class Shop:
    """A store with one queue, and groups that read it; those named fifo* in order."""

    def __init__(self) -> None:
        self.folders, self.journal_folder = MemoryFolders(), MemoryFolder()
        self.store = MessageStore(self.folders, segment_bytes=1 << 20)
        self.limit = 1 << 62
        self.start()

    def start(self) -> None:
        """Begin with what the journal knows."""
        self.journal = ProgressJournal(self.journal_folder)
        self.consumption = Consumption(
            self.store,
            self.journal,
            broker="b",
            readable_end=lambda: min(self.limit, self.store.log.synced),
            rules=lambda name: ConsumerGroup(name=name, fifo=name.startswith("fifo")),
            now_ms=lambda: NOW_MS,
        )

    def restart(self) -> None:
        changes = self.consumption.take_changes()
        self.journal.write_progress([(key, state.record_changes(whole=True)) for key, state in changes], NOW_MS)
        self.start()

    def send(self, *names: str) -> None:
        """Messages like `a1`: the first of message group `a`."""
        incoming = [
            NewMessage(
                0, pb.SystemProperties(message_id=name, message_group=name[0]).SerializeToString(), b"body", (name,)
            )
            for name in names
        ]
        self.store.writer.append_batch(TOPIC, 0, incoming, NOW_MS)
        self.store.log.sync_segments()

    def location(self, offset: int) -> MessageLocation:
        (location,) = self.store.indexes.queues.locate_messages(TOPIC, 0, offset, 1, may_block=True)
        return location

    def damage(self, offset: int) -> None:
        location = self.location(offset)
        (segment,) = self.folders.commit_log.files.values()
        segment.content[location.log_offset + location.size - 1] ^= 1

    def receive(self, group: str, batch: int = 8) -> list[DeliveredMessage]:
        order = PopOrder(group=group, topic=TOPIC, queues=range(1), filter=ALL, batch=batch, invisible_ms=60_000)
        return self.consumption.pop(order, NOW_MS).deliveries

    def acknowledge(self, group: str, deliveries: list[DeliveredMessage]) -> None:
        for delivery in deliveries:
            assert self.consumption.acknowledge_message(group, TOPIC, delivery.handle, NOW_MS) is SettleOutcome.DONE

    @property
    def reader(self) -> QueueReader:
        return self.consumption.reader


def names(deliveries: list[DeliveredMessage]) -> list[str]:
    return [pb.SystemProperties.FromString(delivery.message.system).message_id for delivery in deliveries]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_a_damaged_message_is_said_and_counted_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.send("a1", "b1", "c1")
    assert shop.reader.degraded is None
    shop.damage(1)
    for group in ("one", "two"):
        assert names(shop.receive(group)) == ["a1", "c1"]
    shop.consumption.reader.pull_messages(QUEUE, 0, ALL, 8)
    assert shop.reader.lost_count == 1
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    location = shop.location(1)
    for part in ("offset 1 ", "queue 0", TOPIC, f"log offset {location.log_offset}", f"{location.size} bytes"):
        assert part in said
    assert shop.reader.degraded == "1 message can't be read any more; the log names them"


@pytest.mark.plain
@pytest.mark.parametrize("wrong", [0, 2, None])
@pytest.mark.parametrize("group", ["one", "fifo"])
def test_no_message_is_delivered_in_place_of_another(
    shop: Shop, group: str, wrong: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of the index is damaged, and points to another record, or nowhere."""
    shop.send("a1", "b1", "c1")
    nowhere = replace(shop.location(1), log_offset=1 << 40)
    points_to = nowhere if wrong is None else shop.location(wrong)
    locate = shop.store.indexes.queues.locate_messages

    def damaged(topic: str, queue_id: int, offset: int, count: int, *, may_block: bool) -> list[MessageLocation]:
        found = locate(topic, queue_id, offset, count, may_block=may_block)
        return [points_to if at == 1 else location for at, location in enumerate(found, offset)]

    monkeypatch.setattr(shop.store.indexes.queues, "locate_messages", damaged)
    assert names(shop.receive(group)) == ["a1", "c1"]
    assert shop.reader.lost_count == 1


def test_a_message_group_stops_at_a_damaged_message_until_it_is_skipped(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.send("a1", "b1", "a2", "b2", "a3")
    first = shop.receive("fifo", batch=1)
    second = shop.receive("fifo", batch=1)  # reads ahead, so that the lanes of all are known
    assert names([*first, *second]) == ["a1", "b1"]
    shop.receive("fifo")
    shop.damage(2)
    shop.acknowledge("fifo", [*first, *second])
    others = shop.receive("fifo")
    assert names(others) == ["b2"], "only its own message group waits"
    shop.acknowledge("fifo", others)
    assert shop.receive("fifo") == []
    said = [record.getMessage() for record in caplog.records if "stops" in record.getMessage()]
    assert len(said) == 1
    assert "`ternmq group offset skip fifo --topic orders --broker b --queue 0 --offset 2`" in said[0]
    assert "'a'" in said[0]
    assert shop.consumption.committed_offset("fifo", TOPIC, 0) == 2
    assert not shop.consumption.skip_message("fifo", TOPIC, 0, 5), "the group is not there yet"
    assert shop.consumption.skip_message("fifo", TOPIC, 0, 2)
    assert shop.consumption.skip_message("fifo", TOPIC, 0, 2), "a repeated call gets the same answer"
    last = shop.receive("fifo")
    assert names(last) == ["a3"]
    shop.acknowledge("fifo", last)
    assert shop.consumption.committed_offset("fifo", TOPIC, 0) == 5


def test_what_comes_before_a_damaged_message_is_handed_out_first(shop: Shop) -> None:
    shop.send("b1", "a1", "a2", "a3")
    (held,) = shop.receive("fifo", batch=1)
    lane = shop.receive("fifo", batch=1)
    assert names([held, *lane]) == ["b1", "a1"]
    shop.receive("fifo")
    shop.damage(3)
    shop.acknowledge("fifo", lane)
    again = shop.receive("fifo")
    assert names(again) == ["a2"]
    shop.acknowledge("fifo", again)
    assert shop.receive("fifo") == []


def test_a_fifo_group_steps_over_a_damaged_message_whose_group_nobody_knows(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.send("a1", "b1", "a2")
    shop.damage(0)
    assert names(shop.receive("fifo")) == ["b1", "a2"]
    assert "group fifo skips the message at offset 0 of queue 0 of topic orders" in caplog.text
    assert shop.consumption.committed_offset("fifo", TOPIC, 0) == 1


@pytest.mark.parametrize("known", range(5))
def test_a_new_leader_takes_nothing_for_gone_that_it_may_hand_out_only_later(shop: Shop, known: int) -> None:
    """It has the group's claims, and does not know yet that all of their messages are acknowledged."""
    shop.send("a1", "a2", "b1", "a3", "a4")
    first, second = shop.receive("fifo", batch=1), shop.receive("fifo")
    assert names([*first, *second]) == ["a1", "b1"]
    shop.acknowledge("fifo", second)
    shop.restart()
    shop.limit = shop.location(known).log_offset
    assert shop.receive("fifo") == []
    shop.limit = shop.store.log.synced
    assert shop.receive("fifo") == []
    shop.acknowledge("fifo", first)
    assert names(shop.receive("fifo")) == ["a2", "a3", "a4"]


def test_what_is_to_be_delivered_again_waits_until_it_may_be_read(shop: Shop) -> None:
    shop.send("a1", "a2")
    first, _ = shop.receive("plain")
    assert shop.consumption.release_claim("plain", TOPIC, first.handle, now_ms=NOW_MS, counts=True)
    shop.limit = shop.location(0).log_offset
    assert shop.receive("plain") == []
    shop.limit = shop.store.log.synced
    assert names(shop.receive("plain")) == ["a1"]
