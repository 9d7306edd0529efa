"""ListClients of `ternmq.admin.v1.Admin` (`operations/admin/clients/client_list.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.clients import client_list
from ternmq_proxy.peers.forms import read_client_query, to_client_message

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_clients(
    request: admin_pb2.ListClientsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListClientsResponse:
    """Return the clients of all processes, a page at a time."""
    found = await client_list.list_clients(read_client_query(request), call, services)
    return admin_pb2.ListClientsResponse(
        status=OK,
        clients=map(to_client_message, found.clients),
        next_page=found.following,
        server=services.process.server,
        silent=found.silent,
    )
