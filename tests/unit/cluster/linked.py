"""A link to a broker that does what a test says."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS, Values
from ternmq_common.shard.model import DroppedLite, OrphanedTransaction, QueueBounds, QueueRef
from ternmq_proxy.message_service.cluster.broker_links.calls import LateResultCallback
from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from tests.support.message_service_conformance import order
from tests.support.scripted_broker import Script, ScriptedBroker, ScriptedStream, calls_in, said

PATIENCE_S = 10.0


class Told:
    """What a link told."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.words: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self.fails_at_words = False

    def link_changed(self, broker: str) -> None:
        self.changes.put_nowait(broker)

    def messages_ready(self, broker: str, group: str, topic: str) -> None:
        if self.fails_at_words:
            raise RuntimeError("a defect")
        self.words.put_nowait((broker, group, topic))

    def registry_changed(self, version: int) -> None: ...

    def lite_dropped(self, dropped: list[DroppedLite]) -> None: ...

    async def check_orphan(self, orphan: OrphanedTransaction) -> bool:
        return orphan.transaction_id == "1"

    async def answer_question(self, question: str, argument: str) -> bytes | None:
        return argument.encode() if question == "known" else None


@asynccontextmanager
async def linked(
    *scripts: Script, told: Told | None = None, timing: LinkTiming = LINK_TIMING
) -> AsyncIterator[tuple[BrokerLink, ScriptedBroker, Told]]:
    told = told or Told()
    async with ScriptedBroker(*scripts) as broker, asyncio.timeout(PATIENCE_S):
        link = BrokerLink("broker-0", broker.address, told, proxy="proxy", known=lambda: 7, timing=timing)
        link.start()
        try:
            yield link, broker, told
        finally:
            await link.close()


BOUNDS = QueueBounds(3, 5)


async def bounds(link: BrokerLink, timeout_s: float | None = None) -> QueueBounds:
    """A call that `serve` answers by `BOUNDS`."""
    result: QueueBounds = await link.ask_broker(
        CALLS["bounds"], (QueueRef("orders", "broker-0", 0),), timeout_s=timeout_s
    )
    return result


def pop(link: BrokerLink, on_late: LateResultCallback, timeout_s: float | None = None) -> Coroutine[Any, Any, Any]:
    values: Values = (order(), False)
    return link.ask_broker(CALLS["pop"], values, on_late=on_late, timeout_s=timeout_s)


async def serve(stream: ScriptedStream) -> None:
    """A broker that answers everything."""
    await stream.welcome()
    while (frame := await stream.frame()) is not None:
        for each in calls_in(frame):
            await stream.answer(each, BOUNDS)
        if shard_frames.PING.what in said(frame):
            await stream.say(shard_frames.PONG.encode_note(None))


async def silent(stream: ScriptedStream) -> None:
    await stream.forever()
