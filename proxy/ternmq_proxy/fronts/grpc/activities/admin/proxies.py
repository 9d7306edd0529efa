"""ListProxies of `ternmq.admin.v1.Admin`: the proxies of a cluster, as each tells of itself.

The server that is asked asks its own processes, so it is listed without a registry too; of other servers the registry
has a row for each process (`proxy_heartbeat.py`). The list has servers, each with the sums of its processes.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ternmq_common.cluster import ProxyEntry
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.proxy_heartbeat import make_proxy_entry
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

PROXY = "proxy"
"""The question for siblings; without an argument."""


async def list_proxies(
    request: admin_pb2.ListProxiesRequest, call: "Call", services: "Services"
) -> admin_pb2.ListProxiesResponse:
    """All proxies, by name; the server that is asked alone while the registry is away, or where there is no cluster."""
    del request, call
    here = [make_proxy_entry(services), *await _siblings(services)]
    known, problem = await _known(services)
    own = _server(here[0])
    proxies = [wire_proxy(each, asked=_server(each[0]) == own) for each in servers_of(here, known)]
    return admin_pb2.ListProxiesResponse(status=OK, proxies=proxies, registry_problem=problem)


async def answer_proxy(_: str, services: "Services") -> bytes:
    """What a sibling is told: this process."""
    return msgspec.json.encode(make_proxy_entry(services))


async def _siblings(services: "Services") -> list[ProxyEntry]:
    """Those that answer; the broker of a stack is no proxy, and does not."""
    answers = await services.process.siblings.ask_all(PROXY)
    return [entry for data in answers.values() if data is not None and (entry := _told(data)) is not None]


def _told(data: bytes) -> ProxyEntry | None:
    try:
        return msgspec.json.decode(data, type=ProxyEntry)
    except msgspec.MsgspecError:  # of another version, while it is replaced
        return None


async def _known(services: "Services") -> tuple[list[ProxyEntry], str]:
    """What the registry has, and why nothing is known of it."""
    if services.catalog.is_embedded:
        return [], ""
    try:
        return await services.catalog.proxies.list_proxies(), ""
    except RegistryUnavailable as error:
        return [], error.reason


def servers_of(here: "Iterable[ProxyEntry]", known: "Iterable[ProxyEntry]") -> list[list[ProxyEntry]]:
    """The processes of each server, by name and address: what those `here` say, which is newer, before what the
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


def wire_proxy(processes: "Sequence[ProxyEntry]", *, asked: bool) -> admin_pb2.Proxy:
    """A server of these processes."""
    first = processes[0]
    answer = admin_pb2.Proxy(
        name=first.server,
        address=first.address,
        version=first.version,
        processes=len(processes),
        load=_load_of(processes),
        asked=asked,
    )
    answer.started.FromMilliseconds(min(each.started_ms for each in processes))
    if lease_end_ms := max(each.lease_end_ms for each in processes):
        answer.lease_end.FromMilliseconds(lease_end_ms)
    return answer


def _load_of(processes: "Sequence[ProxyEntry]") -> admin_pb2.ProxyLoad:
    loads = [each.load for each in processes]
    calls = [load.calls for load in loads if load.calls is not None]
    times_ms = [load.call_p99_ms for load in loads if load.call_p99_ms is not None]
    problems = dict.fromkeys(load.problem for load in loads if load.problem)
    return admin_pb2.ProxyLoad(
        connections=sum(load.connections for load in loads),
        clients=sum(load.clients for load in loads),
        calls=sum(calls) if calls else None,
        call_p99_ms=max(times_ms, default=None),
        problem="; ".join(problems),
    )
