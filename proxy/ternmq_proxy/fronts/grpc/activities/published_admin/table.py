"""Which function answers which call of the published Admin service."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ternmq_proxy.fronts.grpc.activities.published_admin import (
    accumulation,
    consumers,
    message_query,
    not_served,
    offsets,
    sending,
    server,
    subscriptions,
    time_span,
    topics,
)

# As in the table of our own service.
PUBLISHED_ACTIVITIES: Mapping[str, Callable[[Any, Any, Any], Awaitable[Any]]] = {
    "ChangeLogLevel": server.change_log_level,
    "DescribeTopicStatus": topics.describe_topic_status,
    "ListSubscription": subscriptions.list_subscription,
    "DescribeSubscription": subscriptions.describe_subscription,
    "DeleteSubscription": not_served.delete_subscription,
    "DescribeGroupAccumulation": accumulation.describe_group_accumulation,
    "ListConsumerConnection": consumers.list_consumer_connection,
    "ResetGroupOffset": offsets.reset_group_offset,
    "QueryMessage": message_query.query_message,
    "PrintThreadStackTrace": not_served.print_thread_stack_trace,
    "VerifyMessage": not_served.verify_message,
    "AdminSendMessage": sending.admin_send_message,
    "GetConsumerRunningInfo": consumers.get_consumer_running_info,
    "GetTopicRoute": topics.get_topic_route,
    "QueryTimeSpan": time_span.query_time_span,
    "GetProxyRuntimeStats": server.get_proxy_runtime_stats,
}
