"""One run: a shard that is disturbed for a while, and then has to become whole again."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_broker.replication.epochs import MARKS_MAX, EpochMarks
from tests.simulation.checks import Checks
from tests.simulation.disk import Disk
from tests.simulation.disturbances import Disturbances
from tests.simulation.parts import Parts
from tests.simulation.registry import RegistryCalls
from tests.simulation.world import Machine, Violation, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import Plan

SETTLES_IN_LEASES = 10


class Run:
    def __init__(
        self,
        seed: int,
        parts: Parts | None = None,
        planned: "Callable[[Plan], Plan]" = lambda plan: plan,
        *,
        marks_max: int = MARKS_MAX,
    ) -> None:
        self._marks_max = marks_max
        self.world = World(seed)
        self.parts = parts if parts is not None else Parts()
        plan = planned(self.world.plan)
        timing = self.parts.timing(lease_s=plan.timing.lease_s, lag_s=plan.timing.lag_s)
        self.world.plan = replace(plan, timing=timing)
        self.registry = self.parts.registry(self.world)
        self.calls = RegistryCalls(self.world, self.registry)
        self.checks = Checks(self.world, self.registry)
        self.registry.on_in_sync = lambda: self.checks.in_sync_hold("the in-sync set changes")
        self._sends = True
        for name in "abcde"[: plan.replicas]:
            machine = Machine(self.world, name, Disk(f"{name}0", marks=EpochMarks(marks_max=marks_max)))
            self.world.machines.append(machine)
            self.world.after(0 if name == "a" else self.world.dice.random(), self._start, machine)
        self._disturbances = Disturbances(self)
        self._send()

    def go(self, *, settles: bool = True) -> None:
        """Violation if something happened that must not, or (`settles`) the shard does not become whole again."""
        world, lease_s = self.world, self.world.plan.timing.lease_s
        world.note("{}", world.plan)
        world.run_until(lease_s * world.plan.leases)
        world.note("no disturbance from now on")
        if not settles:
            return
        before = len(self.checks.acknowledged)
        why: str | None = ""
        for _ in range(SETTLES_IN_LEASES * 2):
            world.run_until(world.now + lease_s / 2)
            self._sends = len(self.checks.acknowledged) <= before
            why = self.checks.not_settled(before)
            if why is None:
                return
        raise Violation(f"{SETTLES_IN_LEASES} leases after the last disturbance: {why}")

    # --- clients

    def _send(self) -> None:
        world = self.world
        if self._sends:
            count = world.dice.choice((1, 1, 3, 30))
            for machine in world.machines:
                if machine.process is not None and machine.process.leader is not None:
                    machine.process.get(machine.process.leader.send, (count,))
        world.after(world.dice.expovariate(1 / world.plan.sends_s), self._send)

    # --- processes

    def _start(self, machine: Machine) -> None:
        if machine.process is None:
            self.world.note("{} starts, its log ends at {}", machine.disk.store, machine.disk.end)
            machine.process = self.parts.replica(self.world, machine, self.calls, self.checks, self.parts)
            machine.process.get(machine.process.start, ())

    def end_process(self, machine: Machine, for_s: float, *, power_lost: bool) -> bool:
        process = machine.process
        if process is None:
            return False
        what = "loses power" if power_lost else "is killed"
        self.world.note(
            "{} {}, for {:.3f} s, at {} of {}", process.name, what, for_s, machine.disk.durable, machine.disk.end
        )
        machine.process = None
        process.die(power_lost=power_lost)
        machine.disk.recover(self.world.dice, power_lost=power_lost)
        self.world.after(for_s, self._start, machine)
        return True

    def wipe(self, machine: Machine, for_s: float) -> None:
        """Only if another disk has all that was acknowledged: the registry says that it is in sync."""
        stores = {other.disk.store for other in self.world.machines if other is not machine}
        if self.registry.in_sync & stores and self.end_process(machine, for_s, power_lost=True):
            machine.wipes += 1
            machine.disk = Disk(f"{machine.name}{machine.wipes}", marks=EpochMarks(marks_max=self._marks_max))
            self.world.note("{} has an empty disk", machine.name)
