"""What tests of a shard with replicas see and do: by its processes, and by the registry, as an operator does."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_registry.registry import Registry
from tests.cluster.watching import eventually
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.stack import config_options

if TYPE_CHECKING:
    from ternmq_common.catalog.cluster import BrokerEntry

SHARD = "broker-0"
SETTINGS = 'lease_ms = "2s"\n'


class Shard:
    """One shard of a cluster, by the eyes of the registry."""

    def __init__(self, cluster: ClusterProcesses, name: str = SHARD) -> None:
        self.cluster = cluster
        self.name = name
        self.registry = Registry.open_postgres(cluster.registry_url)

    def close(self) -> None:
        self.registry.close()

    @property
    def replicas(self) -> list[ReplicaProcess]:
        return [each for each in self.cluster.replicas if each.name == self.name]

    async def entry(self) -> "BrokerEntry":
        _, brokers = await asyncio.to_thread(self.registry.read_brokers)
        return brokers[self.name]

    async def leader(self) -> ReplicaProcess:
        """The process of the leader of record."""
        return self.of(await self.entry(), (await self.entry()).store_id)

    async def followers(self) -> list[ReplicaProcess]:
        leader = await self.leader()
        return [each for each in self.replicas if each is not leader]

    def of(self, entry: "BrokerEntry", store_id: str) -> ReplicaProcess:
        [name] = [each.name for each in entry.replicas if each.store_id == store_id]
        [process] = [each for each in self.replicas if each.replica == name]
        return process

    async def in_sync(self, count: int, *, within_s: float = 30.0) -> "BrokerEntry":
        """Return when so many replicas are in sync, and live: one that was killed may be in the set a while longer."""

        async def enough() -> "BrokerEntry | None":
            entry = await self.entry()
            in_sync = [each for each in entry.replicas if each.in_sync]
            return entry if entry.live and len(in_sync) == count and all(each.live for each in in_sync) else None

        entry = await eventually(enough, within_s=within_s, what=f"{count} of {self.name} in sync\n{self.cluster.logs}")
        assert entry is not None
        return entry

    async def all_in_sync(self, *, within_s: float = 30.0) -> None:
        """Return when all replicas run, those that were killed too, and are in sync."""
        for replica in self.replicas:
            if replica.process.poll() is not None:
                await asyncio.to_thread(replica.start)
        await self.in_sync(len(self.replicas), within_s=within_s)

    async def led_by_another(self, before: ReplicaProcess, *, within_s: float = 30.0) -> ReplicaProcess:
        """Return when another replica leads."""

        async def other() -> ReplicaProcess | None:
            entry = await self.entry()
            process = self.of(entry, entry.store_id)
            return process if entry.live and process is not before else None

        process = await eventually(other, within_s=within_s, what=f"another leader\n{self.cluster.logs}")
        assert process is not None
        return process


@contextmanager
def shard_of(
    folder: Path, *options: str, replicas: int = 3, proxies: int = 2, proxy_options: tuple[str, ...] = ()
) -> Iterator[Shard]:
    """A cluster of one shard, with a lease of 2 s."""
    options = (*config_options(folder, SETTINGS), *options)
    with ClusterProcesses(
        folder, brokers=1, replicas=replicas, proxies=proxies, broker_options=options, proxy_options=proxy_options
    ) as cluster:
        shard = Shard(cluster)
        try:
            yield shard
        finally:
            shard.close()


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began
