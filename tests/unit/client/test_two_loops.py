"""A client that is used in another event loop than that of its start, as by two calls of `asyncio.run`."""

import asyncio
import gc
import warnings
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import ternmq
from ternmq import Message
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

ALL = {TOPIC: "*"}
TEXT = "belongs to the event loop in which it was started, which has ended: start and use it in one `asyncio.run`"
KINDS: list[tuple[Callable[[str], Any], Callable[[Any], Awaitable[object]]]] = [
    (ternmq.Producer, lambda producer: producer.send(Message(TOPIC, b"x"))),
    (lambda endpoint: ternmq.SimpleConsumer(endpoint, "g", ALL), lambda consumer: consumer.receive()),
    (lambda endpoint: ternmq.PullConsumer(endpoint, "g", ALL), lambda consumer: consumer.poll()),
    (ternmq.Admin, lambda admin: admin.list_topics()),
]


async def in_its_own_loop(work: Callable[[], Awaitable[object]]) -> None:
    async def run() -> None:
        await work()

    # When the block has ended, so has the thread, with what it keeps of an error.
    with ThreadPoolExecutor(1) as thread:
        await asyncio.get_running_loop().run_in_executor(thread, asyncio.run, run())


async def refusal_of(work: Callable[[], Awaitable[object]]) -> str:
    """The text of the error; the error itself would keep the client."""
    try:
        await in_its_own_loop(work)
    except ternmq.NotRunning as error:
        return str(error)
    return "nothing was refused"


@pytest.mark.parametrize(("make", "use"), KINDS, ids=["Producer", "SimpleConsumer", "PullConsumer", "Admin"])
async def test_the_error_names_the_rule(
    server: ScriptedServer, make: Callable[[str], Any], use: Callable[[Any], Awaitable[object]]
) -> None:
    client = make(server.endpoint)
    await in_its_own_loop(client.start)
    texts = [await refusal_of(partial(use, client)), await refusal_of(client.close)]
    assert all(TEXT in text for text in texts), texts
    # No loop is left that could close its connections: what they warn of belongs to this test.
    await asyncio.sleep(0)  # the handle of this turn has the last error
    left = weakref.ref(client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del client
        gc.collect()
    assert left() is None


async def test_acknowledging_in_another_loop_is_refused_while_the_first_one_runs(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    async with ternmq.SimpleConsumer(server.endpoint, "g", ALL) as consumer:
        [view] = await consumer.receive(1, timedelta(minutes=1))
        with pytest.raises(ternmq.NotRunning, match="belongs to the event loop in which it was started: start"):
            await in_its_own_loop(view.ack)
        await view.ack()


async def test_a_client_that_was_closed_says_so_in_every_loop(server: ScriptedServer) -> None:
    producer = ternmq.Producer(server.endpoint)
    async with producer:
        pass
    await in_its_own_loop(producer.close)
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await in_its_own_loop(producer.start)
