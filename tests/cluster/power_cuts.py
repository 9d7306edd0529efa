"""Cuts the power of a shard's machines again and again: `python -m tests.cluster.power_cuts --cuts 200 [--seed N]`.

Three replicas have disks that lose what was not synced (`tests/support/losing_disk.py`). Our clients send and receive
meanwhile. Each time one, two or all of the machines lose their power, at any moment, and come back; and somebody must
be served again before the next time. At the end the history of all that was done and seen is checked, and the logs of
the replicas are compared. The exit code is 0 if nothing is wrong.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.history import History
from tests.cluster.log_files import end_and_compare
from tests.cluster.recording import FIFO, NORMAL, TIMED, Recording, recording
from tests.cluster.shard import SETTINGS, Shard
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.losing_disk import LosingDisk, losing_disk
from tests.support.soaks import print_line
from tests.support.stack import config_options

DISK_BYTES = 256 << 20
SEGMENT_BYTES = 4 << 20
WITHIN_S = 60.0
BETWEEN_S = (0.1, 2.0)
AWAY_S = (0.0, 3.0)


class Machines:
    """The replicas of a shard, and their disks."""

    def __init__(self, shard: Shard, disks: dict[str, LosingDisk]) -> None:
        self.shard = shard
        self._disks = disks

    def cut(self, replica: ReplicaProcess) -> None:
        """Its power is gone."""
        replica.kill9()
        self._disks[replica.replica].cut_power()


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    with ExitStack() as stack:
        disks = {
            name: stack.enter_context(losing_disk(folder / f"broker-0-{name}" / "data", DISK_BYTES)) for name in "abc"
        }
        options = config_options(folder, f"{SETTINGS}segment_bytes = {SEGMENT_BYTES}\n")
        cluster = stack.enter_context(
            ClusterProcesses(folder, brokers=1, replicas=3, proxies=2, broker_options=options)
        )
        shard = Shard(cluster)
        stack.callback(shard.close)
        yield Machines(shard, disks)


async def cut_again_and_again(folder: Path, cuts: int, seed: int) -> list[str]:
    """What is wrong at the end; AssertionError says what was lost on the way."""
    dice = random.Random(seed)
    with machines(folder) as at:
        shard = at.shard
        await shard.in_sync(3, within_s=WITHIN_S)
        doors = ";".join(shard.cluster.doors)
        async with recording(doors, History(), name="power-cuts", kinds=(FIFO, NORMAL, TIMED)) as work:
            for number in range(cuts):
                await _cut_once(at, work, dice, f"{number + 1} of {cuts}")
            await shard.in_sync(3, within_s=WITHIN_S)
            await work.finish()
        return await end_and_compare(shard)


async def _cut_once(at: Machines, work: Recording, dice: random.Random, title: str) -> None:
    await asyncio.sleep(dice.uniform(*BETWEEN_S))  # at any moment
    leader = await at.shard.leader()
    victims = dice.sample(at.shard.replicas, dice.choice((1, 2, 3)))
    if dice.random() < 0.5 and leader not in victims:
        victims[0] = leader
    print_line(f"{title}: {', '.join(each.replica for each in victims)}; the leader is {leader.replica}")
    began = time.monotonic()
    for victim in victims:
        at.cut(victim)
    await asyncio.sleep(dice.uniform(*AWAY_S))
    dice.shuffle(victims)
    await asyncio.gather(*(asyncio.to_thread(victim.start) for victim in victims))
    since_s = work.history.seconds()
    for kind in work.topics:
        await work.acknowledged_after(kind, since_s, within_s=WITHIN_S)
    print_line(f"  served again after {time.monotonic() - began:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    print_line(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(cut_again_and_again(Path(folder), arguments.cuts, arguments.seed))
    print_line("\n".join(wrong) or f"{arguments.cuts} power cuts: nothing lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
