"""ListSubscription and DescribeSubscription: what groups subscribe, and by which clients."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.v2.admin_pb2 import (
    DescribeSubscriptionRequest,
    DescribeSubscriptionResponse,
    ListSubscriptionRequest,
    ListSubscriptionResponse,
)
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.fronts.grpc.activities.published_admin.named import named_group, named_topic
from ternmq_proxy.fronts.grpc.activities.published_admin.subscribers import Wanted, subscribers, subscriptions

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_subscription(
    request: ListSubscriptionRequest, call: "Call", services: "Services"
) -> ListSubscriptionResponse:
    """What clients that are here subscribe: each group with each topic, of those that the request names."""
    del call
    found = await subscriptions(await _wanted(request, services), services)
    outcome = status_of_cut("subscriptions", found.cut_at, found.silent)
    return ListSubscriptionResponse(status=outcome, subscription_info=found.entries)


async def describe_subscription(
    request: DescribeSubscriptionRequest, call: "Call", services: "Services"
) -> DescribeSubscriptionResponse:
    """The same client by client."""
    del call
    found = await subscribers(await _wanted(request, services), services)
    outcome = status_of_cut("subscriptions of clients", found.cut_at, found.silent)
    return DescribeSubscriptionResponse(status=outcome, client_subscription_info=found.entries)


async def _wanted(request: ListSubscriptionRequest | DescribeSubscriptionRequest, services: "Services") -> Wanted:
    if not request.HasField("group") and not request.HasField("topic"):
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names neither a topic nor a group")
    group = (await named_group(request.group, services)).name if request.HasField("group") else ""
    topic = (await named_topic(request.topic, services)).name if request.HasField("topic") else ""
    return Wanted(group, topic)
