"""What becomes of messages whose receive was cancelled: the next one has them, or they go back at once."""

import asyncio
import random
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import ternmq
from ternmq import Message, MessageView, Producer, PushConsumer, SimpleConsumer, Timing
from ternmq.background import run_and_wait
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, local_settings
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

GROUP = "billing"
HIDDEN = timedelta(hours=12)  # what stays hidden is not seen again in any test
COUNT = 300
SUBSCRIPTIONS = {TOPIC: "*"}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path)) as running:
        yield running


class Inbox:
    """What was received and acknowledged, in its order."""

    def __init__(self) -> None:
        self.bodies: defaultdict[str | None, list[bytes]] = defaultdict(list)
        self.attempts: set[int] = set()
        self.count = 0

    async def take(self, consumer: SimpleConsumer, views: list[ternmq.ReceivedMessage]) -> None:
        await consumer.ack(views)
        for view in views:
            self.bodies[view.message_group].append(view.body)
            self.attempts.add(view.delivery_attempt)
            self.count += 1


async def receive_impatiently(consumer: SimpleConsumer, inbox: Inbox) -> int:
    """Until all are there, with timeouts about as long as a delivery takes; how many passed."""
    rng, timeouts = random.Random(5), 0
    while inbox.count < COUNT:
        try:
            views = await asyncio.wait_for(consumer.receive(4, HIDDEN), rng.uniform(0.0, 0.004))
        except TimeoutError:
            timeouts += 1
        else:
            await inbox.take(consumer, views)
    return timeouts


async def send_in_turn(endpoint: str, groups: list[str | None]) -> dict[str | None, list[bytes]]:
    sent: defaultdict[str | None, list[bytes]] = defaultdict(list)
    async with Producer(endpoint, topics=[TOPIC]) as producer:
        for number in range(COUNT):
            group, body = groups[number % len(groups)], str(number).encode()
            await producer.send(Message(TOPIC, body, message_group=group))
            sent[group].append(body)
    return sent


@pytest.mark.parametrize(("kind", "groups"), [(pb.NORMAL, [None]), (pb.FIFO, ["a", "b", "c"])])
async def test_receives_with_short_timeouts_lose_and_delay_nothing(
    stack: Embedded, kind: pb.MessageType, groups: list[str | None]
) -> None:
    async with RawClient(stack.grpc) as operator:
        await operator.create_topic(TOPIC, kind=kind)
        await operator.create_group(GROUP, fifo=kind == pb.FIFO)
    inbox = Inbox()
    async with SimpleConsumer(stack.grpc, GROUP, SUBSCRIPTIONS) as consumer:
        sent, timeouts = await asyncio.gather(send_in_turn(stack.grpc, groups), receive_impatiently(consumer, inbox))
    assert timeouts > 0
    assert inbox.attempts == {1}
    if kind == pb.FIFO:
        assert inbox.bodies == sent
    else:
        assert sorted(inbox.bodies[None]) == sorted(sent[None])


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO])
async def test_closing_behind_a_cancelled_receive_hides_nothing(stack: Embedded, kind: pb.MessageType) -> None:
    async with RawClient(stack.grpc) as operator:
        await operator.create_topic(TOPIC, kind=kind)
        await operator.create_group(GROUP, fifo=kind == pb.FIFO)
    group = "a" if kind == pb.FIFO else None
    inbox, rng, count = Inbox(), random.Random(6), 20
    async with Producer(stack.grpc, topics=[TOPIC]) as producer:
        for number in range(count):
            async with SimpleConsumer(stack.grpc, GROUP, SUBSCRIPTIONS) as closed:
                receiving = asyncio.create_task(closed.receive(1, HIDDEN))
                sending = asyncio.create_task(producer.send(Message(TOPIC, b"%d" % number, message_group=group)))
                await asyncio.wait([receiving], timeout=rng.uniform(0.0, 0.01))
                if not receiving.cancel():
                    await inbox.take(closed, receiving.result())
            await sending
    async with SimpleConsumer(stack.grpc, GROUP, SUBSCRIPTIONS) as consumer:
        while inbox.count < count:
            await inbox.take(consumer, await consumer.receive(32, HIDDEN))
    assert inbox.attempts == {1}


async def cancelled_receive(consumer: SimpleConsumer, server: ScriptedServer, asked: int = 1) -> None:
    receiving = asyncio.create_task(consumer.receive(8, HIDDEN))
    await server.asked("ReceiveMessage", asked)
    receiving.cancel()
    await asyncio.wait([receiving])


def given_back(server: ScriptedServer) -> list[tuple[str, float, bool]]:
    return [
        (change.message_id, change.invisible_duration.ToMilliseconds() / 1000, change.suspend)
        for change in server.requests["ChangeInvisibleDuration"]
    ]


async def test_what_comes_behind_a_cancelled_receive_goes_back_and_counts_as_no_attempt(
    server: ScriptedServer,
) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await cancelled_receive(consumer, server)
        server.deliver(stored_message(1), stored_message(2))
        await server.asked("ChangeInvisibleDuration", 2)
    assert sorted(given_back(server)) == [("id-1", 0.0, True), ("id-2", 0.0, True)]


async def test_the_next_receive_takes_over_what_a_cancelled_one_has_asked(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await cancelled_receive(consumer, server)
        receiving = asyncio.create_task(consumer.receive(8, HIDDEN))
        server.deliver(stored_message(1))
        [view] = await receiving
    assert view.message_id == "id-1"
    assert len(server.requests["ReceiveMessage"]) == 1
    assert given_back(server) == []


async def test_the_next_receive_has_its_own_terms(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await cancelled_receive(consumer, server)
        receiving = asyncio.create_task(consumer.receive(1, timedelta(seconds=40)))
        server.deliver(stored_message(1), stored_message(2))
        [view] = await receiving
        await server.asked("ChangeInvisibleDuration", 2)
    assert (view.message_id, view.receipt_handle) == ("id-1", "handle-1'")
    assert sorted(given_back(server)) == [("id-1", 40.0, False), ("id-2", 0.0, True)]


async def test_the_next_receive_asks_again_when_what_it_took_over_ends_early(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await cancelled_receive(consumer, server)
        receiving = asyncio.create_task(consumer.receive(8, HIDDEN))
        server.end_poll(pb.MESSAGE_NOT_FOUND)
        _, request = await server.asked("ReceiveMessage", 2)
        server.deliver(stored_message(1))
        assert len(await receiving) == 1
    assert 5 < request.long_polling_timeout.seconds <= 15


async def test_closing_gives_back_what_was_on_its_way_before_the_goodbye(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await cancelled_receive(consumer, server)
        server.deliver(stored_message(1))
    assert given_back(server) == [("id-1", 0.0, True)]
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_a_closing_push_consumer_gives_back_what_was_on_its_way(server: ScriptedServer) -> None:
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, lambda _: None):
        await server.asked("ReceiveMessage")
        server.deliver(stored_message(1))
    assert given_back(server) == [("id-1", 0.0, True)]
    assert server.requests["AckMessage"] == []


async def test_what_the_last_poll_of_a_queue_brings_is_consumed(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    seen: asyncio.Queue[str] = asyncio.Queue()

    def listener(view: MessageView) -> None:
        loop.call_soon_threadsafe(seen.put_nowait, view.message_id)

    loop = asyncio.get_running_loop()
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, timing=Timing(assignment_s=1e6)) as consumer:
        await server.asked("ReceiveMessage")
        await consumer._assign_queues()
        assert consumer._receiving == {}
        server.deliver(stored_message(1))
        assert await seen.get() == "id-1"


def test_a_result_that_an_interrupted_caller_does_not_get_is_unclaimed() -> None:
    main, unclaimed, has_come = threading.main_thread(), [], threading.Event()

    async def work() -> str:
        assert main.ident is not None
        while sys._current_frames()[main.ident].f_code is not threading.Condition.wait.__code__:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        signal.pthread_kill(main.ident, signal.SIGINT)
        return "messages"

    def take(result: str) -> None:
        unclaimed.append(result)
        has_come.set()

    with pytest.raises(KeyboardInterrupt):
        run_and_wait(work(), take)
    assert has_come.wait(timeout=60)
    assert unclaimed == ["messages"]
