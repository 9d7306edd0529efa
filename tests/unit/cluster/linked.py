"""A link to a broker that does what a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_proxy.message_service.cluster.link import BrokerLink
from tests.support.scripted_broker import Script, ScriptedBroker, ScriptedStream

PATIENCE_S = 10.0


class Told:
    """What a link told."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.words: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self.fails_at_words = False

    def link_changed(self, broker: str) -> None:
        self.changes.put_nowait(broker)

    def ready(self, broker: str, group: str, topic: str) -> None:
        if self.fails_at_words:
            raise RuntimeError("a defect")
        self.words.put_nowait((broker, group, topic))

    def version_told(self, version: int) -> None: ...

    async def question(self, question: storage.Question, broker: str) -> bool:
        del broker
        return question.id == 1


@asynccontextmanager
async def linked(*scripts: Script, told: Told | None = None) -> AsyncIterator[tuple[BrokerLink, ScriptedBroker, Told]]:
    told = told or Told()
    async with ScriptedBroker(*scripts) as broker, asyncio.timeout(PATIENCE_S):
        link = BrokerLink("broker-0", broker.address, told, proxy="proxy", known=lambda: 7)
        link.start()
        try:
            yield link, broker, told
        finally:
            await link.close()


def call() -> storage.ProxyFrame:
    frame = storage.ProxyFrame()
    frame.calls.add().bounds.topic = "orders"
    return frame


def pop() -> storage.ProxyFrame:
    frame = storage.ProxyFrame()
    frame.calls.add().pop.topic = "orders"
    return frame


async def serve(stream: ScriptedStream) -> None:
    """A broker that answers everything."""
    await stream.welcome()
    while (frame := await stream.frame()) is not None:
        for each in frame.calls:
            await stream.answer(each)
        if frame.ping:
            await stream.say(storage.BrokerFrame(pong=frame.ping))


async def silent(stream: ScriptedStream) -> None:
    await stream.forever()
