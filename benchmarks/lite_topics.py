"""Measures what lite topics cost, and how soon their messages arrive: `python -m benchmarks.lite_topics [--topics N
...]`.

A server of its own has so many lite topics, and so many clients of a lite group that share them, each on a connection
of its own with a Telemetry stream, a heartbeat every 10 s, a sync of its subscriptions every 30 s, and a poll of 20 s
that always waits. It measures the server's memory when each lite topic has had a message and every message is
acknowledged, the time from the begin of a send to the delivery at 1,000 a second, what the server computes when nothing
is sent, and how long it takes to restart.

The clients' frames are encoded by hand, as in `idle_clients`, in processes of their own.
"""

import argparse
import asyncio
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks import idle_clients
from benchmarks.idle_clients import CALL_TIMEOUT_S, CLIENTS_PER_PROCESS, IdleClient
from ternmq.admin.clients.client import Admin
from ternmq.admin.requests.words import Flush
from ternmq_common.catalog.lite_group import LITE_QUOTA_MAX
from ternmq_protos.v2 import definition_pb2, service_pb2
from tests.support.embedded import RawClient
from tests.support.stack import Stack

TOPIC, GROUP = "lite-bench", "lite-readers"
POLL_S = 20
SYNC_S = 30.0
MB = 1_000_000
_LOOK_S = 0.5
_DATA, _END_STREAM = 0, 1


def name_of(number: int) -> str:
    return f"lite-{number}"


class LiteClient(IdleClient):
    """One client: it subscribes its part, receives, and acknowledges. `late_ms` gets the age of each message."""

    def __init__(
        self, number: int, authority: str, tally: "Counter[str]", names: list[str], late_ms: list[float]
    ) -> None:
        super().__init__(number, authority, tally, polling=True)
        self._group = GROUP
        self._names = names
        self._late_ms = late_ms
        self._parts: dict[int, bytes] = {}

    def settings(self) -> definition_pb2.Settings:
        settings = definition_pb2.Settings(client_type=definition_pb2.LITE_PUSH_CONSUMER)
        settings.request_timeout.seconds = CALL_TIMEOUT_S
        settings.subscription.group.name = GROUP
        entry = settings.subscription.subscriptions.add()
        entry.topic.name = TOPIC
        entry.expression.expression = "*"
        return settings

    def heartbeat(self) -> None:
        request = service_pb2.HeartbeatRequest(client_type=definition_pb2.LITE_PUSH_CONSUMER, group={"name": GROUP})
        self._call("Heartbeat", request.SerializeToString(), timeout_s=CALL_TIMEOUT_S)

    def sync(self) -> None:
        request = service_pb2.SyncLiteSubscriptionRequest(
            action=definition_pb2.COMPLETE_ADD,
            topic={"name": TOPIC},
            group={"name": GROUP},
            lite_topic_set=self._names,
        )
        self._call("SyncLiteSubscription", request.SerializeToString(), timeout_s=CALL_TIMEOUT_S)

    def poll(self) -> None:
        request = service_pb2.ReceiveMessageRequest(batch_size=32, auto_renew=True, group={"name": GROUP})
        request.message_queue.topic.name = TOPIC
        request.message_queue.id = -1
        request.filter_expression.expression = "*"
        request.long_polling_timeout.seconds = POLL_S
        self._call("ReceiveMessage", request.SerializeToString(), timeout_s=POLL_S + CALL_TIMEOUT_S)

    def _frame_received(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA and self._calls.get(stream) == "ReceiveMessage":
            self._parts[stream] = self._take(self._parts.pop(stream, b"") + payload)
            return
        if flags & _END_STREAM:
            self._parts.pop(stream, None)
        super()._frame_received(kind, flags, stream, payload)

    def _take(self, data: bytes) -> bytes:
        """Process the whole messages of the answer's bytes; return the rest."""
        while len(data) >= 5 and len(data) >= 5 + (size := struct.unpack_from(">I", data, 1)[0]):
            item = service_pb2.ReceiveMessageResponse.FromString(data[5 : 5 + size])
            data = data[5 + size :]
            if item.WhichOneof("content") == "message":
                self._received(item.message)
        return data

    def _received(self, message: definition_pb2.Message) -> None:
        self._late_ms.append((time.time_ns() - int(message.body)) / 1e6)
        self._tally["received"] += 1
        properties = message.system_properties
        request = service_pb2.AckMessageRequest(group={"name": GROUP}, topic={"name": TOPIC})
        request.entries.add(
            message_id=properties.message_id,
            receipt_handle=properties.receipt_handle,
            lite_topic=properties.lite_topic,
        )
        self._call("AckMessage", request.SerializeToString(), timeout_s=CALL_TIMEOUT_S)


async def live(endpoint: str, numbers: range, clients: int, topics: int) -> None:
    """Run one process of the crowd: it prints its tally, and the ages since the last time, for each line that it gets.
    A line `quiet` ends the clients' periodic calls."""
    tally: Counter[str] = Counter()
    late_ms: list[float] = []
    lines = await idle_clients.standard_input()
    host, port = endpoint.rsplit(":", 1)
    gate = asyncio.Semaphore(idle_clients.CONNECTING_AT_ONCE)

    async def connected(number: int) -> LiteClient:
        names = [name_of(each) for each in range(number, topics, clients)]
        async with gate:
            _, client = await asyncio.get_running_loop().create_connection(
                lambda: LiteClient(number, endpoint, tally, names, late_ms), host, int(port)
            )
            await client.ready
            client.sync()
        return client

    crowd = list(await asyncio.gather(*map(connected, numbers)))
    beating = [
        asyncio.create_task(idle_clients.beat(crowd, LiteClient.heartbeat, idle_clients.HEARTBEAT_S)),
        asyncio.create_task(idle_clients.beat(crowd, LiteClient.sync, SYNC_S)),
    ]
    while line := await lines.readline():
        if line.strip() == b"quiet":
            for task in beating:
                task.cancel()
        sys.stdout.write(json.dumps([tally, late_ms]) + "\n")
        sys.stdout.flush()
        late_ms.clear()
    for client in crowd:
        client.close()


class Crowd:
    """All clients, in processes of their own."""

    def __init__(self, endpoint: str, clients: int, topics: int) -> None:
        root = Path(__file__).parents[1]
        self._processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.lite_topics", "--endpoint", endpoint),
                    *("--clients", str(clients), "--topics", str(topics)),
                    *("--numbers", str(start), str(min(start + CLIENTS_PER_PROCESS, clients))),
                ],
                cwd=root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for start in range(0, clients, CLIENTS_PER_PROCESS)
        ]

    async def state(self, word: str = "") -> tuple["Counter[str]", list[float]]:
        """Return the sum of all tallies, and the ages in milliseconds of messages since the last time."""
        return await asyncio.to_thread(self._state, word)

    async def until(self, what: str, count: int) -> list[float]:
        """Wait until that happened so often; return the ages of messages since the last time."""
        ages: list[float] = []
        while True:
            tally, some = await self.state()
            ages += some
            if tally[what] >= count:
                return ages
            await asyncio.sleep(_LOOK_S)

    def _state(self, word: str) -> tuple["Counter[str]", list[float]]:
        total: Counter[str] = Counter()
        ages: list[float] = []
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            tally, late_ms = json.loads(process.stdout.readline())
            total.update(tally)
            ages += late_ms
        return total, ages

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


async def send(sender: RawClient, numbers: Sequence[int], rate: int) -> None:
    """Send a message to each of these lite topics, at that rate, without waiting for answers; a failure ends it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as under_way:
        for sent, number in enumerate(numbers):
            due = began + sent / rate
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            under_way.create_task(sender.send(TOPIC, b"%d" % time.time_ns(), lite_topic=name_of(number)))


async def computed(server: psutil.Process, seconds: float) -> float:
    """Return the server's CPU time during that time, as a share of one core."""
    before = sum(server.cpu_times()[:2])
    await asyncio.sleep(seconds)
    return float(sum(server.cpu_times()[:2]) - before) / seconds


def memory_mb(server: psutil.Process) -> float:
    return float(server.memory_info().rss) / MB


async def measure(stack: Stack, topics: int, clients: int, seconds: int, rate: int, flush: Flush) -> None:
    server = psutil.Process(stack.process.pid)
    print(f"server alone: {memory_mb(server):.0f} MB", flush=True)
    async with Admin(stack.grpc) as admin:
        await admin.create_topic(TOPIC, type="lite", flush=flush)
        await admin.create_group(GROUP, lite_bind=TOPIC, lite_quota=min(LITE_QUOTA_MAX, 2 * topics))
    crowd = Crowd(stack.grpc, clients, topics)
    try:
        await crowd.until("SyncLiteSubscription ended", clients)
        print(f"{clients} clients with {topics} subscriptions: {memory_mb(server):.0f} MB", flush=True)
        async with RawClient(stack.grpc) as sender:
            await send(sender, range(topics), rate)
            await crowd.until("AckMessage ended", topics)
            await asyncio.sleep(3.0)
            print(f"{topics} lite topics, all acknowledged: {memory_mb(server):.0f} MB", flush=True)
            numbers = [random.randrange(topics) for _ in range(rate * seconds)]
            await asyncio.gather(send(sender, numbers, rate), show_cpu(server, rate, seconds))
            ages = sorted(await crowd.until("AckMessage ended", topics + len(numbers)))
        p99 = statistics.quantiles(ages, n=100)[98]
        print(
            f"{rate}/s for {seconds} s: median {statistics.median(ages):.1f} ms, p99 {p99:.1f} ms, {len(ages)} messages"
        )
        print(f"after that: {memory_mb(server):.0f} MB", flush=True)
        share = await computed(server, 30.0)
        print(f"idle, with heartbeats, words on subscriptions and polls: {share:.1%} of a core", flush=True)
        await crowd.state("quiet")
        print(f"idle, with polls alone: {await computed(server, 40.0):.1%} of a core", flush=True)
    finally:
        crowd.close()
    await asyncio.sleep(3.0)
    print(f"idle, without clients: {await computed(server, 30.0):.1%} of a core", flush=True)


async def show_cpu(server: psutil.Process, rate: int, seconds: int) -> None:
    print(f"at {rate}/s the server takes {await computed(server, seconds):.0%} of a core", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--seconds", type=int, default=30, help="how long they are sent")
    parser.add_argument("--flush", choices=("sync", "async"), default="sync", help="what an answered send waits for")
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    parser.add_argument("--numbers", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.numbers:
        asyncio.run(live(arguments.endpoint, range(*arguments.numbers), arguments.clients, arguments.topics))
        return
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        asyncio.run(
            measure(stack, arguments.topics, arguments.clients, arguments.seconds, arguments.rate, arguments.flush)
        )
        stack.terminate()
        began = time.perf_counter()
        stack.start()
        server = psutil.Process(stack.process.pid)
        print(f"ready again after {time.perf_counter() - began:.2f} s, with {memory_mb(server):.0f} MB")


if __name__ == "__main__":
    main()
