"""Kills each container of docker-compose.yml in turn, takes the stack down and up again, and upgrades it, under load:
`python -m tests.containers.chaos [--rounds N]`, as root, by tests/containers/with_docker.sh.

Producers and consumers of ours work through the load balancer all the time, and everybody is at work again before the
next blow. At the end every group must have had every message that was acknowledged; the account says what that cost.
The exit code is 0 if so.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.load import Load, Way, working
from tests.containers.compose import Stack

BROKERS, PROXIES = ["broker-0", "broker-1"], ["proxy-0", "proxy-1"]
VICTIMS = ["postgres", *BROKERS, *PROXIES, "load-balancer"]
SERVICES = ["postgres", "registry-migration", *BROKERS, *PROXIES, "load-balancer"]


async def run(rounds: int) -> int:
    with tempfile.TemporaryDirectory() as home, Stack(services=SERVICES) as stack:
        way = Way(endpoint=stack.endpoint, door=stack.endpoint, languages=())
        async with working(way, "chaos", Path(home)) as load:
            try:
                for number in range(1, rounds + 1):
                    await strike_all(stack, load, f"round {number}")
                say(str(await load.finish()))
            except AssertionError as error:  # it has the account
                say(f"{error}\n{stack.logs()}")
                return 1
    return 0


async def strike_all(stack: Stack, load: Load, round_: str) -> None:
    for victim in VICTIMS:
        async with blow(load, f"{round_}: {victim} killed"):
            await asyncio.to_thread(stack.kill, victim)
            await asyncio.to_thread(stack.start, victim)
            await healthy(stack)
    async with blow(load, f"{round_}: down and up"):
        await asyncio.to_thread(stack.compose, "down", timeout_s=120)
        await asyncio.to_thread(stack.up, *SERVICES)
        await healthy(stack)
    async with blow(load, f"{round_}: rolling upgrade"):
        upgraded = await asyncio.to_thread(stack.upgraded, "--all")
        assert upgraded.returncode == 0, f"it stopped: {upgraded.stderr}"


@asynccontextmanager
async def blow(load: Load, what: str) -> AsyncIterator[None]:
    say(f"{what}; {len(load.account.acknowledged):,} acknowledged before")
    async with load.phase(what):
        yield


async def healthy(stack: Stack) -> None:
    for service in VICTIMS:
        await asyncio.to_thread(stack.wait_healthy, service)


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often all that is done; 3")
    return asyncio.run(run(parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
