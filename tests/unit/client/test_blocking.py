"""The clients without `async`."""

import asyncio
import inspect
import threading
from datetime import timedelta

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, MessageView
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message


async def test_all_clients_work_from_a_thread(server: ScriptedServer) -> None:
    seen = threading.Event()

    def listener(_: MessageView) -> None:
        seen.set()

    def use() -> None:
        with ternmq.blocking.Producer(server.endpoint, topics=[TOPIC]) as producer:
            assert producer.send(Message(TOPIC, b"x")).offset == 1
            assert [receipt.offset for receipt in producer.send_many([Message(TOPIC, b"y")] * 3)] == [2, 3, 4]
            with pytest.raises(ternmq.BadRequest):
                producer.recall(producer.send(Message(TOPIC, b"x")))
        with pytest.raises(ternmq.NotRunning):
            producer.send(Message(TOPIC, b"x"))
        with ternmq.blocking.SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}) as consumer:
            [view] = consumer.receive(1, timedelta(seconds=20))
            consumer.change_invisible_duration(view, timedelta(seconds=1))
            consumer.ack(view)
        with ternmq.blocking.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener):
            assert seen.wait(timeout=60)

    server.deliver(stored_message(1))
    using = asyncio.create_task(asyncio.to_thread(use))
    await server.asked("AckMessage")
    server.deliver(stored_message(2))
    await using
    assert len(server.requests["NotifyClientTermination"]) == 3


async def test_a_call_on_the_loop_of_the_clients_would_never_end(server: ScriptedServer) -> None:
    refused: list[Exception] = []

    def use() -> None:
        producer = ternmq.blocking.Producer(server.endpoint, topics=[TOPIC])

        async def listener(_: MessageView) -> None:
            try:
                producer.send(Message(TOPIC, b"x"))
            except ternmq.NotRunning as error:
                refused.append(error)

        with producer, ternmq.blocking.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener):
            done.wait(timeout=60)

    done = threading.Event()
    server.deliver(stored_message(1))
    using = asyncio.create_task(asyncio.to_thread(use))
    await server.asked("AckMessage")
    done.set()
    await using
    assert "its own event loop" in str(refused[0])


@pytest.mark.parametrize("name", ["Producer", "SimpleConsumer", "PushConsumer"])
def test_arguments_and_methods_are_those_of_the_asyncio_clients(name: str) -> None:
    blocking, original = getattr(ternmq.blocking, name), getattr(ternmq, name)
    assert inspect.signature(blocking.__init__) == inspect.signature(original.__init__)
    for method, function in inspect.getmembers(original, inspect.iscoroutinefunction):
        if not method.startswith("_"):
            assert inspect.signature(getattr(blocking, method)) == inspect.signature(function)
