"""A broker whose groups a test sets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import StorageSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, PopOrder, QueueRef, TopicSubscription
from tests.support.message_service_conformance import message

HOUR_MS = 3_600_000
QUEUES = 4


class Running:
    """A broker, and the settings of its groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = MovableClock()
        self.groups: dict[str, ConsumerGroup] = {}
        self.broker: Broker

    def start(self) -> None:
        settings = StorageSettings(data_dir=self.folder)
        self.broker = Broker.open(
            BrokerSettings.from_storage(settings),
            lambda name: self.groups.get(name) or ConsumerGroup(name=name),
            self.clock,
        )
        self.broker.start()

    async def send(self, *bodies: bytes, topic: str = "orders") -> None:
        """Each of them to every queue."""
        for queue_id in range(QUEUES):
            await self.broker.sending.append(
                QueueRef(topic, self.broker.name, queue_id), [new(body) for body in bodies]
            )

    async def take(self, group: str, batch: int = 1) -> None:
        order = PopOrder(
            group=group, topic="orders", queues=range(QUEUES), filter=ALL, batch=batch, invisible_ms=HOUR_MS
        )
        for delivery in await self.broker.consuming.pop(order, 0):
            self.broker.consuming.acknowledge(group, "orders", [delivery.handle])

    async def lags(self) -> dict[str, int]:
        return {lag.group: lag.messages async for lag in self.broker.figures.count_lags()}

    async def subscribe(self, *groups: str, topic: str = "orders") -> None:
        await self.broker.consuming.subscribed([TopicSubscription(group, topic) for group in groups])


def new(body: bytes) -> NewMessage:
    return message(body)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    running = Running(tmp_path)
    running.start()
    yield running
    await running.broker.close()
