"""ListClients of `ternmq.admin.v1.Admin`: who is connected, to whichever proxy of the cluster.

Each process knows its own clients. The one that is asked asks all others for the same page, and answers with what comes
first of all; a page ends with whole clients, as one may have connections to several processes.
"""

import heapq
from typing import TYPE_CHECKING, cast

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.printable import NAME_BYTES_MAX, cut_text
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.elsewhere import told_elsewhere
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

CLIENTS = "clients"
"""The question for others; the argument is the request in hexadecimal digits."""
LIMIT_DEFAULT, LIMIT_MAX = 100, 256
# Of a client, which may name thousands; a page holds hundreds of clients.
TOPICS_MAX = 20


async def list_clients(
    request: admin_pb2.ListClientsRequest, call: "Call", services: "Services"
) -> admin_pb2.ListClientsResponse:
    """The clients of all processes, a page at a time."""
    del call
    _check(request)
    question = request.SerializeToString().hex()
    answers, silent = await told_elsewhere(admin_pb2.ListClientsResponse.FromString, CLIENTS, question, services)
    found, more = await _own_clients(request, services)
    for told in answers:
        found.extend(told.clients)
        more = more or bool(told.next_page)
    page, next_page = _page(found, request.limit, more=more)
    server = services.process.server
    return admin_pb2.ListClientsResponse(status=OK, clients=page, next_page=next_page, server=server, silent=silent)


async def answer_clients(argument: str, services: "Services") -> bytes:
    """What another process is told: the first of this process's own clients behind its page."""
    request = admin_pb2.ListClientsRequest.FromString(bytes.fromhex(argument))
    clients, more = await _own_clients(request, services)
    next_page = clients[-1].client_id if more else ""
    answer: bytes = admin_pb2.ListClientsResponse(clients=clients, next_page=next_page).SerializeToString()
    return answer


def _check(request: admin_pb2.ListClientsRequest) -> None:
    """BAD_REQUEST for what can't be asked; sets the limit if there is none."""
    request.limit = request.limit or LIMIT_DEFAULT
    if not 0 < request.limit <= LIMIT_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"limit {request.limit}; 1 to {LIMIT_MAX} clients are allowed")
    for name in ("group", "topic", "page"):
        if len(getattr(request, name).encode()) > NAME_BYTES_MAX:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"{name} is longer than {NAME_BYTES_MAX} bytes")


async def _own_clients(
    request: admin_pb2.ListClientsRequest, services: "Services"
) -> tuple[list[admin_pb2.ConnectedClient], bool]:
    """The first of this process's clients behind the page, and whether there are more."""
    turns = WorkTurns()
    wanted = []
    for client in services.clients.list_clients():
        if client.client_id > request.page and _is_wanted(client, request):
            wanted.append(client)
        await turns.next_turn()
    first = heapq.nsmallest(request.limit, wanted, key=lambda client: client.client_id)
    return [connected(client, services) for client in first], len(wanted) > request.limit


def _is_wanted(client: "ConnectedClient", request: admin_pb2.ListClientsRequest) -> bool:
    if request.group and client.group != request.group:
        return False
    return not request.topic or request.topic in client.topics or client.reads_topic(request.topic)


def _page(
    found: "Iterable[admin_pb2.ConnectedClient]", limit: int, *, more: bool
) -> tuple[list[admin_pb2.ConnectedClient], str]:
    """The first of these, and where the next page begins; each process has given its first `limit`."""
    ordered = sorted(found, key=lambda client: (client.client_id, client.proxy, client.process))
    end = min(limit, len(ordered))
    while 0 < end < len(ordered) and ordered[end].client_id == ordered[end - 1].client_id:
        end += 1
    page = ordered[:end]
    return page, page[-1].client_id if page and (more or end < len(ordered)) else ""


def connected(client: "ConnectedClient", services: "Services") -> admin_pb2.ConnectedClient:
    """A client of this process, as operators see it."""
    topics = sorted({*client.topics, *client.subscribed_topics})
    answer = admin_pb2.ConnectedClient(
        client_id=client.client_id,
        address=client.address,
        client_type=cast("definition_pb2.ClientType", client.client_type),
        group=client.group,
        topics=topics[:TOPICS_MAX],
        topic_count=len(topics),
        process=services.process.name,
        proxy=services.process.server,
    )
    agent = None if client.settings is None else client.settings.user_agent
    if agent is not None:
        answer.language = agent.language
        answer.version, answer.hostname = cut_text(agent.version), cut_text(agent.hostname)
    answer.since.FromMilliseconds(services.clock.now_ms() - round(services.clients.known_s(client) * 1000))
    return answer
