"""ListProxies of `ternmq.admin.v1.Admin` (`operations/admin/servers/proxies.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.servers import proxies

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.servers.proxies import ProxyServer
    from ternmq_proxy.services import Services


async def list_proxies(
    request: admin_pb2.ListProxiesRequest, call: "Call", services: "Services"
) -> admin_pb2.ListProxiesResponse:
    """Return all proxies, by name."""
    del request
    listed, problem = await proxies.list_proxies(call, services)
    return admin_pb2.ListProxiesResponse(status=OK, proxies=map(wire_proxy, listed), registry_problem=problem)


def wire_proxy(server: "ProxyServer") -> admin_pb2.Proxy:
    """Write a server of a cluster's proxies."""
    load = server.load
    answer = admin_pb2.Proxy(
        name=server.name,
        address=server.address,
        version=server.version,
        processes=server.processes,
        load=admin_pb2.ProxyLoad(
            connections=load.connections,
            clients=load.clients,
            calls=load.calls,
            call_p99_ms=load.call_p99_ms,
            problem=load.problem,
        ),
        asked=server.is_asked,
    )
    answer.started.FromMilliseconds(server.started_ms)
    if server.lease_end_ms:
        answer.lease_end.FromMilliseconds(server.lease_end_ms)
    return answer
