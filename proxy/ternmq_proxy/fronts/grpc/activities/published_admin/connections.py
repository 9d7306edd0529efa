"""ListConsumerConnection: the consumers of a group that are connected to this server."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1.admin_pb2 import ListClientsRequest
from ternmq_protos.v2.admin_pb2 import ClientInfo, ListConsumerConnectionRequest, ListConsumerConnectionResponse
from ternmq_proxy.fronts.grpc.activities.admin.clients import LIMIT_MAX, list_clients
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.fronts.grpc.activities.published_admin.client_info import client_info
from ternmq_proxy.fronts.grpc.activities.published_admin.named import lite_queue_of, named_group, named_topic
from ternmq_proxy.fronts.grpc.activities.published_admin.subscribers import Found, Wanted, subscribers

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_consumer_connection(
    request: ListConsumerConnectionRequest, call: "Call", services: "Services"
) -> ListConsumerConnectionResponse:
    """The group's clients by their ids; with a topic, those that subscribe it."""
    group = await named_group(request.group, services)
    if request.HasField("liteTopic"):
        found = await _of_lite_topic(lite_queue_of(group, request.liteTopic), group.name, call, services)
    elif request.HasField("topic"):
        topic = await named_topic(request.topic, services)
        found = await _of_topic(Wanted(group.name, topic.name), services)
    else:
        found = await _of_group(group.name, call, services)
    outcome = status_of_cut("clients", found.cut_at, found.silent)
    return ListConsumerConnectionResponse(status=outcome, client_info=found.entries)


async def _of_topic(wanted: Wanted, services: "Services") -> Found[ClientInfo]:
    found = await subscribers(wanted, services)
    return Found([each.client_info for each in found.entries], found.cut_at, found.silent)


async def _of_lite_topic(topic: str, group: str, call: "Call", services: "Services") -> Found[ClientInfo]:
    ids = set(await services.messages.inspecting.lite_clients(group, topic))
    found = await _of_group(group, call, services)
    return Found([each for each in found.entries if each.client_id in ids], found.cut_at, found.silent)


async def _of_group(group: str, call: "Call", services: "Services") -> Found[ClientInfo]:
    by_id: dict[str, ClientInfo] = {}  # a client may have connections to several processes
    page, silent = "", list[str]()
    entries_max = services.answer_limits.entries_max
    while len(by_id) <= entries_max:
        asked = ListClientsRequest(group=group, limit=min(LIMIT_MAX, entries_max), page=page)
        answer = await list_clients(asked, call, services)
        for client in answer.clients:
            by_id.setdefault(client.client_id, client_info(client))
        page, silent = answer.next_page, list(answer.silent)
        if not page:
            break
    infos = list(by_id.values())
    return Found.first(infos, entries_max, silent)
