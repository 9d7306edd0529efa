"""Proxies of a cluster, and the call about them."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.call import AdminCall
from ternmq.admin.words import moment_of
from ternmq_protos.admin_v1 import admin_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLoad:
    """What a proxy says of itself every few seconds.

    `clients` are those with a stream. `calls` are those of each second of late, `call_p99_ms` below what 99 of 100 of
    them took; None before it has counted them, or where there were none. `problem` is what is amiss, "" if nothing is.
    """

    connections: int
    clients: int
    calls: float | None
    call_p99_ms: float | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy, or the server itself where that is its own broker. `address` is its first listener's, and its load that
    of all its `processes`.

    `lease_end` is by the registry's clock: who has not told of itself until then is gone from the list; None where the
    registry does not know it. `asked` is the one that has answered.
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
    """By their names. While there is a `registry_problem`, others than the one that has answered are missing."""

    proxies: tuple[Proxy, ...]
    registry_problem: str


def list_all() -> AdminCall[ProxyList]:
    """All that live."""
    return AdminCall("ListProxies", admin_pb2.ListProxiesRequest(), admin_pb2.ListProxiesResponse, _listed)


def _listed(answer: admin_pb2.ListProxiesResponse) -> ProxyList:
    return ProxyList(proxies=tuple(map(_proxy_of, answer.proxies)), registry_problem=answer.registry_problem)


def _proxy_of(proxy: admin_pb2.Proxy) -> Proxy:
    return Proxy(
        name=proxy.name,
        address=proxy.address,
        version=proxy.version,
        started=moment_of(proxy.started),
        processes=proxy.processes,
        load=_load_of(proxy.load),
        lease_end=moment_of(proxy.lease_end),
        asked=proxy.asked,
    )


def _load_of(load: admin_pb2.ProxyLoad) -> ProxyLoad:
    return ProxyLoad(
        connections=load.connections,
        clients=load.clients,
        calls=load.calls if load.HasField("calls") else None,
        call_p99_ms=load.call_p99_ms if load.HasField("call_p99_ms") else None,
        problem=load.problem,
    )
