"""The broker for taskiq on a real server: what is kicked is executed, in its time, and once if acknowledged."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from taskiq import AckableMessage, BrokerMessage, Context, SimpleRetryMiddleware, TaskiqDepends, TaskiqMiddleware
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq.exceptions import SendTaskError
from taskiq.message import TaskiqMessage

import ternmq
from ternmq.integrations.taskiq import TernmqBroker
from ternmq.testing import Stack
from tests.support.until import until, until_late

TIMEOUT_S = 60.0
APP = "tests.support.taskiq_app:broker"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


@pytest.fixture
def quick_to_forget() -> Iterator[Stack]:
    """A server that takes clients for gone as soon as it can be set."""
    with Stack(client_expiry_ms="10s") as running:
        yield running


@pytest.fixture
def broker(stack: Stack) -> TernmqBroker:
    name = stack.fresh_name()
    return TernmqBroker(stack.endpoint, topic=name, group=name)


def message(body: bytes = b"x", **labels: object) -> BrokerMessage:
    return BrokerMessage(task_id="id-1", task_name="task", message=body, labels=labels)


async def first_of(broker: TernmqBroker) -> AckableMessage:
    async with asyncio.timeout(TIMEOUT_S):
        return await anext(broker.listen())


@asynccontextmanager
async def working(broker: TernmqBroker, ack: AcknowledgeType = AcknowledgeType.WHEN_SAVED) -> AsyncIterator[None]:
    """A worker in this process."""
    broker.is_worker_process = True
    worker = asyncio.create_task(run_receiver_task(broker, run_startup=True, max_async_tasks=20, ack_time=ack))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await broker.shutdown()


async def test_what_is_kicked_is_heard(broker: TernmqBroker) -> None:
    await broker.startup()
    await broker.kick(message(b"payload \x00"))
    heard = await first_of(broker)
    assert heard.data == b"payload \x00"
    await broker.shutdown()


async def test_a_label_keeps_a_task_at_the_server_until_its_time(ternmq_server: Stack) -> None:
    # A server of its own: clocks that other tests have moved are ahead of what a delay is counted from.
    broker = TernmqBroker(ternmq_server.endpoint, topic="tasks", group="workers")
    await broker.startup()
    await broker.kick(message(b"later", delay="3600"))
    await broker.kick(message(b"soon", delay=600.5))
    await broker.kick(message(b"now"))
    listening = broker.listen()
    heard = []
    async with asyncio.timeout(TIMEOUT_S):
        heard.append((await anext(listening)).data)
        for passed in (601, 3600):
            ternmq_server.advance(passed)
            heard.append((await anext(listening)).data)
    await broker.shutdown()
    assert heard == [b"now", b"soon", b"later"]


@pytest.mark.parametrize("delay", ["soon", float("nan"), float("inf")])
async def test_a_delay_that_is_no_time_is_refused(broker: TernmqBroker, delay: object) -> None:
    await broker.startup()
    with pytest.raises(ValueError, match=r"no number|could not convert"):
        await broker.kick(message(delay=delay))
    await broker.shutdown()


async def test_the_highest_priority_that_waits_is_first(stack: Stack) -> None:
    name = stack.create_group(stack.fresh_name(), priority_factor=100)
    broker = TernmqBroker(stack.endpoint, topic=name, group=name, priorities=True, concurrency=1)
    await broker.startup()
    for number in (1, 5, 3):
        await broker.kick(message(b"%d" % number, priority=number))
    await broker.kick(message(b"0"))
    listening = broker.listen()
    async with asyncio.timeout(TIMEOUT_S):
        first = await anext(listening)
    await broker.shutdown()
    assert first.data == b"5"


async def test_a_priority_without_priorities_is_refused(broker: TernmqBroker) -> None:
    await broker.startup()
    with pytest.raises(ValueError, match="priorities=True"):
        await broker.kick(message(priority=1))
    await broker.shutdown()


async def test_an_acknowledged_task_never_comes_again_and_others_do(broker: TernmqBroker, stack: Stack) -> None:
    await broker.startup()
    await broker.kick(message(b"one"))
    await broker.kick(message(b"other"))
    listening = broker.listen()
    async with asyncio.timeout(TIMEOUT_S):
        heard = {one.data: one for one in [await anext(listening), await anext(listening)]}
        acked = heard[b"one"].ack()
        assert acked is not None
        await acked
        await broker.shutdown()
        again = TernmqBroker(stack.endpoint, topic=broker._topic, group=broker._group)
        await again.startup()
        await again.kick(message(b"last"))
        listening = again.listen()
        datas = {(await anext(listening)).data}
        stack.advance(timedelta(hours=1))
        datas.add((await anext(listening)).data)
    await again.shutdown()
    assert datas == {b"last", b"other"}


async def test_a_failed_task_is_repeated_by_taskiqs_own_middleware(broker: TernmqBroker) -> None:
    attempts: list[int] = []

    async def task() -> None:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise ValueError("not yet")

    broker.add_middlewares(SimpleRetryMiddleware(default_retry_count=5))
    decorated = broker.register_task(task, "task", retry_on_error=True)
    async with working(broker):
        await until(lambda: broker._producer is not None)
        await decorated.kiq()
        await until(lambda: len(attempts) == 3)


async def test_what_is_not_acknowledged_by_hand_is_delivered_again_while_its_worker_lives(
    broker: TernmqBroker, stack: Stack
) -> None:
    attempts: list[int] = []
    ended = asyncio.Event()

    async def task(context: Context = TaskiqDepends()) -> None:  # noqa: B008 - this is how taskiq injects
        attempts.append(len(attempts))
        if len(attempts) == 2:
            await context.ack()
            ended.set()

    decorated = broker.register_task(task, "task", ack_type="manual")
    async with working(broker):
        await until(lambda: broker._producer is not None)
        await decorated.kiq()
        await until(lambda: len(attempts) == 1)
        await until_late(stack, 30, ended.is_set)
    assert attempts == [0, 1]


async def test_what_another_middleware_keeps_from_being_executed_is_delivered_again(
    broker: TernmqBroker, stack: Stack
) -> None:
    executed = asyncio.Event()

    class FailsOnce(TaskiqMiddleware):
        failures = 0

        def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
            self.failures += 1
            if self.failures == 1:
                raise OSError("no room")
            return message

    async def task() -> None:
        executed.set()

    broker.add_middlewares(FailsOnce())
    decorated = broker.register_task(task, "task")
    async with working(broker):
        await until(lambda: broker._producer is not None)
        await decorated.kiq()
        await until_late(stack, 30, executed.is_set)


async def test_a_topic_of_another_type_is_an_error_at_the_start(stack: Stack) -> None:
    name = stack.create_topic(stack.fresh_name(), type="fifo")
    broker = TernmqBroker(stack.endpoint, topic=name, group=name)
    with pytest.raises(ternmq.BadRequest, match=f"{name} is of type fifo, but has to be normal"):
        await broker.startup()


async def test_a_broker_that_was_not_started_says_so(broker: TernmqBroker) -> None:
    @broker.task
    async def task() -> None: ...

    with pytest.raises(SendTaskError) as failed:
        await task.kiq()
    assert "startup" in str(failed.value.__cause__)


def worker_process(stack: Stack, topic: str, log: Path) -> "subprocess.Popen[bytes]":
    environ = {
        **os.environ,
        "TERNMQ_ENDPOINT": stack.endpoint,
        "TASKIQ_APP_TOPIC": topic,
        "TASKIQ_APP_LOG": str(log),
    }
    command = [sys.executable, "-m", "taskiq", "worker", APP, "--workers", "1"]
    return subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)


@pytest.mark.slow
async def test_a_worker_process_executes_tasks_and_a_killed_ones_task_goes_to_the_next(
    quick_to_forget: Stack, tmp_path: Path
) -> None:
    stack = quick_to_forget
    topic, log = stack.fresh_name(), tmp_path / "log"
    client = TernmqBroker(stack.endpoint, topic=topic)
    await client.startup()

    def lines() -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    async with asyncio.timeout(TIMEOUT_S):
        with worker_process(stack, topic, log) as first:
            task = client.register_task(lambda: None, "hang_once")
            await task.kiq()
            await until(lambda: len(lines()) == 1)
            os.kill(int(lines()[0].removeprefix("hangs ")), signal.SIGKILL)
            # Taskiq starts another worker in its place.
            await until_late(stack, 30, lambda: "done" in lines())
            add = client.register_task(lambda one, other: None, "add")
            await asyncio.gather(*(add.kiq(number, 1) for number in range(10)))
            await until(lambda: len(lines()) == 12)
            first.terminate()
            await asyncio.to_thread(first.wait)
    await client.shutdown()
    assert lines()[1] == "done"
    assert sorted(map(int, lines()[2:])) == list(range(1, 11))
