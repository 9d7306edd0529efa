"""The longest bodies at a rate: they arrive whole, the server's memory is bounded, and small messages go on."""

import asyncio
import hashlib
import itertools
import random
from collections import Counter
from datetime import timedelta

import pytest

from ternmq import Admin, Message, MessageView, Producer, PushConsumer, SimpleConsumer
from ternmq_common.limits import MIB, RECEIVE_BATCH_MAX, MessageLimits
from ternmq_common.server_settings import ServerSettings
from tests.e2e.traffic.server import watched_memory
from tests.support.stack import Stack
from tests.support.until import until

pytestmark = [pytest.mark.slow]

LARGE, SMALL = "large", "small"
BODY_BYTES = MessageLimits().body_bytes_max
IN_FLIGHT = 8
# A machine that has others to serve takes its time; nothing is to be sent twice for that.
PATIENCE_S = 100.0
SETTINGS = ServerSettings()
# What all clients together may have under way. All bodies are more.
GROWTH_MAX = SETTINGS.in_bytes_max + SETTINGS.out_bytes_max


def body_of(number: int) -> bytes:
    """Bytes that no other body has, nowhere the same in a row."""
    block = random.Random(number).randbytes(64 * 1024)
    return block * (BODY_BYTES // len(block))


class Account:
    """What was sent and what came to each group, by digest."""

    def __init__(self) -> None:
        self.sent = Counter[str]()
        self.pushed = Counter[str]()
        self.taken = Counter[str]()
        self.small = 0

    async def listen(self, view: MessageView) -> None:
        self.pushed[digest(view.body)] += 1

    async def send_all(self, producer: Producer, count: int) -> None:
        room = asyncio.Semaphore(IN_FLIGHT)

        async def send(number: int) -> None:
            async with room:
                body = body_of(number)
                await producer.send(Message(LARGE, body))
                self.sent[digest(body)] += 1

        await asyncio.gather(*map(send, range(count)))

    async def take_all(self, consumer: SimpleConsumer, count: int) -> None:
        while self.taken.total() < count:
            views = await consumer.receive(RECEIVE_BATCH_MAX, timedelta(minutes=5))
            self.taken.update(digest(view.body) for view in views)
            if views:
                await consumer.ack(views)

    async def keep_sending_small(self, producer: Producer) -> None:
        for number in itertools.count():
            await producer.send(Message(SMALL, b"%d" % number))
            self.small += 1


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.long)])
async def test_the_longest_bodies_arrive_whole_while_memory_is_bounded_and_others_go_on(
    stack: Stack, count: int
) -> None:
    async with Admin(stack.grpc) as admin:
        for topic in (LARGE, SMALL):
            await admin.create_topic(topic, "normal", queues=4)
    account = Account()
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        watched_memory(stack) as memory,
        Producer(stack.grpc, request_timeout=PATIENCE_S, delivery_timeout=PATIENCE_S) as producer,
        Producer(stack.grpc) as other,
        SimpleConsumer(stack.grpc, "takes", {LARGE: "*"}, request_timeout=PATIENCE_S) as consumer,
        PushConsumer(stack.grpc, "is-pushed", {LARGE: "*"}, account.listen, request_timeout=PATIENCE_S),
    ):
        small = asyncio.create_task(account.keep_sending_small(other))
        await asyncio.gather(account.send_all(producer, count), account.take_all(consumer, count))
        await until(lambda: account.pushed.total() >= count)
        assert not small.done()  # none of its sends failed, nor had to be repeated beyond its time
        small.cancel()
    assert account.sent == account.taken == account.pushed
    assert account.sent.total() == count == len(account.sent)
    assert account.small > count / IN_FLIGHT
    assert count * BODY_BYTES > GROWTH_MAX
    assert memory.growth < GROWTH_MAX, f"{memory.growth / MIB:.0f} MiB"
