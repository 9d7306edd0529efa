"""One run of `ternmq bench`. The module imports the client library, so the subcommand imports it when it runs."""

import asyncio
import contextlib
import secrets
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from ternmq import Message, MessageView, Producer, SimpleConsumer
from ternmq_command.bench.server_cpu import ServerCpu
from ternmq_command.calls.access import access
from ternmq_command.calls.admin import AdminClient
from ternmq_command.terminal.failures import CommandFailure, Refused
from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_protos.v2 import definition_pb2 as pb

QUEUES = 8
RECEIVERS = 4
AWAIT = timedelta(seconds=2)
INVISIBLE = timedelta(minutes=5)
# After this time without a message, the missing ones are considered lost.
SILENCE_S = 30.0
_HEAD = struct.Struct("<Qd")  # the message's number, and when its sending began, by the monotonic clock


class Latencies:
    """Latencies in seconds."""

    def __init__(self) -> None:
        self._seconds = array("d")

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def at(self, quantile: float) -> float:
        """Return a quantile of the latencies; there must be some."""
        return sorted(self._seconds)[min(len(self._seconds) - 1, int(quantile * len(self._seconds)))]


@dataclass(slots=True)
class Figures:
    """The measured times, in seconds; `server_cpu_s` is None if it is unknown."""

    send_s: float = 0.0
    receive_s: float = 0.0
    client_cpu_s: float = 0.0
    server_cpu_s: float | None = None
    sends: Latencies = field(default_factory=Latencies)
    deliveries: Latencies = field(default_factory=Latencies)


def measured(endpoint: str, *, messages: int, size: int, in_flight: int) -> Figures:
    """Send messages and receive them, by a topic and a group that are deleted in the end.

    Raises ClientError and CommandFailure.
    """
    with _own_topic(endpoint) as topic:
        server, client_before_s = ServerCpu.of(endpoint), time.process_time()
        run = _Run(endpoint, topic, messages, size, in_flight)
        try:
            asyncio.run(run.all())
        except ExceptionGroup as failures:
            raise _first(failures) from None  # the others have the same cause
        run.figures.client_cpu_s = time.process_time() - client_before_s
        run.figures.server_cpu_s = server.used_s()
        return run.figures


@contextlib.contextmanager
def _own_topic(endpoint: str) -> Iterator[str]:
    """Create a topic with a random name for this run, which is also the group's name; delete both in the end."""
    name = f"ternmq-bench-{secrets.token_hex(6)}"
    with AdminClient(endpoint) as admin:
        try:
            admin.create_topic(name, "normal", QUEUES)
            yield name
        finally:
            for delete in (admin.delete_topic, admin.delete_group):
                try:
                    delete(name)
                except Refused as refusal:
                    if refusal.code not in (pb.TOPIC_NOT_FOUND, pb.CONSUMER_GROUP_NOT_FOUND):
                        raise


def _first(failures: BaseException) -> BaseException:
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures


class _Run:
    def __init__(self, endpoint: str, topic: str, messages: int, size: int, in_flight: int) -> None:
        self._endpoint, self._topic = endpoint, topic
        self._messages, self._in_flight = messages, in_flight
        self._numbers = iter(range(messages))
        self._padding = secrets.token_bytes(size - _HEAD.size)  # which can't be compressed
        self._received: set[int] = set()
        self.figures = Figures()

    async def all(self) -> None:
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receive_all(began_s))
            tasks.create_task(self._send_all(began_s))

    async def _send_all(self, began_s: float) -> None:
        async with Producer(self._endpoint, topics=[self._topic], **access().client_options()) as producer:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._in_flight, self._messages)):
                    tasks.create_task(self._send(producer))
            self.figures.send_s = time.monotonic() - began_s

    async def _send(self, producer: Producer) -> None:
        for number in self._numbers:
            began_s = time.monotonic()
            await producer.send(Message(self._topic, _HEAD.pack(number, began_s) + self._padding))
            self.figures.sends.add(time.monotonic() - began_s)

    async def _receive_all(self, began_s: float) -> None:
        async with (
            SimpleConsumer(
                self._endpoint, group=self._topic, subscriptions={self._topic: "*"}, await_duration=AWAIT
            ) as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(RECEIVERS):
                tasks.create_task(self._receive(consumer))
        self.figures.receive_s = time.monotonic() - began_s

    async def _receive(self, consumer: SimpleConsumer) -> None:
        heard_s = time.monotonic()
        while len(self._received) < self._messages:
            views = await consumer.receive(max_messages=RECEIVE_BATCH_MAX, invisible_duration=INVISIBLE)
            now_s = time.monotonic()
            if views:
                heard_s = now_s
                self._count(views, now_s)
                await consumer.ack(views)
            elif now_s - heard_s > SILENCE_S:
                count = f"{len(self._received):,} of {self._messages:,}"
                raise CommandFailure(f"{count} messages were received, and none for {SILENCE_S:.0f} s")

    def _count(self, views: "Sequence[MessageView]", now_s: float) -> None:
        for view in views:
            number, sent_s = _HEAD.unpack_from(view.body)
            if number not in self._received:
                self._received.add(number)
                self.figures.deliveries.add(now_s - sent_s)
