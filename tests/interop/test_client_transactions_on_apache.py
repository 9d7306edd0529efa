"""Transactions, delays, recall and priorities of the client library against Apache RocketMQ."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, MessageView, Producer, SimpleConsumer, TransactionResolution
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.apache_round import new_names, received

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

COMMIT, ROLLBACK, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK, TransactionResolution.UNKNOWN
DEADLINE_S = 90
SHORT = timedelta(seconds=5)


@pytest.fixture(scope="module")
def peer() -> Iterator[ApacheRocketMQ]:
    # Asks about orphans after 6 s, every 5 s, where 30 s are usual.
    with ApacheRocketMQ(transactionTimeOut=6000, transactionCheckInterval=5000) as running:
        yield running


class Answers:
    """A checker that gives one answer after the other, and keeps what it saw."""

    def __init__(self, *answers: TransactionResolution) -> None:
        self._answers = iter(answers)
        self.views: list[MessageView] = []

    async def __call__(self, view: MessageView) -> TransactionResolution:
        self.views.append(view)
        return next(self._answers)


async def test_what_is_committed_is_delivered_and_what_is_rolled_back_is_not(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "TRANSACTION")
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        for body, fails in ((b"committed", False), (b"dropped", True), (b"committed too", False)):
            transaction = producer.begin_transaction()
            await transaction.send(Message(topic, body, tag="t", keys=("k",)))
            await (transaction.rollback if fails else transaction.commit)()
        views = await received(consumer, 2)
        assert await consumer.receive() == []
    assert {view.body for view in views} == {b"committed", b"committed too"}
    assert {(view.tag, view.keys, view.intact) for view in views} == {("t", ("k",), True)}


async def test_a_transaction_that_ends_twice_there_has_an_open_outcome(peer: ApacheRocketMQ) -> None:
    topic, _ = new_names(peer, "TRANSACTION")
    async with Producer(peer.endpoint, topics=[topic]) as producer:
        first = producer.begin_transaction()
        await first.send(Message(topic, b"x"))
        await first.commit()
        await first.commit()  # known here, so not asked
        again = producer.begin_transaction()
        again._half = first._half
        with pytest.raises(ternmq.TransactionOutcomeUnknown, match="INTERNAL_SERVER_ERROR"):
            await again.commit()


async def test_a_checker_ends_an_orphan(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "TRANSACTION")
    checker = Answers(UNKNOWN, COMMIT)
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic], checker=checker) as producer,
    ):
        receipt = await producer.begin_transaction().send(Message(topic, b"orphan", properties={"a": "b"}))
        [view] = await received(consumer, 1)
    assert (view.message_id, view.body) == (receipt.message_id, b"orphan")
    assert [asked.message_id for asked in checker.views] == [receipt.message_id] * 2
    assert [(asked.topic, asked.body, asked.properties["a"], asked.intact) for asked in checker.views] == [
        (topic, b"orphan", "b", True)
    ] * 2


async def test_another_producers_checker_rolls_back_what_a_dead_one_left(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "TRANSACTION")
    async with Producer(peer.endpoint, topics=[topic]) as dead:
        await dead.begin_transaction().send(Message(topic, b"orphan"))
    checked = asyncio.Event()

    def roll_back(_: MessageView) -> TransactionResolution:
        loop.call_soon_threadsafe(checked.set)
        return ROLLBACK

    loop = asyncio.get_running_loop()
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic], checker=roll_back),
    ):
        async with asyncio.timeout(DEADLINE_S):
            await checked.wait()
        assert await consumer.receive() == []


async def test_a_transaction_needs_a_topic_of_its_type(peer: ApacheRocketMQ) -> None:
    topic, _ = new_names(peer, "NORMAL")
    async with Producer(peer.endpoint, topics=[topic]) as producer:
        with pytest.raises(ternmq.BadRequest, match="MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"):
            await producer.begin_transaction().send(Message(topic, b"x"))


def test_the_blocking_transactions_work_too(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "TRANSACTION")
    with (
        ternmq.blocking.SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        ternmq.blocking.Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        with producer.begin_transaction(recovery=timedelta(minutes=1)) as transaction:
            receipt = transaction.send(Message(topic, b"x"))
        views = consumer.receive()
        consumer.ack(views)
    assert [view.message_id for view in views] == [receipt.message_id]


async def test_a_delay_is_as_long_as_it_says_and_a_recalled_message_never_comes(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "DELAY")
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        began = datetime.now(UTC)
        recalled = await producer.send(Message(topic, b"recalled", delay=timedelta(seconds=4)))
        await producer.send(Message(topic, b"delayed", delay=timedelta(seconds=3)))
        past = await producer.send(Message(topic, b"now", delay=timedelta(seconds=-3)))
        assert await producer.recall_handle(topic, recalled.recall_handle) == recalled.message_id
        views = await received(consumer, 2)
        assert datetime.now(UTC) >= began + timedelta(seconds=3)
        assert await consumer.receive() == []
        assert [view.body for view in views] == [b"now", b"delayed"]
        with pytest.raises(ternmq.BadRequest, match="isn't a delayed message that waits"):
            await producer.recall(past)
        with pytest.raises(ternmq.InternalError):
            await producer.recall_handle(topic, recalled.recall_handle)  # its time has passed by now
        with pytest.raises(ternmq.BadRequest, match="ILLEGAL_MESSAGE_PROPERTY_KEY"):
            await producer.send(Message(topic, b"x", delay_level=1))


async def test_a_priority_is_delivered(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, "PRIORITY")
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        expected: list[tuple[str, int | None, int]] = []
        for priority, queue_id in ((0, 0), (2, 2), (9, 3)):
            receipt = await producer.send(Message(topic, b"x", priority=priority))
            expected.append((receipt.message_id, priority, queue_id))
        views = await received(consumer, 3)
    assert sorted((view.message_id, view.priority, view.queue_id) for view in views) == sorted(expected)
