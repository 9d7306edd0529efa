"""PRIORITY topics on several brokers: what is received while something more urgent waits elsewhere."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, PopOrder, QueueRef, Topic
from ternmq_protos.v2 import definition_pb2
from tests.support.cluster import InProcessCluster, running
from tests.support.message_service_conformance import message, order

QUEUES = 4
BROKERS = ("broker-0", "broker-1", "broker-2")
ALARMS = Topic(name="alarms", type=MessageType.PRIORITY, queues=QUEUES, brokers=BROKERS)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running(tmp_path, brokers=3) as cluster:
        await asyncio.to_thread(cluster.proxy_directory.registry.create_topic, ALARMS)
        await grouped(cluster, "strict", 100)
        yield cluster


async def grouped(cluster: InProcessCluster, name: str, factor: int) -> None:
    group = ConsumerGroup(name=name, priority_factor=factor)
    cluster.groups[name] = group
    await asyncio.to_thread(cluster.proxy_directory.registry.create_group, group)
    await cluster.proxy_directory.refresh_snapshot()


def by_priority(group: str = "strict", *, batch: int = 8, lowest_first: bool = False) -> PopOrder:
    return structs.replace(
        order(group, batch=batch),
        topic="alarms",
        queues=range(QUEUES),
        by_priority=True,
        first_queue=None,
        lowest_first=lowest_first,
    )


async def put(cluster: InProcessCluster, broker: str, priority: int, count: int = 1) -> None:
    queue = QueueRef("alarms", broker, priority)
    await cluster.service.sending.append(queue, [message(b"%d" % number) for number in range(count)])


def priorities(deliveries: list[DeliveredMessage]) -> list[int]:
    return [delivery.handle.queue_id for delivery in deliveries]


@pytest.mark.parametrize("lowest_first", [False, True])
async def test_nothing_is_received_while_something_more_urgent_waits_on_any_broker(
    three: InProcessCluster, lowest_first: bool
) -> None:
    chance = random.Random(7)
    waiting = [chance.randrange(QUEUES) for _ in range(120)]
    for priority in waiting:
        await put(three, chance.choice(BROKERS), priority)
    received: list[int] = []
    while len(received) < len(waiting):
        asked = by_priority(batch=chance.randint(1, 9), lowest_first=lowest_first)
        got = priorities(await three.service.consuming.pop(asked, broker=chance.choice(BROKERS), poll_s=0))
        assert got, "something waits"
        received += got
    assert received == sorted(waiting, reverse=not lowest_first)


async def test_a_receive_that_was_woken_gets_the_most_urgent(three: InProcessCluster) -> None:
    poll = asyncio.create_task(three.service.consuming.pop(by_priority(batch=1), broker="broker-0", poll_s=15))
    await asyncio.sleep(0)
    await put(three, "broker-1", 2)
    assert priorities(await poll) == [2]


async def test_what_is_to_be_delivered_again_comes_after_all_that_is_new_on_any_broker(
    three: InProcessCluster,
) -> None:
    await put(three, "broker-0", 3)
    [failed] = await three.service.consuming.pop(by_priority(), broker="broker-0", poll_s=0)
    await three.service.consuming.change_invisible("strict", "alarms", failed.handle, 0, counts=True)
    await put(three, "broker-1", 0)
    attempts = [
        delivery.attempt
        for _ in range(2)
        for delivery in await three.service.consuming.pop(by_priority(), broker="broker-0", poll_s=5)
    ]
    assert attempts == [1, 2]


async def test_a_broker_with_low_priorities_alone_does_not_starve(three: InProcessCluster) -> None:
    await grouped(three, "fair", 90)
    await put(three, "broker-0", 0)
    taken = 0
    for _ in range(100):
        await put(three, "broker-1", 3, count=2)
        got = priorities(await three.service.consuming.pop(by_priority("fair", batch=1), broker="broker-0", poll_s=0))
        taken += 1
        if got == [0]:
            break
    assert 1 < taken <= 100


async def test_a_broker_that_does_not_say_is_asked_last(
    three: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in BROKERS:
        await put(three, broker, 1)
    silent = three.service.links.require_broker("broker-0").shard.consuming

    async def unknown(*_: object, **__: object) -> int:
        raise MessagingError(definition_pb2.NOT_IMPLEMENTED, "it is older")

    monkeypatch.setattr(silent, "urgency", unknown, raising=False)
    got = [await three.service.consuming.pop(by_priority(), broker="broker-0", poll_s=0) for _ in BROKERS]
    assert [[delivery.handle.broker for delivery in each] for each in got][-1] == ["broker-0"]
    assert sorted(delivery.handle.broker for each in got for delivery in each) == list(BROKERS)
