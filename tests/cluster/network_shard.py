"""A shard with replicas on a network of its own: PostgreSQL, each replica, each proxy, the clients are machines of it.

A test's own process is outside; it comes in by ports of 127.0.0.1, as if from the machine of the clients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.cluster.network import Member, Network, port_into
from tests.cluster.shard import SETTINGS, Shard
from tests.support.cluster_processes import (
    ClusterProcesses,
    MemberProcess,
    ProxyProcess,
    ReplicaProcess,
    empty_registry,
)
from tests.support.postgres import Postgres
from tests.support.stack import config_options

STORAGE_PORT, GRPC_PORT, HTTP_PORT = 10911, 8081, 8082


class NetworkProcesses(ClusterProcesses):
    """`machines` has the machine of each process by its title."""

    def __init__(
        self, folder: Path, network: Network, *, replicas: int, proxies: int, options: tuple[str, ...]
    ) -> None:
        super().__init__(
            folder,
            brokers=1,
            replicas=replicas,
            proxies=proxies,
            broker_options=options,
            proxy_options=("--insecure",),
        )
        self._network = network
        self.registry, self.clients = network.member("registry"), network.member("clients")
        self.within = self.clients.within
        self.postgres = Postgres(
            folder, host=self.registry.address, within=self.registry.within, holds=empty_registry()
        )
        self.machines: dict[str, Member] = {}
        self._ports: dict[str, str] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for address in (f"{self.registry.address}:{self.postgres.port}", *(each.grpc for each in self.proxies)):
                self._ports[address] = self._stack.enter_context(port_into(self.clients, address))
        except BaseException:
            self._stack.close()
            raise
        return self

    def place(self, process: MemberProcess) -> None:
        machine = self.machines[process.title] = self._network.member(process.title)
        process.within = machine.within
        port, name = (GRPC_PORT, "grpc") if isinstance(process, ProxyProcess) else (STORAGE_PORT, "storage")
        process.addresses = {name: machine.at(port), "http": machine.at(HTTP_PORT)}

    def machine(self, process: MemberProcess) -> Member:
        return self.machines[process.title]

    @property
    def registry_url(self) -> str:
        return f"postgresql://ternmq@{self._ports[f'{self.registry.address}:{self.postgres.port}']}/postgres"

    @property
    def doors(self) -> list[str]:
        return [self._ports[proxy.grpc] for proxy in self.proxies]


class NetworkShard(Shard):
    """The shard, and who of it reaches whom."""

    cluster: NetworkProcesses

    def machine(self, process: MemberProcess) -> Member:
        return self.cluster.machine(process)

    def others(self, replica: ReplicaProcess) -> list[Member]:
        """The machines of the other replicas."""
        return [self.machine(each) for each in self.replicas if each is not replica]


@contextmanager
def network_shard(folder: Path, *, replicas: int = 3, proxies: int = 2) -> Iterator[NetworkShard]:
    """A cluster of one shard, with a lease of 2 s. NoNetwork: it can't be had here."""
    options = config_options(folder, SETTINGS)
    with (
        Network() as network,
        NetworkProcesses(folder, network, replicas=replicas, proxies=proxies, options=options) as cluster,
    ):
        shard = NetworkShard(cluster)
        try:
            yield shard
        finally:
            shard.close()
