"""What each call needs, written down a second time: a request for each, of topic `t` and group `g`, and the policies of
which a user must have all of one set, and no more."""

from dataclasses import dataclass
from typing import Any

from ternmq_common.access.actions import AccessAction
from ternmq_protos.admin_v1 import admin_pb2 as admin
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import message, receive_request

TOPIC, GROUP, USER = "t", "g", "somebody-else"
KINDS = {"Topic": TOPIC, "Group": GROUP}
QUEUE = {"topic": {"name": TOPIC}}
T, G = {"name": TOPIC}, {"name": GROUP}
CONSUME = (("Topic:t Sub", "Group:g Sub"),)


@dataclass(frozen=True, slots=True)
class Line:
    """`request` needs all policies of one of `sets`; none: every user may. Or it is for super users alone."""

    request: Any
    sets: tuple[tuple[str, ...], ...]
    super_only: bool = False


def one(*policies: str) -> tuple[tuple[str, ...], ...]:
    return tuple((policy,) for policy in policies)


MESSAGING: dict[str, Line] = {
    "QueryRoute": Line(rpc.QueryRouteRequest(topic=T), one("Topic:t Pub", "Topic:t Sub", "Topic:t Get")),
    "Heartbeat": Line(rpc.HeartbeatRequest(group=G, client_type=pb.SIMPLE_CONSUMER), one("Group:g Sub")),
    "SendMessage": Line(rpc.SendMessageRequest(messages=[message(TOPIC)]), one("Topic:t Pub")),
    "QueryAssignment": Line(rpc.QueryAssignmentRequest(topic=T, group=G), CONSUME),
    "ReceiveMessage": Line(receive_request(TOPIC, GROUP), CONSUME),
    "AckMessage": Line(rpc.AckMessageRequest(group=G, topic=T, entries=[{"receipt_handle": "x"}]), CONSUME),
    "ForwardMessageToDeadLetterQueue": Line(rpc.ForwardMessageToDeadLetterQueueRequest(group=G, topic=T), CONSUME),
    "PullMessage": Line(rpc.PullMessageRequest(group=G, message_queue=QUEUE, batch_size=1), CONSUME),
    "UpdateOffset": Line(rpc.UpdateOffsetRequest(group=G, message_queue=QUEUE), CONSUME),
    "GetOffset": Line(rpc.GetOffsetRequest(group=G, message_queue=QUEUE), CONSUME),
    "QueryOffset": Line(rpc.QueryOffsetRequest(message_queue=QUEUE), one("Topic:t Sub")),
    "EndTransaction": Line(rpc.EndTransactionRequest(topic=T), one("Topic:t Pub")),
    "Telemetry": Line(
        rpc.TelemetryCommand(settings=pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [T]})),
        one("Topic:t Pub"),
    ),
    "NotifyClientTermination": Line(rpc.NotifyClientTerminationRequest(group=G), one("Group:g Sub")),
    "ChangeInvisibleDuration": Line(rpc.ChangeInvisibleDurationRequest(group=G, topic=T), CONSUME),
    "RecallMessage": Line(rpc.RecallMessageRequest(topic=T), one("Topic:t Pub")),
    "SyncLiteSubscription": Line(rpc.SyncLiteSubscriptionRequest(topic=T, group=G), CONSUME),
}
ADMIN: dict[str, Line] = {
    "CreateTopic": Line(admin.CreateTopicRequest(topic={"name": TOPIC, "queues": 1}), one("Topic:t Create")),
    "ListTopics": Line(admin.ListTopicsRequest(), ()),
    "DescribeTopic": Line(admin.DescribeTopicRequest(name=TOPIC), one("Topic:t Get")),
    "DeleteTopic": Line(admin.DeleteTopicRequest(name=TOPIC), one("Topic:t Delete")),
    "PurgeTopic": Line(admin.PurgeTopicRequest(name=TOPIC), one("Topic:t Delete")),
    "UpdateTopic": Line(admin.UpdateTopicRequest(name=TOPIC), one("Topic:t Update")),
    "CreateGroup": Line(admin.CreateGroupRequest(group=G), one("Group:g Create")),
    "ListGroups": Line(admin.ListGroupsRequest(), ()),
    "DescribeGroup": Line(admin.DescribeGroupRequest(name=GROUP), one("Group:g Get")),
    "DeleteGroup": Line(admin.DeleteGroupRequest(name=GROUP), one("Group:g Delete")),
    "UpdateGroup": Line(admin.UpdateGroupRequest(group=G), one("Group:g Update")),
    "ResetOffsets": Line(admin.ResetOffsetsRequest(group=GROUP, topic=TOPIC, latest=True), one("Group:g Update")),
    "QueryMessages": Line(admin.QueryMessagesRequest(topic=TOPIC, key="k"), one("Topic:t Sub", "Topic:t Get")),
    "DescribeMessage": Line(admin.DescribeMessageRequest(topic=TOPIC), one("Topic:t Sub", "Topic:t Get")),
    "ListTimers": Line(admin.ListTimersRequest(topic=TOPIC), one("Topic:t Get")),
    "GetHistory": Line(admin.GetHistoryRequest(topic=TOPIC), one("Topic:t Get")),
    "ResendDeadLetters": Line(
        admin.ResendDeadLettersRequest(group=GROUP, to_topic=TOPIC), (("Group:g Update", "Topic:t Pub"),)
    ),
    "ListTransactions": Line(admin.ListTransactionsRequest(topic=TOPIC), one("Topic:t Get")),
    "GetTransaction": Line(admin.GetTransactionRequest(), one("Topic:t Get")),
    "ResolveTransaction": Line(admin.ResolveTransactionRequest(resolution=pb.COMMIT), one("Topic:t Update")),
    "ListBrokers": Line(admin.ListBrokersRequest(), one("Cluster:brokers Get", "Cluster:brokers List")),
    "ListProxies": Line(admin.ListProxiesRequest(), one("Cluster:brokers Get", "Cluster:brokers List")),
    "UpdateBroker": Line(admin.UpdateBrokerRequest(), one("Cluster:brokers Update")),
    "RemoveBroker": Line(admin.RemoveBrokerRequest(), one("Cluster:brokers Update")),
    "BrokerRemaining": Line(admin.BrokerRemainingRequest(), one("Cluster:brokers Get")),
    "MoveLeader": Line(admin.MoveLeaderRequest(), one("Cluster:brokers Update")),
    "ElectReplica": Line(admin.ElectReplicaRequest(), one("Cluster:brokers Update")),
    "AddReplica": Line(admin.AddReplicaRequest(), one("Cluster:brokers Update")),
    "RemoveReplica": Line(admin.RemoveReplicaRequest(), one("Cluster:brokers Update")),
    "AdvanceClock": Line(admin.AdvanceClockRequest(), one("Cluster:clock Update")),
    "GetServerInfo": Line(admin.GetServerInfoRequest(), one("Cluster:server Get")),
    "ListClients": Line(admin.ListClientsRequest(), one("Cluster:clients Get", "Cluster:clients List")),
    "GetStatus": Line(admin.GetStatusRequest(), one("Cluster:server Get")),
    "GetLogLevels": Line(admin.GetLogLevelsRequest(), one("Cluster:log-levels Get")),
    "UpdateLogLevels": Line(admin.UpdateLogLevelsRequest(), one("Cluster:log-levels Update")),
    "GetDiagnostics": Line(admin.GetDiagnosticsRequest(), one("Cluster:diagnostics Get")),
    "CreateUser": Line(admin.CreateUserRequest(name=USER), (), super_only=True),
    "UpdateUser": Line(admin.UpdateUserRequest(name=USER, enabled=True), (), super_only=True),
    "DeleteUser": Line(admin.DeleteUserRequest(name=USER), (), super_only=True),
    "DescribeUser": Line(admin.DescribeUserRequest(name=USER), (), super_only=True),
    "ListUsers": Line(admin.ListUsersRequest(), (), super_only=True),
    "RotateSecret": Line(admin.RotateSecretRequest(user=USER), (), super_only=True),
    "PutPolicy": Line(
        admin.PutPolicyRequest(user=USER, policy={"resource": "*", "actions": "All"}), (), super_only=True
    ),
    "DeletePolicy": Line(admin.DeletePolicyRequest(user=USER, resource="*"), (), super_only=True),
    "ResealSecrets": Line(admin.ResealSecretsRequest(), (), super_only=True),
    "PutQuota": Line(
        admin.PutQuotaRequest(quota={"kind": "user", "name": USER, "messages_in": 1}), (), super_only=True
    ),
    "DeleteQuota": Line(admin.DeleteQuotaRequest(kind="user", name=USER), (), super_only=True),
    "ListQuotas": Line(admin.ListQuotasRequest(), one("Cluster:quotas Get")),
    "ListAuditEntries": Line(admin.ListAuditEntriesRequest(), (), super_only=True),
}
PUBLISHED: dict[str, Line] = {
    # Of no level, since it would be changed for all tests of the process.
    "ChangeLogLevel": Line(published.ChangeLogLevelRequest.FromString(b"\x08\x63"), one("Cluster:log-levels Update")),
    "DescribeTopicStatus": Line(published.DescribeTopicStatusRequest(topic=T), one("Topic:t Get")),
    "ListSubscription": Line(published.ListSubscriptionRequest(topic=T, group=G), (("Topic:t Get", "Group:g Get"),)),
    "DescribeSubscription": Line(published.DescribeSubscriptionRequest(topic=T), one("Topic:t Get")),
    "DeleteSubscription": Line(published.DeleteSubscriptionRequest(topic=T, group=G), one("Group:g Update")),
    "DescribeGroupAccumulation": Line(published.DescribeGroupAccumulationRequest(group=G), one("Group:g Get")),
    "ListConsumerConnection": Line(published.ListConsumerConnectionRequest(group=G), one("Group:g Get")),
    "ResetGroupOffset": Line(
        published.ResetGroupOffsetRequest(group=G, topic=T, reset_timestamp={"seconds": 1}), one("Group:g Update")
    ),
    "QueryMessage": Line(published.ListMessageRequest(topic=T, message_key="k"), one("Topic:t Sub", "Topic:t Get")),
    "PrintThreadStackTrace": Line(published.PrintThreadStackTraceRequest(group=G), one("Group:g Get")),
    "VerifyMessage": Line(published.VerifyMessageRequest(group=G, topic=T), one("Group:g Update")),
    "AdminSendMessage": Line(published.AdminSendMessageRequest(topic=T, body=b"b"), one("Topic:t Pub")),
    "GetConsumerRunningInfo": Line(published.GetConsumerRunningInfoRequest(group=G), one("Group:g Get")),
    "GetTopicRoute": Line(published.GetTopicRouteRequest(topic=T), one("Topic:t Pub", "Topic:t Sub", "Topic:t Get")),
    "QueryTimeSpan": Line(published.QueryTimeSpanRequest(group=G, topics=[T]), (("Topic:t Get", "Group:g Get"),)),
    "GetProxyRuntimeStats": Line(published.GetProxyRuntimeStatsRequest(), one("Cluster:server Get")),
}
LITE_GROUP = Line(
    admin.CreateGroupRequest(group={"name": GROUP, "lite": {"topic": TOPIC}}),
    (("Group:g Create", "Topic:t Sub"), ("Group:g Create", "Topic:t Get")),
)
"""What CreateGroup needs for a lite group."""
OF_TRANSACTIONS = frozenset({"GetTransaction", "ResolveTransaction"})
"""Whose requests name a topic by a transaction alone."""


def rights(line: Line) -> list[str]:
    """Every right that there is on what the line is about, one by one."""
    named = {policy.split()[0] for policies in line.sets for policy in policies}
    resources = sorted(named | {"Topic:t", "Group:g", "Cluster:server", f"Cluster:users/{USER}", "*"})
    if not line.super_only:
        resources.remove("*")
    return [f"{resource} {action.name}" for resource in resources for action in AccessAction]


def is_enough(line: Line, held: tuple[str, ...]) -> bool:
    """Whether who has these rights may."""
    lower = {right.lower() for right in held}
    if line.super_only:
        return False
    return not line.sets or any({policy.lower() for policy in policies} <= lower for policies in line.sets)
