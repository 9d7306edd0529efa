"""What all parts of a run share: chance, time, the network, the registry, and what happened so far."""

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

from ternmq_common.clock import SystemClock
from tests.simulation.running.loop import BEGIN_S, ProcessLoop, WorldLoop
from tests.simulation.running.network import Network

if TYPE_CHECKING:
    from pathlib import Path

SHARD = "broker-0"
_NOTES = 400
_EPOCH_S = 1_700_000_000


class World:
    """`folder` is a real one, for what a process keeps beside its store."""

    def __init__(self, seed: int, folder: "Path") -> None:
        self.seed = seed
        self.folder = folder
        self.dice = random.Random(seed)
        self.loop = WorldLoop(self.dice)
        self.network = Network(self.loop)
        self.notes: deque[str] = deque(maxlen=_NOTES)
        self.violation: str | None = None

    def note(self, text: str) -> None:
        """For who looks at what happened."""
        loop = asyncio._get_running_loop()
        name = loop.name if isinstance(loop, ProcessLoop) else ""
        self.notes.append(f"{self.loop.time() - BEGIN_S:10.4f} {name:8} {text}")

    def begin(self, name: str) -> ProcessLoop:
        """A process on the machine of that name, which does nothing yet."""
        return ProcessLoop(name, self.loop, self.network.connect)

    def keep_all(self) -> None:
        """Keep all notes."""
        self.notes = deque(self.notes)

    def violated(self, text: str) -> None:
        """Something happened that must not: the run ends."""
        if self.violation is None:
            self.violation = text
            self.note(f"VIOLATION: {text}")
            self.loop.stop()

    def now_ms(self) -> int:
        """The time of day."""
        return int((_EPOCH_S + self.loop.time()) * 1000)


class SimulatedClock(SystemClock):
    """The clock of a process."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def now_ms(self) -> int:
        """See `SystemClock`."""
        return self._world.now_ms()
