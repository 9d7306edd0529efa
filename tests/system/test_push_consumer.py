"""Push consumers of the library on the whole stack: what a listener wants decides when a message comes again."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, MessageView, RetryLater
from ternmq.testing import Stack
from tests.support.until import until

# Longer than any test: what comes again within one does not come by the group's back-off.
BACKOFF = "customized:1h"
AT_ONCE = timedelta(0)
PATIENCE_S = 20
Kind = Literal["normal", "fifo"]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(default_queues=1) as running:
        yield running


class Attempts:
    """A listener that wants each message again, until its third attempt."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.settled = threading.Event()

    def __call__(self, view: MessageView) -> None:
        self.seen.append(view.delivery_attempt)
        if view.delivery_attempt < 3:
            raise RetryLater(AT_ONCE)
        self.settled.set()


async def prepared(stack: Stack, name: str, kind: Kind) -> None:
    """A topic and a group of that name, with one message."""
    async with ternmq.Admin(stack.endpoint) as admin, ternmq.Producer(stack.endpoint) as producer:
        await admin.create_topic(name, kind)
        await admin.create_group(name, fifo=kind == "fifo", retry_backoff=BACKOFF)
        await producer.send(Message(name, b"x", message_group="g" if kind == "fifo" else None))


@pytest.mark.parametrize("kind", ["normal", "fifo"])
async def test_a_message_comes_again_when_the_listener_wants_it(stack: Stack, kind: Kind) -> None:
    name = f"asyncio-{kind}"
    await prepared(stack, name, kind)
    attempts = Attempts()

    async def listener(view: MessageView) -> None:
        attempts(view)

    consumer = ternmq.PushConsumer(stack.endpoint, name, {name: "*"}, listener)
    async with consumer, asyncio.timeout(PATIENCE_S):
        await until(attempts.settled.is_set)
    assert attempts.seen == [1, 2, 3]


@pytest.mark.parametrize("kind", ["normal", "fifo"])
async def test_the_same_of_the_blocking_consumer(stack: Stack, kind: Kind) -> None:
    name = f"blocking-{kind}"
    await prepared(stack, name, kind)
    attempts = Attempts()

    def use() -> bool:
        with ternmq.blocking.PushConsumer(stack.endpoint, name, {name: "*"}, attempts):
            return attempts.settled.wait(timeout=PATIENCE_S)

    assert await asyncio.to_thread(use)
    assert attempts.seen == [1, 2, 3]
