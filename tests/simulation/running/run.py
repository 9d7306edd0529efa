"""One run: a shard that is disturbed for a while, and then has to become whole again and hand out everything."""

import asyncio
import logging
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from tests.simulation.running.checks import Checks
from tests.simulation.running.clients import Clients
from tests.simulation.running.disturbances import Disturbances
from tests.simulation.running.ledger import Ledger
from tests.simulation.running.loop import BEGIN_S, Stuck
from tests.simulation.running.machine import Machine
from tests.simulation.running.plan import Plan
from tests.simulation.running.registry import LastRenewal, SimulatedRegistry
from tests.simulation.running.topics import GROUPS, create_all
from tests.simulation.running.world import SHARD, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

LOGGERS = ("ternmq_broker", "ternmq_proxy", "ternmq_rpc")
SETTLES_IN_LEASES = 30
SETTLES_AT_LEAST_S = 40.0
ELECTS_IN_LEASES = 6
_ANSWERED_IN_LEASES = 1.3
_HEARD_IN_LEASES = 2.0
_BOTH_LOOKED_AT_IN_LEASES = 4.0
_LOOK_S = 0.5
_CHECK_S = 0.02
_STARTS_IN_S = 10.0
_MEMORY = Path("/dev/shm")


class Run:
    """A context: everything is gone at its end."""

    def __init__(self, seed: int) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="ternmq-simulation-", dir=_MEMORY if _MEMORY.is_dir() else None
        )
        self.world = World(seed, Path(self._folder.name))
        self.plan = Plan.of(self.world.dice)
        self.registry = SimulatedRegistry(self.world)
        self.ledger = Ledger(self.world.violated, GROUPS, self.world.now_ms)
        self.checks = Checks(self.world, self.registry, self.ledger)
        self.clients = Clients(self.world, self.registry, self.plan, self.ledger, self.checks)
        self.machines = [
            Machine(self.world, self.registry, self.plan, number) for number in range(1, self.plan.replicas + 1)
        ]
        self.checks.machines = self.machines
        self.checks.unfinished = lambda: self.clients.unfinished
        for machine in self.machines:
            (self.world.folder / machine.name).mkdir()
        self.disturbances = Disturbances(self.world, self.registry, self.plan, self.machines)

    def __enter__(self) -> "Run":
        self._log = _Log(self.world)
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self._log)
        self._random = random.getstate()
        random.seed(self.world.seed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        random.setstate(self._random)
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self._log)
        self.registry.close()
        self._folder.cleanup()

    def go(self, disturb: "Callable[[Run], None] | None" = None) -> str | None:
        """What happened that must not, or did not come to be; None if all held. `disturb` does what a test wants done
        in the place of what chance says."""
        world = self.world
        world.note(f"{self.plan}")
        world.loop.set_exception_handler(self._unforeseen)
        try:
            if (why := self._started()) is not None:
                return why
            if disturb is None:
                self.disturbances.begin()
            else:
                disturb(self)
            self._look()
            self._pass(self.plan.disturbed_s)
            world.note("no disturbance from now on")
            self.disturbances.end()
            return world.violation or self._settled() or self._elects_another()
        except Stuck:
            return "nothing is left that could happen"

    def _elects_another(self) -> str | None:
        """A leader that can't reach the registry, and all else is well: another replica leads soon.

        The answer to its last renewal comes when the lease is over, and with an even seed what followers promised it
        comes when another one leads: it must go by when it asked, and not serve beside that one. With an odd seed one
        of its followers does not hear of the election, and the other one hears late that it was elected: it must let
        nobody lead from when it asked.
        """
        registry, lease_s = self.registry, self.plan.lease_s
        before = registry.own.read_brokers()[1][SHARD]
        cut_off = next(each for each in self.machines if each.store_id == before.store_id)
        others = [each for each in self.machines if each is not cut_off]
        is_held = self.world.seed % 2 == 0  # a leader that hears nothing ends streams, which hides promises
        self.world.note(f"{cut_off.name} renews its lease once more, and hears late; answers to it are held: {is_held}")

        def hold() -> None:
            if is_held:
                for other in others:
                    self.world.network.hold(other.name, cut_off.name)
            else:
                registry.away_for_good.add(others[0].name)
                registry.elected_s = _HEARD_IN_LEASES * lease_s

        registry.last_renewals[cut_off.name] = LastRenewal(_ANSWERED_IN_LEASES * lease_s, hold)
        end_s = self.world.loop.time() + ELECTS_IN_LEASES * lease_s
        while self.world.violation is None and self.world.loop.time() < end_s:
            self._pass(_CHECK_S)
            entry = registry.own.read_brokers()[1][SHARD]
            if entry.live and entry.epoch != before.epoch:
                self.world.network.release()
                self._pass(lease_s if is_held else _BOTH_LOOKED_AT_IN_LEASES * lease_s)
                return self.world.violation
        return self.world.violation or (
            f"{end_s - BEGIN_S:.0f}: no other replica leads, though {cut_off.name} could not reach the registry for "
            f"{ELECTS_IN_LEASES} leases"
        )

    def _unforeseen(self, _: asyncio.AbstractEventLoop, context: "dict[str, object]") -> None:
        error = context.get("exception")
        self.world.violated(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _started(self) -> str | None:
        for machine in self.machines:
            machine.start()
        registry, end_s = self.registry.own, self.world.loop.time() + _STARTS_IN_S
        while self.world.violation is None and self.world.loop.time() < end_s:
            self._pass(0.1)
            entry = registry.read_brokers()[1].get(SHARD)
            if entry is not None and len(entry.replicas) == self.plan.replicas:
                create_all(registry)
                self.clients.start()
                self._pass(0.5)
                return self.world.violation
        return self.world.violation or "the shard did not come up"

    def _look(self) -> None:
        self.checks.look()
        self.world.loop.call_later(_CHECK_S, self._look)

    def _pass(self, seconds: float) -> None:
        """Let time go by."""
        loop = self.world.loop
        if self.world.violation is None:
            timer = loop.call_later(seconds, loop.stop)
            loop.run_forever()
            timer.cancel()

    def _settled(self) -> str | None:
        world = self.world
        end_s = world.loop.time() + max(SETTLES_AT_LEAST_S, SETTLES_IN_LEASES * self.plan.lease_s)
        before = self.ledger.acknowledged
        why: str | None = "no message was acknowledged any more"
        while world.violation is None and world.loop.time() < end_s:
            self._pass(_LOOK_S)
            if self.clients.sends:
                self.clients.sends = self.ledger.acknowledged < before + 5
            elif (why := self.checks.not_whole()) is None:
                return world.violation
        return world.violation or f"{end_s - BEGIN_S:.0f}: not whole long after the last disturbance: {why}"


class _Log(logging.Handler):
    """Notes what processes say; what nobody foresaw is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self._world.note(f"{record.levelname} {record.name.rpartition('.')[2]}: {record.getMessage()}")
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if not isinstance(error, OSError | MessagingError):
                self._world.violated(f"{record.getMessage()}: {type(error).__name__}: {error}")
