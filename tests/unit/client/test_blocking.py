"""The clients without `async`."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, MessageQueue, MessageView, TransactionResolution
from ternmq.background import THREAD_NAME
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.pull_support import CALM, LONG_S, commits, numbered, queue
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, orphan, stored_message


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


async def test_transactions_and_recalls_work_from_a_thread(server: ScriptedServer) -> None:
    def interrupted(producer: ternmq.blocking.Producer) -> None:
        with producer.begin_transaction() as transaction:
            transaction.send(Message(TOPIC, b"dropped"))
            raise KeyboardInterrupt

    def use() -> None:
        with ternmq.blocking.Producer(server.endpoint, topics=[TOPIC]) as producer:
            with producer.begin_transaction(recovery=timedelta(seconds=30)) as transaction:
                transaction.send(Message(TOPIC, b"committed"))
            with pytest.raises(KeyboardInterrupt):
                interrupted(producer)
            with producer.begin_transaction() as transaction:
                transaction.send(Message(TOPIC, b"dropped"))
                transaction.rollback()
                with pytest.raises(ternmq.BadRequest):
                    transaction.commit()
            receipt = producer.send(Message(TOPIC, b"x", delay=timedelta(hours=1)))
            producer.recall(receipt)
            assert producer.recall_handle(TOPIC, "handle") == "id of handle"

    await asyncio.to_thread(use)
    resolutions = [request.resolution for request in server.requests["EndTransaction"]]
    assert resolutions == [pb.COMMIT, pb.ROLLBACK, pb.ROLLBACK]
    assert len(server.requests["RecallMessage"]) == 2


async def test_a_checker_may_block_and_use_the_clients(server: ScriptedServer) -> None:
    done = threading.Event()

    def check(view: MessageView) -> TransactionResolution:
        producer.send(Message(TOPIC, view.body))
        return TransactionResolution.COMMIT

    def use() -> None:
        with producer:
            done.wait(timeout=LONG_S)

    producer = ternmq.blocking.Producer(server.endpoint, topics=[TOPIC], checker=check)
    using = asyncio.create_task(asyncio.to_thread(use))
    server.commands.put_nowait(orphan(1))
    [request] = await server.asked("EndTransaction")
    done.set()
    await using
    assert (request.resolution, request.source) == (pb.COMMIT, pb.SOURCE_SERVER_CHECK)
    assert server.requests["SendMessage"][0].messages[0].body == b"body 1"


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


async def test_a_pull_consumer_works_from_a_thread(server: ScriptedServer) -> None:
    threads: list[str] = []

    def listen(assigned: list[MessageQueue], _: list[MessageQueue]) -> None:
        threads.append(threading.current_thread().name)
        consumer.seek(assigned[0], 1)
        assert consumer.position(assigned[0]) == 1

    def use() -> None:
        with consumer:
            assert consumer.assignment() == [queue(0)]
            assert [view.body for view in consumer.poll(2, timeout=LONG_S)] == [b"1", b"2"]
            consumer.commit()
            assert consumer.committed(queue(0)) == 3
            consumer.pause()
            consumer.seek_to_end()
            consumer.seek_to_time(datetime(1970, 1, 1, tzinfo=UTC))
            consumer.seek_to_beginning(queue(0))
            consumer.resume()
            for view in consumer:
                if view.offset == 4:
                    consumer.close()
        with pytest.raises(StopIteration):
            next(consumer)

    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(0), *numbered(5))
    consumer = ternmq.blocking.PullConsumer(server.endpoint, "g", {TOPIC: "*"}, on_assignment=listen, timing=CALM)
    await asyncio.to_thread(use)
    assert commits(server) == [(0, 3), (0, 5)]
    assert threads != [THREAD_NAME]


async def test_a_blocking_block_that_fails_leaves_its_message_uncommitted(server: ScriptedServer) -> None:
    def use() -> None:
        with ternmq.blocking.PullConsumer(
            server.endpoint, "g", {TOPIC: "*"}, start_from="earliest", timing=CALM
        ) as consumer:
            for view in consumer:
                if view.offset == 2:
                    raise RuntimeError("scripted")

    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(0), *numbered(5))
    with pytest.raises(RuntimeError, match="scripted"):
        await asyncio.to_thread(use)
    assert commits(server) == [(0, 2)]


@pytest.mark.parametrize("name", ["Producer", "SimpleConsumer", "PushConsumer", "PullConsumer"])
def test_arguments_and_methods_are_those_of_the_asyncio_clients(name: str) -> None:
    blocking, original = getattr(ternmq.blocking, name), getattr(ternmq, name)
    assert inspect.signature(blocking.__init__) == inspect.signature(original.__init__)
    for method, function in inspect.getmembers(original, inspect.isfunction):
        if not method.startswith("_"):
            assert shape(getattr(blocking, method)) == shape(function)


def shape(function: Callable[..., object]) -> tuple[object, str]:
    """The parameters, and the result by its name: what makes a blocking object has the name of its original."""
    signature = inspect.signature(function)
    result = signature.return_annotation
    return signature.parameters, getattr(result, "__name__", str(result))


async def test_a_listener_of_the_blocking_consumer_says_when_it_wants_the_message_again(server: ScriptedServer) -> None:
    ended = threading.Event()

    def listener(_: MessageView) -> None:
        raise ternmq.RetryLater(timedelta(minutes=5))

    def use() -> None:
        with ternmq.blocking.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener):
            ended.wait(timeout=LONG_S)

    server.deliver(stored_message(1))
    using = asyncio.create_task(asyncio.to_thread(use))
    try:
        [change] = await server.asked("ChangeInvisibleDuration")
    finally:
        ended.set()
        await using
    assert change.invisible_duration.ToTimedelta() == timedelta(minutes=5)
    assert not server.requests["AckMessage"]
