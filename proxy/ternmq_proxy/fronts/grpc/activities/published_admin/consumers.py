"""ListConsumerConnection and GetConsumerRunningInfo (`operations/admin/clients/consumers.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import (
    GetConsumerRunningInfoRequest,
    GetConsumerRunningInfoResponse,
    ListConsumerConnectionRequest,
    ListConsumerConnectionResponse,
    MessageQueueItem,
)
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.operations.admin.clients.consumers import describe_running_consumer, list_consumers
from ternmq_proxy.peers.forms import to_consumer_message, to_running_info_message

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueProgress
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_consumer_connection(
    request: ListConsumerConnectionRequest, call: "Call", services: "Services"
) -> ListConsumerConnectionResponse:
    """The group's clients by their ids; with a topic, those that subscribe it."""
    found = await list_consumers(
        request.group.name,
        call,
        services,
        topic_name=request.topic.name if request.HasField("topic") else None,
        lite_topic=request.liteTopic if request.HasField("liteTopic") else None,
    )
    outcome = status_of_cut("clients", found.cut_at, found.silent)
    return ListConsumerConnectionResponse(status=outcome, client_info=map(to_consumer_message, found.entries))


async def get_consumer_running_info(
    request: GetConsumerRunningInfoRequest, call: "Call", services: "Services"
) -> GetConsumerRunningInfoResponse:
    """Return what the client reported about itself, what it reads, and its group's progress in those queues."""
    found = await describe_running_consumer(request.group.name, request.client_id, call, services)
    info = to_running_info_message(found.info)
    info.message_queue_table.extend(map(_item, found.queues))
    return GetConsumerRunningInfoResponse(status=status_of_cut("queues", found.cut_at), consumer_running_info=info)


def _item(row: "QueueProgress") -> MessageQueueItem:
    queue = row.queue
    return MessageQueueItem(
        message_queue={"topic": {"name": queue.topic}, "id": queue.queue_id, "broker": {"name": queue.broker}},
        process_queue_info={"commit_offset": row.committed},
    )
