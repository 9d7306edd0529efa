"""A replica's membership in its shard: all calls of this process to the registry."""

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.replication.follower_state import ShardView
from ternmq_broker.replication.timing import ReplicationTiming
from ternmq_common.errors import StartupError
from ternmq_registry.members.replica_rows import ReplicaIsLive
from ternmq_registry.members.shards import JoiningReplica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq_broker.replication.leader_state import Members
    from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, ReplicationMode
    from ternmq_common.server_settings import BrokerServerSettings
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
_PATIENCE_S = 1.0
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class WonElection:
    """This replica was elected, with `entry` as the shard, by a lease that it requested at `leased_at_s`.

    `acknowledged` is the log offset up to which the log was acknowledged, as the former leader reported.
    """

    entry: "BrokerEntry"
    leased_at_s: float
    acknowledged: int


class ShardMembership:
    """One replica of one shard. Every call raises RegistryUnavailable when the registry can't be reached."""

    def __init__(
        self,
        settings: "BrokerServerSettings",
        directory: "RegistryDirectory",
        replica: JoiningReplica,
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self.settings = settings
        self.shard = settings.broker_name
        self.store_id = replica.store_id
        self.name = replica.name
        self.timing = ReplicationTiming(lease_s=settings.lease_ms / 1000, lag_s=settings.replica_lag_ms / 1000)
        self._replica = replica
        self._directory = directory
        self._registry = directory.registry
        self._seconds = seconds
        self._entry: BrokerEntry | None = None
        self._version = 0
        self._looked_s = float("-inf")

    @property
    def last_entry(self) -> "BrokerEntry | None":
        """The shard as it was read last."""
        return self._entry

    @property
    def replicas_wanted(self) -> int:
        """How many replicas the shard may have."""
        return self.settings.replicas if self._entry is None else self._entry.replicas_wanted

    async def join_shard(self) -> "BrokerEntry":
        """Join the shard as a replica; StartupError with the reason if that is refused.

        A replica that lost its disk waits until the lease that it had before has run out.
        """
        end_s = self._seconds() + self.timing.lease_s + _PATIENCE_S
        while True:
            try:
                return await self._try_to_join()
            except ReplicaIsLive as error:
                if self._seconds() > end_s:
                    raise
                _log.info("%s; that is tried again until its lease has run out", error)
                await asyncio.sleep(_PATIENCE_S)

    async def _try_to_join(self) -> "BrokerEntry":
        settings = self.settings
        entry = await asyncio.to_thread(
            self._registry.join_shard,
            self.shard,
            self._replica,
            settings.lease_ms,
            replicas=settings.replicas,
            min_insync=settings.min_insync,
            replication=settings.replication,
            rejoin=settings.rejoin,
        )
        self._entry = entry
        return entry

    async def read_entry(self) -> tuple["BrokerEntry", float]:
        """Read the shard, and when it was requested. StartupError if this replica was removed from it."""
        requested_s = self._looked_s = self._seconds()
        self._version, brokers = await asyncio.to_thread(self._registry.read_brokers)
        entry = brokers.get(self.shard)
        if entry is None or all(replica.store_id != self.store_id for replica in entry.replicas):
            raise StartupError(f"replica {self.name} was removed from shard {self.shard}")
        self._entry = entry
        return entry, requested_s

    async def is_replica(self, store_id: str) -> bool:
        """Whether the shard has a replica with that store. Repeated calls cost the registry little."""
        if store_id not in self._replica_ids() and self._seconds() - self._looked_s > _LOOK_EVERY_S:
            await self.read_entry()
        return store_id in self._replica_ids()

    def _replica_ids(self) -> "Members":
        return frozenset() if self._entry is None else frozenset(each.store_id for each in self._entry.replicas)

    async def renew_replica(self, position: int) -> int | None:
        """Renew the lease of this replica, and report that it has the log up to `position`.

        Returns the version up to which deletions are done on the shard; None: the replica was removed.
        """
        return await asyncio.to_thread(
            self._registry.heartbeat_replica, self.shard, self.store_id, position, self.settings.lease_ms
        )

    async def take_leadership(self, epoch: int, *, keeps_move: bool = True) -> int | None:
        """Ask for the leadership; returns the new epoch, None if another replica has it. `keeps_move`: see
        `Shards.take_leadership`."""
        settings = self.settings
        return await asyncio.to_thread(
            self._registry.take_leadership,
            self.shard,
            self.store_id,
            epoch,
            settings.lease_ms,
            min_insync=settings.min_insync,
            replication=settings.replication,
            keeps_move=keeps_move,
        )

    async def renew_leader(self, epoch: int, load: "BrokerLoad", position: int) -> "BrokerEntry | None":
        """Renew the leader's lease; None if the epoch is another one by now."""
        lease_ms = self.settings.lease_ms
        if not await asyncio.to_thread(self._registry.record_heartbeat, self.shard, epoch, load, lease_ms):
            return None
        await self.renew_replica(position)
        entry, _ = await self.read_entry()
        return entry if entry.epoch == epoch else None

    async def set_in_sync(self, epoch: int, expected: "Members", wanted: "Members") -> "Members | None":
        """Change the in-sync set; returns the set then, None if the epoch is another one by now."""
        await self.read_entry()  # so that no earlier call can take effect after it
        change = partial(self._registry.set_in_sync, self.shard, epoch, expected, wanted, version=self._version)
        if await asyncio.to_thread(change):
            await self.read_entry()
            return wanted
        entry, _ = await self.read_entry()
        return in_sync_set(entry) if entry.epoch == epoch else None

    async def hand_over(self, epoch: int, target: str) -> int | None:
        """Make another replica the leader; returns its epoch, None if this one leads no more or the other one can't."""
        return await asyncio.to_thread(self._registry.hand_over, self.shard, epoch, target, self.settings.lease_ms)

    async def give_up_leadership(self, epoch: int, load: "BrokerLoad | None" = None) -> None:
        """End the leader's lease. No replica leads after it, so its log is that of the shard."""
        await asyncio.to_thread(self._registry.deregister_broker, self.shard, epoch)
        if load is not None:
            await asyncio.to_thread(self._registry.report_load, self.shard, epoch, load)

    async def leave_shard(self) -> None:
        """Leave the shard, as the process ends."""
        await asyncio.to_thread(self._registry.leave_shard, self.shard, self.store_id)

    def names_of(self, ids: "Iterable[str]") -> str:
        """The names of replicas, for the log."""
        names = {} if self._entry is None else {each.store_id: each.name for each in self._entry.replicas}
        return ", ".join(sorted(names.get(each, each) for each in ids)) or "none"

    def mode_of(self, topic: str, mode: "ReplicationMode") -> "ReplicationMode":
        """The replication mode of a topic: its own, else that of the shard."""
        known = self._directory.find_topic(topic)
        return mode if known is None or known.replication is None else known.replication


def in_sync_set(entry: "BrokerEntry") -> "Members":
    """The in-sync set of a shard, as store ids."""
    return frozenset(replica.store_id for replica in entry.replicas if replica.in_sync)


def view_of(entry: "BrokerEntry") -> ShardView:
    """The part of the entry that decisions need."""
    return ShardView(epoch=entry.epoch, leader=entry.store_id, leader_live=entry.live, in_sync=in_sync_set(entry))
