"""Kills, hangs and restarts a cluster's processes under load: `python -m tests.cluster.chaos --minutes 10 [--seed N]`.

Official clients and ours send and receive as in `load.py`. Every few seconds one process, PostgreSQL among them, gets
SIGKILL, SIGTERM or SIGSTOP; after a while it is started or continued, and before the next blow everybody must be at
work again. At the end every group must have had every message that was acknowledged; the account says what that cost.
The exit code is 0 if so. `--languages java,go,python` chooses the official clients.
"""

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.load import LANGUAGES, Load, Way, working
from tests.cluster.watching import clients_of, serving
from tests.support.cluster_processes import ClusterProcesses
from tests.support.soaks import create_parser, print_line

DOWN_S = (0.0, 12.0)
BETWEEN_S = (0.5, 6.0)
WHOLE_WITHIN_S = 40.0


async def strike(cluster: ClusterProcesses, load: Load, dice: random.Random) -> None:
    """One blow at one process, and its recovery."""
    down_s = dice.uniform(*DOWN_S)
    blow = dice.choice(("killed", "hanging", "stopped"))
    victim = dice.choice([*cluster.brokers, *cluster.proxies, None])
    name = "registry" if victim is None else victim.name
    print_line(f"{name} {blow} for {down_s:.1f} s; {len(load.account.acknowledged):,} acknowledged")
    async with load.phase(f"{name} {blow}"):
        process = cluster.postgres if victim is None else victim
        if blow == "hanging":
            process.pause()
            await asyncio.sleep(down_s)
            process.resume()
        else:
            if victim is None:
                await asyncio.to_thread(cluster.postgres.kill if blow == "killed" else cluster.postgres.stop)
            else:
                await asyncio.to_thread(victim.kill9 if blow == "killed" else victim.terminate)
            await asyncio.sleep(down_s)
            await asyncio.to_thread(process.start)
        async with clients_of(cluster.proxies) as clients:
            for client in clients:
                await serving(client, cluster.brokers, within_s=WHOLE_WITHIN_S)


async def run(minutes: float, seed: int, languages: list[str]) -> int:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, ClusterProcesses(Path(folder)) as cluster:
        async with working(Way.to(cluster, languages), "chaos", Path(folder) / "clients") as load:
            end = time.monotonic() + minutes * 60
            try:
                while time.monotonic() < end:
                    await strike(cluster, load, dice)
                    await asyncio.sleep(dice.uniform(*BETWEEN_S))
                print_line(str(await load.finish()))
            except AssertionError as error:
                print_line(f"{error}\n{cluster.logs}")
                return 1
    return 0


def main() -> int:
    parser = create_parser(__doc__, minutes=10)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    arguments = parser.parse_args()
    print_line(f"seed {arguments.seed}")
    languages = [language for language in arguments.languages.split(",") if language]
    return asyncio.run(run(arguments.minutes, arguments.seed, languages))


if __name__ == "__main__":
    sys.exit(main())
