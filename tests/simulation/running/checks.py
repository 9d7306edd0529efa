"""What must hold at every answer, and at the end."""

from typing import TYPE_CHECKING

from ternmq_broker.store.log.commit_log import NO_LIMIT
from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self.unfinished: Callable[[], dict[str, str | None]] = dict

    def held_by_all(self, message_id: str, what: str) -> None:
        """Whoever may lead next, as the registry has it now, has the message and would have it after a power cut."""
        needle = message_id.encode()
        in_sync = self._registry.in_sync()
        for machine in self.machines:
            if machine.store_id in in_sync and not machine.disk.is_safe(needle):
                has = "has it, and has not synced it" if machine.disk.has(needle) else "does not have it"
                self._world.violated(f"{message_id} {what}, and {machine.name}, which is in sync, {has}")

    def look(self) -> None:
        """What must hold at any moment: one leader serves at most, and nothing is taken to be acknowledged, to be read
        or written beside the log, that not all who may lead next hold."""
        serving = [each.name for each in self.machines if each.leader is not None and each.leader.is_serving]
        if len(serving) > 1:
            self._world.violated(f"{' and '.join(serving)} both serve")
        in_sync = self._registry.in_sync()
        held = {each.name: each.disk.safe_end() for each in self.machines if each.store_id in in_sync}
        for machine in self.machines:
            store = machine.store
            if store is None or store.indexes.spill_limit >= NO_LIMIT:
                continue
            for name, end in held.items():
                spill_limit = store.indexes.spill_limit
                if end < spill_limit:
                    self._world.violated(
                        f"{machine.name} takes the log to be acknowledged up to {spill_limit}, and {name}, which "
                        f"is in sync, has synced it up to {end}"
                    )

    def not_whole(self) -> str | None:
        """Why the shard is not whole yet, None if it is: all are live and in sync, have the same log, and every group
        has settled everything."""
        entry = self._registry.own.read_brokers()[1][SHARD]
        if not entry.live:
            return "it has no leader"
        if behind := [each.name for each in entry.replicas if not each.in_sync]:
            return f"not in sync: {', '.join(behind)}"
        if away := [each.name for each in entry.replicas if not each.live]:
            return f"not live: {', '.join(away)}"
        if (missing := self._ledger.missing()) is not None:
            return missing
        for group, unfinished in self.unfinished().items():
            if unfinished is not None:
                return f"{group} has not finished: {unfinished}"
        logs = {machine.name: machine.disk.log() for machine in self.machines}
        first, *others = logs
        if different := [name for name in others if logs[name] != logs[first]]:
            return f"the logs of {first} and {', '.join(different)} are not the same"
        return None
