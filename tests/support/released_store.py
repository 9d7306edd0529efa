"""A small store as a version leaves it: `python -m tests.support.released_store DIR [--killed]` writes one.

`tests/data/stores` has two for each layout that ever was, written by the version that had it: of a broker that ended in
order, and of one that was killed. A layout that changes adds two, and none is ever made anew.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import (
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    PopOrder,
    QueueRef,
    TimedMessage,
    TransactionResolution,
)
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService

TOPIC, GROUP, BROKER = "orders", "billing", "broker-0"
FAR_MS = 4_102_444_800_000
"""1 January 2100, when the timers are due."""
MESSAGES = 30
ACKNOWLEDGED = 5
HIDDEN_MS = 1000


def queue(number: int, topic: str = TOPIC) -> QueueRef:
    return QueueRef(topic, BROKER, number)


def message(name: str) -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=name, keys=[f"key-{name}"], tag="red")
    rest = definition_pb2.Message(body=f"body of {name}".encode(), user_properties={"name": name})
    return NewMessage(tag_hash("red"), properties.SerializeToString(), rest.SerializeToString(), (name, f"key-{name}"))


async def opened(folder: Path, *, now_ms: int | None = None) -> LocalMessageService:
    """At the machine's time, or at that time: what a store has grows old, and is removed then."""
    settings = ServerSettings(data_dir=folder, segment_bytes=1 << 20, body_bytes_max=1 << 16, test_clock=True)
    clock = MovableClock()
    if now_ms is not None:
        clock.ahead_ms = now_ms - clock.now_ms()
    return await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), clock)


async def fill(folder: Path, *, killed: bool) -> None:
    """Messages in two queues, five of them acknowledged; a pending and a recalled timer; a waiting, a committed and a
    rolled back transaction; and a topic that was deleted, with a timer."""
    service = await opened(folder)
    for number in range(MESSAGES):
        await service.sending.append(queue(number % 2), [message(f"m{number}")])
    order = PopOrder(group=GROUP, topic=TOPIC, queues=range(1), filter=ALL, batch=ACKNOWLEDGED, invisible_ms=HIDDEN_MS)
    deliveries = await service.consuming.pop(order, broker=BROKER, poll_s=0)
    await service.consuming.acknowledge(GROUP, TOPIC, [delivery.handle for delivery in deliveries])
    for name in ("pending", "recalled"):
        await service.sending.schedule(queue(0, "timed"), [TimedMessage(message(name), FAR_MS)])
    await service.sending.recall(RecallHandle("timed", BROKER, FAR_MS, "recalled"))
    begun = {}
    for name in ("waiting", "committed", "rolled-back"):
        appended = await service.sending.begin_transaction(queue(0, "paid"), HalfMessage(message(name), "sender"))
        begun[name] = TransactionId.parse_id(appended.transaction_id)
    await service.sending.end_transaction("paid", begun["committed"], TransactionResolution.COMMIT)
    await service.sending.end_transaction("paid", begun["rolled-back"], TransactionResolution.ROLLBACK)
    await service.sending.append(queue(0, "deleted"), [message("gone")])
    await service.sending.schedule(queue(0, "deleted"), [TimedMessage(message("gone-later"), FAR_MS)])
    await service.administering.forget_topic("deleted", version=0)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    await service.close()


if __name__ == "__main__":
    asyncio.run(fill(Path(sys.argv[1]), killed="--killed" in sys.argv))
