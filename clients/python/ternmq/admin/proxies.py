"""Proxies of a cluster and the clients that are connected to them, and their admin calls."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_text
from ternmq.admin.requests.words import CLIENT_TYPES, read_moment, word_of
from ternmq_protos.admin_v1 import admin_pb2

_CLIENTS_PAGE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLoad:
    """The load that a proxy reports every few seconds.

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
    the registry does not know it. `asked` marks the proxy that answered this call.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedClient:
    """A client that is connected to the `process` of the server `proxy`, which heard of it first at `since`.

    `protocol` is `grpc` or `remoting`; a client by remoting is listed once for each of its groups. `topics` are the
    first of `topic_count`. Values that the client did not report are "".
    """

    client_id: str
    client_type: str
    protocol: str
    address: str
    language: str
    version: str
    hostname: str
    group: str
    topics: tuple[str, ...]
    topic_count: int
    since: datetime | None
    proxy: str
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPage:
    """Clients by their ids, the start of the next page, the proxies that did not answer, and the one that did."""

    clients: tuple[ConnectedClient, ...]
    next_page: str
    silent: tuple[str, ...]
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList:
    """Clients by their ids. `silent`: proxies that did not answer, whose clients are missing here."""

    clients: tuple[ConnectedClient, ...]
    silent: tuple[str, ...]


def list_proxies() -> AdminCall[ProxyList]:
    """List the proxies of the cluster by name, or the server itself if it is its own broker."""
    return AdminCall(admin_pb2.ListProxiesRequest(), _read_list)


def list_clients(*, group: str = "", topic: str = "", page: str = "") -> AdminCall[ClientPage]:
    """List a page of the connected clients."""
    request = admin_pb2.ListClientsRequest(
        group=check_text("group", group), topic=check_text("topic", topic), limit=_CLIENTS_PAGE, page=page
    )
    return AdminCall(request, _read_clients)


def _read_clients(answer: admin_pb2.ListClientsResponse) -> ClientPage:
    return ClientPage(
        clients=tuple(map(_read_client, answer.clients)),
        next_page=answer.next_page,
        silent=tuple(answer.silent),
        server=answer.server,
    )


def _read_client(client: admin_pb2.ConnectedClient) -> ConnectedClient:
    return ConnectedClient(
        client_id=client.client_id,
        client_type=word_of(client.client_type, CLIENT_TYPES),
        protocol=client.protocol,
        address=client.address,
        language=client.language,
        version=client.version,
        hostname=client.hostname,
        group=client.group,
        topics=tuple(client.topics),
        topic_count=client.topic_count,
        since=read_moment(client.since),
        proxy=client.proxy,
        process=client.process,
    )


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
