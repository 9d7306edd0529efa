"""The proxies of a cluster, as each tells of itself.

The called server asks its own processes, so it is listed without a registry too; of other servers the registry
has a row for each process (`proxy_heartbeat.py`). The list has servers, each with the sums of its processes.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ternmq_common.catalog.cluster import ProxyEntry, ProxyLoad
from ternmq_proxy.access.needs import CLUSTER_LIST
from ternmq_proxy.catalog.proxy_heartbeat import make_proxy_entry
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

PROXY = "proxy"
"""The question for siblings; without an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyServer:
    """A proxy: a server of so many processes, which runs since `started_ms`, and is listed until `lease_end_ms`, 0: for
    as long as it answers. `is_asked`: it gives this list."""

    name: str
    address: str
    version: str
    processes: int
    load: ProxyLoad
    started_ms: int
    lease_end_ms: int
    is_asked: bool


async def list_proxies(call: "Call", services: "Services") -> tuple[list[ProxyServer], str]:
    """Return all proxies, by name; only the called server while the registry is away, or where there is no
    cluster. Return why nothing is known of the registry, too."""
    services.access.require_all("ListProxies", call, (CLUSTER_LIST, "brokers"))
    here = [make_proxy_entry(services), *await _ask_siblings(services)]
    known, problem = await _read_registry(services)
    own = _server(here[0])
    servers = group_by_server(here, known)
    return [join_processes(each, is_asked=_server(each[0]) == own) for each in servers], problem


async def answer_proxy(_: str, services: "Services") -> bytes:
    """Answer a sibling: this process."""
    return msgspec.json.encode(make_proxy_entry(services))


async def _ask_siblings(services: "Services") -> list[ProxyEntry]:
    """Return those that answer; the broker of a stack is no proxy, and does not."""
    answers = await services.process.siblings.ask_all(PROXY)
    return [entry for data in answers.values() if data is not None and (entry := _decode_entry(data)) is not None]


def _decode_entry(data: bytes) -> ProxyEntry | None:
    try:
        return msgspec.json.decode(data, type=ProxyEntry)
    except msgspec.MsgspecError:  # of another version, while it is replaced
        return None


async def _read_registry(services: "Services") -> tuple[list[ProxyEntry], str]:
    """Return what the registry has, and why nothing is known of it."""
    if services.catalog.is_embedded:
        return [], ""
    try:
        return await services.catalog.proxies.list_proxies(), ""
    except RegistryUnavailable as error:
        return [], error.reason


def group_by_server(here: "Iterable[ProxyEntry]", known: "Iterable[ProxyEntry]") -> list[list[ProxyEntry]]:
    """Return the processes of each server, by name and address: what those `here` say, which is newer, before what the
    registry knows."""
    rows = {each.name: each for each in known}
    for each in here:
        row = rows.get(each.name)
        rows[each.name] = each if row is None else replace(each, lease_end_ms=row.lease_end_ms)
    found: dict[tuple[str, str], list[ProxyEntry]] = {}
    for _, each in sorted(rows.items()):
        found.setdefault(_server(each), []).append(each)
    return [processes for _, processes in sorted(found.items())]


def _server(process: ProxyEntry) -> tuple[str, str]:
    """Whose it is: a name may be given twice, and then only the address tells two servers apart."""
    return process.server, process.address


def join_processes(processes: "Sequence[ProxyEntry]", *, is_asked: bool) -> ProxyServer:
    """Return the server of these processes."""
    first = processes[0]
    return ProxyServer(
        name=first.server,
        address=first.address,
        version=first.version,
        processes=len(processes),
        load=_sum_loads([each.load for each in processes]),
        started_ms=min(each.started_ms for each in processes),
        lease_end_ms=max(each.lease_end_ms for each in processes),
        is_asked=is_asked,
    )


def _sum_loads(loads: "Sequence[ProxyLoad]") -> ProxyLoad:
    calls = [load.calls for load in loads if load.calls is not None]
    times_ms = [load.call_p99_ms for load in loads if load.call_p99_ms is not None]
    problems = dict.fromkeys(load.problem for load in loads if load.problem)
    return ProxyLoad(
        connections=sum(load.connections for load in loads),
        clients=sum(load.clients for load in loads),
        calls=sum(calls) if calls else None,
        call_p99_ms=max(times_ms, default=None),
        problem="; ".join(problems),
    )
