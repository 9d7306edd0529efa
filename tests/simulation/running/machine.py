"""One replica's machine: its disk, and the processes that are this replica one after the other."""

import asyncio
import functools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.replication.membership import ShardMembership
from ternmq_broker.server.replication.replica import ShardReplica
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.server.storage_front import StorageFront
from ternmq_common.errors import StartupError
from ternmq_common.server_settings import BrokerServerSettings
from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.members.shards import JoiningReplica
from tests.simulation.running.disk import SimulatedDisk
from tests.simulation.running.world import SHARD, SimulatedClock

if TYPE_CHECKING:
    from ternmq_broker.server.replication.leader import ReplicatingLeader
    from ternmq_broker.store.message_store import MessageStore
    from tests.simulation.running.loop import ProcessLoop
    from tests.simulation.running.plan import Plan
    from tests.simulation.running.registry import SimulatedRegistry
    from tests.simulation.running.world import World

_AGAIN_S = 0.5
_REGISTRY_WAIT_S = 5.0


class Machine:
    """`replica` is what runs there now, None while nothing does."""

    def __init__(self, world: "World", registry: "SimulatedRegistry", plan: "Plan", number: int) -> None:
        self._world = world
        self._registry = registry
        self._plan = plan
        self.name = f"r{number}"
        self._address = f"10.0.0.{number}:10911"
        self.store_id = f"{number:032x}"
        self.disk = SimulatedDisk(world.loop)
        self.process: ProcessLoop | None = None
        self.replica: ShardReplica | None = None
        self._files: ReplicaFiles | None = None
        self._ending: asyncio.Event | None = None
        self.speed = world.dice.uniform(1 - plan.drift, 1 + plan.drift)

    def seconds(self) -> float:
        """Its monotonic clock."""
        return self._world.loop.time() * self.speed

    @property
    def leader(self) -> "ReplicatingLeader | None":
        """What leads here, unless it stands still."""
        process = self.process
        if self.replica is None or process is None or process.stands_still:
            return None
        return self.replica.leader

    @property
    def store(self) -> "MessageStore | None":
        """What is open here."""
        return (
            None
            if self._files is None or (not self._files.is_open and self.leader is None)
            else self._files.current_store
        )

    # --- processes

    def start(self) -> None:
        """Begin a process, unless there is one."""
        if self.process is None:
            self._world.note(f"{self.name} starts")
            self.process = self._world.begin(self.name)
            self.process.begin(self._run(self.process), "process")

    def kill(self, for_s: float, *, power_lost: bool) -> None:
        """End the process, and begin another one after a while."""
        process = self.process
        if process is None:
            return
        self._world.note(f"{self.name} {'loses power' if power_lost else 'is killed'} for {for_s:.2f} s")
        process.lost_power = power_lost
        process.end()
        self._world.network.ended(process)
        self.disk.end_process(power_lost=power_lost)
        self.process = self.replica = self._files = None
        self._world.loop.call_later(for_s, self.start)

    def stop(self) -> None:
        """Have the process end by itself, as SIGTERM does."""
        if self._ending is not None and self.process is not None:
            self._world.note(f"{self.name} is to end")
            self.process.call_soon(self._ending.set)

    def stand_still(self, for_s: float) -> None:
        """Stop the process for a while, as SIGSTOP does."""
        process = self.process
        if process is not None and not process.stands_still:
            self._world.note(f"{self.name} stands still for {for_s:.2f} s")
            process.stand_still()
            self._world.loop.call_later(for_s, process.go_on)

    # --- what runs

    async def _run(self, process: "ProcessLoop") -> None:
        """As `ternmq broker` does it, until the process is to end; then it begins again after a while."""
        try:
            await self._serve(process)
        except (StartupError, RegistryUnavailable) as error:
            self._world.note(f"the process ends: {str(error).replace(str(self._world.folder), '')}")
        except Exception as error:
            self._world.violated(f"{self.name}: {type(error).__name__}: {error}")
            raise
        self._world.loop.call_later(_AGAIN_S, self._ended, process)

    def _ended(self, process: "ProcessLoop") -> None:
        if self.process is process:
            self.kill(_AGAIN_S, power_lost=False)

    async def _serve(self, process: "ProcessLoop") -> None:
        settings, clock = self._settings(), SimulatedClock(self._world)
        registry = self._registry.reached_by(process)
        front = StorageFront(self._address, bind=cast("Any", self._world.network.bind))
        directory = RegistryDirectory(registry, seconds=self.seconds)
        await directory.start(_REGISTRY_WAIT_S)
        broker_settings = BrokerSettings.from_storage(settings)
        files = await asyncio.to_thread(ReplicaFiles, broker_settings, self.disk)
        member = JoiningReplica(store_id=self.store_id, name=self.name, address=self._address, version="test")
        membership = ShardMembership(settings, directory, member, self.seconds)
        entry = await membership.join_shard()
        over, ending = asyncio.Event(), asyncio.Event()
        replica = ShardReplica(
            membership,
            files,
            broker_settings,
            directory,
            front,
            cast("Any", SimpleNamespace(watch_broker=lambda _: None, continue_trace=lambda _: nullcontext())),
            clock,
            rules=functools.partial(_rules, directory),
            over=over,
            grace_s=0.5,
            tls=None,
            seconds=self.seconds,
        )
        await front.start()
        replica.start(entry)
        self.replica, self._files, self._ending = replica, files, ending
        waits = [asyncio.create_task(event.wait()) for event in (over, ending)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        await replica.stop()
        await front.stop(0)
        await directory.stop()

    def _settings(self) -> BrokerServerSettings:
        plan = self._plan
        return BrokerServerSettings(
            data_dir=self._world.folder / self.name,
            broker_name=SHARD,
            storage=self._address,
            lease_ms=int(plan.lease_s * 1000),
            replicas=plan.replicas,
            min_insync=plan.min_insync,
            replica_name=self.name,
            replica_lag_ms=int(plan.lag_s * 1000),
            segment_bytes=plan.segment_bytes,
            consumption_flush_interval_ms=plan.journal_ms,
        )


def _rules(directory: RegistryDirectory, group: str) -> ConsumerGroup:
    return directory.snapshot.groups.get(group) or ConsumerGroup(name=group)
