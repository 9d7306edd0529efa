"""A server process under large traffic: what is seen of it from outside."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psutil
from prometheus_client.parser import text_string_to_metric_families

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import now_ms
from ternmq_common.shard.model import Topic
from ternmq_registry.registry import Registry
from tests.support.stack import Stack

_LOOK_S = 0.01
_HTTP_TIMEOUT_S = 20.0


class Memory:
    """Resident bytes of a server: when it was looked at first, and the most since."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.before = self.most = resident_bytes(stack)

    @property
    def growth(self) -> int:
        return self.most - self.before

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, resident_bytes(self._stack))
            await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def watched_memory(stack: Stack) -> AsyncIterator[Memory]:
    """Look at it all the time."""
    memory = Memory(stack)
    watching = asyncio.create_task(memory.watch())
    try:
        yield memory
    finally:
        watching.cancel()


def resident_bytes(stack: Stack) -> int:
    return int(psutil.Process(stack.process.pid).memory_info().rss)


def metric(stack: Stack, name: str) -> float:
    """Of the server's metrics now, labels added up."""
    with urllib.request.urlopen(f"http://{stack.http}/metrics", timeout=_HTTP_TIMEOUT_S) as answer:
        text = answer.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == name)


def cpu_s(stack: Stack) -> float:
    """Of the server, since its start."""
    times = psutil.Process(stack.process.pid).cpu_times()
    return float(times.user + times.system)


def make_topics(stack: Stack, names: Sequence[str]) -> None:
    """Have these topics, of one queue each, in the registry of a server that was not started yet: all in one change,
    as thousands of calls take minutes."""
    stack.data_dir.mkdir(parents=True)
    registry = Registry.open_sqlite(stack.data_dir / "registry.db")
    made_ms = now_ms()
    topics = [
        Topic(name=name, type=MessageType.NORMAL, queues=1, created_ms=made_ms, created_version=number)
        for number, name in enumerate(names, start=1)
    ]
    registry.import_entries(topics, [])
    registry.close()
