"""What retention or a purge takes before a group has read it is counted, also over restarts, and nothing twice."""

import pytest

from ternmq_broker.consumption.losses import LostMessages
from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.store.journal.journal_marks import LostMark, PurgeMark
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import ConsumerGroup, PopOrder, QueueRef
from tests.support.memory_disk import MemoryFolders
from tests.support.message_service_conformance import message
from tests.unit.broker.conftest import HOUR_MS, QUEUES, Running

DAY_MS = 24 * HOUR_MS


def queue(running: Running, queue_id: int = 0) -> QueueRef:
    return QueueRef("orders", running.broker.name, queue_id)


async def take_one_of_each(running: Running, group: str = "g") -> None:
    """The next message of each queue, which the group finishes."""
    for queue_id in range(QUEUES):
        order = PopOrder(
            group=group, topic="orders", queues=range(queue_id, queue_id + 1), filter=ALL, batch=1, invisible_ms=HOUR_MS
        )
        [delivery] = await running.broker.consuming.pop(order, 0)
        running.broker.consuming.acknowledge(group, "orders", [delivery.handle])


async def expire(running: Running) -> None:
    """What is there goes by retention."""
    running.clock.advance_by(30 * DAY_MS)
    await running.broker._housekeeping.remove_expired()


async def restart(running: Running) -> None:
    await running.broker.close()
    running.start()


async def lost(running: Running, group: str = "g") -> int:
    """As the rows of the group say, which is what the metric says too."""
    by_rows = sum(row.lost for row in await running.broker.inspecting.progress(group))
    [by_metric] = [lag.lost async for lag in running.broker.figures.count_lags() if lag.group == group]
    assert by_rows == by_metric
    return by_rows


@pytest.mark.parametrize("is_fifo", [False, True])
async def test_what_retention_takes_unread_is_counted_wherever_the_group_goes_on(
    running: Running, is_fifo: bool
) -> None:
    running.groups["g"] = ConsumerGroup(name="g", fifo=is_fifo)
    await running.send(*[b"-"] * 5)
    await take_one_of_each(running)
    assert await lost(running) == 0
    await expire(running)
    expected = 5 * QUEUES - QUEUES
    assert await lost(running) == expected
    await restart(running)
    assert await lost(running) == expected
    await running.send(b"new")
    await take_one_of_each(running)
    assert await lost(running) == expected, "it is noted, and no more pending"
    await restart(running)
    assert await lost(running) == expected
    await running.send(b"newer")
    await expire(running)
    assert await lost(running) == expected + QUEUES


async def test_a_reader_by_offset_lost_what_it_had_not_committed(running: Running) -> None:
    await running.send(*[b"-"] * 10)
    await running.broker.reading.set_committed("g", queue(running), 2)
    await expire(running)
    assert await lost(running) == 8
    await running.broker.reading.set_committed("g", queue(running), 5)
    assert await lost(running) == 8 - 3, "it had read on before, and says so now"
    await running.send(b"new")
    await running.broker.reading.set_committed("g", queue(running), 11)
    assert await lost(running) == 5
    await running.broker.reading.set_committed("g", queue(running), 0)
    assert await lost(running) == 5, "who goes back does not lose it again"
    await restart(running)
    assert await lost(running) == 5


async def test_a_purge_counts_and_is_known_as_one(running: Running) -> None:
    await running.send(*[b"-"] * 6)
    await take_one_of_each(running)
    assert (await running.broker.reading.bounds(queue(running))).purged_below == 0
    await running.broker.administering.purge(queue(running), 4, retries=False)
    await running.broker.administering.purge(queue(running, 1), 6, retries=True)
    for _ in range(2):
        assert await lost(running) == 3 + 5
        purged = [
            (await running.broker.reading.bounds(queue(running, queue_id))).purged_below for queue_id in range(QUEUES)
        ]
        assert purged == [4, 6, 0, 0]
        await restart(running)
    await running.broker._purge_expired("orders", 2, 6)
    assert await lost(running) == 3 + 5 + 5
    assert (await running.broker.reading.bounds(queue(running, 2))).purged_below == 0, "retention is no purge"


async def test_what_goes_with_a_topic_or_a_group_is_not_lost(running: Running) -> None:
    running.groups["g"] = ConsumerGroup(name="g", consume_from="earliest")
    await running.send(*[b"-"] * 6)
    await take_one_of_each(running)
    await running.broker.administering.purge(queue(running), 4, retries=False)
    await running.broker.administering.forget_topic("orders")
    await running.send(b"-")
    for _ in range(2):
        assert await lost(running) == 0
        assert (await running.broker.reading.bounds(queue(running))).purged_below == 0
        await restart(running)
    await expire(running)
    assert await lost(running) == QUEUES
    await running.broker.administering.forget_group("g")
    await running.send(b"-")
    await take_one_of_each(running)
    for _ in range(2):
        assert await lost(running) == 0
        await restart(running)


async def test_a_lite_group_lost_what_went_from_its_lite_topics(running: Running) -> None:
    """While nothing of one is in flight, an offset stands for the group's state there."""
    running.groups["g"] = ConsumerGroup(name="g", lite=LiteGroup("orders"))
    for name in ("a", "b"):
        topic = lite_queue_topic("orders", name)
        await running.broker.sending.append(QueueRef(topic, running.broker.name, 0), [message(b"1"), message(b"2")])
        await running.broker.reading.set_committed("g", QueueRef(topic, running.broker.name, 0), 1)
    await restart(running)
    assert await lost(running) == 0
    await expire(running)
    for _ in range(2):
        assert await lost(running) == 2
        await restart(running)
    await running.broker.reading.set_committed(
        "g", QueueRef(lite_queue_topic("orders", "a"), running.broker.name, 0), 2
    )
    for _ in range(2):
        assert await lost(running) == 2, "one is noted, one is pending"
        await restart(running)


def test_what_the_journal_could_not_write_is_written_the_next_time() -> None:
    losses = LostMessages(MessageStore(MemoryFolders(), segment_bytes=2000), [LostMark("g", "t", 0, 7)])
    losses.add_lost("g", "t", 0, 1)
    losses.note_purge("t", 0, 5)
    taken = losses.take_changes()
    assert taken == [LostMark("g", "t", 0, 8), PurgeMark("t", 0, 5)]
    losses.add_lost("g", "t", 0, 1)
    losses.restore_changes(taken)
    assert losses.take_changes() == [LostMark("g", "t", 0, 9), PurgeMark("t", 0, 5)]
    assert losses.take_changes() == []


def test_lite_topics_count_together() -> None:
    losses = LostMessages(MessageStore(MemoryFolders(), segment_bytes=2000), ())
    for name in ("a", "b"):
        losses.note_passed_over("g", lite_queue_topic("orders", name), 0, QueueConsumption(0), 3, origin=0)
    assert losses.noted_losses("g", "orders", 0) == 6
    assert losses.take_changes() == [LostMark("g", "orders", 0, 6)]
