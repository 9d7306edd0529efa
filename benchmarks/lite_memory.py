"""Measures what lite topics cost a broker, without the connections of clients: `python -m benchmarks.lite_memory`.

One broker in this process has 100,000 lite topics with a message each, which 10,000 subscribers share, read and
acknowledge. It prints the memory after each step, the CPU time of a message, what the broker computes while idle, and
how long it takes to open again.
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_common.catalog.cluster import FlushMode
from ternmq_common.catalog.lite_group import LITE_QUOTA_MAX, LiteGroup
from ternmq_common.clock import SystemClock
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import lite_queue_topic
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import ConsumerGroup, LiteAction, LiteSync, PopOrder, QueueRef, group_by_settled_topic
from tests.support.message_service_conformance import message

TOPIC, GROUP = "chats", "readers"
RULES = ConsumerGroup(name=GROUP, lite=LiteGroup(TOPIC, quota=LITE_QUOTA_MAX))
MB = 1_000_000
_AT_ONCE = 500


def rules_of(name: str) -> ConsumerGroup:
    del name
    return RULES


def opened(folder: Path) -> Broker:
    settings = BrokerSettings.from_storage(ServerSettings(data_dir=folder, flush=FlushMode.ASYNC))
    return Broker.open(settings, rules_of, SystemClock())


def say(what: str) -> None:
    print(f"{what}: {psutil.Process().memory_info().rss / MB:.0f} MB", flush=True)


async def send(broker: Broker, names: Sequence[str]) -> None:
    for start in range(0, len(names), _AT_ONCE):
        some = [QueueRef(lite_queue_topic(TOPIC, name), broker.name, 0) for name in names[start : start + _AT_ONCE]]
        await asyncio.gather(*(broker.sending.append(queue, [message(b"a message")]) for queue in some))


async def read(broker: Broker, client_id: str) -> int:
    """Receive and acknowledge all that the client can get; return how many that were."""
    order = PopOrder(
        group=GROUP,
        topic=TOPIC,
        queues=range(1),
        filter=ALL,
        batch=32,
        invisible_ms=60_000,
        lite_client=client_id,
    )
    count = 0
    while deliveries := await broker.consuming.pop(order, 0):
        count += len(deliveries)
        for topic, some in group_by_settled_topic(TOPIC, deliveries).items():
            broker.consuming.acknowledge(GROUP, topic, [each.handle for each in some])
    return count


async def measure(folder: Path, topics: int, subscribers: int) -> None:
    broker = opened(folder)
    broker.start()
    say("a broker")
    names = [f"lite-{number}" for number in range(topics)]
    clients = [f"client-{number}@host@1@{number:x}" for number in range(subscribers)]
    for number, client_id in enumerate(clients):
        sync = LiteSync(GROUP, TOPIC, client_id, LiteAction.COMPLETE_ADD, names[number::subscribers])
        await broker.consuming.sync_lite(sync)
    say(f"{subscribers} subscribers")
    began = time.process_time()
    await send(broker, names)
    say(f"{topics} lite topics, {(time.process_time() - began) / topics * 1e6:.0f} us a message")
    began = time.process_time()
    read_in_all = 0
    for client_id in clients:
        read_in_all += await read(broker, client_id)
        await asyncio.sleep(0)
    say(f"{read_in_all} read and acknowledged, {(time.process_time() - began) / topics * 1e6:.0f} us each")
    await asyncio.sleep(4.0)
    gc.collect()
    say("when the journal has it")
    began = time.process_time()
    await asyncio.sleep(30.0)
    print(f"idle: {(time.process_time() - began) / 30:.1%} of a core", flush=True)
    await broker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--subscribers", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name), arguments.topics, arguments.subscribers))
        began = time.perf_counter()
        again = opened(Path(name))
        print(f"open again after {time.perf_counter() - began:.1f} s")
        again.abandon_files()


if __name__ == "__main__":
    main()
