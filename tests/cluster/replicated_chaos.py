"""A shard of three replicas suffers under load: `python -m tests.cluster.replicated_chaos --minutes 30 [--seed N]`.

Official clients and ours send and receive as in `load.py`; beside them our own clients, with everything they do and see
written down (`recording.py`). Again and again one of `BLOWS` falls by dice; mostly everybody must be at work again and
all replicas in sync before the next one, sometimes it falls on a shard that is still recovering. What takes a disk away
falls on a shard that is whole. Cuts of the network need network namespaces: without root they are left out.

At the end every group must have had every message that was acknowledged, the history must hold
(`history_checks.py`), and the replicas' logs must be the same byte for byte. The exit code is 0 if so.
`--languages java,go,python` chooses the official clients, none of them with `--languages ""`; `--keep FILE` writes the
history there if something is wrong; `--only NAME,NAME` chooses blows.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from tests.cluster.blows import BLOWS, ON_NETWORK, ON_WHOLE, Blows
from tests.cluster.history import History
from tests.cluster.load import LANGUAGES, Load, Way, working
from tests.cluster.log_files import end_and_compare
from tests.cluster.network_shard import NetworkShard, network_shard
from tests.cluster.recording import Recording, recording
from tests.cluster.shard import Shard, shard_of
from tests.interop.clients import CONSUMERS, PRODUCERS
from tests.support.soaks import create_parser, print_line

BETWEEN_S = (0.5, 4.0)
AT_ONCE_S = 1.5
WHOLE_WITHIN_S = 60.0
GOES_ON_WITHIN_S = 60.0
# After one in so many blows the next one falls before all is well again.
AT_ONCE_EACH = 4


class Chaos:
    """Blows on one shard, and what must hold after each."""

    def __init__(self, shard: Shard, work: Recording, load: Load | None, dice: random.Random) -> None:
        self.fallen = Counter[str]()
        self._shard = shard
        self._work = work
        self._load = load
        self._dice = dice
        self._blows = Blows(shard, dice, self._say)
        self._began_s = time.monotonic()

    async def run(self, seconds: float, only: Sequence[str]) -> None:
        """Blows until the time is over; afterwards all is well."""
        while time.monotonic() < self._began_s + seconds:
            name = self._dice.choice(only)
            if name in ON_WHOLE:
                await self._whole()
            await self._one(name)
            if self._dice.randrange(AT_ONCE_EACH):
                await self._whole()
                await asyncio.sleep(self._dice.uniform(*BETWEEN_S))
            else:
                await asyncio.sleep(self._dice.uniform(0, AT_ONCE_S))
        await self._whole()

    async def _one(self, name: str) -> None:
        self.fallen[name] += 1
        if self._load is not None:
            self._load.account.phase = name
        await self._blows.fall(name)

    async def _whole(self) -> None:
        """Return when all replicas are in sync and everybody is at work."""
        began_s = time.monotonic()
        await self._shard.in_sync(len(self._shard.replicas), within_s=WHOLE_WITHIN_S)
        since_s = self._work.history.seconds()
        for kind in self._work.topics:
            await self._work.acknowledged_after(kind, since_s, within_s=GOES_ON_WITHIN_S)
        if self._load is not None:
            await self._load.account.goes_on(5)
        self._say(f"all is well after {time.monotonic() - began_s:.1f} s")

    def _say(self, text: str) -> None:
        self._work.history.note(text)
        count = self._work.history.acknowledged_count
        if self._load is not None:
            count += len(self._load.account.acknowledged)
        print_line(f"{time.monotonic() - self._began_s:7.1f} s  {text}; {count:,} acknowledged")


@contextmanager
def cluster_of(folder: Path) -> Iterator[Shard]:
    """On a network of its own where that can be had."""
    if os.geteuid() == 0:
        with network_shard(folder) as networked:
            yield networked
    else:
        print_line("without network namespaces, which root can make")
        with shard_of(folder) as shard:
            yield shard


async def run(minutes: float, seed: int, languages: list[str], only: list[str], keep: Path | None) -> int:
    for language in languages:  # before, so that nothing waits for it
        CONSUMERS.build(language)
        PRODUCERS.build(language)
    history, dice = History(), random.Random(seed)
    with tempfile.TemporaryDirectory() as text, cluster_of(Path(text)) as shard:
        await shard.in_sync(3, within_s=WHOLE_WITHIN_S)
        try:
            async with AsyncExitStack() as stack:
                work = await stack.enter_async_context(recording(";".join(shard.cluster.doors), history))
                load = None
                if languages:
                    load = await stack.enter_async_context(working(_way(shard, languages), "chaos", Path(text)))
                chaos = Chaos(shard, work, load, dice)
                wanted = only or [name for name in BLOWS if isinstance(shard, NetworkShard) or name not in ON_NETWORK]
                await chaos.run(minutes * 60, wanted)
                print_line(f"blows: {dict(chaos.fallen)}")
                if load is not None:
                    print_line(str(await load.finish()))
                await work.finish()
            found = await end_and_compare(shard)
            assert not found, found
        except (AssertionError, TimeoutError) as error:
            print_line(f"{error!r}\n{error}\n{shard.cluster.logs}\n{history.counts()}")
            if keep is not None:
                history.write(keep)
            return 1
    print_line(f"{history.counts()}\n0 acknowledged lost, and the history holds")
    return 0


def _way(shard: Shard, languages: list[str]) -> Way:
    cluster = shard.cluster
    endpoint = ";".join(proxy.grpc for proxy in cluster.proxies)
    return Way(endpoint=endpoint, door=cluster.doors[0], within=cluster.within, languages=languages)


def main() -> int:
    parser = create_parser(__doc__, minutes=30)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    print_line(f"seed {arguments.seed}")
    languages, only = _words(arguments.languages), _words(arguments.only)
    if unknown := set(only) - set(BLOWS):
        parser.error(f"no blows: {', '.join(sorted(unknown))}; there are {', '.join(BLOWS)}")
    return asyncio.run(run(arguments.minutes, arguments.seed, languages, only, arguments.keep))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


if __name__ == "__main__":
    sys.exit(main())
