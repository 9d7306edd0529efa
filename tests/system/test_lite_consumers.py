"""Consumers of lite topics of the library on the whole stack: order, retries, suspensions, takeovers, restarts."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import ternmq
import ternmq.blocking
from ternmq import (
    LitePushConsumer,
    LiteSimpleConsumer,
    Message,
    MessageView,
    Producer,
    RetryLater,
    Suspend,
)
from ternmq.testing import Stack
from tests.support.until import until, until_late

PATIENCE_S = 20
LONG = timedelta(seconds=15)
BODIES = [b"0", b"1", b"2"]


@pytest.fixture
def topic(stack: Stack) -> str:
    return stack.create_topic(stack.fresh_name("chats"), "lite")


@pytest.fixture
async def producer(stack: Stack) -> AsyncIterator[Producer]:
    async with Producer(stack.endpoint) as running:
        yield running


def group_of(stack: Stack, topic: str, *, exclusive: bool = False, quota: int | None = None, attempts: int = 3) -> str:
    return stack.create_group(
        stack.fresh_name("agents"),
        lite_bind=topic,
        lite_model="exclusive" if exclusive else "shared",
        lite_quota=quota,
        max_attempts=attempts,
        retry_backoff="customized:1ms",
    )


class Heard:
    """A listener that keeps what it gets; `until` waits for so many messages."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes, int]] = []

    async def __call__(self, view: MessageView) -> None:
        assert view.lite_topic is not None
        self.seen.append((view.lite_topic, view.body, view.delivery_attempt))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: len(self.seen) >= count)

    def of(self, name: str) -> list[bytes]:
        return [body for lite_topic, body, _ in self.seen if lite_topic == name]


async def send(producer: Producer, topic: str, name: str, *bodies: bytes) -> None:
    for body in bodies:
        await producer.send(Message(topic, body, lite_topic=name))


async def taken(consumer: LiteSimpleConsumer, count: int) -> list[tuple[str | None, bytes]]:
    """So many messages, each batch acknowledged before the next one is asked for."""
    found: list[tuple[str | None, bytes]] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            views = await consumer.receive()
            await consumer.ack(views)
            found += [(view.lite_topic, view.body) for view in views]
    return found


# --- the push consumer


async def test_what_is_subscribed_while_it_runs_comes_and_what_is_not_any_more_does_not(
    stack: Stack, topic: str, producer: Producer
) -> None:
    heard = Heard()
    await send(producer, topic, "a", b"early")
    async with LitePushConsumer(stack.endpoint, group_of(stack, topic), topic, heard, lite_topics=["b"]) as consumer:
        await consumer.subscribe_lite("a")
        await heard.until(1)
        await send(producer, topic, "a", b"late")
        await heard.until(2)
        await consumer.unsubscribe_lite("a")
        await send(producer, topic, "a", b"never")
        await send(producer, topic, "b", b"last")
        await heard.until(3)
    assert heard.seen == [("a", b"early", 1), ("a", b"late", 1), ("b", b"last", 1)]


async def test_each_lite_topic_is_in_order_and_one_that_is_slow_holds_up_no_other(
    stack: Stack, topic: str, producer: Producer
) -> None:
    names = [f"n{number}" for number in range(8)]
    heard, running, others_done = Heard(), set[str](), asyncio.Event()

    async def listener(view: MessageView) -> None:
        name = view.lite_topic or ""
        assert name not in running
        running.add(name)
        if name == "n0":
            await others_done.wait()
        running.discard(name)
        await heard(view)

    group = group_of(stack, topic)
    async with LitePushConsumer(stack.endpoint, group, topic, listener, lite_topics=names):
        bodies = [b"%d" % number for number in range(20)]
        await asyncio.gather(*(send(producer, topic, name, *bodies) for name in names))
        await heard.until(20 * 7)
        assert heard.of("n0") == []
        others_done.set()
        await heard.until(20 * 8)
    for name in names:
        assert heard.of(name) == bodies


async def test_a_message_that_fails_is_repeated_before_its_followers_and_is_a_dead_letter_in_the_end(
    stack: Stack, topic: str, producer: Producer
) -> None:
    heard, group = Heard(), group_of(stack, topic)

    async def listener(view: MessageView) -> None:
        await heard(view)
        if view.body == b"bad":
            raise RetryLater(timedelta(0))

    async with LitePushConsumer(stack.endpoint, group, topic, listener, lite_topics=["a"]):
        await send(producer, topic, "a", b"good", b"bad", b"next")
        await heard.until(5)
    assert heard.seen == [("a", b"good", 1), *(("a", b"bad", attempt) for attempt in (1, 2, 3)), ("a", b"next", 1)]
    async with ternmq.Admin(stack.endpoint) as admin:
        letters = [letter.body async for letter in admin.list_dead_letters(group)]
    assert letters == [b"bad"]


async def test_a_suspended_lite_topic_rests_while_others_go_on_and_counts_no_attempt(
    stack: Stack, topic: str, producer: Producer
) -> None:
    heard, rests = Heard(), True

    async def listener(view: MessageView) -> None:
        if view.lite_topic == "a" and view.body == b"1" and rests:
            raise Suspend(timedelta(hours=1))
        await heard(view)

    await send(producer, topic, "a", *BODIES)
    group = group_of(stack, topic)
    async with LitePushConsumer(stack.endpoint, group, topic, listener, lite_topics=["a", "b"]):
        await heard.until(1)
        await send(producer, topic, "b", *BODIES)
        await send(producer, topic, "a", b"3")
        await heard.until(4)
        assert heard.of("a") == [b"0"]
        rests = False
        stack.advance(timedelta(minutes=61))
        await heard.until(7)
    assert heard.of("a") == [*BODIES, b"3"]
    assert {attempt for _, _, attempt in heard.seen} == {1}


async def test_who_closes_leaves_the_rest_to_others_in_order(stack: Stack, topic: str, producer: Producer) -> None:
    group, is_in, go_on, first, second = group_of(stack, topic), asyncio.Event(), asyncio.Event(), Heard(), Heard()

    async def listener(view: MessageView) -> None:
        is_in.set()
        await go_on.wait()
        await first(view)

    await send(producer, topic, "a", *BODIES)
    leaving = await LitePushConsumer(stack.endpoint, group, topic, listener, lite_topics=["a"]).start()
    await is_in.wait()
    closing = asyncio.create_task(leaving.close())
    async with LitePushConsumer(stack.endpoint, group, topic, second, lite_topics=["a"]):
        go_on.set()
        await closing
        await send(producer, topic, "a", b"3")
        await second.until(3)
    assert first.seen == [("a", b"0", 1)]
    assert second.seen == [("a", body, 1) for body in (b"1", b"2", b"3")]


async def test_a_restarted_server_delivers_at_once() -> None:
    """The period of telling everything again is far longer than the test's patience for each message."""
    with Stack() as stack:
        topic = stack.create_topic("chats", "lite")
        group = group_of(stack, topic)
        heard = Heard()
        async with (
            Producer(stack.endpoint) as producer,
            LitePushConsumer(stack.endpoint, group, topic, heard, lite_topics=["a"]) as consumer,
            LiteSimpleConsumer(stack.endpoint, group, topic) as reader,
        ):
            await reader.subscribe_lite("b")
            await send(producer, topic, "a", b"before")
            await heard.until(1)
            await asyncio.to_thread(stack.restart)
            await send(producer, topic, "a", b"after")
            await send(producer, topic, "b", b"simple")
            await heard.until(2)
            async with asyncio.timeout(PATIENCE_S):
                while not (views := await received_again(reader)):
                    pass
            assert [*consumer.lite_topics, *reader.lite_topics] == ["a", "b"]
    assert heard.of("a") == [b"before", b"after"]
    assert [view.body for view in views] == [b"simple"]


async def received_again(consumer: LiteSimpleConsumer) -> list[ternmq.ReceivedMessage]:
    try:
        return await consumer.receive()
    except ternmq.TransportError:
        return []


# --- exclusive groups


async def test_who_takes_over_does_not_wait_for_what_fails_elsewhere(
    stack: Stack, topic: str, producer: Producer
) -> None:
    group = stack.create_group(
        stack.fresh_name("agents"), lite_bind=topic, lite_model="exclusive", retry_backoff="customized:2h"
    )
    failed, second = asyncio.Event(), Heard()

    async def fails(_: MessageView) -> None:
        failed.set()
        raise RetryLater(timedelta(hours=1))

    async with (
        LitePushConsumer(stack.endpoint, group, topic, fails, lite_topics=["a"]) as before,
        LitePushConsumer(stack.endpoint, group, topic, second) as after,
    ):
        await send(producer, topic, "a", *BODIES)
        await failed.wait()
        await after.subscribe_lite("a")
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: not before.lite_topics)
            await until_late(stack, 1800, lambda: len(second.seen) == 3)
    assert second.of("a") == BODIES


# --- the simple consumer


async def test_a_simple_consumer_receives_acknowledges_and_gives_back(
    stack: Stack, topic: str, producer: Producer
) -> None:
    group = group_of(stack, topic)
    await send(producer, topic, "a", *BODIES)
    async with LiteSimpleConsumer(stack.endpoint, group, topic, lite_topics=["a"], await_duration=LONG) as consumer:
        first, second, third = await consumer.receive()
        assert (first.lite_topic, first.body, first.offset) == ("a", b"0", 0)
        await first.ack()
        for view in (second, third):
            await view.nack()
        again = await consumer.receive()
        assert [(view.body, view.delivery_attempt) for view in again] == [(b"1", 2), (b"2", 2)]
        await consumer.ack(again)
        await consumer.unsubscribe_lite("a")
        await send(producer, topic, "a", b"3")
        await consumer.subscribe_lite("b")
        await send(producer, topic, "b", b"x")
        assert await taken(consumer, 1) == [("b", b"x")]


async def test_a_wildcard_group_has_all_lite_topics(stack: Stack, topic: str, producer: Producer) -> None:
    heard = Heard()
    group = stack.create_group(stack.fresh_name("all"), lite_bind=topic, lite_wildcard=True)
    await send(producer, topic, "old", b"1")
    async with LitePushConsumer(stack.endpoint, group, topic, heard):
        await heard.until(1)
        await send(producer, topic, "new", b"2")
        await heard.until(2)
    assert heard.seen == [("old", b"1", 1), ("new", b"2", 1)]
