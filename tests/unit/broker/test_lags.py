"""How far behind groups are, as the metric counts it: every queue with messages, from where the group would begin."""

from unittest.mock import ANY

import pytest

from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import ConsumerGroup, PopOrder, QueueRef
from ternmq_runtime.observability.figures import GroupLag
from tests.unit.broker.conftest import HOUR_MS, QUEUES, Running


async def test_queues_in_which_a_group_has_never_been_are_counted_also_after_a_restart(running: Running) -> None:
    await running.send(b"1", b"2")
    await running.take("g")
    assert await running.lags() == {"g": 2 * QUEUES - 1}
    await running.broker.close()
    running.start()
    assert await running.lags() == {"g": 2 * QUEUES - 1}


async def test_a_group_that_only_subscribes_is_behind_by_what_is_there_from_where_it_would_begin(
    running: Running,
) -> None:
    await running.send(b"1")
    running.clock.advance_by(HOUR_MS)
    between = running.clock.now_ms()
    running.clock.advance_by(HOUR_MS)
    await running.send(b"2")
    later = running.clock.now_ms() + HOUR_MS
    for text in ("earliest", "latest", "auto", str(between), str(later)):
        running.groups[text] = ConsumerGroup(name=text, consume_from=text)
    await running.subscribe(*running.groups)
    expected = {"earliest": 2, "latest": 0, "auto": 2, str(between): 1, str(later): 0}
    for _ in range(2):
        assert await running.lags() == {group: queued * QUEUES for group, queued in expected.items()}
    running.clock.advance_by(2 * HOUR_MS)
    await running.send(b"3")
    expected = {"earliest": 3, "latest": 0, "auto": 3, str(between): 2, str(later): 1}
    assert await running.lags() == {group: queued * QUEUES for group, queued in expected.items()}


async def test_a_topic_without_messages_is_no_lag_and_one_that_is_deleted_no_more(running: Running) -> None:
    await running.subscribe("g")
    assert await running.lags() == {}
    await running.send(b"1")
    assert await running.lags() == {"g": QUEUES}
    await running.broker.administering.forget_topic("orders")
    assert await running.lags() == {}
    await running.send(b"1")
    assert await running.lags() == {"g": QUEUES}
    await running.broker.administering.forget_group("g")
    assert await running.lags() == {}


@pytest.mark.plain
async def test_a_time_is_looked_up_once_for_all_groups_that_begin_then(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = str(running.clock.now_ms())
    await running.send(b"1")
    for number in range(100):
        running.groups[f"g{number}"] = ConsumerGroup(name=f"g{number}", consume_from=begin)
    await running.subscribe(*running.groups)
    looked_up: list[int] = []
    offset_at = running.broker.store.reader.find_offset_at

    def watched(topic: str, queue_id: int, time_ms: int) -> int:
        looked_up.append(queue_id)
        return offset_at(topic, queue_id, time_ms)

    monkeypatch.setattr(running.broker.store.reader, "find_offset_at", watched)
    for _ in range(3):
        assert sum((await running.lags()).values()) == 100 * QUEUES
    assert sorted(looked_up) == list(range(QUEUES))


async def test_a_lag_says_what_is_in_flight(running: Running) -> None:
    await running.send(b"1", b"2")
    order = PopOrder(group="g", topic="orders", queues=range(QUEUES), filter=ALL, batch=1, invisible_ms=HOUR_MS)
    await running.broker.consuming.pop(order, 0)
    assert [lag async for lag in running.broker.figures.count_lags()] == [GroupLag("g", "orders", 2 * QUEUES, 1, ANY)]


async def oldest_hours(running: Running) -> float:
    """The age of the one lag, by a clock that goes on by itself too."""
    [lag] = [lag async for lag in running.broker.figures.count_lags()]
    return round(lag.oldest_age_ms / HOUR_MS, 1)


async def test_a_lag_is_as_old_as_the_oldest_message_that_is_not_finished(running: Running) -> None:
    """Never taken, handed out or finished; by the time at which it was stored."""
    await running.send(b"1")
    running.clock.advance_by(HOUR_MS)
    await running.send(b"2")
    await running.subscribe("g")
    assert await oldest_hours(running) == 1
    order = PopOrder(group="g", topic="orders", queues=range(QUEUES), filter=ALL, batch=99, invisible_ms=9 * HOUR_MS)
    taken = await running.broker.consuming.pop(order, 0)
    running.clock.advance_by(HOUR_MS)
    assert await oldest_hours(running) == 2
    first = [each.handle for each in taken if each.handle.queue_offset == 0]
    running.broker.consuming.acknowledge("g", "orders", first[1:])
    assert await oldest_hours(running) == 2
    running.broker.consuming.acknowledge("g", "orders", first[:1])
    assert await oldest_hours(running) == 1
    running.broker.consuming.acknowledge("g", "orders", [each.handle for each in taken if each.handle not in first])
    assert await oldest_hours(running) == 0


async def test_a_retry_is_as_old_as_its_first_failure(running: Running) -> None:
    await running.send(b"1")
    order = PopOrder(group="g", topic="orders", queues=range(QUEUES), filter=ALL, batch=99, invisible_ms=HOUR_MS)
    taken = await running.broker.consuming.pop(order, 0)
    running.broker.consuming.acknowledge("g", "orders", [each.handle for each in taken[1:]])
    running.clock.advance_by(2 * HOUR_MS)
    # It is handed out again when its copy is there.
    [again] = await running.broker.consuming.pop(order, 10)
    assert again.attempt == 2
    running.clock.advance_by(HOUR_MS // 2)
    assert await oldest_hours(running) == 0.5


async def test_messages_that_are_gone_have_no_age(running: Running) -> None:
    running.groups["g"] = ConsumerGroup(name="g", consume_from="earliest")
    await running.send(b"1")
    await running.subscribe("g")
    running.clock.advance_by(HOUR_MS)
    await running.send(b"2")
    running.clock.advance_by(HOUR_MS)
    assert await oldest_hours(running) == 2
    for queue_id in range(QUEUES):
        await running.broker.administering.purge(QueueRef("orders", running.broker.name, queue_id), 1, retries=False)
    assert await oldest_hours(running) == 1


@pytest.mark.plain
async def test_what_stands_still_is_read_once_for_all_groups(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    await running.send(b"1", b"2")
    await running.subscribe(*(f"g{number}" for number in range(200)))
    read: list[int] = []
    stored_ms = running.broker.store.reader.stored_ms

    def watched(topic: str, queue_id: int, offset: int) -> int | None:
        read.append(queue_id)
        return stored_ms(topic, queue_id, offset)

    monkeypatch.setattr(running.broker.store.reader, "stored_ms", watched)
    for _ in range(3):
        assert len(await running.lags()) == 200
    assert sorted(read) == list(range(QUEUES))
