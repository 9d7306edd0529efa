"""The calls that are served: which activity answers which, and which are refused until their time comes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import service_pb2
from ternmq_proxy.activities import (
    admin_audit,
    admin_brokers,
    admin_clients,
    admin_clock,
    admin_groups,
    admin_history,
    admin_messages,
    admin_proxies,
    admin_quotas,
    admin_server,
    admin_shards,
    admin_timers,
    admin_topics,
    admin_transactions,
    admin_users,
)
from ternmq_proxy.activities.client_life import begin_heartbeat, heartbeat, notify_client_termination
from ternmq_proxy.activities.end_transaction import end_transaction
from ternmq_proxy.activities.lite_groups import sync_lite_subscription
from ternmq_proxy.activities.offsets import get_offset, pull_message, query_offset, update_offset
from ternmq_proxy.activities.published_admin import (
    accumulation,
    connections,
    message_query,
    not_served,
    offsets,
    running_info,
    sending,
    server,
    subscriptions,
    time_span,
    topics,
)
from ternmq_proxy.activities.query_route import query_assignment, query_route
from ternmq_proxy.activities.recall_message import recall_message
from ternmq_proxy.activities.receive_message import receive_message
from ternmq_proxy.activities.send_message import Answer, begin_send, send_message
from ternmq_proxy.activities.settle_message import (
    ack_message,
    begin_ack,
    change_invisible_duration,
    forward_message_to_dead_letter_queue,
)

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# A request that has more bytes is for a coroutine, which gives others their turns meanwhile.
AT_ONCE_BYTES_MAX = 64 << 10

MESSAGING_SERVICE = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
PUBLISHED_ADMIN_SERVICE = published_pb2.DESCRIPTOR.services_by_name["Admin"]
ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["Admin"]


class Answered(Protocol):
    """An answer of several frames, serialized; the status of the first has this code."""

    @property
    def code(self) -> int: ...

    @property
    def frames(self) -> list[bytes]: ...

    async def undelivered(self) -> None:
        """The call was cut, and the client does not have them all."""


# The request is of the type that the service's descriptor names, which no annotation here can say for all.
Activity = Callable[[Any, "Call", "Services"], Awaitable[Any]]
Begin = Callable[[bytes, "Call", "Services", Answer], bool]
StreamedActivity = Callable[[Any, "Call", "Services"], Awaitable[Answered]]


@dataclass(frozen=True, slots=True)
class Unary:
    """One request, one answer of `response`, whose `status`, if it has one, is its outcome. `begin`, if there is one,
    answers most requests from their bytes, without a coroutine; the others are left to `activity`, as those are for
    which it raises DecodeError."""

    activity: Activity
    request: Any
    response: Any
    begin: "Begin | None" = None


@dataclass(frozen=True, slots=True)
class Streamed:
    """One request; the activity makes all frames of the answer, serialized; the first is a `response` with the
    status."""

    activity: StreamedActivity
    request: Any
    response: Any


_MESSAGING_UNARY: dict[str, Activity] = {
    "QueryRoute": query_route,
    "Heartbeat": heartbeat,
    "SendMessage": send_message,
    "QueryAssignment": query_assignment,
    "AckMessage": ack_message,
    "ChangeInvisibleDuration": change_invisible_duration,
    "ForwardMessageToDeadLetterQueue": forward_message_to_dead_letter_queue,
    "EndTransaction": end_transaction,
    "RecallMessage": recall_message,
    "NotifyClientTermination": notify_client_termination,
    "UpdateOffset": update_offset,
    "GetOffset": get_offset,
    "QueryOffset": query_offset,
    "SyncLiteSubscription": sync_lite_subscription,
}
_MESSAGING_BEGUN: dict[str, Begin] = {
    "Heartbeat": begin_heartbeat,
    "SendMessage": begin_send,
    "AckMessage": begin_ack,
}
_MESSAGING_STREAMED: dict[str, StreamedActivity] = {"ReceiveMessage": receive_message, "PullMessage": pull_message}
_ADMIN_UNARY: dict[str, Activity] = {
    "CreateTopic": admin_topics.create_topic,
    "ListTopics": admin_topics.list_topics,
    "DescribeTopic": admin_topics.describe_topic,
    "DeleteTopic": admin_topics.delete_topic,
    "PurgeTopic": admin_topics.purge_topic,
    "UpdateTopic": admin_topics.update_topic,
    "CreateGroup": admin_groups.create_group,
    "UpdateGroup": admin_groups.update_group,
    "ListGroups": admin_groups.list_groups,
    "DescribeGroup": admin_groups.describe_group,
    "DeleteGroup": admin_groups.delete_group,
    "ResetOffsets": admin_messages.reset_offsets,
    "QueryMessages": admin_messages.query_messages,
    "DescribeMessage": admin_messages.describe_message,
    "ListTimers": admin_timers.list_timers,
    "GetHistory": admin_history.get_history,
    "ResendDeadLetters": admin_messages.resend_dead_letters,
    "ListTransactions": admin_transactions.list_transactions,
    "GetTransaction": admin_transactions.get_transaction,
    "ResolveTransaction": admin_transactions.resolve_transaction,
    "ListBrokers": admin_brokers.list_brokers,
    "ListProxies": admin_proxies.list_proxies,
    "UpdateBroker": admin_brokers.update_broker,
    "RemoveBroker": admin_brokers.remove_broker,
    "BrokerRemaining": admin_brokers.broker_remaining,
    "MoveLeader": admin_shards.move_leader,
    "ElectReplica": admin_shards.elect_replica,
    "AddReplica": admin_shards.add_replica,
    "RemoveReplica": admin_shards.remove_replica,
    "AdvanceClock": admin_clock.advance_clock,
    "GetServerInfo": admin_topics.get_server_info,
    "ListClients": admin_clients.list_clients,
    "GetStatus": admin_server.get_status,
    "GetLogLevels": admin_server.get_log_levels,
    "UpdateLogLevels": admin_server.update_log_levels,
    "GetDiagnostics": admin_server.get_diagnostics,
    "CreateUser": admin_users.create_user,
    "UpdateUser": admin_users.update_user,
    "DeleteUser": admin_users.delete_user,
    "DescribeUser": admin_users.describe_user,
    "ListUsers": admin_users.list_users,
    "RotateSecret": admin_users.rotate_secret,
    "PutPolicy": admin_users.put_policy,
    "DeletePolicy": admin_users.delete_policy,
    "ResealSecrets": admin_users.reseal_secrets,
    "PutQuota": admin_quotas.put_quota,
    "DeleteQuota": admin_quotas.delete_quota,
    "ListQuotas": admin_quotas.list_quotas,
    "ListAuditEntries": admin_audit.list_audit_entries,
}
_PUBLISHED_ADMIN_UNARY: dict[str, Activity] = {
    "ChangeLogLevel": server.change_log_level,
    "DescribeTopicStatus": topics.describe_topic_status,
    "ListSubscription": subscriptions.list_subscription,
    "DescribeSubscription": subscriptions.describe_subscription,
    "DeleteSubscription": not_served.delete_subscription,
    "DescribeGroupAccumulation": accumulation.describe_group_accumulation,
    "ListConsumerConnection": connections.list_consumer_connection,
    "ResetGroupOffset": offsets.reset_group_offset,
    "QueryMessage": message_query.query_message,
    "PrintThreadStackTrace": not_served.print_thread_stack_trace,
    "VerifyMessage": not_served.verify_message,
    "AdminSendMessage": sending.admin_send_message,
    "GetConsumerRunningInfo": running_info.get_consumer_running_info,
    "GetTopicRoute": topics.get_topic_route,
    "QueryTimeSpan": time_span.query_time_span,
    "GetProxyRuntimeStats": server.get_proxy_runtime_stats,
}


def messaging_calls() -> "dict[str, Unary | Streamed]":
    """Every call of MessagingService but Telemetry, which is a conversation."""
    calls: dict[str, Unary | Streamed] = {}
    for method in MESSAGING_SERVICE.methods:
        request = getattr(service_pb2, method.input_type.name)
        response = getattr(service_pb2, method.output_type.name)
        if method.name in _MESSAGING_STREAMED:
            calls[method.name] = Streamed(_MESSAGING_STREAMED[method.name], request, response)
        elif method.name != "Telemetry":
            activity = _MESSAGING_UNARY[method.name]
            calls[method.name] = Unary(activity, request, response, _MESSAGING_BEGUN.get(method.name))
    return calls


def admin_calls() -> "dict[str, Unary]":
    """Every call of our own Admin service."""
    return _unary_calls(ADMIN_SERVICE, admin_pb2, _ADMIN_UNARY)


def published_admin_calls() -> "dict[str, Unary]":
    """Every call of the Admin service that is published with the protocol."""
    return _unary_calls(PUBLISHED_ADMIN_SERVICE, published_pb2, _PUBLISHED_ADMIN_UNARY)


def _unary_calls(service: Any, module: Any, activities: dict[str, Activity]) -> "dict[str, Unary]":  # noqa: ANN401
    return {
        method.name: Unary(
            activities[method.name],
            getattr(module, method.input_type.name),
            getattr(module, method.output_type.name),
        )
        for method in service.methods
    }
