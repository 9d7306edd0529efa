"""Kills one of two brokers under load, and measures what clients notice. `measured` is for benchmarks and tests.

gap      the longest time without a finished send, or without a delivery, of a topic that is on the other broker only
longest  the longest send, with its client's own repetitions, to a topic that is on both: before and after the kill
back     how long after its restart the broker accepts messages again
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from ternmq import AckError, ClientError, Message, Producer, SimpleConsumer
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from tests.support.cluster_processes import ClusterProcesses

BODY = bytes(256)
SENDERS = 4
BEFORE_S = 3.0
AFTER_S = 6.0
BACK_S = 30.0
AWAIT_S = 5.0


@dataclass
class KilledBroker:
    """The results; times in seconds."""

    gap_of_sends_s: float
    gap_of_deliveries_s: float
    longest_before_s: float
    longest_after_s: float
    failed: int
    """Sends that failed for good, in spite of their client's repetitions."""
    sends_after: int
    back_s: float

    @property
    def gap_s(self) -> float:
        return max(self.gap_of_sends_s, self.gap_of_deliveries_s)


@dataclass
class _Times:
    """When calls ended, and how long they took."""

    ends: list[float] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)
    failed: int = 0

    def note(self, began: float) -> None:
        now = time.monotonic()
        self.ends.append(now)
        self.lasted.append(now - began)

    def gap_s(self, since: float) -> float:
        """Return the longest time between two, among the last before `since` and all after it."""
        start = max((end for end in self.ends if end <= since), default=since)
        return max(later - earlier for earlier, later in itertools.pairwise([start, *self.after(since)]))

    def after(self, since: float) -> list[float]:
        return [end for end in self.ends if end > since]

    def longest_s(self, holds: Callable[[float], bool]) -> float:
        """Return the longest of those whose end fulfils the condition."""
        return max(lasted for end, lasted in zip(self.ends, self.lasted, strict=True) if holds(end))


async def measured(cluster: ClusterProcesses) -> KilledBroker:
    """Kill the first broker of a cluster of two under load, and restart it."""
    killed, other = cluster.brokers
    names = ("killed-other", "killed-both")
    await asyncio.to_thread(_make_topics, cluster.proxies[0].grpc, names, other.name)
    endpoint = ";".join(proxy.grpc for proxy in cluster.proxies)
    elsewhere, everywhere, deliveries = _Times(), _Times(), _Times()
    async with AsyncExitStack() as stack:
        work = [_receive(endpoint, names[0], deliveries)]
        for topic, times in zip(names, (elsewhere, everywhere), strict=True):
            producer = await stack.enter_async_context(Producer(endpoint, topics=[topic]))
            work += [_send(producer, topic, times) for _ in range(SENDERS)]
        tasks = [asyncio.create_task(each) for each in work]
        stack.callback(lambda: [task.cancel() for task in tasks])
        await asyncio.sleep(BEFORE_S)
        at = time.monotonic()
        await asyncio.to_thread(killed.kill9)
        await asyncio.sleep(AFTER_S)
        end = time.monotonic()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.to_thread(killed.start)
    started = time.monotonic()
    await _takes_messages(cluster.proxies[0].grpc, killed.name)
    return KilledBroker(
        gap_of_sends_s=elsewhere.gap_s(at),
        gap_of_deliveries_s=deliveries.gap_s(at),
        longest_before_s=everywhere.longest_s(lambda time: time <= at),
        longest_after_s=everywhere.longest_s(lambda time: at < time <= end),
        failed=elsewhere.failed + everywhere.failed,
        sends_after=len(everywhere.after(at)),
        back_s=time.monotonic() - started,
    )


def _make_topics(endpoint: str, names: tuple[str, str], other: str) -> None:
    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic(names[0], "normal", 4, brokers=[other]))
        admin.send_call(topic_calls.create_topic(names[1], "normal", 4, brokers=[]))


async def _send(producer: Producer, topic: str, times: _Times) -> None:
    while True:
        began = time.monotonic()
        try:
            await producer.send(Message(topic, BODY))
        except ClientError:
            times.failed += 1
        else:
            times.note(began)
        await asyncio.sleep(0.005)  # servers and clients share the machine


async def _receive(endpoint: str, topic: str, times: _Times) -> None:
    await_duration = timedelta(seconds=AWAIT_S)
    async with SimpleConsumer(endpoint, f"readers-of-{topic}", {topic: "*"}, await_duration=await_duration) as consumer:
        while True:
            began = time.monotonic()
            try:
                if views := await consumer.receive():
                    times.note(began)
                    await consumer.ack(views)
            except (AckError, ClientError):
                await asyncio.sleep(0.005)  # the gap tells


async def _takes_messages(endpoint: str, broker: str) -> None:
    """Return when a topic that is only on that broker accepts messages."""
    topic = f"back-on-{broker}"
    async with asyncio.timeout(BACK_S), Producer(endpoint) as producer:
        while True:
            try:
                await asyncio.to_thread(_make_topic, endpoint, topic, broker)
                await producer.send(Message(topic, BODY))
            except ClientError:
                await asyncio.sleep(0.05)
            else:
                return


def _make_topic(endpoint: str, topic: str, broker: str) -> None:
    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic(topic, "normal", 1, brokers=[broker]))
