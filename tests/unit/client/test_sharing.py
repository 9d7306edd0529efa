"""Push consumers of one group on TernMQ itself: who has time gets the messages, and nobody sits on any."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq import Message, MessageView, Producer, PushConsumer
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, local_settings

TOPIC, GROUP = "orders", "billing"
MESSAGES = 60


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path)) as running:
        yield running


class Listener:
    """Notes what it gets; holds it until `go_on` is set."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int]] = []
        self.go_on = asyncio.Event()
        self._changed = asyncio.Condition()

    async def __call__(self, view: MessageView) -> None:
        async with self._changed:
            self.seen.append((view.body, view.delivery_attempt))
            self._changed.notify_all()
        await self.go_on.wait()

    async def has(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)


async def make_group(server: Embedded, **fields: object) -> None:
    async with RawClient(server.grpc) as operator:
        group = admin_pb2.Group(name=GROUP, **fields)  # type: ignore[arg-type]
        await operator.admin("CreateGroup", group=group)


async def send(server: Embedded, group: str | None = None) -> list[bytes]:
    bodies = [b"%d" % number for number in range(MESSAGES)]
    async with Producer(server.grpc, topics=[TOPIC]) as producer:
        await producer.send_many([Message(TOPIC, body, message_group=group) for body in bodies])
    return bodies


async def test_who_has_time_gets_what_another_has_no_time_for(server: Embedded) -> None:
    """The slow one is closed while one message runs; what it had beside it is another's at once, as if unseen: with
    one attempt for each message, none becomes a dead letter."""
    await make_group(server, max_attempts=1)
    bodies = await send(server)
    slow, fast = Listener(), Listener()
    fast.go_on.set()
    first = await PushConsumer(server.grpc, GROUP, {TOPIC: "*"}, slow, concurrency=1).start()
    await slow.has(1)
    async with PushConsumer(server.grpc, GROUP, {TOPIC: "*"}, fast):
        await fast.has(MESSAGES - 3)
        closing = asyncio.create_task(first.close())
        await fast.has(MESSAGES - 1)
        assert not closing.done()
        slow.go_on.set()
        await closing
    assert sorted(slow.seen + fast.seen) == sorted((body, 1) for body in bodies)
    assert len(slow.seen) == 1


async def test_ordered_messages_that_are_given_back_stay_in_order(server: Embedded) -> None:
    await make_group(server, fifo=True)
    async with RawClient(server.grpc) as operator:
        await operator.create_topic(TOPIC, kind=pb.FIFO)
    bodies = await send(server, group="customer-7")
    slow, fast = Listener(), Listener()
    fast.go_on.set()
    first = await PushConsumer(server.grpc, GROUP, {TOPIC: "*"}, slow, concurrency=20).start()
    await slow.has(1)
    async with PushConsumer(server.grpc, GROUP, {TOPIC: "*"}, fast):
        closing = asyncio.create_task(first.close())
        slow.go_on.set()
        await closing
        await fast.has(MESSAGES - 1)
    assert slow.seen + fast.seen == [(body, 1) for body in bodies]
