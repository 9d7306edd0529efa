"""The state of the called server, its figures, and facts for diagnosis.

A server of several processes (`--workers`) answers for all of them, as one process asks the others. The proxies of a
cluster, and its brokers, are servers of their own.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.clock import MovableClock
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.process.own_version import own_version
from ternmq_proxy.access.needs import CLUSTER_GET
from ternmq_proxy.peers.asking import ask_siblings
from ternmq_proxy.peers.forms import decode_stats, encode_stats
from ternmq_proxy.peers.values import ServerStats
from ternmq_proxy.processors.client_type import ClientType
from ternmq_runtime.observability.self_report import SelfReport, create_report, read_resident_bytes
from ternmq_runtime.workers.siblings import REPORT, decode_report
from ternmq_runtime.workers.worker_place import BROKER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ternmq_common.catalog.cluster import BrokerEntry
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

STATS = "published-stats"
"""The question for siblings; it has no argument."""
_SERVER = "server"


class ServerInfo(NamedTuple):
    """The report of a process about itself; times are milliseconds since the epoch. `has_test_clock`: it can be
    moved."""

    version: str
    started_ms: int
    now_ms: int
    resident_bytes: int
    has_test_clock: bool


class Component(NamedTuple):
    """A part of the server, whether it is well, and a remark."""

    kind: str
    name: str
    is_well: bool
    remark: str


class Diagnostics(NamedTuple):
    """The reports of processes, by their names, and the processes that gave none."""

    reports: dict[str, SelfReport]
    silent: list[str]


async def describe_server(call: "Call", services: "Services") -> ServerInfo:
    """Return version, start and resident memory of this process, and its time."""
    services.access.require_all("GetServerInfo", call, (CLUSTER_GET, _SERVER))
    return ServerInfo(
        version=own_version(),
        started_ms=services.started_ms,
        now_ms=services.clock.now_ms(),
        resident_bytes=read_resident_bytes(),
        has_test_clock=isinstance(services.clock, MovableClock),
    )


async def find_components(call: "Call", services: "Services") -> list[Component]:
    """Return every component that this process knows of."""
    services.access.require_all("GetStatus", call, (CLUSTER_GET, _SERVER))
    components = [_describe_own(services)]
    siblings = await services.process.siblings.read_health()
    components += [_component("worker", name, amiss) for name, amiss in siblings.items() if name != BROKER]
    components.append(_component("registry", "registry", services.catalog.registry_problem))
    components.extend(_describe_brokers(services, siblings))
    return components


def _describe_own(services: "Services") -> Component:
    process = services.process
    is_all = process.kind == "server"  # which is its own broker, and that has a line of its own
    return _component(process.kind, process.name, None if is_all else services.messages.outage_reason)


def _describe_brokers(services: "Services", siblings: "Mapping[str, str | None]") -> "Iterator[Component]":
    for broker in services.catalog.list_brokers():
        if BROKER in siblings:
            yield _component("broker", broker.name, siblings[BROKER])
        elif services.catalog.is_embedded:
            yield _component("broker", broker.name, services.messages.outage_reason or services.process.degraded())
        else:
            yield describe_cluster_broker(broker)


def describe_cluster_broker(broker: "BrokerEntry") -> Component:
    """Return how a broker of a cluster is, as the registry has it."""
    said = [] if broker.live else ["not heard of for some seconds"]
    remarks = ["it is being drained"] if broker.draining else []
    in_sync = sum(replica.in_sync for replica in broker.replicas)
    if broker.replicas and in_sync < broker.replicas_wanted:
        remarks.append(f"{in_sync} of {broker.replicas_wanted} replicas are in sync, and {broker.min_insync} needed")
    return Component("broker", broker.name, broker.live, "; ".join([*said, *remarks]))


def _component(kind: str, name: str, amiss: str | None) -> Component:
    return Component(kind, name, amiss is None, amiss or "")


async def collect_diagnostics(call: "Call", services: "Services") -> Diagnostics:
    """Return what helps to find a fault, of each process; without secrets."""
    services.access.require_all("GetDiagnostics", call, (CLUSTER_GET, "diagnostics"))
    process = services.process
    found = Diagnostics({process.name: create_report(process.settings)}, [])
    for name, report in (await process.siblings.ask_all(REPORT)).items():
        if report is None:
            found.silent.append(name)
        else:
            found.reports[name] = decode_report(report)
    return found


async def count_clients(call: "Call", services: "Services") -> tuple[ServerStats, list[str]]:
    """Return how many connections and clients this server has, and which of its processes did not answer. Rates are in
    its metrics, and not in this answer."""
    services.access.require_all("GetProxyRuntimeStats", call, (CLUSTER_GET, _SERVER))
    stats = await _count_own_clients(services)
    others, silent = await ask_siblings(decode_stats, STATS, services)
    for other in others:
        stats = stats._replace(
            connections=stats.connections + other.connections,
            producers=stats.producers + other.producers,
            consumers=stats.consumers + other.consumers,
        )
    return stats, silent


async def answer_stats(argument: str, services: "Services") -> bytes:
    """Answer a sibling."""
    del argument
    return encode_stats(await _count_own_clients(services))


async def _count_own_clients(services: "Services") -> ServerStats:
    producers = consumers = 0
    turns = WorkTurns()
    for client in services.clients.list_clients():
        producers += client.client_type == ClientType.PRODUCER
        consumers += client.is_consumer
        await turns.next_turn()
    return ServerStats(services.process.server, own_version(), services.connections(), producers, consumers)
