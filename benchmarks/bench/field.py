"""The servers of a measurement: started when first needed, warmed up, and each with the topics that its loads use."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from benchmarks.bench import load
from benchmarks.bench.processes import in_the_background, pinned
from benchmarks.bench.servers import APACHE, NATS, SERVERS, Server, Setup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from benchmarks.bench.load import Run

# Calls of a server that needs no warm-up: for what it compiles and allocates with its first calls.
FEW = 20_000
# Messages are consumed several at a time, so that fewer of these calls warm up as well.
CONSUMED_SHARE = 3
BATCH = 32
# Parts after which the cost is checked; the warm-up ends after so many of them in any case.
WARM_UP_PARTS = 6
STEADY = 0.95
WARM_UP_MOST = 4
# A load generator that uses more of its core than this may be what limits a rate.
LOADER_SHARE_MAX = 0.9
SHORT_S = 1.0
BEGAN = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long a full run and a quick one measure."""

    rounds: int
    warm_up: int
    rehearses: bool
    settle_s: float
    load_s: float
    consumed: int
    waiting_s: float
    idle_s: float
    idle_clients: int
    stored: int
    topics: tuple[int, ...]
    backlogs: tuple[int, ...]


FULL = Scale(
    rounds=3,
    warm_up=300_000,
    rehearses=True,
    settle_s=30.0,
    load_s=5.0,
    consumed=100_000,
    waiting_s=10.0,
    idle_s=30.0,
    idle_clients=5000,
    stored=1_000_000,
    topics=(1, 100, 10_000),
    backlogs=(0, 1_000_000, 10_000_000),
)
QUICK = Scale(
    rounds=1,
    warm_up=FEW,
    rehearses=False,
    settle_s=3.0,
    load_s=1.5,
    consumed=10_000,
    waiting_s=2.0,
    idle_s=3.0,
    idle_clients=200,
    stored=50_000,
    topics=(1, 100),
    backlogs=(0, 100_000),
)


class Field:
    """All servers of one measurement: `with Field(...) as field`. They end with the `with` block.

    Invariant: a server is warm before `server` returns it.
    """

    def __init__(
        self, folder: Path, scale: Scale, *, server_cores: Collection[int], load_cores: Collection[int]
    ) -> None:
        self.scale, self._folder = scale, folder
        self._server_cores, self._load_cores = server_cores, load_cores
        self._all_cores = {*server_cores, *load_cores}
        self._servers: dict[Setup, Server] = {}
        self._topics: set[tuple[Server, str]] = set()
        self._filled: set[tuple[Server, tuple[str, ...]]] = set()
        self._numbers = itertools.count()
        self._running = ExitStack()
        self.notes: list[str] = []
        self.complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def fail(self, note: str) -> None:
        """Note that something could not be measured."""
        self.complete = False
        self.notes.append(note)
        say(note)

    def server(self, setup: Setup) -> Server:
        """Return the server of this setup; all works share it."""
        if setup not in self._servers:
            server = self._running.enter_context(self.fresh(setup))
            with self.alone(server):
                self.warm_up(server)
            self._servers[setup] = server
        return self._servers[setup]

    @contextlib.contextmanager
    def fresh(self, setup: Setup) -> Iterator[Server]:
        """Start a server of its own, on empty data, that is not warm."""
        folder = self._folder / f"{setup.engine.split()[0].lower()}-{next(self._numbers)}"
        with ExitStack() as running:
            with pinned(self._server_cores if setup.cores == 1 else self._all_cores):
                server = running.enter_context(SERVERS[setup.engine](setup, folder))
            yield server

    @contextlib.contextmanager
    def alone(self, server: Server) -> Iterator[None]:
        """Lower the priority of the other running servers for the block: even idle ones use the core that they share
        with this one, and a JVM's turn may last 30 milliseconds. (They are not stopped, since stopped ones lose their
        name server.)"""
        with in_the_background([pid for other in self._servers.values() if other is not server for pid in other.pids]):
            yield

    def warm_up(self, server: Server) -> None:
        """Send until the cost of a message stops falling, then consume in both ways."""
        least = self.scale.warm_up if server.setup.engine == APACHE else min(self.scale.warm_up, FEW)
        say(f"warming up {server.setup} with {least:,} sends or more")
        topic = self.topic(server, "warm-up", group=True)
        count = least // WARM_UP_PARTS
        costs: list[float] = []
        while len(costs) < WARM_UP_PARTS or (not is_steady(costs) and len(costs) < WARM_UP_PARTS * WARM_UP_MOST):
            costs.append(self.load(server, "send", *topic, "-count", count).server_cpu_s)
        if server.setup.engine == APACHE and least < FULL.warm_up:
            self.notes.append(
                f"{server.setup} was warmed up with {least:,} sends only, and becomes much faster: no target is judged"
            )
        say(f"{server.setup} is warm after {len(costs) * count:,} sends: CPU of each {costs[-1] / count * 1e6:.0f} us")
        if not server.stores:
            return
        consumed = least // CONSUMED_SHARE
        self.load(server, "consume", *topic, "-count", consumed // 2)
        self.load(server, "consume", *topic, "-count", consumed // 2, "-ack-each")

    def topic(self, server: Server, name: str, kind: str = "NORMAL", *, group: bool = False) -> tuple[str, ...]:
        """Create a topic and its consumer group if needed; return the options of the load generator that name them.

        The group exists before the first message, so that it begins with it.
        """
        options = ("-topic", name, "-group", name)
        if (server, name) not in self._topics:
            server.create_topics([name], kind)
            if group and server.stores:
                server.create_group(name, ordered=kind == "FIFO")
                if server.setup.engine != NATS:
                    self.load(server, "consume", *options, "-seconds", 2)
            self._topics.add((server, name))
        return options

    def topics(self, server: Server, name: str, count: int) -> None:
        """Create topics NAME-0, NAME-1, ..., or NAME if it is only one, as the load generator counts them."""
        if (server, name) not in self._topics:
            names = [f"{name}-{number}" for number in range(count)] if count > 1 else [name]
            server.create_topics(names, "NORMAL")
            self._topics.add((server, name))

    def fill(self, server: Server, names: tuple[str, ...], count: int) -> None:
        """Send so many messages to a topic, once, for all works that measure with them."""
        if count and (server, names) not in self._filled:
            say(f"{server.setup}: sending {count:,} messages that wait")
            self.load(server, "send", *names, "-batch", BATCH, "-in-flight", 8, "-count", count)
            self._filled.add((server, names))

    def load(self, server: Server, work: str, *options: object, endpoint: str | None = None) -> Run:
        """Run a work once, at the server's usual endpoint or at another one; errors of calls become a note."""
        found = load.run(
            server.works + work,
            endpoint or server.endpoint,
            *options,
            pids=server.pids,
            cores=self.cores_of_load(server),
            way_in=server.way_in,
        )
        if errors := found.figures["errors"]:
            self.notes.append(f"{server.setup}, {work} {' '.join(map(str, options))}: errors {errors}")
            say(self.notes[-1])
        if found.seconds > SHORT_S and found.loader_share > LOADER_SHARE_MAX:
            self.notes.append(
                f"{server.setup}, {work} {' '.join(map(str, options))}: the load generator took "
                f"{found.loader_share:.0%} of a core, so the rate may be its limit"
            )
        return found

    def cores_of_load(self, server: Server) -> Collection[int]:
        """Return the cores of the load generator for this server."""
        return self._load_cores if server.setup.cores == 1 else self._all_cores


def is_steady(costs: Sequence[float]) -> bool:
    """Return whether the last three parts of a warm-up cost hardly less than the best one before them."""
    return min(costs[-3:]) > STEADY * min(costs[:-3])


def cores() -> tuple[set[int], set[int]]:
    """Return the core of the servers and those of the load generator; the same one if there is only one."""
    first, *others = sorted(os.sched_getaffinity(0))
    return {first}, set(others[:1]) or {first}


def say(text: str) -> None:
    """Print a line on the progress, with the seconds since the start."""
    print(f"bench: {time.monotonic() - BEGAN:5.0f} s  {text}", file=sys.stderr, flush=True)
