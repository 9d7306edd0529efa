"""What must hold at every answer, and at the end."""

from typing import TYPE_CHECKING

from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from tests.simulation.running.ledger import Ledger
    from tests.simulation.running.machine import Machine
    from tests.simulation.running.registry import SimulatedRegistry
    from tests.simulation.running.world import World


class Checks:
    """Looks at disks and registry from outside, at one moment."""

    def __init__(self, world: "World", registry: "SimulatedRegistry", ledger: "Ledger") -> None:
        self._world = world
        self._registry = registry
        self._ledger = ledger
        self.machines: list[Machine] = []

    def held_by_all(self, message_id: str, what: str) -> None:
        """Whoever may lead next, as the registry has it now, has the message and would have it after a power cut."""
        needle = message_id.encode()
        in_sync = self._registry.in_sync()
        for machine in self.machines:
            if machine.store_id in in_sync and not machine.disk.is_safe(needle):
                has = "has it, and has not synced it" if machine.disk.has(needle) else "does not have it"
                self._world.violated(f"{message_id} {what}, and {machine.name}, which is in sync, {has}")

    def not_whole(self) -> str | None:
        """Why the shard is not whole yet, None if it is: all are live and in sync, have the same log, and every group
        has settled everything."""
        entry = self._registry.own.look()[1][SHARD]
        if not entry.live:
            return "it has no leader"
        if behind := [each.name for each in entry.replicas if not each.in_sync]:
            return f"not in sync: {', '.join(behind)}"
        if away := [each.name for each in entry.replicas if not each.live]:
            return f"not live: {', '.join(away)}"
        if (missing := self._ledger.missing()) is not None:
            return missing
        logs = {machine.name: machine.disk.log() for machine in self.machines}
        first, *others = logs
        if different := [name for name in others if logs[name] != logs[first]]:
            return f"the logs of {first} and {', '.join(different)} are not the same"
        return None
