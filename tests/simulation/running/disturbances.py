"""What is done to the world while it is disturbed: one thing at a time, by chance, and several may last at once."""

from typing import TYPE_CHECKING

from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import BrokerEntry
    from tests.simulation.running.machine import Machine
    from tests.simulation.running.plan import Plan
    from tests.simulation.running.registry import SimulatedRegistry
    from tests.simulation.running.world import World


class Disturbances:
    """Until `end`."""

    def __init__(self, world: "World", registry: "SimulatedRegistry", plan: "Plan", machines: "list[Machine]") -> None:
        self._world = world
        self._registry = registry
        self._lease_s = plan.lease_s
        self._pause_s = plan.pause_s
        self._machines = machines
        self._is_over = False
        self._kinds: list[tuple[int, Callable[[Machine], None]]] = [
            (5, self._power),
            (3, self._power_twice),
            (2, self._kill),
            (3, self._stand_still),
            (3, self._cut_off),
            (2, self._cut_pair),
            (2, self._reset),
            (3, self._registry_away),
            (2, self._registry_lossy),
            (2, self._registry_slow),
            (3, self._slow_disk),
            (1, self._failing_disk),
            (2, self._stop),
            (2, self._move),
        ]

    def begin(self) -> None:
        self._later()

    def end(self) -> None:
        """All is well from now on."""
        self._is_over = True
        self._world.network.heal()
        self._registry.heal()
        for machine in self._machines:
            machine.disk.slow_until_s = 0.0
            machine.disk.fails.clear()

    def _later(self) -> None:
        self._world.loop.call_later(self._world.dice.expovariate(1 / self._pause_s), self._disturb)

    def _disturb(self) -> None:
        if self._is_over:
            return
        dice = self._world.dice
        weights = [weight for weight, _ in self._kinds]
        [(_, kind)] = dice.choices(self._kinds, weights)
        kind(self._some_machine())
        self._later()

    def _some_machine(self) -> "Machine":
        """The leader as often as all others together."""
        dice = self._world.dice
        leaders = [each for each in self._machines if each.replica is not None and each.replica.leader is not None]
        return dice.choice(leaders) if leaders and dice.random() < 0.5 else dice.choice(self._machines)

    def _for_s(self, leases: float = 3.0) -> float:
        dice = self._world.dice
        return dice.uniform(0, leases * self._lease_s) if dice.random() < 0.5 else dice.uniform(0, 0.5)

    def _after(self, seconds: float, undo: "Callable[[], object]") -> None:
        self._world.loop.call_later(seconds, undo)

    # --- what may happen

    def _power(self, machine: "Machine") -> None:
        machine.kill(self._for_s(), power_lost=True)
        if self._world.dice.random() < 0.15:
            for other in self._machines:
                other.kill(self._for_s(), power_lost=True)

    def _power_twice(self, machine: "Machine") -> None:
        """The second time comes while it catches up, on a disk that is slow then."""
        dice, for_s = self._world.dice, self._for_s()
        machine.kill(for_s, power_lost=True)
        machine.disk.slow_until_s = self._world.loop.time() + for_s + 1.0
        self._after(for_s + dice.uniform(0, 0.5), lambda: machine.kill(dice.uniform(0, 0.5), power_lost=True))

    def _kill(self, machine: "Machine") -> None:
        machine.kill(self._for_s(), power_lost=False)

    def _stand_still(self, machine: "Machine") -> None:
        machine.stand_still(self._for_s(leases=self._world.dice.choice((3.0, 8.0))))

    def _cut_off(self, machine: "Machine") -> None:
        for_s = self._for_s()
        self._world.note(f"{machine.name} is cut off from the others for {for_s:.2f} s")
        for other in [each.name for each in self._machines if each is not machine]:
            self._world.network.cut(machine.name, other, for_s)
        if self._world.dice.random() < 0.3:
            self._world.network.cut(machine.name, "proxy", for_s)
        if self._world.dice.random() < 0.5:
            self._away(machine.name, for_s * self._world.dice.choice((1.0, 1.5)))

    def _cut_pair(self, machine: "Machine") -> None:
        other = self._world.dice.choice([each.name for each in self._machines if each is not machine] + ["proxy"])
        for_s = self._for_s()
        self._world.note(f"{machine.name} and {other} are cut off from each other for {for_s:.2f} s")
        self._world.network.cut(machine.name, other, for_s)

    def _reset(self, machine: "Machine") -> None:
        del machine
        self._world.note("connections are reset")
        self._world.network.reset_some(self._world.dice.choice((0.1, 0.4, 1.0)))

    def _registry_away(self, machine: "Machine") -> None:
        for_s = self._for_s()
        names = [each.name for each in self._machines] if self._world.dice.random() < 0.4 else [machine.name]
        for name in names:
            self._away(name, for_s)

    def _away(self, name: str, for_s: float) -> None:
        self._world.note(f"{name} can't reach the registry for {for_s:.2f} s")
        self._registry.away.add(name)
        self._after(for_s, lambda: self._registry.away.discard(name))

    def _registry_lossy(self, machine: "Machine") -> None:
        del machine
        self._world.note("the registry loses calls")
        self._registry.lossy = self._world.dice.choice((0.1, 0.3))
        self._after(self._for_s(), self._registry.lose_nothing)

    def _registry_slow(self, machine: "Machine") -> None:
        del machine
        self._world.note("the registry is slow")
        self._registry.slow_s = self._world.dice.choice((0.1, 0.5, self._lease_s))
        self._after(self._for_s(), self._registry.be_fast)

    def _slow_disk(self, machine: "Machine") -> None:
        for_s = self._for_s()
        self._world.note(f"the disk of {machine.name} is slow for {for_s:.2f} s")
        machine.disk.slow_until_s = self._world.loop.time() + for_s

    def _failing_disk(self, machine: "Machine") -> None:
        what = self._world.dice.choice(("append", "replace", "sync"))
        errno = self._world.dice.choice((5, 28))
        self._world.note(f"each {what} on the disk of {machine.name} fails with {errno}")
        machine.disk.fails[what] = OSError(errno, "the disk does not")
        self._after(self._for_s(1.0), lambda: machine.disk.fails.pop(what, None))

    def _stop(self, machine: "Machine") -> None:
        machine.stop()

    def _move(self, machine: "Machine") -> None:
        self._world.note(f"{machine.name} is to lead")
        entry: BrokerEntry | None = self._registry.own.read_brokers()[1].get(SHARD)
        replica = None if entry is None else next((e for e in entry.replicas if e.name == machine.name), None)
        if entry is None or replica is None or entry.store_id == replica.store_id:
            return
        if replica.live and replica.in_sync:
            self._registry.own.request_handover(SHARD, machine.name)
