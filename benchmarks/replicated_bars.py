"""Measures the promised figures of shards with replicas: `python -m benchmarks.replicated_bars [--only NAME]`.

cost      a broker without replicas and a shard of two (a send is answered when both have it on their disks), in turn:
          messages a second with 128 senders, processor time a message at the leader and at the follower, p99 at 500/s
apache    the same for Apache RocketMQ: a broker that syncs to the disk, and one with a slave that has each message too
catch-up  a follower that was away while so many messages were sent follows again: how long that takes, and p50 and p99
          of live sends meanwhile, beside those before. `--apart`: it has a core for itself, and its data in memory
          instead of on the leader's disk

Otherwise all processes share the machine's cores; the load generator is not counted.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bench import load
from benchmarks.bench.processes import cpu_s, family, pinned
from benchmarks.replicated_targets import TOPIC, Target, apache, ternmq
from tests.support.cluster_processes import ReplicaProcess

Figures = dict[str, float]
IN_FLIGHT = 128
RATE = 500
ROUNDS = 3
WARM_S = 8
IN_SYNC_S = 600.0
EVERY_CORE = frozenset({0, 1})
MEMORY = Path("/dev/shm")


def _load(target: Target, *options: object, cores: Collection[int] = EVERY_CORE) -> load.Run:
    return load.run("send", target.endpoint, "-topic", TOPIC, *options, pids=(), cores=cores)


class Measured:
    """One target's figures, a list for each name."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._figures: dict[str, list[float]] = {}

    def __getitem__(self, name: str) -> float:
        return statistics.median(self._figures[name])

    async def one_round(self, seconds: float) -> None:
        target = self.target
        pids = [await target.leader(), *await target.followers()]
        before = [cpu_s([pid]) for pid in pids]
        run = await asyncio.to_thread(_load, target, "-in-flight", IN_FLIGHT, "-seconds", seconds)
        spent = [(cpu_s([pid]) - begin) / run.figures["sent"] * 1e6 for pid, begin in zip(pids, before, strict=True)]
        self._note("messages/s", run.figures["sent"] / run.seconds)
        self._note("leader us", spent[0])
        if len(spent) > 1:
            self._note("follower us", statistics.fmean(spent[1:]))
        paced = await asyncio.to_thread(_load, target, "-in-flight", 16, "-rate", RATE, "-seconds", seconds)
        self._note("p50 ms", paced.figures["latency_us"]["p50"] / 1000)
        self._note("p99 ms", paced.figures["latency_us"]["p99"] / 1000)

    def _note(self, name: str, value: float) -> None:
        self._figures.setdefault(name, []).append(value)


async def _cost(one: Target, two: Target, options: argparse.Namespace) -> Figures:
    """See the module."""
    alone, replicated = Measured(one), Measured(two)
    for measured in (alone, replicated):
        await measured.target.ready()
        await asyncio.to_thread(_load, measured.target, "-in-flight", IN_FLIGHT, "-seconds", WARM_S)
    for _ in range(ROUNDS):
        for measured in (alone, replicated):
            await measured.one_round(options.seconds)
    names = ("messages/s", "leader us", "p50 ms", "p99 ms")
    figures = {f"{each.target.name}: {name}": each[name] for each in (alone, replicated) for name in names}
    figures[f"{two.name}: follower us"] = replicated["follower us"]
    return figures | {
        "throughput, of one's (>= 0.6)": replicated["messages/s"] / alone["messages/s"],
        "CPU a message at the leader (<= 1.3)": replicated["leader us"] / alone["leader us"],
        "CPU a message at the follower (<= 0.4)": replicated["follower us"] / alone["leader us"],
        "p99 of an acknowledgement (<= 2)": replicated["p99 ms"] / alone["p99 ms"],
    }


async def cost(folder: Path, options: argparse.Namespace) -> Figures:
    """See the module."""
    with ternmq("alone", folder / "one", replicas=1) as one, ternmq("two", folder / "two", replicas=2) as two:
        return await _cost(one, two, options)


async def cost_of_apache(folder: Path, options: argparse.Namespace) -> Figures:
    """See the module."""
    del folder
    with apache("Apache alone", replicas=1) as one, apache("Apache with a slave", replicas=2) as two:
        return await _cost(one, two, options)


async def catch_up(folder: Path, options: argparse.Namespace) -> Figures:
    """See the module."""
    with ExitStack() as stack:
        target = stack.enter_context(ternmq("three", folder, replicas=3))
        shard = target.shard
        assert shard is not None
        await target.ready()
        away = (await shard.followers())[0]
        away.kill9()
        await shard.in_sync(2)
        await asyncio.to_thread(_load, target, "-batch", 32, "-in-flight", 8, "-count", options.backlog)
        cores, its_cores = EVERY_CORE, EVERY_CORE
        if options.apart:
            cores, its_cores = frozenset({0}), frozenset({1})
            stack.enter_context(_in_memory(away))
            _keep_to(cores, [os.getpid()])
        paced = ("-in-flight", 16, "-rate", options.rate)
        before = await asyncio.to_thread(_load, target, *paced, "-seconds", options.seconds, cores=cores)

        def begin() -> None:
            with pinned(its_cores):
                away.start()

        await asyncio.to_thread(begin)
        began = time.monotonic()
        caught_up = asyncio.create_task(shard.in_sync(3, within_s=IN_SYNC_S))
        meanwhile = await asyncio.to_thread(_load, target, *paced, "-seconds", options.seconds, cores=cores)
        was_behind = not caught_up.done()
        await caught_up
        took_s = time.monotonic() - began
    p50, p99 = ([run.figures["latency_us"][name] / 1000 for run in (before, meanwhile)] for name in ("p50", "p99"))
    return {
        f"{options.backlog:,} messages behind: s until in sync": took_s,
        "behind until the last live send (1: yes)": was_behind,
        "p50 of live sends before, ms": p50[0],
        "p50 of live sends meanwhile, ms": p50[1],
        "p99 of live sends before, ms": p99[0],
        "p99 of live sends meanwhile, ms": p99[1],
        "p99 meanwhile, of that before (<= 2)": p99[1] / p99[0],
    }


@contextmanager
def _in_memory(replica: ReplicaProcess) -> Iterator[None]:
    """Move the data of a replica that has ended into memory."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        place = Path(folder) / "data"
        shutil.move(replica.data, place)
        replica.data.symlink_to(place)
        yield
        replica.kill9()


def _keep_to(cores: Collection[int], roots: Collection[int]) -> None:
    """Keep these and their descendants on these cores, with all their threads."""
    for pid in family(roots):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


BARS: dict[str, Callable[[Path, argparse.Namespace], Coroutine[Any, Any, Figures]]] = {
    "cost": cost,
    "apache": cost_of_apache,
    "catch-up": catch_up,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--backlog", type=int, default=300_000, help="messages that the follower lacks")
    parser.add_argument("--rate", type=int, default=RATE, help="live sends a second while it catches up")
    parser.add_argument("--apart", action="store_true", help="see above")
    options = parser.parse_args()
    for name, measure in BARS.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(measure(Path(folder), options))
        for label, figure in figures.items():
            print(f"{label:<50} {figure:>12,.3f}", flush=True)


if __name__ == "__main__":
    main()
