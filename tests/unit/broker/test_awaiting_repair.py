"""A damaged message that another replica may have whole is waited for: no group steps over it, none gets it out of
order, and what is in other queues does not wait."""

import asyncio

import pytest

from ternmq_broker.cold_reads import NotRepaired, records_at, run_when_read
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import DeliveredMessage, LiteAction, NewMessage, PopOrder, QueueRef
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.broker.test_unreadable import NOW_MS, QUEUE, TOPIC, Shop, names


class Replicated(Shop):
    """A shop whose log other replicas have too."""

    def __init__(self) -> None:
        super().__init__()
        self.store.damage.may_be_repaired = True

    def look(self) -> None:
        for log_offset, size in self.store.damage.open_reports():
            self.store.repair.check_report(log_offset, size)

    def repair(self, offset: int) -> None:
        """What `damage` did is undone, as by a replica that has it whole."""
        self.look()
        self.damage(offset)
        location = self.location(offset)
        data = self.store.replica_log.log_bytes(location.log_offset, location.size, may_block=True)[1]
        self.store.repair.write_repair(location.log_offset, data)

    def give_up(self) -> None:
        self.look()
        for begin, _ in self.store.damage.damaged_ranges:
            self.store.damage.postpone_repair(begin, 0.0, is_given_up=True)

    def receive_of(self, group: str, queues: int) -> list[DeliveredMessage]:
        order = PopOrder(
            group=group, topic=TOPIC, queues=range(queues), filter=ALL, batch=8, invisible_ms=60_000, first_queue=0
        )
        return self.consumption.pop(order, NOW_MS).deliveries


@pytest.fixture
def shop() -> Replicated:
    return Replicated()


@pytest.mark.parametrize("group", ["plain", "fifo"])
def test_a_group_gets_all_in_order_when_it_was_repaired(shop: Replicated, group: str) -> None:
    shop.send("a1", "a2", "a3")
    shop.damage(1)
    got = []
    for _ in range(5):
        deliveries = shop.receive(group, batch=1)
        got += names(deliveries)
        shop.acknowledge(group, deliveries)
    assert got == ["a1"]
    assert shop.consumption.committed_offset(group, TOPIC, 0) == 1
    assert shop.reader.lost_count == 0
    shop.repair(1)
    for _ in range(3):
        deliveries = shop.receive(group)
        got += names(deliveries)
        shop.acknowledge(group, deliveries)
    assert got == ["a1", "a2", "a3"]


@pytest.mark.parametrize("group", ["plain", "fifo"])
def test_when_nobody_has_it_whole_the_group_goes_on_as_without_replicas(shop: Replicated, group: str) -> None:
    shop.send("a1", "b1", "c1")
    shop.damage(0)
    assert shop.receive(group) == []
    shop.give_up()
    assert names(shop.receive(group)) == ["b1", "c1"]
    assert shop.reader.lost_count == 1
    location = shop.location(0)
    shop.reader.forget_repaired(location.log_offset, location.log_offset + location.size)
    assert shop.reader.degraded is None


def test_a_message_group_that_stopped_goes_on_when_its_message_was_repaired_after_all(shop: Replicated) -> None:
    shop.send("a1", "a2", "a3")
    first = shop.receive("fifo", batch=1)
    shop.receive("fifo")
    shop.damage(1)
    shop.acknowledge("fifo", first)
    shop.receive("fifo")
    shop.give_up()
    assert shop.receive("fifo") == []
    assert shop.reader.lost_count == 1
    location = shop.location(1)
    shop.repair(1)
    shop.consumption.resume_after_repair(location.log_offset, location.log_offset + location.size)
    assert shop.reader.lost_count == 0
    assert names(shop.receive("fifo")) == ["a2", "a3"]


@pytest.mark.parametrize("group", ["plain", "fifo"])
def test_other_queues_do_not_wait(shop: Replicated, group: str) -> None:
    shop.send("a1", "a2")
    system = pb.SystemProperties(message_id="other", message_group="z").SerializeToString()
    shop.store.writer.append_batch(TOPIC, 1, [NewMessage(0, system, b"body", ("other",))], NOW_MS)
    shop.store.log.sync_segments()
    shop.damage(0)
    assert names(shop.receive_of(group, queues=2)) == ["other"]
    shop.repair(0)
    assert names(shop.receive_of(group, queues=2)) == ["a1", "a2"]


def test_a_message_that_is_to_be_delivered_again_is_waited_for_too(shop: Replicated) -> None:
    shop.send("a1", "a2")
    first, _ = shop.receive("plain")
    assert shop.consumption.release_claim("plain", TOPIC, first.handle, now_ms=NOW_MS, counts=True)
    shop.damage(0)
    assert shop.receive("plain") == []
    shop.repair(0)
    assert names(shop.receive("plain")) == ["a1"]


async def test_a_pull_waits_a_while_and_then_says_why(shop: Replicated) -> None:
    shop.send("a1", "a2")
    shop.damage(0)

    def pull() -> list[str]:
        pulled = shop.reader.pull_messages(QueueRef(TOPIC, "b", 0), 0, ALL, 8)
        return [pb.SystemProperties.FromString(each.system).message_id for each in pulled.messages]

    with pytest.raises(NotRepaired) as refused:
        await run_when_read(pull, patience_s=0.0)
    assert refused.value.code == pb.HA_NOT_AVAILABLE
    pulling = asyncio.create_task(run_when_read(pull))
    await asyncio.sleep(0)
    assert not pulling.done()
    shop.repair(0)
    assert await pulling == ["a1", "a2"]
    assert shop.reader.pull_messages(QUEUE, 0, ALL, 8).next_offset == 2


async def test_records_of_timers_and_half_messages_are_waited_for(shop: Replicated) -> None:
    shop.send("a1", "a2")
    locations = [shop.location(0), shop.location(1)]
    shop.damage(1)
    with pytest.raises(AwaitsRepair):
        shop.store.reader.read_records(locations, may_block=False)
    reading = asyncio.create_task(records_at(shop.store, locations))
    await asyncio.sleep(0)
    shop.repair(1)
    assert None not in await reading
    shop.damage(1)
    shop.store.damage.may_be_repaired = False
    assert [record is None for record in await records_at(shop.store, locations)] == [False, True]


@pytest.mark.parametrize("wildcard", [False, True])
def test_a_lite_topic_waits_alone_and_is_received_from_when_it_was_repaired(
    shop: Replicated, *, wildcard: bool
) -> None:
    topics = [lite_queue_topic(TOPIC, name) for name in ("one", "other")]
    for topic in topics:
        system = pb.SystemProperties(message_id=topic).SerializeToString()
        shop.store.writer.append_batch(topic, 0, [NewMessage(0, system, b"body", (topic,))], NOW_MS)
    shop.store.log.sync_segments()
    lite = shop.consumption.lite
    lite.sync_client("fifo", LiteGroup(TOPIC, wildcard=wildcard), "me", LiteAction.COMPLETE_ADD, topics, 0.0)

    def received() -> list[str]:
        order = PopOrder(
            group="fifo", topic=TOPIC, queues=range(1), filter=ALL, batch=8, invisible_ms=60_000, lite_client="me"
        )
        return names(shop.consumption.pop(order, NOW_MS).deliveries)

    [place] = shop.store.indexes.queues.locate_messages(topics[0], 0, 0, 1, may_block=True)
    [segment] = shop.folders.commit_log.files.values()
    segment.content[place.log_offset + place.size - 1] ^= 1
    for topic in topics:
        lite.mark_ready("fifo", topic)
    assert received() == [topics[1]]
    assert received() == []
    segment.content[place.log_offset + place.size - 1] ^= 1
    assert received() == [topics[0]], "it is still known to have something"
