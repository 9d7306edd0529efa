"""Lists the connected clients of all proxies of the cluster.

Each process knows its own clients. The called one requests the same page of all others, and answers with what comes
first of all; a page ends with whole clients, as one may have connections to several processes.
"""

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.printable import NAME_BYTES_MAX, cut_text
from ternmq_proxy.access.needs import CLUSTER_LIST
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.peers.forms import decode_client_page, encode_client_page, parse_client_query, write_client_query
from ternmq_proxy.peers.values import ClientEntry, ClientPage, ClientQuery, FirstEntries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

GRPC, REMOTING = "grpc", "remoting"
CLIENTS = "clients"
"""The question for others; the argument is the query."""
LIMIT_DEFAULT, LIMIT_MAX = 100, 256
# Of a client, which may name thousands; a page holds hundreds of clients.
TOPICS_MAX = 20


class ClientList(NamedTuple):
    """A page of the clients of all processes, and which processes did not answer."""

    clients: list[ClientEntry]
    following: str
    silent: list[str]


async def list_clients(query: ClientQuery, call: "Call", services: "Services") -> ClientList:
    """Return a page of the clients of all processes; a limit of 0 is the usual one."""
    services.access.require_all("ListClients", call, (CLUSTER_LIST, "clients"))
    return await find_clients(_checked_query(query), services)


async def find_clients(query: ClientQuery, services: "Services") -> ClientList:
    """Return a page of the clients of all processes, without a check of rights."""
    answers, silent = await ask_others(decode_client_page, CLIENTS, write_client_query(query), services)
    own = await _find_own_clients(query, services)
    found, more = own.clients, bool(own.following)
    for answer in answers:
        found.extend(answer.clients)
        more = more or bool(answer.following)
    page = _cut_page(found, query.limit, more=more)
    return ClientList(page.clients, page.following, silent)


async def find_group_clients(group: str, services: "Services") -> FirstEntries[ClientEntry]:
    """Return the clients of a group, each once, by their ids."""
    by_id: dict[str, ClientEntry] = {}  # a client may have connections to several processes
    page, silent = "", list[str]()
    entries_max = services.answer_limits.entries_max
    while len(by_id) <= entries_max:
        answer = await find_clients(ClientQuery(group=group, limit=min(LIMIT_MAX, entries_max), after=page), services)
        for client in answer.clients:
            by_id.setdefault(client.client_id, client)
        page, silent = answer.following, answer.silent
        if not page:
            break
    return FirstEntries.take_first(list(by_id.values()), entries_max, silent)


async def answer_clients(argument: str, services: "Services") -> bytes:
    """Answer another process: the first of this process's own clients behind its page."""
    return encode_client_page(await _find_own_clients(parse_client_query(argument), services))


def _checked_query(query: ClientQuery) -> ClientQuery:
    """Return the query with its limit. Raises BAD_REQUEST for an invalid one."""
    limit = query.limit or LIMIT_DEFAULT
    if not 0 < limit <= LIMIT_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"limit {limit}; 1 to {LIMIT_MAX} clients are allowed")
    for name, value in (("group", query.group), ("topic", query.topic), ("page", query.after)):
        if len(value.encode()) > NAME_BYTES_MAX:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"{name} is longer than {NAME_BYTES_MAX} bytes")
    return replace(query, limit=limit)


async def _find_own_clients(query: ClientQuery, services: "Services") -> ClientPage:
    """Return the first of this process's clients behind the page; another page follows if there are more."""
    turns = WorkTurns()
    wanted = []
    for client in services.clients.list_clients():
        if client.own_id > query.after and _is_wanted(client, query):
            wanted.append(client)
        await turns.next_turn()
    first = heapq.nsmallest(query.limit, wanted, key=lambda client: client.own_id)
    following = ""
    if first and len(wanted) > len(first):
        last = first[-1].own_id
        first = sorted((client for client in wanted if client.own_id <= last), key=lambda client: client.own_id)
        following = last if len(wanted) > len(first) else ""
    return ClientPage([describe_client(client, services) for client in first], following)


def _is_wanted(client: "ConnectedClient", query: ClientQuery) -> bool:
    if query.group and client.group != query.group:
        return False
    return not query.topic or query.topic in client.topics or client.reads_topic(query.topic)


def _cut_page(found: "Iterable[ClientEntry]", limit: int, *, more: bool) -> ClientPage:
    """Return the first of these, and where the next page begins; each process has given its first `limit`."""
    ordered = sorted(found, key=lambda client: (client.client_id, client.proxy, client.process, client.group))
    end = min(limit, len(ordered))
    while 0 < end < len(ordered) and ordered[end].client_id == ordered[end - 1].client_id:
        end += 1
    page = ordered[:end]
    return ClientPage(page, page[-1].client_id if page and (more or end < len(ordered)) else "")


def describe_client(client: "ConnectedClient", services: "Services") -> ClientEntry:
    """Return a client of this process, as operators see it."""
    topics = sorted({*client.topics, *client.subscribed_topics})
    agent = None if client.settings is None else client.settings.user_agent
    return ClientEntry(
        client_id=client.own_id,
        address=client.address,
        client_type=client.client_type,
        group=client.group,
        topics=topics[:TOPICS_MAX],
        topic_count=len(topics),
        process=services.process.name,
        proxy=services.process.server,
        language="" if agent is None else agent.language,
        version="" if agent is None else cut_text(agent.version),
        hostname="" if agent is None else cut_text(agent.hostname),
        since_ms=services.clock.now_ms() - round(services.clients.known_s(client) * 1000),
        protocol=REMOTING if client.is_by_remoting else GRPC,
    )
