"""GetConsumerRunningInfo: one consumer, as far as a server knows it. What it caches, and how fast it is, is its own.

The process that is asked knows its own clients, and asks the others for a client that is not among them.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.printable import cut_text, find_name_problem
from ternmq_protos.v2.admin_pb2 import (
    ConsumerRunningInfo,
    GetConsumerRunningInfoRequest,
    GetConsumerRunningInfoResponse,
    MessageQueueItem,
)
from ternmq_proxy.fronts.grpc.activities.admin.elsewhere import told_elsewhere
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_group
from ternmq_proxy.fronts.grpc.activities.published_admin.subscribers import expression_of
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.clients import ConnectedClient
    from ternmq_proxy.services import Services

RUNNING_INFO = "published-running-info"
"""The question for others; the argument is the request in hexadecimal digits."""


async def get_consumer_running_info(
    request: GetConsumerRunningInfoRequest, call: "Call", services: "Services"
) -> GetConsumerRunningInfoResponse:
    """What the client said of itself, what it reads, and how far its group is in the queues of that; NOT_FOUND if the
    group has no such client here."""
    del call
    group = await named_group(request.group, services)
    asked = GetConsumerRunningInfoRequest(group={"name": group.name}, client_id=request.client_id)
    info = None
    if not find_name_problem(request.client_id):  # else nobody has it, and it is too long to ask for
        info = _own(asked, services) or await _elsewhere(asked, services)
    if info is None:
        raise MessagingError(
            ErrorCode.NOT_FOUND, f"consumer group {group.name!r} has no client {cut_text(request.client_id)!r} here"
        )
    rows = await services.messages.progress(group.name, sorted(info.subscriptions))
    items = [_item(row) for row in rows if row.queue.topic in info.subscriptions]
    entries_max = services.answer_limits.entries_max
    info.message_queue_table.extend(items[:entries_max])
    outcome = status_of_cut("queues", entries_max if len(items) > entries_max else None)
    return GetConsumerRunningInfoResponse(status=outcome, consumer_running_info=info)


async def answer_running_info(argument: str, services: "Services") -> bytes:
    """What another process is told; without the info if it is nobody's client here."""
    request = GetConsumerRunningInfoRequest.FromString(bytes.fromhex(argument))
    info = _own(request, services)
    data: bytes = GetConsumerRunningInfoResponse(status=OK, consumer_running_info=info).SerializeToString()
    return data


async def _elsewhere(request: GetConsumerRunningInfoRequest, services: "Services") -> ConsumerRunningInfo | None:
    question = request.SerializeToString().hex()
    answers, _ = await told_elsewhere(GetConsumerRunningInfoResponse.FromString, RUNNING_INFO, question, services)
    return next((told.consumer_running_info for told in answers if told.HasField("consumer_running_info")), None)


def _own(request: GetConsumerRunningInfoRequest, services: "Services") -> ConsumerRunningInfo | None:
    group, client = request.group.name, services.clients.find_client(request.client_id)
    if client is None or client.group != group:
        return None
    info = ConsumerRunningInfo(properties=_properties(client))
    for topic, kept in services.subscriptions.member_filters(group, client.client_id).items():
        info.subscriptions[topic].CopyFrom(expression_of(client, topic, kept))
    return info


def _properties(client: "ConnectedClient") -> dict[str, str]:
    """By the names that RocketMQ's tools know; those alone of which the client told."""
    properties = {}
    if client.is_consumer:
        properties["PROP_CONSUME_TYPE"] = "CONSUME_PASSIVELY" if client.is_push else "CONSUME_ACTIVELY"
    if client.settings is not None:
        properties["PROP_CONSUMEORDERLY"] = str(client.was_told_fifo).lower()
        agent = client.settings.user_agent
        if agent is not None and agent.version:
            properties["PROP_CLIENT_VERSION"] = cut_text(agent.version)
    return properties


def _item(row: "QueueProgress") -> MessageQueueItem:
    queue = row.queue
    return MessageQueueItem(
        message_queue={"topic": {"name": queue.topic}, "id": queue.queue_id, "broker": {"name": queue.broker}},
        process_queue_info={"commit_offset": row.committed},
    )
