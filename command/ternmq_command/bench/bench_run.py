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
from ternmq_command.calls.access import current_access
from ternmq_command.calls.admin import AdminClient
from ternmq_command.terminal.failures import CallRefused, CommandFailure
from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_protos.v2 import definition_pb2 as pb

QUEUES = 8
RECEIVERS = 4
AWAIT = timedelta(seconds=2)
INVISIBLE = timedelta(minutes=5)
# After this time without a message, the missing ones are considered lost.
SILENCE_S = 30.0
_HEAD = struct.Struct("<Qd")  # the message's number, and when its sending began, by the monotonic clock


class LatencySamples:
    """Latencies in seconds."""

    def __init__(self) -> None:
        self._seconds = array("d")

    def add_sample(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def quantile_s(self, quantile: float) -> float:
        """Return a quantile of the latencies; there must be some."""
        return sorted(self._seconds)[min(len(self._seconds) - 1, int(quantile * len(self._seconds)))]


@dataclass(slots=True)
class BenchFigures:
    """The measured times, in seconds; `server_cpu_s` is None if it is unknown."""

    send_s: float = 0.0
    receive_s: float = 0.0
    client_cpu_s: float = 0.0
    server_cpu_s: float | None = None
    sends: LatencySamples = field(default_factory=LatencySamples)
    deliveries: LatencySamples = field(default_factory=LatencySamples)


def run_bench(endpoint: str, *, messages: int, size: int, in_flight: int) -> BenchFigures:
    """Send messages and receive them, by a topic and a group that are deleted in the end.

    Raises ClientError and CommandFailure.
    """
    with _own_topic(endpoint) as topic:
        server, client_before_s = ServerCpu.for_endpoint(endpoint), time.process_time()
        run = _BenchRun(endpoint, topic, messages, size, in_flight)
        try:
            asyncio.run(run.run_all())
        except ExceptionGroup as failures:
            raise _first_failure(failures) from None  # the others have the same cause
        run.figures.client_cpu_s = time.process_time() - client_before_s
        run.figures.server_cpu_s = server.used_s()
        return run.figures


@contextlib.contextmanager
def _own_topic(endpoint: str) -> Iterator[str]:
    """Create a topic with a random name for this run, which is also the group's name; delete both in the end."""
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    name = f"ternmq-bench-{secrets.token_hex(6)}"
    with AdminClient(endpoint) as admin:
        try:
            admin.send_call(topic_calls.create_topic(name, "normal", QUEUES))
            yield name
        finally:
            for delete in (topic_calls.delete_topic, group_calls.delete_group):
                try:
                    admin.send_call(delete(name))
                except CallRefused as refusal:
                    if refusal.code not in (pb.TOPIC_NOT_FOUND, pb.CONSUMER_GROUP_NOT_FOUND):
                        raise


def _first_failure(failures: BaseException) -> BaseException:
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures


class _BenchRun:
    def __init__(self, endpoint: str, topic: str, messages: int, size: int, in_flight: int) -> None:
        self._endpoint, self._topic = endpoint, topic
        self._messages, self._in_flight = messages, in_flight
        self._numbers = iter(range(messages))
        self._padding = secrets.token_bytes(size - _HEAD.size)  # which can't be compressed
        self._received: set[int] = set()
        self.figures = BenchFigures()

    async def run_all(self) -> None:
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receive_all(began_s))
            tasks.create_task(self._send_all(began_s))

    async def _send_all(self, began_s: float) -> None:
        async with Producer(self._endpoint, topics=[self._topic], **current_access().client_options()) as producer:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._in_flight, self._messages)):
                    tasks.create_task(self._send_messages(producer))
            self.figures.send_s = time.monotonic() - began_s

    async def _send_messages(self, producer: Producer) -> None:
        for number in self._numbers:
            began_s = time.monotonic()
            await producer.send(Message(self._topic, _HEAD.pack(number, began_s) + self._padding))
            self.figures.sends.add_sample(time.monotonic() - began_s)

    async def _receive_all(self, began_s: float) -> None:
        async with (
            SimpleConsumer(
                self._endpoint, group=self._topic, subscriptions={self._topic: "*"}, await_duration=AWAIT
            ) as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(RECEIVERS):
                tasks.create_task(self._receive_messages(consumer))
        self.figures.receive_s = time.monotonic() - began_s

    async def _receive_messages(self, consumer: SimpleConsumer) -> None:
        heard_s = time.monotonic()
        while len(self._received) < self._messages:
            views = await consumer.receive(max_messages=RECEIVE_BATCH_MAX, invisible_duration=INVISIBLE)
            now_s = time.monotonic()
            if views:
                heard_s = now_s
                self._count_messages(views, now_s)
                await consumer.ack(views)
            elif now_s - heard_s > SILENCE_S:
                count = f"{len(self._received):,} of {self._messages:,}"
                raise CommandFailure(f"{count} messages were received, and none for {SILENCE_S:.0f} s")

    def _count_messages(self, views: "Sequence[MessageView]", now_s: float) -> None:
        for view in views:
            number, sent_s = _HEAD.unpack_from(view.body)
            if number not in self._received:
                self._received.add(number)
                self.figures.deliveries.add_sample(now_s - sent_s)
