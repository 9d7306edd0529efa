"""Time, chance, the trace, the machines with their clocks, and the network between them."""

import heapq
import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ternmq_broker.replication.timing import ReplicationTiming

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.disk import Disk
    from tests.simulation.replica import Replica

TRACE_LINES = 200
REGISTRY = "registry"


class Violation(Exception):
    """Something happened that must not; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one seed makes of a run, besides chance."""

    replicas: int
    min_insync: int
    waits_for_replicas: bool
    timing: ReplicationTiming
    leases: int
    """How long disturbances go on, in leases."""
    pause_leases: float
    """The mean time from one disturbance to the next, in leases."""
    timeout_leases: float
    """For how long a call of the registry is waited for, in leases."""
    registry_lost: float
    """The share of registry calls that is lost, each way."""
    late: float
    """The share of messages that take up to a second."""
    sync_s: float
    """The longest sync of a disk that is not slow."""
    sends_s: float
    """The mean time from one batch of sends to the next."""

    @classmethod
    def of(cls, dice: random.Random) -> "Plan":
        replicas = dice.choice((3, 3, 3, 4, 5, 2))
        lease_s = dice.choice((2.0, 6.0))
        return cls(
            replicas=replicas,
            min_insync=dice.choice((replicas // 2 + 1, replicas // 2 + 1, 1, dice.randint(1, replicas))),
            waits_for_replicas=dice.random() < 0.8,
            timing=ReplicationTiming(lease_s=lease_s, lag_s=dice.choice((lease_s / 4, 1.5))),
            leases=dice.randint(10, 30),
            pause_leases=dice.choice((0.2, 0.5, 1.0)),
            timeout_leases=dice.choice((1 / 6, 1 / 6, 1 / 2)),
            registry_lost=dice.choice((0.0, 0.02, 0.1)),
            late=dice.choice((0.0, 0.01, 0.05)),
            sync_s=dice.choice((0.002, 0.02, 0.2)),
            sends_s=lease_s * dice.choice((0.05, 0.1, 0.4)),
        )


class World:
    """All that happens, one thing after the other."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.plan = plan if plan is not None else Plan.of(self.dice)
        self.now = 0.0
        self.late = self.plan.late
        self.machines: list[Machine] = []
        self.streams: set[Stream] = set()
        self.cuts: dict[tuple[str, str], int] = {}
        self.steps = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._trace: deque[tuple[float, str, tuple[Any, ...]]] = deque(maxlen=TRACE_LINES)

    def at(self, time: float, do: "Callable[..., None]", *args: Any) -> None:  # noqa: ANN401
        self.steps += 1
        heapq.heappush(self._heap, (time, self.steps, do, args))

    def after(self, delay_s: float, do: "Callable[..., None]", *args: Any) -> None:  # noqa: ANN401
        self.at(self.now + delay_s, do, *args)

    def run_until(self, end: float) -> None:
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end:
            self.now, _, do, args = pop(heap)
            do(*args)
        self.now = end

    def note(self, form: str, *args: Any) -> None:  # noqa: ANN401
        """Into the trace; it is only formatted if it is wanted."""
        self._trace.append((self.now, form, args))

    def keep_all(self) -> None:
        """The trace keeps everything from now on."""
        self._trace = deque(self._trace)

    def trace(self) -> str:
        return "\n".join(f"{time:9.3f}  {form.format(*map(_shown, args))}" for time, form, args in self._trace)

    def latency_s(self) -> float:
        chance = self.dice.random()
        return 0.001 + 0.004 * chance if chance >= self.late else self.dice.random()

    def is_cut(self, source: str, target: str) -> bool:
        return bool(self.cuts) and (source, target) in self.cuts

    def cut(self, source: str, target: str) -> None:
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        count = self.cuts.pop((source, target)) - 1
        if count:
            self.cuts[source, target] = count
        for stream in sorted(self.streams, key=lambda stream: stream.number):
            stream.flush()


def _shown(value: object) -> object:
    """Sets in an order that repeats."""
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(value)) + "}"
    return tuple(_shown(each) for each in value) if type(value) is tuple else value


class Machine:
    """What outlives a process: name, clock, disk; and what was done to it."""

    def __init__(self, world: World, name: str, disk: "Disk") -> None:
        self.world = world
        self.name = name
        self.disk = disk
        self.rate = drifting(world)
        self._offset_s = world.dice.uniform(0, 1000)
        self.process: Replica | None = None
        self.stopped = 0
        self.sync_factor = 1.0
        self.wipes = 0
        self.registry_turn = 0.0
        """When the last call of this machine that waits for the registry's row gets there."""

    def clock_s(self) -> float:
        return self.world.now * self.rate + self._offset_s


def drifting(world: World) -> float:
    """A clock's speed: as far off as allowed, more often than not."""
    drift = world.plan.timing.drift
    return 1 + drift * world.dice.choice((-1.0, 1.0, world.dice.uniform(-1, 1)))


FOLLOWER, LEADER = 0, 1


class Stream:
    """A connection from a follower to a leader. What is sent arrives in order at the other end, for as long as that is
    open. Each end learns of a break at a time of its own."""

    def __init__(self, world: World, follower: "Replica", leader: "Replica") -> None:
        self._world = world
        self.number = world.steps
        self._ends = (follower, leader)
        self._names = (follower.machine.name, leader.machine.name)
        self.open = [True, True]
        self._turns = [0.0, 0.0]
        self._stalled: tuple[list[Any], list[Any]] = ([], [])
        self.on_closed: list[Callable[[], None] | None] = [None, None]
        world.streams.add(self)

    def send(self, to: int, do: "Callable[..., None]", *args: Any) -> None:  # noqa: ANN401
        world = self._world
        self._turns[to] = max(self._turns[to], world.now + world.latency_s())
        world.at(self._turns[to], self._arrive, to, do, args)

    def _arrive(self, to: int, do: "Callable[..., None]", args: tuple[Any, ...]) -> None:
        if not self.open[to]:
            return
        if self._stalled[to] or self._world.is_cut(self._names[1 - to], self._names[to]):
            self._stalled[to].append((do, args))
            return
        self._ends[to].get(do, args)

    def flush(self) -> None:
        for to in (FOLLOWER, LEADER):
            if not self._world.is_cut(self._names[1 - to], self._names[to]):
                stalled, self._stalled[to][:] = self._stalled[to][:], []
                for do, args in stalled:
                    if self.open[to]:
                        self._ends[to].get(do, args)

    def close(self, side: int) -> None:
        """That end closes it, and the other one hears of it after all that was sent."""
        if self.open[side]:
            self.open[side] = False
            self._forget()
            self.send(1 - side, self._closed, 1 - side)

    def reset(self) -> None:
        """Something between has broken it. What is on the way may still arrive at an end that does not know."""
        for side in (FOLLOWER, LEADER):
            self._world.after(self._world.dice.uniform(0, 1.5), self._ends[side].get, self._closed, (side,))

    def _closed(self, side: int) -> None:
        if self.open[side]:
            self.open[side] = False
            self._forget()
            heard = self.on_closed[side]
            if heard is not None:
                heard()

    def died(self, side: int) -> None:
        """The process at that end is no more, and nothing says so."""
        self.open[side] = False
        self._forget()

    def _forget(self) -> None:
        if not any(self.open):
            self._world.streams.discard(self)

    def end_of(self, process: "Replica") -> int | None:
        return self._ends.index(process) if process in self._ends else None
