"""What each call needs, written down a second time: a request for each, of topic `t` and group `g`, and the policies of
which a user must have all of one set, and no more. Calls of our Admin service say it in `admin_conformance.py`."""

from dataclasses import dataclass
from typing import Any

from ternmq_common.access.actions import AccessAction
from ternmq_protos.admin_v1 import admin_pb2 as admin
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.admin_conformance import ROWS, Names, one
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
    name: Line(row.request(Names(TOPIC, GROUP, USER)), row.needs, row.super_only) for name, row in ROWS.items()
}
"""As the calls of our Admin service have it in their rows."""
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
