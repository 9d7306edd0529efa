"""Measures a restart with many unacknowledged messages: `python -m benchmarks.unacknowledged_restart [MESSAGES]`.

One group receives everything of a topic with 8 queues, and its process is killed. The next process opens the store:
once with all claims in force, and once after all have ended while it was away, so that each message is copied for its
second delivery. It prints the CPU seconds of that process, from before the store is opened until it has been idle for
two seconds.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, PopOrder, QueueRef
from ternmq_protos.v2 import definition_pb2

MESSAGES = 800_000
QUEUES = range(8)
GROUP, TOPIC = "readers", "unacknowledged"
BATCH = 32
INVISIBLE_MS = 3_600_000
IDLE_S = 2.0
IDLE_CPU_S = 0.1


def opened(folder: Path, clock: MovableClock) -> Broker:
    settings = ServerSettings(data_dir=folder, flush=FlushMode.ASYNC, grpc="127.0.0.1:0", http="127.0.0.1:0")
    return Broker.open(BrokerSettings.from_storage(settings), lambda name: ConsumerGroup(name=name), clock)


def message(number: int) -> NewMessage:
    message_id = f"{number:034X}"
    system = definition_pb2.SystemProperties(message_id=message_id).SerializeToString()
    return NewMessage(0, system, definition_pb2.Message(body=bytes(256)).SerializeToString(), (message_id,))


async def fill(folder: Path, messages: int, batch: int) -> None:
    """Send, receive so many at a time, write the journal, and die."""
    broker = opened(folder, MovableClock())
    broker.start()
    for start in range(0, messages, BATCH):
        await broker.sending.append(
            QueueRef(TOPIC, broker.name, start // BATCH % len(QUEUES)), [message(start + n) for n in range(BATCH)]
        )
        await asyncio.sleep(0)
    order = PopOrder(group=GROUP, topic=TOPIC, queues=QUEUES, filter=ALL, batch=batch, invisible_ms=INVISIBLE_MS)
    received = True
    while received:
        received = bool(await broker.consuming.pop(order, 0.0))
        await asyncio.sleep(0)  # the journal is written meanwhile, as between two calls of clients
    await asyncio.sleep(3)
    os._exit(0)


async def restart(folder: Path, ahead_ms: int) -> None:
    """Open the store, and print the CPU of that and of the work that follows."""
    clock = MovableClock(ahead_ms)
    began, before = time.perf_counter(), time.process_time()
    broker = opened(folder, clock)
    broker.start()
    used = time.process_time() - before
    print(f"  ready after {time.perf_counter() - began:5.1f} s, {used:5.1f} s of CPU", flush=True)
    while True:
        last = time.process_time()
        await asyncio.sleep(IDLE_S)
        if time.process_time() - last < IDLE_CPU_S:
            break
    figures = broker.figures.current_figures()
    print(f"  idle after {last - before:5.1f} s of CPU; {figures.retries} copies", flush=True)
    os._exit(0)


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    for batch in (BATCH, 1):
        with tempfile.TemporaryDirectory() as name:
            run(name, "fill", messages, batch)
            for title, ahead_ms in (("claims in force", 0), ("claims ended", 2 * INVISIBLE_MS)):
                print(f"received {batch} at a time, {title}", flush=True)
                run(name, "restart", ahead_ms)


def run(folder: str, step: str, *numbers: int) -> None:
    command = [sys.executable, "-m", "benchmarks.unacknowledged_restart", "--child", folder, step, *map(str, numbers)]
    subprocess.run(command, check=True)


def child(folder: Path, step: str, *numbers: int) -> None:
    asyncio.run(fill(folder, *numbers) if step == "fill" else restart(folder, *numbers))


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
    else:
        main()
