"""The client library against a server that isn't ours: Apache RocketMQ."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import ternmq
import ternmq.blocking
from ternmq import ConsumeResult, Message, MessageView, Producer, PushConsumer, SimpleConsumer
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.apache_round import new_names, received

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

DEADLINE_S = 60
SHORT = timedelta(seconds=5)


@pytest.fixture(scope="module")
def peer() -> Iterator[ApacheRocketMQ]:
    with ApacheRocketMQ() as running:
        yield running


async def test_what_is_sent_is_received(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer)
    subscriptions = {topic: "*"}
    async with (
        SimpleConsumer(peer.endpoint, group, subscriptions, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        receipt = await producer.send(Message(topic, b"one", tag="t", keys=("k1", "k2"), properties={"a": "b"}))
        [view] = await received(consumer, 1)
        assert (view.message_id, view.body, view.tag) == (receipt.message_id, b"one", "t")
        assert (view.keys, view.properties) == (("k1", "k2"), {"a": "b"})
        assert (view.delivery_attempt, view.intact, view.topic) == (1, True, topic)
        assert view.born_timestamp is not None
        assert await consumer.receive() == []


async def test_many_messages_have_their_own_ids_and_offsets(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer)
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        receipts = await producer.send_many(Message(topic, b"%d" % number) for number in range(500))
        views = await received(consumer, 500)
    sent = {receipt.message_id: receipt.offset for receipt in receipts}
    assert len(sent) == 500
    assert {view.message_id: view.offset for view in views} == sent
    assert {sent[view.message_id]: view.body for view in views} == {
        receipt.offset: b"%d" % number for number, receipt in enumerate(receipts)
    }


async def test_a_changed_invisible_duration_brings_a_message_back(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer)
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        await producer.send(Message(topic, b"x"))
        async with asyncio.timeout(DEADLINE_S):
            while not (views := await consumer.receive()):
                pass
        first_handle = views[0].receipt_handle
        await consumer.change_invisible_duration(views[0], timedelta(seconds=1))
        assert views[0].receipt_handle != first_handle
        [again] = await received(consumer, 1)
        assert (again.message_id, again.delivery_attempt) == (views[0].message_id, 2)


async def test_a_push_consumer_gets_all_and_failures_again(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer)
    attempts: defaultdict[str, list[int]] = defaultdict(list)
    done: set[bytes] = set()
    all_done = asyncio.Event()

    async def listener(view: MessageView) -> ConsumeResult:
        attempts[view.message_id].append(view.delivery_attempt)
        if view.tag == "fails" and view.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        done.add(view.body)
        if len(done) == 300:
            all_done.set()
        return ConsumeResult.SUCCESS

    async with (
        PushConsumer(peer.endpoint, group, {topic: "*"}, listener),
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        receipts = await producer.send_many(
            Message(topic, b"%d" % number, tag="fails" if number == 7 else "works") for number in range(300)
        )
        async with asyncio.timeout(DEADLINE_S):
            await all_done.wait()
    assert attempts.pop(receipts[7].message_id) == [1, 2]
    assert set(map(tuple, attempts.values())) == {(1,)}
    async with SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer:
        assert await consumer.receive() == []  # everything was acknowledged


async def test_an_ordered_group_keeps_the_order_of_a_message_group(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, kind="FIFO", ordered=True)
    order: defaultdict[str, list[int]] = defaultdict(list)
    failed_once: set[bytes] = set()
    all_done = asyncio.Event()

    async def listener(view: MessageView) -> ConsumeResult:
        if view.body == b"5" and view.body not in failed_once:
            failed_once.add(view.body)
            return ConsumeResult.FAILURE
        assert view.message_group is not None
        order[view.message_group].append(int(view.body))
        if sum(map(len, order.values())) == 60:
            all_done.set()
        return ConsumeResult.SUCCESS

    async with (
        PushConsumer(peer.endpoint, group, {topic: "*"}, listener),
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        for number in range(20):
            for name in ("a", "b", "c"):
                await producer.send(Message(topic, b"%d" % number, message_group=name))
        async with asyncio.timeout(DEADLINE_S):
            await all_done.wait()
    assert order == {name: list(range(20)) for name in ("a", "b", "c")}


async def test_a_delayed_message_comes_in_its_time(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer, kind="DELAY")
    due = datetime.now(UTC) + timedelta(seconds=3)
    async with (
        SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        await producer.send(Message(topic, b"x", delivery_timestamp=due))
        [view] = await received(consumer, 1)
    assert datetime.now(UTC) >= due
    assert view.delivery_timestamp == due.replace(microsecond=due.microsecond // 1000 * 1000)


async def test_refusals_are_typed(peer: ApacheRocketMQ) -> None:
    topic, _ = new_names(peer)
    async with Producer(peer.endpoint) as producer:
        with pytest.raises(ternmq.NotFound):
            await producer.send(Message("no-such-topic", b"x"))
        with pytest.raises(ternmq.BadRequest, match="MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"):
            await producer.send(Message(topic, b"x", message_group="g"))
    with pytest.raises(ternmq.BadRequest):
        await SimpleConsumer(peer.endpoint, "no-such-group", {topic: "*"}).start()


def test_the_blocking_clients_work_too(peer: ApacheRocketMQ) -> None:
    topic, group = new_names(peer)
    with (
        ternmq.blocking.SimpleConsumer(peer.endpoint, group, {topic: "*"}, await_duration=SHORT) as consumer,
        ternmq.blocking.Producer(peer.endpoint, topics=[topic]) as producer,
    ):
        receipt = producer.send(Message(topic, b"x"))
        views = consumer.receive()
        consumer.ack(views)
    assert [view.message_id for view in views] == [receipt.message_id]
