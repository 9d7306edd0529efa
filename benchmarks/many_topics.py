"""Measures what many topics cost a start: `python -m benchmarks.many_topics [TOPICS]`.

Two servers hold as many messages, one of them with a topic for each, the other in one topic. They are stopped and
restarted in turn: how long each takes until it is ready, and its memory then; once before the group has received
anything, and once when it has acknowledged all.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ternmq import Message, Producer
from tests.e2e.traffic.server import make_topics, resident_bytes
from tests.support.embedded import RawClient
from tests.support.stack import Stack

TOPICS = 10_000
ROUNDS = 5
IN_FLIGHT = 16
GROUP = "readers"
PATIENCE_S = 60.0
MB = 1_000_000


@dataclass(slots=True)
class Server:
    """One of the two servers, and its starts."""

    stack: Stack
    topics: Sequence[str]
    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def start_again(self) -> None:
        self.stack.terminate()
        began = time.perf_counter()
        self.stack.start()
        self.seconds.append(time.perf_counter() - began)
        self.megabytes.append(resident_bytes(self.stack) / MB)


async def send(server: Server, messages: int) -> None:
    """Send so many messages, to each topic in turn."""
    async with Producer(server.stack.grpc, request_timeout=PATIENCE_S) as producer:

        async def send_one(number: int) -> None:
            await producer.send(Message(server.topics[number % len(server.topics)], b"%d" % number))

        await for_each(range(messages), send_one)


async def consume(server: Server) -> None:
    """Consume all messages of each topic."""
    async with RawClient(server.stack.grpc) as client:

        async def consume_topic(topic: str) -> None:
            while received := (await client.receive(topic, GROUP, timeout_s=PATIENCE_S)).messages:
                handles = [message.system_properties.receipt_handle for message in received]
                await client.ack(topic, GROUP, *handles)

        await for_each(server.topics, consume_topic)


async def for_each(things: Sequence[object], act: Callable[..., Awaitable[None]]) -> None:
    room = asyncio.Semaphore(IN_FLIGHT)

    async def acted(thing: object) -> None:
        async with room:
            await act(thing)

    await asyncio.gather(*map(acted, things))


def compare(title: str, many: Server, one: Server) -> None:
    for _ in range(ROUNDS):
        for server in (many, one):
            server.start_again()
    figures = [(statistics.median(server.seconds), statistics.median(server.megabytes)) for server in (many, one)]
    (many_s, many_mb), (one_s, one_mb) = figures
    print(f"{title}: ready after {many_s:.2f} s and {one_s:.2f} s, ratio {many_s / one_s:.2f}; ", end="")
    print(f"{many_mb:.0f} MB and {one_mb:.0f} MB, ratio {many_mb / one_mb:.2f}", flush=True)
    for server in (many, one):
        server.seconds.clear()
        server.megabytes.clear()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TOPICS
    with tempfile.TemporaryDirectory() as name:
        names = [f"topic-{number}" for number in range(count)]
        servers = [Server(Stack(Path(name) / "many"), names), Server(Stack(Path(name) / "one"), ["topic"])]
        for server in servers:
            make_topics(server.stack, server.topics)
        many, one = servers
        with many.stack, one.stack:
            for server in servers:
                asyncio.run(send(server, count))
            compare(f"{count} topics and one, none of them read", many, one)
            for server in servers:
                asyncio.run(consume(server))
            compare(f"{count} topics and one, a group has acknowledged all", many, one)


if __name__ == "__main__":
    main()
