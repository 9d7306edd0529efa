"""The measured targets with replicas: a broker without any, and one with a second that has everything before a send is
answered; TernMQ's and Apache RocketMQ's, each behind a proxy process of its own, all syncing to the disk first."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from tests.cluster.shard import Shard
from tests.cluster.watching import eventually, sent_code
from tests.interop.apache_rocketmq import BROKER_MAIN, HOST, ApacheRocketMQ, free_broker_port
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.ports import free_port

TOPIC = "sends"
QUEUES = 4


class Target(ABC):
    """A running cluster, with topic `TOPIC` after `ready`. Invariant: the same processes run from then on."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """HOST:PORT for clients."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until sends are answered in the measured mode."""

    @abstractmethod
    async def leader(self) -> int:
        """Return the process that stores messages and answers."""

    @abstractmethod
    async def followers(self) -> Collection[int]:
        """Return the processes that have the messages too."""


class TernmqTarget(Target):
    """One shard of TernMQ."""

    def __init__(self, name: str, cluster: ClusterProcesses, shard: Shard | None) -> None:
        super().__init__(name)
        self.cluster = cluster
        self.shard = shard

    @property
    def endpoint(self) -> str:
        return self.cluster.proxies[0].grpc

    async def ready(self) -> None:
        if self.shard is not None:
            await self.shard.in_sync(len(self.shard.replicas), within_s=60)
        async with RawClient(self.endpoint) as client:
            await client.create_topic(TOPIC, queues=QUEUES)

    async def leader(self) -> int:
        process = self.cluster.brokers[0] if self.shard is None else await self.shard.leader()
        return process.process.pid

    async def followers(self) -> Collection[int]:
        return [] if self.shard is None else [each.process.pid for each in await self.shard.followers()]


@contextmanager
def ternmq(name: str, folder: Path, *, replicas: int) -> Iterator[TernmqTarget]:
    """Start a shard of so many replicas and a proxy."""
    with ClusterProcesses(folder, brokers=1, replicas=replicas if replicas > 1 else 0, proxies=1) as cluster:
        shard = Shard(cluster) if replicas > 1 else None
        try:
            yield TernmqTarget(name, cluster, shard)
        finally:
            if shard is not None:
                shard.close()


class _Apache(ApacheRocketMQ):
    """A name server, a broker and a proxy of Apache RocketMQ."""

    java_options: ClassVar = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=512m")

    def __init__(self, **settings: str | int) -> None:
        super().__init__(True, flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1024**3, **settings)
        self.broker_pids: list[int] = []

    def _start_broker(self, started: ExitStack) -> None:
        super()._start_broker(started)
        self.broker_pids.append(self.pids[-1])


class _ApacheWithSlave(_Apache):
    """The same with a second broker, which has a message before its send is answered."""

    def __init__(self) -> None:
        super().__init__(brokerRole="SYNC_MASTER", inSyncReplicas=2, totalReplicas=2)

    def _start_broker(self, started: ExitStack) -> None:
        super()._start_broker(started)
        store = self._home / "slave-store"
        settings = self._broker_settings() | {
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "listenPort": free_broker_port(),
            "haListenPort": free_port(),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
        }
        config = self._home / "slave.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = self._java(*self.java_options)
        slave = self._begin(
            [*java, *BROKER_MAIN, "-n", f"{HOST}:{self._namesrv_port}", "-c", str(config)], "slave.out", started
        )
        slave.wait_for("boot success")
        self.broker_pids.append(slave.pid)


class ApacheTarget(Target):
    """One broker of Apache RocketMQ, or a master with its slave."""

    def __init__(self, name: str, peer: _Apache) -> None:
        super().__init__(name)
        self._peer = peer

    @property
    def endpoint(self) -> str:
        return self._peer.endpoint

    async def ready(self) -> None:
        await asyncio.to_thread(self._peer.create_topic, TOPIC, queues=QUEUES)
        async with RawClient(self.endpoint) as client:

            async def taken() -> bool:
                return (await sent_code(client, TOPIC))[0] == "OK"

            await eventually(taken, within_s=120, what="the slave has what the master has")

    async def leader(self) -> int:
        return self._peer.broker_pids[0]

    async def followers(self) -> Collection[int]:
        return self._peer.broker_pids[1:]


@contextmanager
def apache(name: str, *, replicas: int) -> Iterator[ApacheTarget]:
    """Start Apache RocketMQ with one broker, or with two."""
    with _ApacheWithSlave() if replicas > 1 else _Apache() as peer:
        yield ApacheTarget(name, peer)
