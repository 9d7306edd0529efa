"""A cluster on a network of its own: PostgreSQL, each broker, each proxy and the clients are machines of it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.network import Door, Member, Network
from tests.support.cluster_processes import BrokerProcess, ProxyProcess, begin_together, empty_registry
from tests.support.postgres import Postgres

STORAGE_PORT, GRPC_PORT, HTTP_PORT = 10911, 8081, 8082
NUMBERS = (0, 1)


@dataclass(frozen=True)
class NetworkCluster:
    """Brokers, proxies, their machines, and `doors`: how a test asks each proxy, from the clients' machine."""

    registry: Member
    brokers: list[BrokerProcess]
    broker_machines: list[Member]
    proxies: list[ProxyProcess]
    proxy_machines: list[Member]
    clients: Member
    doors: list[str]

    @property
    def endpoint(self) -> str:
        """For clients on their machine."""
        return ";".join(proxy.grpc for proxy in self.proxies)


@contextmanager
def network_cluster(folder: Path) -> Iterator[NetworkCluster]:
    """Two brokers and two proxies, ready."""
    with Network() as network:
        registry, clients = network.member("registry"), network.member("clients")
        broker_machines = [network.member(f"broker{number}") for number in NUMBERS]
        proxy_machines = [network.member(f"proxy{number}") for number in NUMBERS]
        postgres = Postgres(folder, host=registry.address, within=registry.within, holds=empty_registry())
        with postgres, ExitStack() as stack:
            brokers = [_broker(folder, number, machine, postgres.url) for number, machine in enumerate(broker_machines)]
            proxies = [_proxy(folder, number, machine, postgres.url) for number, machine in enumerate(proxy_machines)]
            begin_together(brokers, stack)
            begin_together(proxies, stack)
            doors = [Door(clients, folder / f"{proxy.name}.sock", proxy.grpc) for proxy in proxies]
            with doors[0] as first, doors[1] as second:
                yield NetworkCluster(
                    registry, brokers, broker_machines, proxies, proxy_machines, clients, [first, second]
                )


def _broker(folder: Path, number: int, machine: Member, url: str) -> BrokerProcess:
    name = f"broker-{number}"
    broker = BrokerProcess(folder / name, name, url)
    broker.within = machine.within
    broker.addresses = {"storage": machine.at(STORAGE_PORT), "http": machine.at(HTTP_PORT)}
    return broker


def _proxy(folder: Path, number: int, machine: Member, url: str) -> ProxyProcess:
    name = f"proxy-{number}"
    proxy = ProxyProcess(folder / name, name, url, "--insecure")
    proxy.within = machine.within
    proxy.addresses = {"grpc": machine.at(GRPC_PORT), "http": machine.at(HTTP_PORT)}
    return proxy
