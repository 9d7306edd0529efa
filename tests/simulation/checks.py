"""What must hold after each step."""

from typing import TYPE_CHECKING

from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.disk import Disk, Record
    from tests.simulation.leader import Leader
    from tests.simulation.registry import Registry
    from tests.simulation.replica import Replica
    from tests.simulation.world import World


class Checks:
    """Sees everything at once, as nobody in the cluster does."""

    def __init__(self, world: "World", registry: "Registry") -> None:
        self._world = world
        self._registry = registry
        self.acknowledged: list[Record] = []
        """All that any leader has acknowledged, by log offset."""
        self._acknowledging: dict[int, str] = {}
        self._top_epoch = 0
        self._top_base = 0
        self._top_log: list[Record] = []
        self.leaders = 0
        self.truncations = 0

    # --- leaders

    def leads(self, leader: "Leader") -> None:
        """It begins, its log is as it was before its mark."""
        disk, name = leader.disk, leader.replica.name
        self.leaders += 1
        if leader.epoch == self._top_epoch:
            raise Violation(f"two lead in epoch {leader.epoch}, the second is {name}")
        if leader.epoch < self._top_epoch:
            return  # it was stopped between the registry's answer and now
        self._top_epoch, self._top_base, self._top_log = leader.epoch, disk.base, disk.log[:]
        self._holds(disk, f"{name}, which leads from epoch {leader.epoch} on,")
        if leader.leading.acknowledged > len(self.acknowledged):
            raise Violation(
                f"{name} takes {leader.leading.acknowledged} for acknowledged, which is {len(self.acknowledged)}"
            )

    def _holds(self, disk: "Disk", who: str) -> None:
        wanted = self.acknowledged[disk.base :]
        if disk.log[: len(wanted)] != wanted:
            at = next((i for i, (a, b) in enumerate(zip(wanted, disk.log, strict=False)) if a != b), len(disk.log))
            raise Violation(f"{who} has not what was acknowledged at {disk.base + at} (its log ends at {disk.end})")

    def acknowledges(self, leader: "Leader", before: int, now: int) -> None:
        """A leader's acknowledged position has moved."""
        disk, name = leader.disk, leader.replica.name
        first = self._acknowledging.setdefault(leader.epoch, name)
        if first != name:
            raise Violation(f"{name} and {first} both acknowledge in epoch {leader.epoch}")
        if now > disk.durable:
            raise Violation(f"{name} acknowledges {now}, and holds {disk.durable} durably")
        records = disk.log[max(before - disk.base, 0) : now - disk.base]
        start = now - len(records)
        known = self.acknowledged[start:now]
        if known != records[: len(known)]:
            raise Violation(f"{name} acknowledges other messages from {start} on than were acknowledged there")
        self.acknowledged += records[len(known) :]
        if leader.epoch < self._top_epoch:
            # What the retention of the leader since has taken can't be compared.
            since = self._top_log[max(start - self._top_base, 0) : max(now - self._top_base, 0)]
            if since != records[len(records) - len(since) :] or now > self._top_base + len(self._top_log):
                raise Violation(f"{name} acknowledges {start} to {now}, which the leader since has not")
        self.in_sync_hold(f"{name} acknowledges {now}")
        self._enough_hold(leader, now)

    def in_sync_hold(self, why: str) -> None:
        """Who is in sync in the registry, and may so be the next leader, holds all that was acknowledged durably."""
        end = len(self.acknowledged)
        for machine in self._world.machines:
            if machine.disk.store in self._registry.in_sync and not self._holds_last(machine.disk, end):
                raise Violation(f"{why}, and {machine.disk.store}, which is in sync, does not hold {end} durably")

    def _holds_last(self, disk: "Disk", end: int) -> bool:
        """As logs are only compared where one is copied from the other: who has the last one has all."""
        at = end - 1 - disk.base
        return disk.durable >= end and (at < 0 or disk.log[at] is self.acknowledged[end - 1])

    def _enough_hold(self, leader: "Leader", now: int) -> None:
        plan = self._world.plan
        machines = self._world.machines
        held = sum(machine.wipes > 0 or self._holds_last(machine.disk, now) for machine in machines)
        if plan.waits_for_replicas and held < plan.min_insync:
            raise Violation(f"{leader.replica.name} acknowledges {now}, and {held} hold it, not {plan.min_insync}")

    def serves(self, leader: "Leader", progress: int) -> None:
        """It hands out messages, and its group has come as far as `progress`."""
        if leader.epoch < self._top_epoch:
            raise Violation(f"{leader.replica.name} serves in epoch {leader.epoch}, with a leader in {self._top_epoch}")
        if progress > len(self.acknowledged):
            raise Violation(f"progress {progress} is beyond what was acknowledged, {len(self.acknowledged)}")

    # --- followers

    def truncates(self, replica: "Replica", end: int, epoch: int) -> None:
        """As a leader of that epoch says. One that is a leader no more may say so to a replica that is not in sync, and
        has not heard of another: what nobody had acknowledged of its log may have been since, on other replicas."""
        disk = replica.disk
        self.truncations += 1
        is_stale = epoch < self._top_epoch and disk.store not in self._registry.in_sync
        gone = [] if is_stale else disk.log[end - disk.base :]
        for record, acknowledged in zip(gone, self.acknowledged[end:], strict=False):
            if record is acknowledged:
                raise Violation(f"{replica.name} truncates to {end}: {record} was acknowledged")
        if end < disk.spilled:
            raise Violation(f"{replica.name} truncates to {end}, with files derived up to {disk.spilled}")

    def begins_anew(self, replica: "Replica") -> None:
        if replica.disk.store in self._registry.in_sync:
            raise Violation(f"{replica.name} begins anew as a copy, and is in sync")

    def appends(self, replica: "Replica", records: "list[Record]") -> None:
        """Bytes of the leader go into the log of a follower."""
        disk = replica.disk
        if records[-1].durable_to > disk.durable and disk.store in self._registry.in_sync:
            raise Violation(
                f"{replica.name} is in sync, {records[-1]} vouches for more than is durable, {disk.durable}"
            )

    def progressed(self, replica: "Replica", progress: int) -> None:
        if progress > len(self.acknowledged):
            raise Violation(
                f"{replica.name} hears of progress {progress}, and {len(self.acknowledged)} are acknowledged"
            )

    # --- the end

    def not_settled(self, acknowledged_before: int) -> str | None:
        """Why the cluster is not whole again; None if it is."""
        leaders = [m.process.leader for m in self._world.machines if m.process is not None and m.process.leader]
        if len(leaders) != 1 or leaders[0] is None:
            return f"{len(leaders)} lead"
        leader = leaders[0]
        stores = frozenset(machine.disk.store for machine in self._world.machines)
        if self._registry.in_sync != stores:
            return f"in sync are {sorted(self._registry.in_sync)}"
        if len(self.acknowledged) <= acknowledged_before or leader.leading.acknowledged < leader.disk.end:
            return "nothing more is acknowledged"
        disks = [machine.disk for machine in self._world.machines]
        base = max(disk.base for disk in disks)
        if any(disk.log[base - disk.base :] != leader.disk.log[base - leader.disk.base :] for disk in disks):
            return f"logs differ: they end at {[disk.end for disk in disks]}"
        if any(disk.marks != leader.disk.marks for disk in disks):
            return "epoch marks differ"
        for disk in disks:
            self._holds(disk, disk.store)
        return None
