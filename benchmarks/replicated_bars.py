"""Measures what was promised of shards with replicas: `python -m benchmarks.replicated_bars [--only cost|catch-up]`.

cost      a broker without replicas and a shard of two (a send is answered when both have it on their disks), in turn:
          messages a second with 128 senders, processor time a message at the leader and at the follower, p99 at 500/s
catch-up  a follower that was away while so many messages came follows again: how long that takes, and what p50 and p99
          of live sends are meanwhile, beside those before

All processes share the machine's cores; what the load generator takes is not counted.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from benchmarks.bench import load
from benchmarks.bench.processes import cpu_s
from tests.cluster.shard import Shard
from tests.support.cluster_processes import ClusterProcesses, MemberProcess
from tests.support.embedded import RawClient

Figures = dict[str, float]
IN_FLIGHT = 128
RATE = 500
BACKLOG = 300_000
ROUNDS = 3
IN_SYNC_S = 600.0


class Target:
    """A running cluster of one broker, or one shard."""

    def __init__(self, name: str, cluster: ClusterProcesses, shard: Shard | None) -> None:
        self.name = name
        self.cluster = cluster
        self.shard = shard
        self.figures: dict[str, list[float]] = {}

    async def start(self) -> None:
        if self.shard is not None:
            await self.shard.in_sync(len(self.shard.replicas), within_s=60)
        async with RawClient(self.endpoint) as client:
            await client.create_topic("sends", queues=4)

    @property
    def endpoint(self) -> str:
        return self.cluster.proxies[0].grpc

    async def leader(self) -> MemberProcess:
        return self.cluster.brokers[0] if self.shard is None else await self.shard.leader()

    async def followers(self) -> list[MemberProcess]:
        return [] if self.shard is None else list(await self.shard.followers())

    def note(self, figure: str, value: float) -> None:
        self.figures.setdefault(figure, []).append(value)

    def median(self, figure: str) -> float:
        return statistics.median(self.figures[figure])


def _load(target: Target, *options: object) -> load.Run:
    return load.run("send", target.endpoint, "-topic", "sends", *options, pids=(), cores={0, 1})


async def cost(folder: Path, seconds: float) -> Figures:
    """See the module."""
    with (
        ClusterProcesses(folder / "one", brokers=1, proxies=1) as one,
        ClusterProcesses(folder / "two", brokers=1, replicas=2, proxies=1) as two,
    ):
        shard = Shard(two)
        alone, replicated = Target("alone", one, None), Target("two replicas", two, shard)
        for target in (alone, replicated):
            await target.start()
            await asyncio.to_thread(_load, target, "-in-flight", IN_FLIGHT, "-seconds", 2)
        for _ in range(ROUNDS):
            for target in (alone, replicated):
                await _round(target, seconds)
        shard.close()
    names = ("messages/s", "leader us", "p50 ms", "p99 ms")
    figures = {f"{target.name}: {name}": target.median(name) for target in (alone, replicated) for name in names}
    figures["two replicas: follower us"] = replicated.median("follower us")
    return figures | {
        "throughput, of one's (>= 0.6)": replicated.median("messages/s") / alone.median("messages/s"),
        "CPU a message at the leader (<= 1.3)": replicated.median("leader us") / alone.median("leader us"),
        "CPU a message at the follower (<= 0.4)": replicated.median("follower us") / alone.median("leader us"),
        "p99 of an acknowledgement (<= 2)": replicated.median("p99 ms") / alone.median("p99 ms"),
    }


async def _round(target: Target, seconds: float) -> None:
    leader, followers = await target.leader(), await target.followers()
    before = [cpu_s([each.process.pid]) for each in (leader, *followers)]
    run = await asyncio.to_thread(_load, target, "-in-flight", IN_FLIGHT, "-seconds", seconds)
    after = [cpu_s([each.process.pid]) for each in (leader, *followers)]
    spent = [(end - begin) / run.figures["sent"] * 1e6 for begin, end in zip(before, after, strict=True)]
    target.note("messages/s", run.figures["sent"] / run.seconds)
    target.note("leader us", spent[0])
    if followers:
        target.note("follower us", statistics.fmean(spent[1:]))
    paced = await asyncio.to_thread(_load, target, "-in-flight", 16, "-rate", RATE, "-seconds", seconds)
    target.note("p50 ms", paced.figures["latency_us"]["p50"] / 1000)
    target.note("p99 ms", paced.figures["latency_us"]["p99"] / 1000)


async def catch_up(folder: Path, seconds: float) -> Figures:
    """See the module."""
    with ClusterProcesses(folder, brokers=1, replicas=3, proxies=1) as cluster:
        shard = Shard(cluster)
        target = Target("three replicas", cluster, shard)
        await target.start()
        away = (await shard.followers())[0]
        away.kill9()
        await shard.in_sync(2)
        await asyncio.to_thread(_load, target, "-batch", 32, "-in-flight", 8, "-count", BACKLOG)
        paced = ("-in-flight", 16, "-rate", RATE)
        before = await asyncio.to_thread(_load, target, *paced, "-seconds", seconds)
        await asyncio.to_thread(away.start)
        began = time.monotonic()
        caught_up = asyncio.create_task(shard.in_sync(3, within_s=IN_SYNC_S))
        meanwhile = await asyncio.to_thread(_load, target, *paced, "-seconds", seconds)
        await caught_up
        took_s = time.monotonic() - began
        shard.close()
    p99 = [run.figures["latency_us"]["p99"] / 1000 for run in (before, meanwhile)]
    return {
        f"{BACKLOG:,} messages behind: s until in sync": took_s,
        "p99 of live sends before, ms": p99[0],
        "p99 of live sends meanwhile, ms": p99[1],
        "p99 meanwhile, of that before (<= 2)": p99[1] / p99[0],
    }


BARS: dict[str, Callable[[Path, float], Coroutine[Any, Any, Figures]]] = {"cost": cost, "catch-up": catch_up}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    for name, measure in BARS.items():
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(measure(Path(folder), arguments.seconds))
        for label, figure in figures.items():
            print(f"{label:<50} {figure:>12,.3f}", flush=True)


if __name__ == "__main__":
    main()
