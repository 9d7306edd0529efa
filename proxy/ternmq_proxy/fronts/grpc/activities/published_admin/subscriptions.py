"""ListSubscription and DescribeSubscription: what groups subscribe, and by which clients
(`operations/admin/clients/subscriptions.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import (
    DescribeSubscriptionRequest,
    DescribeSubscriptionResponse,
    ListSubscriptionRequest,
    ListSubscriptionResponse,
)
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.operations.admin.clients.subscriptions import list_client_subscriptions, list_subscriptions
from ternmq_proxy.peers.forms import to_client_subscription_message, to_subscription_message

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_subscription(
    request: ListSubscriptionRequest, call: "Call", services: "Services"
) -> ListSubscriptionResponse:
    """Return the subscriptions of this process's clients: each requested group with each requested topic."""
    found = await list_subscriptions(*_read(request), call, services)
    return ListSubscriptionResponse(
        status=status_of_cut("subscriptions", found.cut_at, found.silent),
        subscription_info=map(to_subscription_message, found.entries),
    )


async def describe_subscription(
    request: DescribeSubscriptionRequest, call: "Call", services: "Services"
) -> DescribeSubscriptionResponse:
    """The same client by client."""
    found = await list_client_subscriptions(*_read(request), call, services)
    return DescribeSubscriptionResponse(
        status=status_of_cut("subscriptions of clients", found.cut_at, found.silent),
        client_subscription_info=map(to_client_subscription_message, found.entries),
    )


def _read(request: ListSubscriptionRequest | DescribeSubscriptionRequest) -> tuple[str | None, str | None]:
    """The names of the group and of the topic, None for one that the request does not name."""
    group = request.group.name if request.HasField("group") else None
    topic = request.topic.name if request.HasField("topic") else None
    return group, topic
