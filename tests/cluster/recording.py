"""Our own clients at work, with everything they do and see written down in a history.

Each kind of message has a topic of one queue a shard, a producer that sends one after the other, and a group that
consumes them. Producers go on after an error as an application would. `Recording.finish` has everything delivered that
was acknowledged, and reads all queues by offset.
"""

import asyncio
import contextlib
import itertools
from bisect import bisect
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from ternmq import AckError, ClientError, Message, MessageView, Producer, SimpleConsumer, TransactionResolution
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.history import Decision, History, Outcome, Place, Send
from tests.cluster.history_checks import check, missing
from tests.cluster.watching import eventually
from tests.support.embedded import RawClient, code

FIFO, NORMAL, TIMED, PAID = "fifo", "normal", "timed", "paid"
KINDS = {FIFO: pb.FIFO, NORMAL: pb.NORMAL, TIMED: pb.DELAY, PAID: pb.TRANSACTION}
PAUSE_S = 0.01
AWAIT = timedelta(seconds=5)
INVISIBLE = timedelta(seconds=10)
TIMED_MS = 3000
RECOVERY = timedelta(seconds=2)
# One in so many transactions is rolled back, and the end of one in so many is left to the checker.
ROLLED_BACK_EACH, UNENDED_EACH = 5, 7
DELIVERED_S = 120.0


class Recording:
    """Everybody sends and receives until `finish`; see `recording`."""

    def __init__(self, endpoint: str, history: History, name: str, kinds: Collection[str]) -> None:
        self.history = history
        self.topics = {kind: f"{name}-{kind}" for kind in kinds}
        self.groups = {topic: [f"{topic}-readers"] for topic in self.topics.values()}
        self._endpoint = endpoint
        self._stack = AsyncExitStack()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._senders: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    # --- from start to finish

    async def start(self) -> None:
        work = {FIFO: self._send_fifo, NORMAL: self._send_normal, TIMED: self._send_timed, PAID: self._send_paid}
        async with RawClient(self._endpoint.split(";", maxsplit=1)[0]) as client:
            for kind, topic in self.topics.items():
                await client.create_topic(topic, kind=KINDS[kind])
                for group in self.groups[topic]:
                    rules = admin_pb2.Group(name=group, retry_backoff="customized:1s", fifo=kind == FIFO)
                    assert code(await client.admin("CreateGroup", group=rules)) == "OK"
        for kind, topic in self.topics.items():
            checker = self._decided if kind == PAID else None
            producer = Producer(self._endpoint, topics=[topic], checker=checker)
            await self._stack.enter_async_context(producer)
            self._senders.append(self._spawn(work[kind](producer, topic)))
            for group in self.groups[topic]:
                consumer = SimpleConsumer(self._endpoint, group, {topic: "*"}, await_duration=AWAIT)
                await self._stack.enter_async_context(consumer)
                self._readers.append(self._spawn(self._receive(consumer, group)))

    def _spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._stack.callback(task.cancel)
        return task

    async def close(self) -> None:
        await self._stack.aclose()

    async def finish(self) -> None:
        """Have everything delivered that was acknowledged, read all queues, and check the history."""
        self._stop.set()
        await asyncio.gather(*self._senders)

        async def all_delivered() -> bool:
            return not any(missing(self.history, self.groups).values())

        with contextlib.suppress(AssertionError):  # the check says it better
            await eventually(all_delivered, within_s=DELIVERED_S, what="everything is delivered")
        for reader in self._readers:
            if reader.done():
                reader.result()
        await asyncio.to_thread(self._read_all)
        check(self.history, self.groups)

    async def acknowledged_after(self, kind: str, began_s: float, *, within_s: float) -> None:
        """Return when a message of the kind was acknowledged that was sent since then."""
        times = self.history.acknowledged_s[self.topics[kind]]
        async with asyncio.timeout(within_s):
            while bisect(times, began_s) + 2 > len(times):  # of the first one nobody knows when it was sent
                self._changed.clear()
                await self._changed.wait()

    def _read_all(self) -> None:
        with OffsetReader(self._endpoint) as reader:
            for topic in self.topics.values():
                for queue in reader.queues(topic):
                    start, stop = reader.offset(queue, "earliest"), reader.offset(queue, "latest")
                    for part in reader.read(queue, start, stop):
                        for message in part.messages:
                            place = Place(topic, queue.broker, queue.queue_id, message.system_properties.queue_offset)
                            self.history.read(place, message.body.decode())

    # --- producers

    async def _send_fifo(self, producer: Producer, topic: str) -> None:
        while not self._stop.is_set():
            send = self.history.begin("fifo", topic, message_group="one")
            await self._send(producer, send, Message(topic, send.body.encode(), message_group="one"))

    async def _send_normal(self, producer: Producer, topic: str) -> None:
        while not self._stop.is_set():
            send = self.history.begin("normal", topic)
            await self._send(producer, send, Message(topic, send.body.encode()))

    async def _send_timed(self, producer: Producer, topic: str) -> None:
        while not self._stop.is_set():
            due_ms = self.history.now_ms() + TIMED_MS
            send = self.history.begin("timed", topic, due_ms=due_ms)
            # What its answer tells is a place among the timers.
            message = Message(topic, send.body.encode(), delivery_timestamp=due_ms)
            await self._send(producer, send, message, tells_offset=False)

    async def _send(self, producer: Producer, send: Send, message: Message, *, tells_offset: bool = True) -> None:
        try:
            receipt = await producer.send(message)
        except ClientError as error:
            self.history.failed(send, str(error))
        else:
            self.history.acknowledged(send, receipt.offset if tells_offset else None)
        self._changed.set()
        await asyncio.sleep(PAUSE_S)

    async def _send_paid(self, producer: Producer, topic: str) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            decision = Decision.COMMIT if number % ROLLED_BACK_EACH else Decision.ROLLBACK
            send = self.history.begin("paid", topic, decision=decision)
            await self._transact(producer, send, is_ended=bool(number % UNENDED_EACH))
            self._changed.set()
            await asyncio.sleep(PAUSE_S)

    async def _transact(self, producer: Producer, send: Send, *, is_ended: bool) -> None:
        transaction = producer.begin_transaction(recovery=RECOVERY)
        try:
            await transaction.send(Message(send.topic, send.body.encode()))
        except ClientError as error:
            self.history.failed(send, str(error))
            return
        self.history.acknowledged(send)
        if not is_ended:
            # Its producer is asked, and says what was decided: then it has to come as well.
            send.ending = Outcome.OK
            return
        try:
            await (transaction.commit if send.decision is Decision.COMMIT else transaction.rollback)()
        except ClientError as error:
            send.why = str(error)
        else:
            send.ending = Outcome.OK

    def _decided(self, view: MessageView) -> TransactionResolution:
        send = self.history.sends[view.body.decode()]
        return TransactionResolution.COMMIT if send.decision is Decision.COMMIT else TransactionResolution.ROLLBACK

    # --- consumers

    async def _receive(self, consumer: SimpleConsumer, group: str) -> None:
        while True:
            try:
                views = await consumer.receive(32, INVISIBLE)
                for view in views:
                    self._delivered(group, view)
                self._changed.set()
                if views:
                    await consumer.ack(views)
            except (AckError, ClientError):
                await asyncio.sleep(PAUSE_S)  # what was not settled comes again

    def _delivered(self, group: str, view: MessageView) -> None:
        attempt = view.delivery_attempt
        # What comes again is a copy, in a queue of the server's own.
        place = Place(view.topic, view.broker, view.queue_id, view.offset) if attempt == 1 else None
        self.history.delivered(group, group, view.topic, view.body.decode(), place=place, attempt=attempt)


@asynccontextmanager
async def recording(
    endpoint: str, history: History, *, name: str = "recorded", kinds: Collection[str] = tuple(KINDS)
) -> AsyncIterator[Recording]:
    """Clients at work, on topics that nobody else has."""
    work = Recording(endpoint, history, name, kinds)
    try:
        await work.start()
        yield work
    finally:
        await work.close()
