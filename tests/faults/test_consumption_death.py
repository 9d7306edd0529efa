"""The process dies while messages fail, wait for a retry, become dead letters, and are consumed in order.

Nothing is skipped: every message ends acknowledged or among the dead letters. What was acknowledged a while before the
death does not come again. And in a FIFO group no message comes before its predecessor was acknowledged.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ternmq import ClientError, Message, MessageView, Producer, SimpleConsumer
from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq.admin.groups import QueueProgress
from ternmq_command.calls.admin import AdminClient
from tests.support.stack import Stack
from tests.support.until import until_answered

pytestmark = [pytest.mark.slow]

TOPIC = "deaths"
GROUP = "mortals"
ROUNDS = 4
CONSUMERS = 3
# The journal is written every second; a busy machine gets some more before it counts as broken.
JOURNALLED_AFTER_S = 5.0
# Messages that wait when the process dies: at least half a second's worth.
BACKLOG = 3000

Handle = Callable[[SimpleConsumer, MessageView], Awaitable[None]]


class Account:
    """What became of each message, by its body. `unsure` are those whose acknowledgement had no answer, since the
    server died: it may have counted, and been remembered; then they don't come again, and the server has nothing left
    of them (`nothing_is_left`). `acknowledging` are those whose acknowledgement has no answer yet."""

    def __init__(self) -> None:
        self.delivered: list[tuple[float, bytes]] = []
        self.acknowledged: dict[bytes, float] = {}
        self.unsure: set[bytes] = set()
        self.acknowledging: set[bytes] = set()
        self._progress = asyncio.Event()

    def came(self, view: MessageView) -> None:
        self.delivered.append((time.monotonic(), view.body))
        self._progress.set()

    async def acknowledge(self, consumer: SimpleConsumer, view: MessageView) -> None:
        self.acknowledging.add(view.body)
        try:
            await consumer.ack(view)
        except ClientError:
            self.unsure.add(view.body)
            raise
        finally:
            self.acknowledging.discard(view.body)
            self._progress.set()
        self.acknowledged.setdefault(view.body, time.monotonic())

    @property
    def ended(self) -> set[bytes]:
        """What was acknowledged, as far as anybody can know."""
        return self.acknowledged.keys() | self.unsure

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._progress.clear()
            await self._progress.wait()

    async def has_come(self, count: int, done: Callable[[], bool]) -> None:
        """Wait for so many more deliveries, or until all is done."""
        target = len(self.delivered) + count
        await self.until(lambda: len(self.delivered) >= target or done())


async def keep_consuming(endpoint: str, group: str, topic: str, handle: Handle) -> None:
    """Consume through deaths of the server, until cancelled."""
    async with SimpleConsumer(endpoint, group, {topic: "*"}, await_duration=timedelta(seconds=3)) as consumer:
        while True:
            try:
                for view in await consumer.receive(max_messages=8, invisible_duration=timedelta(seconds=10)):
                    await handle(consumer, view)
            except ClientError:
                await asyncio.sleep(0)  # the server is dying, or a claim has ended: what was not settled comes again


async def nothing_is_left(stack: Stack) -> None:
    """Wait until the group has finished every message that it began with, so also those whose end nobody was told."""

    def left() -> list[QueueProgress]:
        with AdminClient(stack.grpc) as admin:
            progress = admin.send_call(group_calls.describe_group(GROUP)).progress
        return [queue for queue in progress if queue.committed < queue.max_offset or queue.in_flight]

    await until_answered(lambda: asyncio.to_thread(left), [])


async def while_it_dies(stack: Stack, account: Account, handle: Handle, done: Callable[[], bool]) -> None:
    consuming = [keep_consuming(stack.grpc, GROUP, TOPIC, handle) for _ in range(CONSUMERS)]
    await consume_while_it_dies(stack, account, consuming, done)


async def consume_while_it_dies(
    stack: Stack, account: Account, consuming: Iterable[Coroutine[Any, Any, None]], done: Callable[[], bool]
) -> None:
    """Consume while the process is killed several times, then to the end."""
    async with asyncio.TaskGroup() as tasks:
        consumers = [tasks.create_task(each) for each in consuming]
        for number in range(ROUNDS):
            await account.has_come(random.Random(number).randint(20, 300), done)
            await asyncio.to_thread(stack.kill9)
            await asyncio.to_thread(stack.start)
        await account.until(done)
        await nothing_is_left(stack)
        for consumer in consumers:
            consumer.cancel()


async def test_failing_messages_end_acknowledged_or_dead_and_none_is_lost(tmp_path: Path) -> None:
    account = Account()
    bodies = {b"%d" % number for number in range(1500)}
    poison = {body for body in bodies if body.endswith(b"7")}
    dead: set[bytes] = set()
    dice = random.Random(4)

    async def handle(consumer: SimpleConsumer, view: MessageView) -> None:
        account.came(view)
        if view.body in poison or dice.random() < 0.3:
            await consumer.change_invisible_duration(view, timedelta(milliseconds=dice.choice([0, 50, 500])))
        else:
            await account.acknowledge(consumer, view)

    async def bury(consumer: SimpleConsumer, view: MessageView) -> None:
        dead.add(view.body)
        account.came(view)
        await consumer.ack(view)

    with Stack(tmp_path) as stack:
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic(TOPIC, "normal", 2))
            admin.send_call(group_calls.create_group(GROUP, max_attempts=6))
        async with Producer(stack.grpc, topics=[TOPIC]) as producer:
            await producer.send_many([Message(TOPIC, body) for body in sorted(bodies)])
        async with asyncio.TaskGroup() as tasks:
            undertaker = tasks.create_task(keep_consuming(stack.grpc, "undertakers", f"%DLQ%{GROUP}", bury))
            await while_it_dies(stack, account, handle, lambda: account.ended | dead == bodies and poison <= dead)
            undertaker.cancel()
    assert not poison & account.acknowledged.keys()


async def test_what_was_acknowledged_long_before_a_death_does_not_come_again(tmp_path: Path) -> None:
    account = Account()
    sent: set[bytes] = set()

    async def handle(consumer: SimpleConsumer, view: MessageView) -> None:
        account.came(view)
        await account.acknowledge(consumer, view)

    async def feed(producer: Producer, until: float) -> None:
        """However fast the consumer is, it must still be at work when the process dies."""
        while time.monotonic() < until:
            await account.until(lambda: len(sent) - len(account.acknowledged) < BACKLOG)
            more = [b"%d" % number for number in range(len(sent), len(sent) + BACKLOG)]
            await producer.send_many([Message(TOPIC, body) for body in more])
            sent.update(more)

    with Stack(tmp_path) as stack:
        async with asyncio.TaskGroup() as tasks:
            consumer = tasks.create_task(keep_consuming(stack.grpc, GROUP, TOPIC, handle))
            async with Producer(stack.grpc, topics=[TOPIC]) as producer:
                await feed(producer, time.monotonic() + 2 * JOURNALLED_AFTER_S)
            await asyncio.to_thread(stack.kill9)
            killed = time.monotonic()
            await asyncio.to_thread(stack.start)
            await account.until(lambda: account.ended >= sent)
            await nothing_is_left(stack)
            consumer.cancel()
    safe = {body for body, when in account.acknowledged.items() if when < killed - JOURNALLED_AFTER_S}
    again = {body for when, body in account.delivered if when > killed and body in safe}
    assert safe
    assert not again, f"{len(again)} of {len(safe)} came again, such as {sorted(again)[:5]}"


class Reader:
    """A consumer of a FIFO group that fails now and then, and checks that nothing comes before its predecessor."""

    def __init__(self, account: Account, acknowledged: dict[str, set[int]], seed: int) -> None:
        self._account = account
        self._acknowledged = acknowledged
        self._dice = random.Random(seed)
        self.disorder: list[str] = []

    async def read(self, endpoint: str) -> None:
        """Until cancelled, through deaths of the server."""
        async with SimpleConsumer(endpoint, GROUP, {TOPIC: "*"}, await_duration=timedelta(seconds=3)) as consumer:
            while True:
                try:
                    views = await consumer.receive(max_messages=8, invisible_duration=timedelta(seconds=10))
                    await self._handle(consumer, views)
                except ClientError:
                    await asyncio.sleep(0)  # what was not settled comes again

    async def _handle(self, consumer: SimpleConsumer, views: Sequence[MessageView]) -> None:
        came: defaultdict[str, set[int]] = defaultdict(set)
        failed: set[str] = set()
        for view in views:
            self._account.came(view)
            lane, number = view.body.decode().split("-")
            # The server may have counted an acknowledgement before the answer is read here.
            unsure = {
                int(body.decode().split("-")[1])
                for body in self._account.unsure | self._account.acknowledging
                if body.startswith(f"{lane}-".encode())
            }
            missing = set(range(int(number))) - self._acknowledged[lane] - came[lane] - unsure
            if missing:
                self.disorder.append(f"{view.body!r} came before {sorted(missing)}")
            came[lane].add(int(number))
            if lane in failed or self._dice.random() < 0.1:
                failed.add(lane)  # its followers in this batch must wait for it
                await consumer.change_invisible_duration(view, timedelta(milliseconds=100))
            else:
                await self._account.acknowledge(consumer, view)
                self._acknowledged[lane].add(int(number))


async def test_order_holds_through_failures_and_deaths(tmp_path: Path) -> None:
    lanes, per_lane = 40, 30
    account = Account()
    acknowledged: defaultdict[str, set[int]] = defaultdict(set)
    readers = [Reader(account, acknowledged, seed) for seed in range(CONSUMERS)]
    with Stack(tmp_path) as stack:
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic(TOPIC, "fifo", 4))
            admin.send_call(group_calls.create_group(GROUP, fifo=True, max_attempts=1000))
        async with Producer(stack.grpc, topics=[TOPIC]) as producer:
            for number in range(per_lane):
                messages = [Message(TOPIC, b"%d-%d" % (lane, number), message_group=str(lane)) for lane in range(lanes)]
                await asyncio.gather(*map(producer.send, messages))

        def done() -> bool:
            return len(account.ended) == lanes * per_lane

        await consume_while_it_dies(stack, account, [reader.read(stack.grpc) for reader in readers], done)
    disorder = [each for reader in readers for each in reader.disorder]
    assert not disorder, f"{len(disorder)} times, such as: {disorder[:3]}"
