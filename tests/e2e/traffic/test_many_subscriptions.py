"""One push consumer with a thousand subscriptions: a poll waits for each, and the rest of its calls don't."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq import (
    Admin,
    ClientError,
    ConnectionEvent,
    ConnectionState,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    Timing,
)
from ternmq_common.limits import SETTINGS_TOPICS_MAX
from tests.e2e.traffic.server import make_topics, metric
from tests.support.stack import Stack
from tests.support.until import until, until_in_thread

pytestmark = [pytest.mark.slow]

GROUP = "subscribes-to-all"
TOPICS = [f"topic-{number:04}" for number in range(SETTINGS_TOPICS_MAX)]
MESSAGES_OF_A_TOPIC = 2
PATIENCE_S = 100.0
# Less than a poll waits.
REQUEST_TIMEOUT_S = 10.0
# Assignments are asked for once: each of them is a call.
TIMING = Timing(assignment_s=PATIENCE_S, route_refresh_s=PATIENCE_S)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path)
    make_topics(stack, [*TOPICS, "one-more"])
    with stack:
        yield stack


async def test_a_consumer_of_all_topics_that_settings_may_name_gets_and_settles_what_comes_to_each(
    stack: Stack,
) -> None:
    received, heard = Counter[tuple[str, bytes]](), list[ConnectionEvent]()
    expected = {(topic, b"%d" % number): 1 for topic in TOPICS for number in range(MESSAGES_OF_A_TOPIC)}

    async def listen(view: MessageView) -> None:
        received[view.topic, view.body] += 1

    async with (
        asyncio.timeout(2 * PATIENCE_S),
        Admin(stack.grpc, request_timeout=PATIENCE_S) as admin,
        Producer(stack.grpc, topics=TOPICS, request_timeout=PATIENCE_S) as producer,
    ):
        consumer = PushConsumer(
            stack.grpc,
            GROUP,
            dict.fromkeys(TOPICS, "*"),
            listen,
            request_timeout=REQUEST_TIMEOUT_S,
            timing=TIMING,
            on_connection=heard.append,
        )
        async with consumer:
            await until_in_thread(lambda: metric(stack, "ternmq_broker_polls") == len(TOPICS))
            for topic, body in expected:
                await producer.send(Message(topic, body))
            await until(lambda: received.total() >= len(expected))
            assert received == expected
            await until_lag(admin, 0)
            # All polls wait again, and acknowledgements did not wait for one to end.
            assert [event.state for event in heard] == [ConnectionState.CONNECTED]
        for topic in TOPICS:
            await producer.send(Message(topic, b"later"))
        await until_lag(admin, len(TOPICS))


async def until_lag(admin: Admin, lag: int) -> None:
    while (await admin.describe_group(GROUP)).lag != lag:
        pass


async def test_settings_with_one_topic_more_are_refused_with_a_word_why(stack: Stack) -> None:
    subscriptions = dict.fromkeys([*TOPICS, "one-more"], "*")
    consumer = PushConsumer(stack.grpc, GROUP, subscriptions, lambda _: None)
    with pytest.raises(ClientError, match=f"the settings name {len(subscriptions)} topics; {SETTINGS_TOPICS_MAX} are"):
        await consumer.start()
