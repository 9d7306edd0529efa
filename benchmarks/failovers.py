"""Kills the leader of a shard again and again: `python -m benchmarks.failovers --count 500 [--seed N]`; with `--disk`
its disk refuses all writes instead.

A shard of three replicas with a lease of 2 s, two proxies, PostgreSQL; our own client sends to a FIFO topic, in one
message group, and to a NORMAL one, and consumes both. Each time the leader gets SIGKILL, or sometimes SIGSTOP for 5 s,
after which it continues or gets SIGKILL; it is restarted as soon as the gap is known, and the next one is killed when
all are in sync again. A disk that refuses writes (EFBIG) does so until another replica leads, and up to 3 s more;
sometimes the process that uses it gets SIGKILL meanwhile.

gap     from that to the first FIFO send that the next leader has acknowledged
checks  at the end: all acknowledged messages were delivered, in order, and are where the receipts say
        (`tests/cluster/history_checks.py`); the replicas' logs are the same byte for byte

The exit code is 0 if nothing was lost and the checks hold. `--keep FILE` writes the history there if they don't.
"""

import argparse
import asyncio
import itertools
import random
import resource
import statistics
import sys
import tempfile
import time
from bisect import bisect
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.history import History
from tests.cluster.log_files import end_and_compare
from tests.cluster.recording import FIFO, NORMAL, Recording, recording
from tests.cluster.shard import Shard, shard_of
from tests.support.cluster_processes import ReplicaProcess
from tests.support.ports import ANY_PORT

GAP_WITHIN_S = 60.0
HANG_S = 5.0
REFUSES_S = 3.0
HANG_EACH = 12
SHOWN_EACH = 10


@dataclass
class Figures:
    """The measured times, in seconds."""

    gaps_s: list[float] = field(default_factory=list)
    hang_gaps_s: list[float] = field(default_factory=list)
    disk_gaps_s: list[float] = field(default_factory=list)
    rounds_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(
            f"{what}: {len(values)}, median {statistics.median(values):.2f} s, p90 {p90(values):.2f} s, "
            f"max {max(values):.2f} s"
            for what, values in (
                ("FIFO gap after SIGKILL", self.gaps_s),
                ("FIFO gap after SIGSTOP", self.hang_gaps_s),
                ("FIFO gap after a disk refused writes", self.disk_gaps_s),
                ("from kill or refusal to all in sync", self.rounds_s),
            )
            if values
        )


def p90(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.9)]


class Failovers:
    """Kills leaders of one shard under recorded load."""

    def __init__(self, shard: Shard, work: Recording, dice: random.Random, *, of_disk: bool) -> None:
        self._of_disk = of_disk
        self.figures = Figures()
        self._shard = shard
        self._work = work
        self._history = work.history
        self._dice = dice

    async def one(self) -> None:
        """Run one failover, until all replicas are in sync again."""
        leader = await self._shard.leader()
        if self._of_disk:
            await self._refuse_writes(leader)
        elif self._dice.randrange(HANG_EACH) == 0:
            await self._hang(leader)
        else:
            await self._kill(leader)

    async def _kill(self, leader: ReplicaProcess) -> None:
        began_s = time.monotonic()
        self._history.note(f"SIGKILL for {leader.replica}")
        leader.kill9()
        self.figures.gaps_s.append(await self._gap_s(began_s, leader))
        await self._started(leader)
        await self._shard.in_sync(3, within_s=60)
        self.figures.rounds_s.append(time.monotonic() - began_s)

    async def _hang(self, leader: ReplicaProcess) -> None:
        began_s = time.monotonic()
        self._history.note(f"SIGSTOP for {leader.replica}")
        leader.pause()
        self.figures.hang_gaps_s.append(await self._gap_s(began_s, leader))
        await asyncio.sleep(max(0.0, began_s + HANG_S - time.monotonic()))
        if self._dice.random() < 0.5:
            self._history.note(f"SIGKILL for {leader.replica}, which hung")
            leader.kill9()
            await self._started(leader)
        else:
            self._history.note(f"SIGCONT for {leader.replica}")
            leader.resume()
        await self._shard.in_sync(3, within_s=60)

    async def _refuse_writes(self, leader: ReplicaProcess) -> None:
        began_s = time.monotonic()
        self._history.note(f"the disk of {leader.replica} refuses writes")
        pid = leader.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        self.figures.disk_gaps_s.append(await self._gap_s(began_s, leader))
        await asyncio.sleep(self._dice.uniform(0, REFUSES_S))
        if self._dice.randrange(HANG_EACH) == 0:
            self._history.note(f"SIGKILL for {leader.replica}, whose disk refuses writes")
            leader.kill9()
            await self._started(leader)
        else:
            self._history.note(f"the disk of {leader.replica} takes writes again")
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        await self._shard.in_sync(3, within_s=60)
        self.figures.rounds_s.append(time.monotonic() - began_s)

    async def _started(self, replica: ReplicaProcess) -> None:
        """Restart a replica on other ports: in hundreds of restarts, other connections may take ports that were free
        meanwhile."""
        replica.addresses = dict.fromkeys(replica.addresses, ANY_PORT)
        await asyncio.to_thread(replica.start)

    async def _gap_s(self, began_s: float, before: ReplicaProcess) -> float:
        """Return the longest time without an acknowledged FIFO send after the kill: an acknowledgement of the killed
        leader may still have been in flight."""
        await self._work.acknowledged_after(FIFO, began_s, within_s=GAP_WITHIN_S)
        await self._shard.led_by_another(before, within_s=GAP_WITHIN_S)
        times = self._history.acknowledged_s[self._work.topics[FIFO]]
        after = times[bisect(times, began_s) :]
        pauses = itertools.pairwise([began_s, *after])
        return max(pauses, key=lambda pause: pause[1] - pause[0])[1] - began_s


async def run(count: int, seed: int, keep: Path | None, *, of_disk: bool) -> int:
    history = History()
    with tempfile.TemporaryDirectory() as folder, shard_of(Path(folder)) as shard:
        await shard.in_sync(3)
        endpoint = ";".join(proxy.grpc for proxy in shard.cluster.proxies)
        async with recording(endpoint, history, kinds=(FIFO, NORMAL)) as work:
            failovers = Failovers(shard, work, random.Random(seed), of_disk=of_disk)
            try:
                await work.acknowledged_after(FIFO, history.seconds(), within_s=GAP_WITHIN_S)
                for number in range(1, count + 1):
                    await failovers.one()
                    if number % SHOWN_EACH == 0:
                        say(f"after {number} failovers\n{failovers.figures}\n{history.counts()}")
                await work.finish()
            except (AssertionError, TimeoutError) as error:
                say(f"{error!r}\n{shard.cluster.logs}\n{await shard.entry()}")
                say(f"{failovers.figures}\n{history.counts()}")
                if keep is not None:
                    history.write(keep)
                return 1
        found = await end_and_compare(shard)
    say(f"{failovers.figures}\n{history.counts()}\n0 acknowledged lost")
    say("\n".join(found) or "the logs of all replicas are the same")
    return 1 if found else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--keep", type=Path, help="where the history is written if something is wrong")
    parser.add_argument("--disk", action="store_true", help="leaders' disks refuse writes, instead of kills")
    arguments = parser.parse_args()
    say(f"seed {arguments.seed}")
    return asyncio.run(run(arguments.count, arguments.seed, arguments.keep, of_disk=arguments.disk))


if __name__ == "__main__":
    sys.exit(main())
