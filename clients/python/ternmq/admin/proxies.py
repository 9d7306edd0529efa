"""Proxies of a cluster, and their admin call."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.words import read_moment
from ternmq_protos.admin_v1 import admin_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLoad:
    """What a proxy reports every few seconds.

    `clients` counts those with a stream. `calls` is the recent rate a second, `call_p99_ms` the duration below which 99
    of 100 of them were; None before it has counted them, or if there were none. `problem` is what is wrong, "" if
    nothing is.
    """

    connections: int
    clients: int
    calls: float | None
    call_p99_ms: float | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy, or the server itself if it is its own broker. `address` is that of its first listener, `load` that of
    all its `processes`.

    `lease_end` is by the registry's clock: a proxy that has not reported until then is removed from the list; None if
    the registry does not know it. `asked` marks the one that has answered.
    """

    name: str
    address: str
    version: str
    started: datetime | None
    processes: int
    load: ProxyLoad
    lease_end: datetime | None
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyList:
    """Proxies by name. While there is a `registry_problem`, only the one that has answered is listed."""

    proxies: tuple[Proxy, ...]
    registry_problem: str


def list_all() -> AdminCall[ProxyList]:
    """List all live proxies."""
    return AdminCall("ListProxies", admin_pb2.ListProxiesRequest(), admin_pb2.ListProxiesResponse, _read_list)


def _read_list(answer: admin_pb2.ListProxiesResponse) -> ProxyList:
    return ProxyList(proxies=tuple(map(_read_proxy, answer.proxies)), registry_problem=answer.registry_problem)


def _read_proxy(proxy: admin_pb2.Proxy) -> Proxy:
    return Proxy(
        name=proxy.name,
        address=proxy.address,
        version=proxy.version,
        started=read_moment(proxy.started),
        processes=proxy.processes,
        load=_read_load(proxy.load),
        lease_end=read_moment(proxy.lease_end),
        asked=proxy.asked,
    )


def _read_load(load: admin_pb2.ProxyLoad) -> ProxyLoad:
    return ProxyLoad(
        connections=load.connections,
        clients=load.clients,
        calls=load.calls if load.HasField("calls") else None,
        call_p99_ms=load.call_p99_ms if load.HasField("call_p99_ms") else None,
        problem=load.problem,
    )
