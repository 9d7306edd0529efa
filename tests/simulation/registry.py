"""The registry of one shard, as `ternmq_registry` keeps it, and the calls of it that go over the network."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ternmq_broker.replication.follower_state import ShardView
from tests.simulation.world import REGISTRY, drifting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.replication.leader_state import Members
    from tests.simulation.replica import Replica
    from tests.simulation.world import World


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = _Unknown()
"""The answer to a call of which nobody knows whether it was done."""


@dataclass(slots=True)
class Row:
    name: str
    lease_end_s: float


@dataclass(frozen=True, slots=True)
class Looked:
    view: ShardView
    move_to: str


class Registry:
    """Each method is one transaction."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rate = drifting(world)
        self._lease_s = world.plan.timing.lease_s
        self._min_insync = world.plan.min_insync
        self.epoch = 1
        self.leader = ""
        self.lease_end_s = 0.0
        self.in_sync: Members = frozenset()
        self.rows: dict[str, Row] = {}
        self.move_to = ""
        self.is_down = False
        self.on_in_sync: Callable[[], None] = lambda: None
        """Called when the in-sync set was changed."""

    def _now_s(self) -> float:
        return self._world.now * self._rate

    def is_live(self) -> bool:
        return self._now_s() < self.lease_end_s

    def look(self, store: str) -> Looked:
        """And prolong the replica's own lease, which is another row."""
        if store in self.rows:
            self.rows[store].lease_end_s = self._now_s() + self._lease_s
        view = ShardView(epoch=self.epoch, leader=self.leader, leader_live=self.is_live(), in_sync=self.in_sync)
        return Looked(view, self.move_to)

    def join(self, store: str, name: str) -> bool:
        now_s = self._now_s()
        if store not in self.rows:
            for old, row in list(self.rows.items()):
                if row.name == name:
                    if row.lease_end_s > now_s or (old == self.leader and self.is_live()):
                        return False
                    del self.rows[old]
                    self.in_sync -= {old}
        if not self.leader:
            self.leader, self.in_sync = store, frozenset((store,))
        self.rows[store] = Row(name, now_s + self._lease_s)
        return True

    def lead(self, store: str, epoch: int) -> int | None:
        if store != self.leader:
            if store not in self.in_sync or self.is_live() or epoch != self.epoch:
                return None
            left = self.in_sync - {self.leader}
            if len(left) >= self._min_insync:
                self.in_sync = left
        return self._led_by(store)

    def _led_by(self, store: str) -> int:
        self.epoch += 1
        self.leader, self.move_to = store, ""
        self.lease_end_s = self._now_s() + self._lease_s
        return self.epoch

    def heartbeat(self, epoch: int) -> bool:
        if epoch != self.epoch:
            return False
        self.lease_end_s = self._now_s() + self._lease_s
        return True

    def set_in_sync(self, epoch: int, expected: "Members", wanted: "Members") -> bool:
        if epoch != self.epoch or expected != self.in_sync or not wanted <= self.rows.keys():
            return False
        self.in_sync = wanted
        self.on_in_sync()
        return True

    def give_up(self, epoch: int) -> bool:
        if epoch != self.epoch:
            return False
        self.lease_end_s = 0.0
        return True

    def hand_over(self, epoch: int, target: str) -> int | None:
        if epoch != self.epoch or target not in self.in_sync or target == self.leader:
            return None
        return self._led_by(target)


class RegistryCalls:
    """What lies between a replica and the registry."""

    def __init__(self, world: "World", registry: Registry) -> None:
        self._world = world
        self._registry = registry
        self.timeout_s = world.plan.timing.lease_s * world.plan.timeout_leases
        self.lost = world.plan.registry_lost
        self.trap: tuple[str, Callable[[Replica], float]] | None = None
        """What happens to the next call of that name; and by how much longer it is under way."""

    def ask(self, replica: "Replica", then: "Callable[[Any], None]", what: str, *args: Any, waits: bool) -> None:  # noqa: ANN401
        """`then` gets the answer, or UNKNOWN after a while. A call that `waits` for the shard's row gets it after all
        earlier ones of that machine, also those that were given up. Looks and heartbeats do not wait."""
        world, machine = self._world, replica.machine
        deadline = world.now + self.timeout_s
        arrival = world.now + world.latency_s()
        if self._registry.is_down or world.is_cut(machine.name, REGISTRY):
            # What a connection that is cut still holds is sent again when it can be.
            arrival += world.dice.uniform(0, 2 * world.plan.timing.lease_s)
        if self.trap is not None and self.trap[0] == what:
            spring, self.trap = self.trap[1], None
            arrival += spring(replica)
        if waits:
            arrival = machine.registry_turn = max(arrival, machine.registry_turn)
        if arrival > deadline:
            world.at(deadline, replica.get, then, (UNKNOWN,))
        world.at(arrival, self._arrive, replica, machine.wipes, then, deadline, what, args)

    def _arrive(
        self,
        replica: "Replica",
        wipes: int,
        then: "Callable[[Any], None]",
        deadline: float,
        what: str,
        args: tuple[Any, ...],
    ) -> None:
        world, name = self._world, replica.machine.name
        is_given_up = world.now > deadline
        is_lost = self._registry.is_down or world.is_cut(name, REGISTRY) or world.dice.random() < self.lost
        # Else a wiped leader's late change could leave nobody in sync, which only an operator mends.
        if not is_lost and wipes == replica.machine.wipes:
            answer = getattr(self._registry, what)(*args)
            if what not in {"look", "heartbeat"} or answer is False:
                world.note("registry: {}{} of {}: {}", what, args, name, answer)
            back = world.now + world.latency_s()
            if back <= deadline and not world.is_cut(REGISTRY, name) and world.dice.random() >= self.lost:
                world.at(back, replica.get, then, (answer,))
                return
        if not is_given_up:
            world.at(deadline, replica.get, then, (UNKNOWN,))
