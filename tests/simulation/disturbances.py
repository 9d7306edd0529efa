"""What is done to the machines, the network and the registry while a run goes on."""

from typing import TYPE_CHECKING

from tests.simulation.world import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.replica import Replica
    from tests.simulation.run import Run
    from tests.simulation.world import Machine


class Disturbances:
    """One after the other, and several at a time; all of it ends by itself."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._world = run.world
        self._dice = run.world.dice
        self._lease_s = run.world.plan.timing.lease_s
        self._end_s = self._lease_s * run.world.plan.leases
        kinds: list[Callable[[], None]] = [
            self._kill, self._lose_power, self._lose_all_power, self._wipe, self._stop, self._cut_pair, self._cut_off,
            self._cut_from_registry, self._registry_away, self._registry_flaky, self._slow_disk, self._slow_network,
            self._reset, self._retain, self._move, self._set_trap, self._lead_in_doubt, self._move_in_doubt,
            self._restart_during_lease_end,
            self._shut_down,
            self._lease_answered_late,
        ]  # fmt: skip
        # Not all in each run: what takes many steps of one kind is not broken off by another.
        self._kinds = self._dice.sample(kinds, self._dice.randint(3, len(kinds)))
        self._next()

    def _next(self) -> None:
        self._world.after(self._dice.expovariate(1 / (self._lease_s * self._world.plan.pause_leases)), self._disturb)

    def _disturb(self) -> None:
        if self._world.now < self._end_s:
            self._dice.choice(self._kinds)()
            self._next()

    def _while_s(self) -> float:
        """Mostly short, at times longer than a lease; never beyond the end."""
        longest = self._dice.choice((0.2, 0.5, 1.5, 3.0)) * self._lease_s
        return min(self._dice.uniform(0, longest), max(0.0, self._end_s - self._world.now))

    def _victim(self) -> "Machine":
        """The leader more often than others."""
        machines = self._world.machines
        leading = [m for m in machines if m.process is not None and m.process.leader is not None]
        return self._dice.choice(leading if leading and self._dice.random() < 0.4 else machines)

    # --- processes and disks

    def _kill(self, victim: "Machine | None" = None) -> None:
        self._run.end_process(victim or self._victim(), self._while_s(), power_lost=False)

    def _lose_power(self) -> None:
        self._run.end_process(self._victim(), self._while_s(), power_lost=True)

    def _lose_all_power(self) -> None:
        for machine in self._world.machines:
            self._run.end_process(machine, self._while_s(), power_lost=True)

    def _wipe(self) -> None:
        self._run.wipe(self._victim(), self._while_s())

    def _shut_down(self) -> None:
        """A process is asked to end: a leader hands over first."""
        victim = self._victim()
        process, seconds = victim.process, self._while_s()
        if process is not None and process.leader is not None and not victim.stopped:

            def retired() -> None:
                if victim.process is process:
                    self._run.end_process(victim, seconds, power_lost=False)

            self._world.note("{} is asked to end", process.name)
            process.leader.retire(retired)

    def _stop(self, victim: "Machine | None" = None) -> None:
        self._stop_for(victim or self._victim(), self._while_s())

    def _stop_for(self, machine: "Machine", seconds: float) -> None:
        self._world.note("{} is stopped for {:.3f} s", machine.name, seconds)
        machine.stopped += 1
        self._world.after(seconds, self._go_on, machine)

    def _go_on(self, machine: "Machine") -> None:
        machine.stopped -= 1
        if not machine.stopped and machine.process is not None:
            self._world.note("{} goes on", machine.name)
            machine.process.go_on()

    def _slow_disk(self) -> None:
        machine, factor = self._victim(), self._dice.choice((10.0, 100.0))
        self._world.note("the disk of {} is slower by {}", machine.name, factor)
        machine.sync_factor = factor

        def end() -> None:
            machine.sync_factor = 1.0

        self._world.after(self._while_s(), end)

    def _retain(self) -> None:
        for machine in self._world.machines:
            if machine.process is not None and not machine.stopped:
                machine.process.retain(self._dice.choice((0.0, 0.3, 1.0)))

    def _move(self) -> None:
        registry = self._run.registry
        targets = sorted(registry.in_sync - {registry.leader})
        if targets:
            registry.move_to = self._dice.choice(targets)
            self._world.note("{} is asked to lead", registry.move_to)

    # --- the network

    def _cut(self, pairs: list[tuple[str, str]], seconds: float | None = None) -> None:
        if seconds is None:
            seconds = self._while_s()
        self._world.note("cut for {:.3f} s: {}", seconds, pairs)
        for source, target in pairs:
            self._world.cut(source, target)
            self._world.after(seconds, self._world.heal, source, target)

    def _one_way_or_both(self, one: str, other: str) -> list[tuple[str, str]]:
        return self._dice.choice(([(one, other), (other, one)], [(one, other)], [(other, one)]))

    def _cut_pair(self) -> None:
        one = self._victim().name
        other = self._dice.choice([machine.name for machine in self._world.machines if machine.name != one])
        self._cut(self._one_way_or_both(one, other))

    def _cut_off(self) -> None:
        """A machine from all others, and often from the registry."""
        one = self._victim().name
        pairs = [(one, machine.name) for machine in self._world.machines if machine.name != one]
        if self._dice.random() < 0.6:
            pairs.append((one, REGISTRY))
        self._cut(pairs + [(target, source) for source, target in pairs])

    def _cut_from_registry(self, victim: "Machine | None" = None) -> None:
        self._cut(self._one_way_or_both((victim or self._victim()).name, REGISTRY))

    def _reset(self) -> None:
        for stream in sorted(self._world.streams, key=lambda stream: stream.number):
            if self._dice.random() < 0.5:
                stream.reset()

    def _slow_network(self) -> None:
        self._world.late = self._dice.choice((0.1, 0.5, 1.0))

        def end() -> None:
            self._world.late = self._world.plan.late

        self._world.after(self._while_s(), end)

    # --- the registry

    def _set_trap(self) -> None:
        """Something happens right when a call of the registry is under way."""
        self._set_trap_for(self._dice.choice(("lead", "hand_over", "set_in_sync", "heartbeat")))

    def _set_trap_for(self, what: str) -> None:
        springs = (
            self._late,
            self._away_meanwhile,
            self._stopped_meanwhile,
            self._killed_meanwhile,
            self._cut_meanwhile,
        )
        self._run.calls.trap = (what, self._dice.choice(springs))

    def _just_late(self, _: "Replica") -> float:
        return self._dice.uniform(0, 2 * self._lease_s) if self._world.now < self._end_s else 0.0

    def _late(self, replica: "Replica") -> float:
        self._world.note("a call of {} is late", replica.name)
        if self._dice.random() < 0.5:
            self._meanwhile(self._registry_away)
        return self._dice.uniform(0, 2 * self._lease_s) if self._world.now < self._end_s else 0.0

    def _lead_in_doubt(self) -> None:
        """The leader can't reach the registry; then who wants to take over can't either, its question being under way,
        while the two reach each other."""
        leader = next((m.name for m in self._world.machines if m.disk.store == self._run.registry.leader), None)
        if leader is not None and self._world.now + 8 * self._lease_s < self._end_s:
            self._cut([(leader, REGISTRY), (REGISTRY, leader)], self._dice.uniform(2, 5) * self._lease_s)
            self._run.calls.trap = ("lead", self._long_late)

    def _lease_answered_late(self) -> None:
        """The leader is stopped while its lease is renewed, and cut off from all when it goes on."""
        self._run.calls.trap = ("heartbeat", self._stopped_and_cut)

    def _stopped_and_cut(self, replica: "Replica") -> float:
        machine, seconds = replica.machine, self._dice.uniform(0.3, 1) * self._lease_s
        if self._world.now + 4 * self._lease_s < self._end_s:
            others = [REGISTRY, *(each.name for each in self._world.machines if each is not machine)]
            both = [pair for other in others for pair in ((machine.name, other), (other, machine.name))]
            self._world.after(0.006, self._stop_for, machine, seconds)
            self._world.after(0.02, self._cut, both, self._dice.uniform(1, 3) * self._lease_s)
        return 0.0

    def _restart_during_lease_end(self) -> None:
        """The leader can't reach the registry and its lease runs out, when its followers restart."""
        leader = next((m.name for m in self._world.machines if m.disk.store == self._run.registry.leader), None)
        if leader is not None and self._world.now + 4 * self._lease_s < self._end_s:
            self._cut([(leader, REGISTRY), (REGISTRY, leader)], self._dice.uniform(1, 3) * self._lease_s)
            for machine in self._world.machines:
                if machine.name != leader:
                    self._world.after(self._dice.uniform(0.8, 1.3) * self._lease_s, self._restart, machine)

    def _restart(self, machine: "Machine") -> None:
        self._run.end_process(machine, self._dice.uniform(0, 0.2) * self._lease_s, power_lost=False)

    def _long_late(self, _: "Replica") -> float:
        if self._world.now + 3 * self._lease_s > self._end_s:
            return 0.0
        late_s = self._dice.uniform(1, 2.5) * self._lease_s
        self._world.after(self._dice.uniform(0, 0.01), self._registry_away, late_s * self._dice.uniform(0.8, 1.1))
        return late_s * self._dice.choice((0, 1))

    def _move_in_doubt(self) -> None:
        self._move()
        self._set_trap_for("hand_over")
        if self._dice.random() < 0.5:
            self._run.calls.trap = ("hand_over", self._just_late)

    def _meanwhile(self, do: "Callable[..., None]", *args: "Machine") -> float:
        if self._world.now < self._end_s:
            self._world.after(self._dice.uniform(0, 0.01), do, *args)
        return 0.0

    def _away_meanwhile(self, _: "Replica") -> float:
        return self._meanwhile(self._registry_away)

    def _stopped_meanwhile(self, replica: "Replica") -> float:
        return self._meanwhile(self._stop, replica.machine)

    def _killed_meanwhile(self, replica: "Replica") -> float:
        return self._meanwhile(self._kill, replica.machine)

    def _cut_meanwhile(self, replica: "Replica") -> float:
        return self._meanwhile(self._cut_from_registry, replica.machine)

    def _registry_away(self, seconds: float | None = None) -> None:
        registry = self._run.registry
        self._world.note("the registry is away")
        registry.is_down = True

        def end() -> None:
            registry.is_down = False
            self._world.note("the registry is back")

        self._world.after(self._while_s() if seconds is None else seconds, end)

    def _registry_flaky(self) -> None:
        self._run.calls.lost = 0.5

        def end() -> None:
            self._run.calls.lost = self._world.plan.registry_lost

        self._world.after(self._while_s(), end)
