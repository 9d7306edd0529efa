"""The table of access rules: what each call needs. A call without a rule keeps the process from starting.

The rules are RocketMQ 5's (`security.md`), except where those leave a hole: every message of a send counts, not the
first alone; a pull and a change of an invisible duration need the topic too; members of lite groups are members.

Lists       need no right of their own: each shows what its caller may list or get.
Derived     the retry and dead-letter topics of a group belong to the group (`request_for_topic`).
Creating    a topic or group that a call would create by its use needs CREATE too; without that right it is missing,
            as it is without `auto_create`. Operations check it (`AccessControl.has_right`), since only they know
            what is missing.
Bodies      of messages need SUB on the topic; with GET alone everything else is visible.
Elsewhere   the brokers' storage service knows no users: mutual TLS between proxies and brokers protects it.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import service_pb2
from ternmq_proxy.access import needs
from ternmq_proxy.access.needs import AccessNeed, NamedNeed
from ternmq_proxy.handles import find_transaction
from ternmq_proxy.operations.rights import needs_of_consumer, needs_of_pull

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# Requests and answers are of the types in the service's descriptor, which no annotation can express for all.
FindNeeds = Callable[[Any, "Call", "Services"], Iterable[NamedNeed]]
FindStoredNeeds = Callable[[Any, "Services"], Awaitable[Iterable[NamedNeed]]]
HasRight = Callable[[AccessNeed, str], bool]
AnswerFilter = Callable[[Any, Any, HasRight], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """The rule of a call. `ask` returns what a request needs; `ask_later` what only the storage can tell. `cut` removes
    from an answer what the caller may not see. A call that `changes` something is in the audit log when it is allowed
    too."""

    ask: FindNeeds | None = None
    ask_later: FindStoredNeeds | None = None
    cut: AnswerFilter | None = None
    changes: bool = False


def named_resource_rule(
    need: AccessNeed, path: str, *, changes: bool = False, cut: AnswerFilter | None = None
) -> AccessRule:
    """Return the rule of a call that needs this for the resource whose name is at `path` of the request, such as
    `topic.name`."""
    name = attrgetter(path)
    return AccessRule(ask=lambda request, call, services: ((need, name(request)),), changes=changes, cut=cut)


def cluster_rule(need: AccessNeed, name: str, *, changes: bool = False) -> AccessRule:
    """Return the rule of a call that needs this for a part of the server."""
    return AccessRule(ask=lambda request, call, services: ((need, name),), changes=changes)


def _super_user_rule(part: str, path: str, *, own: bool = False, changes: bool = False) -> AccessRule:
    """Return the rule of a call for super users; with `own` also for the user that the request names at `path`."""
    name = attrgetter(path)

    def needed_rights(request: Any, call: "Call", services: "Services") -> Iterable[NamedNeed]:  # noqa: ANN401
        del services
        asked = name(request)
        return () if own and asked == call.user else ((needs.SUPER_USER, f"{part}/{asked}"),)

    return AccessRule(ask=needed_rights, changes=changes)


def _pull_needs(request: "service_pb2.PullMessageRequest", call: "Call", services: "Services") -> Iterable[NamedNeed]:
    return needs_of_pull(request.group.name, request.message_queue.topic.name)


def _receive_needs(
    request: "service_pb2.ReceiveMessageRequest", call: "Call", services: "Services"
) -> Iterable[NamedNeed]:
    return needs_of_consumer(request.group.name, request.message_queue.topic.name)


def _resend_needs(
    request: "admin_pb2.ResendDeadLettersRequest", call: "Call", services: "Services"
) -> Iterator[NamedNeed]:
    yield needs.GROUP_UPDATE, request.group
    if request.to_topic:
        yield needs.TOPIC_PUB, request.to_topic


def _create_group_needs(
    request: "admin_pb2.CreateGroupRequest", call: "Call", services: "Services"
) -> Iterator[NamedNeed]:
    yield needs.GROUP_CREATE, request.group.name
    # Creating a lite group reveals whether its topic exists, its type, and how much it holds for the group.
    if request.group.HasField("lite"):
        yield needs.TOPIC_QUERY, request.group.lite.topic


def _reset_needs(request: "admin_pb2.ResetOffsetsRequest", call: "Call", services: "Services") -> Iterable[NamedNeed]:
    return ((needs.GROUP_UPDATE, request.group),)


def _history_needs(request: "admin_pb2.GetHistoryRequest", call: "Call", services: "Services") -> Iterable[NamedNeed]:
    match request.WhichOneof("of"):
        case "topic":
            return ((needs.TOPIC_GET, request.topic),)
        case "group":
            return ((needs.GROUP_GET, request.group),)
    return ((needs.CLUSTER_GET, "server"),)


def _list_timers_needs(
    request: "admin_pb2.ListTimersRequest", call: "Call", services: "Services"
) -> Iterator[NamedNeed]:
    if request.topic:
        yield needs.TOPIC_GET, request.topic


def _list_transactions_needs(
    request: "admin_pb2.ListTransactionsRequest", call: "Call", services: "Services"
) -> Iterator[NamedNeed]:
    if request.topic:
        yield needs.TOPIC_GET, request.topic


def _transaction_needs(need: AccessNeed) -> FindStoredNeeds:
    """Return what finds the need for the topic of the transaction; that raises INVALID_TRANSACTION_ID."""

    async def find_needs(request: Any, services: "Services") -> Iterable[NamedNeed]:  # noqa: ANN401 - one of two types
        transaction, _ = await find_transaction(request.transaction_id, services)
        return ((need, transaction.topic),)

    return find_needs


def _keep_entries(entries: Any, is_shown: Callable[[Any], bool]) -> None:  # noqa: ANN401 - a repeated field
    shown = [entry for entry in entries if is_shown(entry)]
    if len(shown) < len(entries):
        del entries[:]
        entries.extend(shown)


def _filter_topics(
    request: "admin_pb2.ListTopicsRequest", answer: "admin_pb2.ListTopicsResponse", may: HasRight
) -> None:
    # A caller who names a topic and may query its route learns nothing new from the list.
    shown = (needs.TOPIC_LIST, needs.TOPIC_ROUTE) if request.names else (needs.TOPIC_LIST,)
    _keep_entries(answer.topics, lambda topic: any(may(need, topic.name) for need in shown))


def _filter_groups(request: object, answer: "admin_pb2.ListGroupsResponse", may: HasRight) -> None:
    _keep_entries(answer.groups, lambda group: may(needs.GROUP_LIST, group.name))


def _filter_transactions(request: object, answer: "admin_pb2.ListTransactionsResponse", may: HasRight) -> None:
    _keep_entries(answer.transactions, lambda transaction: may(needs.TOPIC_GET, transaction.topic))


def _filter_timers(request: object, answer: "admin_pb2.ListTimersResponse", may: HasRight) -> None:
    _keep_entries(answer.timers, lambda timer: may(needs.TOPIC_GET, timer.topic))


def _filter_described_topic(request: object, answer: "admin_pb2.DescribeTopicResponse", may: HasRight) -> None:
    _keep_entries(answer.groups, lambda group: may(needs.GROUP_LIST, group))


def _filter_described_message(
    request: "admin_pb2.DescribeMessageRequest", answer: "admin_pb2.DescribeMessageResponse", may: HasRight
) -> None:
    if not may(needs.TOPIC_SUB, request.topic):
        answer.message.ClearField("body")
    _keep_entries(answer.standings, lambda standing: may(needs.GROUP_GET, standing.group))


def _body_filter(path: str) -> AnswerFilter:
    """Return a filter that removes bodies unless the caller may read the topic at `path` of the request."""
    name = attrgetter(path)

    def filter_bodies(request: Any, answer: Any, may: HasRight) -> None:  # noqa: ANN401 - of one of two services
        if not may(needs.TOPIC_SUB, name(request)):
            for message in answer.messages:
                message.ClearField("body")

    return filter_bodies


def _filter_body(request: object, answer: "admin_pb2.GetTransactionResponse", may: HasRight) -> None:
    if not may(needs.TOPIC_SUB, answer.transaction.topic):
        answer.message.ClearField("body")


def _subscription_needs(
    request: "published_pb2.ListSubscriptionRequest | published_pb2.DescribeSubscriptionRequest",
    call: "Call",
    services: "Services",
) -> Iterator[NamedNeed]:
    if request.HasField("group"):
        yield needs.GROUP_GET, request.group.name
    if request.HasField("topic"):
        yield needs.TOPIC_GET, request.topic.name


def _progress_needs(
    request: "published_pb2.DescribeGroupAccumulationRequest | published_pb2.QueryTimeSpanRequest",
    call: "Call",
    services: "Services",
) -> Iterator[NamedNeed]:
    yield needs.GROUP_GET, request.group.name
    for topic in request.topics:  # which need not be the group's
        yield needs.TOPIC_GET, topic.name


def _filter_subscriptions(request: object, answer: "published_pb2.ListSubscriptionResponse", may: HasRight) -> None:
    _keep_entries(answer.subscription_info, lambda info: may(needs.GROUP_GET, info.group.name))


def _filter_subscribers(request: object, answer: "published_pb2.DescribeSubscriptionResponse", may: HasRight) -> None:
    infos = answer.client_subscription_info
    _keep_entries(infos, lambda each: may(needs.GROUP_GET, each.subscription_info.group.name))
    _filter_hosts((each.client_info for each in infos), may)


def _filter_connections(request: object, answer: "published_pb2.ListConsumerConnectionResponse", may: HasRight) -> None:
    _filter_hosts(answer.client_info, may)


def _filter_hosts(clients: "Iterable[published_pb2.ClientInfo]", may: HasRight) -> None:
    """Remove addresses of clients unless the caller may list clients."""
    if not may(needs.CLUSTER_LIST, "clients"):
        for client in clients:
            client.ClearField("hostname")
            client.ClearField("egress_ip")


ASKED_BY_OPERATION = AccessRule()
"""The rule of a call whose operation asks for the rights itself (`AccessControl.require_right`)."""
MESSAGING_RULES: dict[str, AccessRule] = {
    "QueryRoute": ASKED_BY_OPERATION,
    "Heartbeat": ASKED_BY_OPERATION,
    "SendMessage": ASKED_BY_OPERATION,
    "QueryAssignment": ASKED_BY_OPERATION,
    "ReceiveMessage": AccessRule(ask=_receive_needs),
    "AckMessage": ASKED_BY_OPERATION,
    "ForwardMessageToDeadLetterQueue": ASKED_BY_OPERATION,
    "PullMessage": AccessRule(ask=_pull_needs),
    "UpdateOffset": ASKED_BY_OPERATION,
    "GetOffset": ASKED_BY_OPERATION,
    "QueryOffset": ASKED_BY_OPERATION,
    "EndTransaction": ASKED_BY_OPERATION,
    "Telemetry": ASKED_BY_OPERATION,
    "NotifyClientTermination": ASKED_BY_OPERATION,
    "ChangeInvisibleDuration": ASKED_BY_OPERATION,
    "RecallMessage": ASKED_BY_OPERATION,
    "SyncLiteSubscription": ASKED_BY_OPERATION,
}
ADMIN_RULES: dict[str, AccessRule] = {
    "CreateTopic": named_resource_rule(needs.TOPIC_CREATE, "topic.name", changes=True),
    "ListTopics": AccessRule(cut=_filter_topics),
    "DescribeTopic": named_resource_rule(needs.TOPIC_GET, "name", cut=_filter_described_topic),
    "DeleteTopic": named_resource_rule(needs.TOPIC_DELETE, "name", changes=True),
    "PurgeTopic": named_resource_rule(needs.TOPIC_DELETE, "name", changes=True),
    "UpdateTopic": named_resource_rule(needs.TOPIC_UPDATE, "name", changes=True),
    "CreateGroup": AccessRule(ask=_create_group_needs, changes=True),
    "ListGroups": AccessRule(cut=_filter_groups),
    "DescribeGroup": named_resource_rule(needs.GROUP_GET, "name"),
    "DeleteGroup": named_resource_rule(needs.GROUP_DELETE, "name", changes=True),
    "UpdateGroup": named_resource_rule(needs.GROUP_UPDATE, "group.name", changes=True),
    "ResetOffsets": AccessRule(ask=_reset_needs, changes=True),
    "QueryMessages": named_resource_rule(needs.TOPIC_QUERY, "topic", cut=_body_filter("topic")),
    "DescribeMessage": named_resource_rule(needs.TOPIC_QUERY, "topic", cut=_filter_described_message),
    "ListTimers": AccessRule(ask=_list_timers_needs, cut=_filter_timers),
    "GetHistory": AccessRule(ask=_history_needs),
    "ResendDeadLetters": AccessRule(ask=_resend_needs, changes=True),
    "ListTransactions": AccessRule(ask=_list_transactions_needs, cut=_filter_transactions),
    "GetTransaction": AccessRule(ask_later=_transaction_needs(needs.TOPIC_GET), cut=_filter_body),
    "ResolveTransaction": AccessRule(ask_later=_transaction_needs(needs.TOPIC_UPDATE), changes=True),
    "ListBrokers": cluster_rule(needs.CLUSTER_LIST, "brokers"),
    "ListProxies": cluster_rule(needs.CLUSTER_LIST, "brokers"),
    "UpdateBroker": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "RemoveBroker": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "BrokerRemaining": cluster_rule(needs.CLUSTER_GET, "brokers"),
    "MoveLeader": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "ElectReplica": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "AddReplica": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "RemoveReplica": cluster_rule(needs.CLUSTER_UPDATE, "brokers", changes=True),
    "AdvanceClock": cluster_rule(needs.CLUSTER_UPDATE, "clock", changes=True),
    "GetServerInfo": cluster_rule(needs.CLUSTER_GET, "server"),
    "ListClients": cluster_rule(needs.CLUSTER_LIST, "clients"),
    "GetStatus": cluster_rule(needs.CLUSTER_GET, "server"),
    "GetLogLevels": cluster_rule(needs.CLUSTER_GET, "log-levels"),
    "UpdateLogLevels": cluster_rule(needs.CLUSTER_UPDATE, "log-levels", changes=True),
    "GetDiagnostics": cluster_rule(needs.CLUSTER_GET, "diagnostics"),
    "CreateUser": _super_user_rule("users", "name", changes=True),
    "UpdateUser": _super_user_rule("users", "name", changes=True),
    "DeleteUser": _super_user_rule("users", "name", changes=True),
    "DescribeUser": _super_user_rule("users", "name", own=True),
    "ListUsers": cluster_rule(needs.SUPER_USER, "users"),
    "RotateSecret": _super_user_rule("users", "user", own=True, changes=True),
    "PutPolicy": _super_user_rule("users", "user", changes=True),
    "DeletePolicy": _super_user_rule("users", "user", changes=True),
    "ResealSecrets": cluster_rule(needs.SUPER_USER, "users", changes=True),
    "PutQuota": _super_user_rule("quotas", "quota.name", changes=True),
    "DeleteQuota": _super_user_rule("quotas", "name", changes=True),
    "ListQuotas": cluster_rule(needs.CLUSTER_GET, "quotas"),
    "ListAuditEntries": cluster_rule(needs.SUPER_USER, "audit-log"),
}
PUBLISHED_ADMIN_RULES: dict[str, AccessRule] = {
    "ChangeLogLevel": cluster_rule(needs.CLUSTER_UPDATE, "log-levels", changes=True),
    "DescribeTopicStatus": named_resource_rule(needs.TOPIC_GET, "topic.name"),
    "ListSubscription": AccessRule(ask=_subscription_needs, cut=_filter_subscriptions),
    "DescribeSubscription": AccessRule(ask=_subscription_needs, cut=_filter_subscribers),
    "DeleteSubscription": named_resource_rule(needs.GROUP_UPDATE, "group.name"),
    "DescribeGroupAccumulation": AccessRule(ask=_progress_needs),
    "ListConsumerConnection": named_resource_rule(needs.GROUP_GET, "group.name", cut=_filter_connections),
    "ResetGroupOffset": named_resource_rule(needs.GROUP_UPDATE, "group.name", changes=True),
    "QueryMessage": named_resource_rule(needs.TOPIC_QUERY, "topic.name", cut=_body_filter("topic.name")),
    "PrintThreadStackTrace": named_resource_rule(needs.GROUP_GET, "group.name"),
    "VerifyMessage": named_resource_rule(needs.GROUP_UPDATE, "group.name"),
    "AdminSendMessage": named_resource_rule(needs.TOPIC_PUB, "topic.name", changes=True),
    "GetConsumerRunningInfo": named_resource_rule(needs.GROUP_GET, "group.name"),
    "GetTopicRoute": named_resource_rule(needs.TOPIC_ROUTE, "topic.name"),
    "QueryTimeSpan": AccessRule(ask=_progress_needs),
    "GetProxyRuntimeStats": cluster_rule(needs.CLUSTER_GET, "server"),
}
METRICS: NamedNeed = (needs.CLUSTER_GET, "metrics")
"""What all paths of the HTTP front need except those of health, which are open."""
RULES = MESSAGING_RULES | ADMIN_RULES | PUBLISHED_ADMIN_RULES


def _check_rules(service: Any, rules: dict[str, AccessRule]) -> None:  # noqa: ANN401 - a service's descriptor
    """Raise AssertionError unless each call has a rule and each rule a call: the process must not start then."""
    calls = {method.name for method in service.methods}
    if calls != rules.keys():
        raise AssertionError(f"{service.full_name}: calls and rules differ by {sorted(calls ^ rules.keys())}")


_check_rules(service_pb2.DESCRIPTOR.services_by_name["MessagingService"], MESSAGING_RULES)
_check_rules(admin_pb2.DESCRIPTOR.services_by_name["Admin"], ADMIN_RULES)
_check_rules(published_pb2.DESCRIPTOR.services_by_name["Admin"], PUBLISHED_ADMIN_RULES)
assert len(RULES) == len(MESSAGING_RULES) + len(ADMIN_RULES) + len(PUBLISHED_ADMIN_RULES), "two calls have one name"
