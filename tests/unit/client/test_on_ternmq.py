"""The client library on TernMQ itself, by the whole way: transactions, delays, recall.

Each test has a server of its own: it moves the server's clock, while the delays of the library count by the machine's.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ternmq
from ternmq import Message, MessageView, Producer, SimpleConsumer, TransactionResolution
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, local_settings

COMMIT, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.UNKNOWN
TOPIC = "orders"
GROUP = "billing"
CHECK_S = 30.0
TIMEOUT_S = 7.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path, test_clock=True)) as running:
        yield running


@pytest.fixture
async def operator(server: Embedded) -> AsyncIterator[RawClient]:
    async with RawClient(server.grpc) as connected:
        yield connected


def consumer_of(server: Embedded) -> SimpleConsumer:
    return SimpleConsumer(server.grpc, GROUP, {TOPIC: "*"}, await_duration=timedelta(seconds=20))


async def received(consumer: SimpleConsumer, count: int) -> list[MessageView]:
    """Receive and acknowledge exactly so many messages."""
    views: list[MessageView] = []
    while len(views) < count:
        new = await consumer.receive(count - len(views))
        await consumer.ack(new)
        views += new
    return views


class Answers:
    """A checker that gives one answer after the other, and says when it was asked."""

    def __init__(self, *answers: TransactionResolution) -> None:
        self._answers = iter(answers)
        self.asked = asyncio.Semaphore(0)
        self.ids: list[str] = []

    async def __call__(self, view: MessageView) -> TransactionResolution:
        self.ids.append(view.message_id)
        self.asked.release()
        return next(self._answers)


async def test_what_is_committed_is_delivered_and_what_is_rolled_back_is_not(
    server: Embedded, operator: RawClient
) -> None:
    await operator.create_topic(TOPIC, kind=pb.TRANSACTION)
    async with Producer(server.grpc, topics=[TOPIC]) as producer, consumer_of(server) as consumer:
        dropped = producer.begin_transaction()
        await dropped.send(Message(TOPIC, b"dropped"))
        async with producer.begin_transaction(recovery=timedelta(minutes=5)) as transaction:
            receipt = await transaction.send(
                Message(TOPIC, b"committed", tag="t", keys=("a b",), properties={"k": "v"})
            )
        await dropped.rollback()
        async with producer.begin_transaction() as transaction:
            await transaction.send(Message(TOPIC, b"last"))
        first, last = await received(consumer, 2)
    assert (first.message_id, first.body, last.body) == (receipt.message_id, b"committed", b"last")
    assert (first.tag, first.keys, first.properties) == ("t", ("a b",), {"k": "v"})


async def test_a_checker_ends_an_orphan_and_nobody_ends_it_otherwise(server: Embedded, operator: RawClient) -> None:
    await operator.create_topic(TOPIC, kind=pb.TRANSACTION)
    checker = Answers(UNKNOWN, COMMIT)
    async with Producer(server.grpc, topics=[TOPIC], checker=checker) as producer, consumer_of(server) as consumer:
        transaction = producer.begin_transaction()
        receipt = await transaction.send(Message(TOPIC, b"orphan"))
        await operator.advance(TIMEOUT_S)
        await checker.asked.acquire()
        await operator.advance(CHECK_S)
        [view] = await received(consumer, 1)
        with pytest.raises(ternmq.TransactionRefused, match="INVALID_TRANSACTION_ID"):
            await transaction.rollback()
    assert (view.message_id, view.body) == (receipt.message_id, b"orphan")
    assert checker.ids == [receipt.message_id] * 2


async def test_a_recovery_time_holds_the_check_of_what_a_dead_producer_left_back(
    server: Embedded, operator: RawClient
) -> None:
    await operator.create_topic(TOPIC, kind=pb.TRANSACTION)
    async with Producer(server.grpc, topics=[TOPIC]) as dead:
        patient = await dead.begin_transaction(recovery=timedelta(minutes=10)).send(Message(TOPIC, b"patient"))
        hasty = await dead.begin_transaction().send(Message(TOPIC, b"hasty"))
    checker = Answers(COMMIT, COMMIT)
    async with Producer(server.grpc, topics=[TOPIC], checker=checker), consumer_of(server) as consumer:
        await operator.advance(TIMEOUT_S + CHECK_S)
        [first] = await received(consumer, 1)
        await operator.advance(600)
        [second] = await received(consumer, 1)
    assert [first.message_id, second.message_id] == checker.ids == [hasty.message_id, patient.message_id]


async def test_delays_of_all_kinds_end_in_their_time(server: Embedded, operator: RawClient) -> None:
    await operator.create_topic(TOPIC, kind=pb.DELAY)
    due = datetime.now(UTC) + timedelta(hours=2)
    async with Producer(server.grpc, topics=[TOPIC]) as producer, consumer_of(server) as consumer:
        await producer.send(Message(TOPIC, b"timestamp", delivery_timestamp=due))
        await producer.send(Message(TOPIC, b"delay", delay=timedelta(hours=1)))
        await producer.send(Message(TOPIC, b"level", delay_level=14))  # 10 minutes
        await producer.send(Message(TOPIC, b"past", delay=timedelta(seconds=-1)))
        bodies = [view.body for view in await received(consumer, 1)]
        for seconds in (10 * 60, 50 * 60, 60 * 60):
            await operator.advance(seconds)
            bodies += [view.body for view in await received(consumer, 1)]
    assert bodies == [b"past", b"level", b"delay", b"timestamp"]


async def test_a_recalled_message_never_comes(server: Embedded, operator: RawClient) -> None:
    await operator.create_topic(TOPIC, kind=pb.DELAY)
    async with Producer(server.grpc, topics=[TOPIC]) as producer, consumer_of(server) as consumer:
        recalled = await producer.send(Message(TOPIC, b"recalled", delay=timedelta(minutes=1)))
        later = await producer.send(Message(TOPIC, b"later", delay=timedelta(minutes=2)))
        await producer.recall(recalled)
        assert await producer.recall_handle(TOPIC, recalled.recall_handle) == recalled.message_id
        await operator.advance(121)
        [view] = await received(consumer, 1)
        with pytest.raises(ternmq.BadRequest, match="BAD_REQUEST"):
            await producer.recall(later)
    assert view.message_id == later.message_id
