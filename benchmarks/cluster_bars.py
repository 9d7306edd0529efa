"""Measures the cluster's promised figures: `python -m benchmarks.cluster_bars [--only NAME] [--quick] [--no-peer]`.

cost    processor time of the servers for each message, cluster against embedded: sent one by one, received and
        acknowledged; Apache RocketMQ 5.5's own ratio of cluster mode to local mode beside it
killed  SIGKILL of one of two brokers under load: the gap in the other's traffic, and when sends succeed again
idle    4 proxies, 2 brokers and 20,000 connected clients: memory of all together

Server and client share the machine; what clients use is not counted.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from benchmarks import idle_clients, killed_broker
from ternmq import Message, Producer, SimpleConsumer
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.support.cluster_processes import ClusterProcesses
from tests.support.stack import Stack

BODY = bytes(256)
SENDERS = 32
CONSUMERS = 8
MESSAGES = 6000
ROUNDS = 5
PEER_WARM_UP = 5
IDLE_CLIENTS = 20_000
IDLE_S = 25.0
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages and clients")
    parser.add_argument("--no-peer", action="store_true", help="leave Apache RocketMQ out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    scale = 0.1 if arguments.quick else 1.0
    figures: Figures = {}
    for name, measure in BARS.items():
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            measured = asyncio.run(measure(Path(folder), scale))
        if name == "cost" and not arguments.no_peer:
            measured |= asyncio.run(peer_cost(scale))
        figures |= measured
        if not arguments.json:
            for label, figure in measured.items():
                print(f"{label:<78} {figure:>10,.2f}", flush=True)
    if arguments.json:
        print(json.dumps(figures))


# --- the cost of a message


class Cost:
    """Microseconds of the servers' processor time for each message, round by round."""

    def __init__(self, name: str, endpoint: str, pids: Sequence[int]) -> None:
        self.name = name
        self._endpoint = endpoint
        self._pids = pids
        self.sent: list[float] = []
        self.received: list[float] = []

    async def round(self, messages: int, *, counts: bool = True) -> None:
        """Send so many messages to the topic `cost`, then receive and acknowledge them."""
        sent = await self._used(lambda: send(self._endpoint, messages), messages)
        received = await self._used(lambda: consume(self._endpoint, messages), messages)
        if counts:
            self.sent.append(sent)
            self.received.append(received)

    async def _used(self, work: Callable[[], Awaitable[None]], messages: int) -> float:
        before = sum(map(cpu_s, self._pids))
        await work()
        return (sum(map(cpu_s, self._pids)) - before) / messages * 1e6

    @property
    def total(self) -> float:
        return statistics.median(self.sent) + statistics.median(self.received)

    def figures(self) -> Figures:
        return {
            f"{self.name}: a single send, us of CPU": statistics.median(self.sent),
            f"{self.name}: receive and ack in batches of 32, us of CPU": statistics.median(self.received),
        }


def cpu_s(pid: int) -> float:
    """Return the processor seconds of a process, including threads that have ended, as the peer's do."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def send(endpoint: str, messages: int) -> None:
    """Send messages one by one, by several senders at a time."""
    left = iter(range(messages))
    async with Producer(endpoint, topics=["cost"]) as producer:

        async def sender() -> None:
            for _ in left:
                await producer.send(Message("cost", BODY))

        await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def consume(endpoint: str, messages: int) -> None:
    """Receive and acknowledge messages in batches, by several consumers at a time."""
    got = 0

    async def reader(consumer: SimpleConsumer) -> None:
        nonlocal got
        while got < messages:
            views = await consumer.receive(max_messages=32, invisible_duration=timedelta(seconds=60))
            got += len(views)
            await asyncio.gather(*(consumer.ack(view) for view in views))

    consumer = SimpleConsumer(
        endpoint, group="readers", subscriptions={"cost": "*"}, await_duration=timedelta(seconds=1)
    )
    async with consumer:
        await asyncio.gather(*(reader(consumer) for _ in range(CONSUMERS)))


async def cost(folder: Path, scale: float) -> Figures:
    messages = int(MESSAGES * scale)
    with ExitStack() as stack:
        embedded = stack.enter_context(Stack(folder / "embedded"))
        one = stack.enter_context(ClusterProcesses(folder / "one", brokers=1, proxies=1))
        two = stack.enter_context(ClusterProcesses(folder / "two", brokers=2, proxies=2))
        costs = [
            Cost("embedded", embedded.grpc, [embedded.process.pid]),
            Cost("cluster, 1 proxy and 1 broker", one.proxies[0].grpc, pids_of(one)),
            Cost("cluster, 2 proxies and 2 brokers", two.proxies[0].grpc, pids_of(two)),
        ]
        for endpoint in (embedded.grpc, one.proxies[0].grpc, two.proxies[0].grpc):
            with AdminClient(endpoint) as admin:
                await asyncio.to_thread(admin.send_call, topic_calls.create_topic("cost", "normal", 8))
        for number in range(ROUNDS + 1):
            for each in costs:
                await each.round(messages, counts=number > 0)
    figures: Figures = {}
    for each in costs:
        figures |= each.figures()
    for each in costs[1:]:
        figures[f"{each.name}: times the embedded stack's CPU (1.8 at most)"] = each.total / costs[0].total
    return figures


def pids_of(cluster: ClusterProcesses) -> list[int]:
    return [each.process.pid for each in (*cluster.proxies, *cluster.brokers)]


async def peer_cost(scale: float) -> Figures:
    """Measure the same on Apache RocketMQ, whose code is compiled while it runs: the first rounds don't count."""
    messages = int(MESSAGES * scale)
    figures: Figures = {}
    totals: list[float] = []
    for name, clustered in (("Apache RocketMQ 5.5, local mode", False), ("Apache RocketMQ 5.5, cluster mode", True)):
        with ApacheRocketMQ(clustered) as peer:
            peer.create_topic("cost", queues=8)
            peer.create_group("readers")
            measured = Cost(name, peer.endpoint, peer.pids)
            for number in range(ROUNDS + PEER_WARM_UP):
                await measured.round(messages, counts=number >= PEER_WARM_UP)
        figures |= measured.figures()
        totals.append(measured.total)
    figures["Apache RocketMQ 5.5: cluster mode's CPU, times local mode's"] = totals[1] / totals[0]
    return figures


# --- a broker is killed


async def killed(folder: Path, scale: float) -> Figures:
    del scale  # it takes as long as it takes
    with ClusterProcesses(folder) as cluster:
        seen = await killed_broker.measured(cluster)
    return {
        "a broker killed: gap in the other broker's traffic, s (under 1)": seen.gap_s,
        "a broker killed: the longest send, s (under 3)": seen.longest_after_s,
        "a broker killed: the longest send before, s": seen.longest_before_s,
        "a broker killed: sends that failed for good": seen.failed,
        "a broker killed: sends afterwards": seen.sends_after,
        "a broker killed: takes messages again after its start, s": seen.back_s,
    }


# --- idle clients


async def idle(folder: Path, scale: float) -> Figures:
    clients = int(IDLE_CLIENTS * scale)
    figures: Figures = {}
    with ClusterProcesses(folder, brokers=2, proxies=4) as cluster:
        endpoints, pids = [proxy.grpc for proxy in cluster.proxies], pids_of(cluster)
        with AdminClient(endpoints[0]) as admin:
            await asyncio.to_thread(admin.send_call, topic_calls.create_topic(idle_clients.TOPIC, "normal", 8))
        for polling in (False, True):
            name = f"{clients:,} idle clients{', each polling' if polling else ''}"
            seen = await idle_clients.measure(endpoints, pids, clients, polling=polling, hold_s=IDLE_S)
            figures[f"{name}: all servers, PSS MB (under 1,000)"] = seen[f"after {IDLE_S:g} s, PSS MB"]
            figures[f"{name}: a client, PSS KiB"] = seen["a client, PSS KiB"]
            figures[f"{name}: connected"] = seen["connected"]
    return figures


BARS: dict[str, Callable[[Path, float], Coroutine[Any, Any, Figures]]] = {"cost": cost, "killed": killed, "idle": idle}


if __name__ == "__main__":
    main()
