"""A cluster inside the test's own process: brokers with their storage services on real sockets, and a proxy's service.

The registry is a SQLite file, as nothing here depends on which database it is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.lease import BrokerLease
from ternmq_broker.server.proxy_connections import ProxyConnections
from ternmq_broker.server.registry_sync import LEARNING_TIMING, SyncTiming
from ternmq_broker.server.storage_front import PROXY_SILENCE_S, StorageFront
from ternmq_common.clock import MovableClock, SystemClock
from ternmq_common.server_settings import FlushMode, StorageSettings
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.registry import Registry
from tests.support.new_registry import put_new_registry
from tests.support.ports import free_address

if TYPE_CHECKING:
    from tests.support.scripted_broker import Wire

LEASE_MS = 60_000
GRACE_S = 5.0
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How patient the parts of a cluster are; a test that waits for one of them to run out has it short."""

    registry_sync: SyncTiming = LEARNING_TIMING
    link: LinkTiming = LINK_TIMING
    proxy_silence_s: float = PROXY_SILENCE_S


AS_SERVED = Timings()


class BrokerNode:
    """One broker with its storage service; comes back on the same data and port. Proxies reach it by `wire`, if it has
    one."""

    def __init__(self, name: str, cluster: "InProcessCluster") -> None:
        self.name = name
        self._cluster = cluster
        self._stack = AsyncExitStack()
        self.address = free_address()
        self.wire: Wire | None = None
        self.directory: RegistryDirectory
        self.broker: Broker
        self.proxies: ProxyConnections
        self.running = False
        self.rejoin = False

    async def start(self) -> None:
        cluster, self._stack = self._cluster, AsyncExitStack()
        directory = self.directory = await cluster.directory(self._stack)
        settings = StorageSettings(
            data_dir=cluster.folder / self.name, broker_name=self.name, flush=cluster.flush, transaction_check_max=3
        )
        self.broker = await asyncio.to_thread(
            Broker.open, BrokerSettings.from_storage(settings), cluster.rules, cluster.clock
        )
        self._stack.push_async_callback(self.broker.close)
        self.broker.start()
        deletion_log = DeletionLog(self.broker, directory, cluster.folder / self.name)
        self.proxies = ProxyConnections(self.broker, directory, deletion_log, timing=cluster.timings.registry_sync)
        front = StorageFront(self.address, proxy_silence_s=cluster.timings.proxy_silence_s)
        self.address = front.address
        if self.wire is not None:
            self.wire.to = front.address
        lease = BrokerLease(
            directory.registry,
            name=self.name,
            store_id=f"store of {self.name}",
            address=self.address if self.wire is None else self.wire.address,
            version="test",
            lease_ms=LEASE_MS,
        )
        await lease.register_broker(rejoin=self.rejoin)
        await deletion_log.begin_with_registry()
        await front.start(self.proxies)
        self._stack.push_async_callback(front.stop, GRACE_S)
        self.running = True

    async def stop(self) -> None:
        if self.running:
            self.running = False
            await self._stack.aclose()


class InProcessCluster:
    """Brokers `broker-0`, `broker-1` ... and a service. `groups` has the settings of groups, by their names."""

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int,
        flush: FlushMode = FlushMode.SYNC,
        clock: SystemClock | None = None,
        timings: Timings = AS_SERVED,
    ) -> None:
        self.folder = folder
        self.flush = flush
        self.timings = timings
        self.clock = clock or MovableClock()
        self.groups: dict[str, ConsumerGroup] = {}
        self.nodes = [BrokerNode(f"broker-{number}", self) for number in range(brokers)]
        self.service: ClusterMessageService
        self.proxy_directory: RegistryDirectory
        self._stack = AsyncExitStack()

    def rules(self, group: str) -> ConsumerGroup:
        return self.groups.get(group) or ConsumerGroup(name=group)

    async def directory(self, stack: AsyncExitStack) -> RegistryDirectory:
        """A view of the registry of its own, as each process has it; read again only when it has to be."""
        path = self.folder / "registry.db"
        put_new_registry(path)
        registry = await asyncio.to_thread(Registry.open_sqlite, path)
        stack.callback(registry.close)
        directory = RegistryDirectory(registry, interval_s=None)
        await directory.start()
        return directory

    async def start(self) -> ClusterMessageService:
        for node in self.nodes:
            if not node.running:
                await node.start()
        self.proxy_directory = await self.directory(self._stack)
        self.service = await self.connect(self.proxy_directory, self._stack)
        return self.service

    async def connect(
        self, directory: RegistryDirectory, stack: AsyncExitStack, *, name: str = "proxy"
    ) -> ClusterMessageService:
        """A service of another proxy, that can ask all brokers."""
        service = ClusterMessageService(directory, proxy=name, link_timing=self.timings.link)
        stack.push_async_callback(service.close)
        service.start()
        await reached(service, [node.name for node in self.nodes if node.running])
        return service

    async def restart(self) -> ClusterMessageService:
        """Stop brokers and proxy, and start them on the same data."""
        await self.stop()
        return await self.start()

    async def stop(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        for node in self.nodes:
            await node.stop()


@asynccontextmanager
async def running(
    folder: Path, *, brokers: int, flush: FlushMode = FlushMode.SYNC, timings: Timings = AS_SERVED
) -> AsyncIterator[InProcessCluster]:
    """A cluster for one test, which has `PATIENCE_S` seconds."""
    cluster = InProcessCluster(folder, brokers=brokers, flush=flush, timings=timings)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await cluster.start()
            yield cluster
    finally:
        await cluster.stop()


async def reached(service: ClusterMessageService, names: list[str]) -> None:
    """Return when exactly these brokers can be asked."""
    async with asyncio.timeout(PATIENCE_S):
        while sorted(broker.name for broker in service.links.connected_brokers()) != sorted(names):
            await changed(service)


async def changed(service: ClusterMessageService) -> None:
    """Return when a link of the service was made or lost, or a moment has passed."""
    happened = asyncio.Event()
    original = service.routes.forget_routes

    def told() -> None:
        original()
        happened.set()

    service.routes.forget_routes = told  # type: ignore[method-assign]
    try:
        async with asyncio.timeout(0.5):
            await happened.wait()
    except TimeoutError:
        pass
    finally:
        service.routes.forget_routes = original  # type: ignore[method-assign]
