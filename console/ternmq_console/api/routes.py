"""The routes of the JSON API: the call of each path. A call of the Admin service without a route is an error at the
start."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_console.calls import ADMIN, CALLS, READING, RECALLING, SEEKING, SENDING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "/api/v1"
WHOLE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One route: a method and a path below PREFIX, and how they become the request of a call.

    Path parameters fill fields of the request: those in `places` by dotted paths, others by the same name. `body` is
    the field that the JSON body fills, WHOLE for the request itself, empty for none. `query` has the fields of query
    parameters by their names. `items` is the repeated field of an answer, which can be streamed as lines.
    """

    method: str
    path: str
    call: str
    tag: str
    summary: str
    places: "Mapping[str, str]" = field(default_factory=dict)
    body: str = ""
    query: "Mapping[str, str]" = field(default_factory=dict)
    items: str = ""
    operation: str = ""
    """Its name in the OpenAPI file, if that is not the name of the call."""
    rest: str = ""
    """The parameter that may contain slashes."""
    makes: bool = False
    """Whether it is answered with 201, unless the answer says that the object existed before."""

    @property
    def is_paged(self) -> bool:
        """Whether the answer is a page of a list."""
        return "page" in self.query

    @property
    def parameters(self) -> list[str]:
        """The parameters of the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def request_field(self, parameter: str) -> str:
        """Return the field of the request that a path parameter fills, as a dotted path."""
        return self.places.get(parameter, parameter)


def _same_names(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_PAGE = _same_names("limit", "page")
_SEARCH = _same_names("search", "limit", "page")

ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        method="GET",
        path="/topics",
        call="ListTopics",
        tag="topics",
        summary="The topics, by name, or a page of them.",
        query={"name": "names", **_SEARCH},
        items="topics",
    ),
    ApiRoute(
        method="POST",
        path="/topics",
        call="CreateTopic",
        tag="topics",
        summary="Create a topic.",
        body="topic",
        makes=True,
    ),
    ApiRoute(
        method="GET",
        path="/topics/{name}",
        call="DescribeTopic",
        tag="topics",
        summary="A topic, and what its queues hold.",
        query=_same_names("contents"),
    ),
    ApiRoute(
        method="PATCH",
        path="/topics/{name}",
        call="UpdateTopic",
        tag="topics",
        summary="Change the settings of a topic that are in the body.",
        body=WHOLE,
    ),
    ApiRoute(
        method="DELETE",
        path="/topics/{name}",
        call="DeleteTopic",
        tag="topics",
        summary="Delete a topic and all of its messages.",
    ),
    ApiRoute(
        method="POST",
        path="/topics/{name}/purge",
        call="PurgeTopic",
        tag="topics",
        summary="Remove messages of a topic, all or those before a time.",
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/topics/{topic}/messages",
        call="QueryMessages",
        tag="messages",
        summary="Messages with a key or of an id, the newest first.",
        query=_same_names("key", "limit"),
        items="messages",
    ),
    ApiRoute(
        method="POST",
        path="/topics/{topic}/messages",
        call=SENDING,
        tag="messages",
        summary="Send a message.",
        places={"topic": "topic.name"},
        body=WHOLE,
        makes=True,
    ),
    ApiRoute(
        method="GET",
        path="/topics/{topic}/queues/{queue}/messages",
        call=READING,
        tag="messages",
        summary="Messages of a queue from an offset on.",
        places={"topic": "message_queue.topic.name", "queue": "message_queue.id"},
        query={
            "broker": "message_queue.broker.name",
            "offset": "offset",
            "limit": "batch_size",
            "filter": "filter_expression.expression",
            "filter_type": "filter_expression.type",
            "wait": "long_polling_timeout",
        },
        items="messages",
    ),
    ApiRoute(
        method="GET",
        path="/topics/{topic}/queues/{queue}/messages/{offset}",
        call="DescribeMessage",
        tag="messages",
        summary="A message, and its state in each consumer group.",
        places={"queue": "queue_id"},
        query=_same_names("broker", "lite_topic"),
    ),
    ApiRoute(
        method="GET",
        path="/topics/{topic}/history",
        call="GetHistory",
        operation="GetTopicHistory",
        tag="topics",
        summary="Rates of a topic over the last hours.",
    ),
    ApiRoute(
        method="GET",
        path="/topics/{topic}/queues/{queue}/offset",
        call=SEEKING,
        tag="messages",
        summary="The offset of a time in a queue, or of its beginning or end.",
        places={"topic": "message_queue.topic.name", "queue": "message_queue.id"},
        query={"broker": "message_queue.broker.name", "policy": "query_offset_policy", "time": "timestamp"},
    ),
    ApiRoute(
        method="POST",
        path="/topics/{topic}/recall",
        call=RECALLING,
        tag="messages",
        summary="Recall a timed message before its delivery.",
        places={"topic": "topic.name"},
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/groups",
        call="ListGroups",
        tag="groups",
        summary="The groups, by name, or a page of them.",
        query=_SEARCH,
        items="groups",
    ),
    ApiRoute(
        method="POST",
        path="/groups",
        call="CreateGroup",
        tag="groups",
        summary="Create a group.",
        body="group",
        makes=True,
    ),
    ApiRoute(
        method="GET",
        path="/groups/{name}",
        call="DescribeGroup",
        tag="groups",
        summary="A group, its progress in each queue, and its members.",
    ),
    ApiRoute(
        method="PUT",
        path="/groups/{name}",
        call="UpdateGroup",
        tag="groups",
        summary="Change the settings of a group.",
        places={"name": "group.name"},
        body="group",
    ),
    ApiRoute(
        method="DELETE",
        path="/groups/{name}",
        call="DeleteGroup",
        tag="groups",
        summary="Delete a group, its progress and retries; with `with_dead_letters` its dead letters too.",
        query=_same_names("with_dead_letters"),
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/history",
        call="GetHistory",
        operation="GetGroupHistory",
        tag="groups",
        summary="The lag of a group over the last hours.",
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/offsets",
        call="ResetOffsets",
        tag="groups",
        summary="Move the offsets of a group in a topic; with `dry_run` only show the new ones.",
        body=WHOLE,
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/dead-letters/resend",
        call="ResendDeadLetters",
        tag="groups",
        summary="Deliver dead letters again.",
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/timers",
        call="ListTimers",
        tag="timers",
        summary="Timed messages that are not due yet, by their times.",
        query=_same_names("topic") | _PAGE,
        items="timers",
    ),
    ApiRoute(
        method="GET",
        path="/transactions",
        call="ListTransactions",
        tag="transactions",
        summary="Open transactions, the oldest first.",
        query=_same_names("state", "topic", "message_id") | _PAGE,
        items="transactions",
    ),
    ApiRoute(
        method="GET",
        path="/transactions/{transaction_id}",
        call="GetTransaction",
        tag="transactions",
        summary="A transaction and its half message.",
    ),
    ApiRoute(
        method="POST",
        path="/transactions/{transaction_id}/resolution",
        call="ResolveTransaction",
        tag="transactions",
        summary="Commit or roll back in the place of the producer.",
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/brokers",
        call="ListBrokers",
        tag="cluster",
        summary="The brokers and the load that each reports.",
        items="brokers",
    ),
    ApiRoute(
        method="GET",
        path="/proxies",
        call="ListProxies",
        tag="cluster",
        summary="The proxies of the cluster, and the load that each reports.",
        items="proxies",
    ),
    ApiRoute(
        method="PATCH",
        path="/brokers/{name}",
        call="UpdateBroker",
        tag="cluster",
        summary="Drain a broker, or change its permission.",
        body=WHOLE,
    ),
    ApiRoute(
        method="DELETE",
        path="/brokers/{name}",
        call="RemoveBroker",
        tag="cluster",
        summary="Remove a broker.",
        query=_same_names("force"),
    ),
    ApiRoute(
        method="GET",
        path="/brokers/{name}/remaining",
        call="BrokerRemaining",
        tag="cluster",
        summary="What would be lost with a broker.",
    ),
    ApiRoute(
        method="PUT",
        path="/brokers/{broker}/leader",
        call="MoveLeader",
        tag="cluster",
        summary="Request a handover from a broker's leader to a replica.",
        body=WHOLE,
    ),
    ApiRoute(
        method="POST",
        path="/brokers/{broker}/election",
        call="ElectReplica",
        tag="cluster",
        summary="Make a replica leader that is not in sync: messages are lost.",
        body=WHOLE,
    ),
    ApiRoute(
        method="POST",
        path="/brokers/{broker}/replicas",
        call="AddReplica",
        tag="cluster",
        summary="Allow a broker one more replica.",
    ),
    ApiRoute(
        method="DELETE",
        path="/brokers/{broker}/replicas/{replica}",
        call="RemoveReplica",
        tag="cluster",
        summary="Remove a replica.",
    ),
    ApiRoute(
        method="GET",
        path="/server",
        call="GetServerInfo",
        tag="server",
        summary="Version, time and memory of the server.",
    ),
    ApiRoute(
        method="GET",
        path="/history",
        call="GetHistory",
        tag="server",
        summary="Rates, latencies and memory over the last hours.",
    ),
    ApiRoute(method="GET", path="/status", call="GetStatus", tag="server", summary="Whether each component is well."),
    ApiRoute(
        method="GET",
        path="/clients",
        call="ListClients",
        tag="server",
        summary="The clients that are connected.",
        query=_same_names("group", "topic") | _PAGE,
        items="clients",
    ),
    ApiRoute(method="GET", path="/log-levels", call="GetLogLevels", tag="server", summary="The log levels in force."),
    ApiRoute(
        method="PUT",
        path="/log-levels",
        call="UpdateLogLevels",
        tag="server",
        summary="Change the log levels.",
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/diagnostics",
        call="GetDiagnostics",
        tag="server",
        summary="Settings, threads and tasks of each process.",
    ),
    ApiRoute(
        method="POST",
        path="/clock",
        call="AdvanceClock",
        tag="server",
        summary="Move a server's test clock ahead.",
        body=WHOLE,
    ),
    ApiRoute(
        method="GET",
        path="/users",
        call="ListUsers",
        tag="access",
        summary="The users, by name, a page of them.",
        query=_PAGE,
        items="users",
    ),
    ApiRoute(
        method="POST", path="/users", call="CreateUser", tag="access", summary="Create a user.", body=WHOLE, makes=True
    ),
    ApiRoute(
        method="GET", path="/users/{name}", call="DescribeUser", tag="access", summary="A user and the user's policies."
    ),
    ApiRoute(
        method="PATCH",
        path="/users/{name}",
        call="UpdateUser",
        tag="access",
        summary="Change the settings of a user that are in the body.",
        body=WHOLE,
    ),
    ApiRoute(method="DELETE", path="/users/{name}", call="DeleteUser", tag="access", summary="Delete a user."),
    ApiRoute(
        method="POST",
        path="/users/{user}/secret",
        call="RotateSecret",
        tag="access",
        summary="Give a user a new secret.",
        body=WHOLE,
    ),
    ApiRoute(
        method="PUT",
        path="/users/{user}/policies",
        call="PutPolicy",
        tag="access",
        summary="Add or replace a policy.",
        body="policy",
    ),
    ApiRoute(
        method="DELETE",
        path="/users/{user}/policies",
        call="DeletePolicy",
        tag="access",
        summary="Remove a policy.",
        query=_same_names("resource", "deny"),
    ),
    ApiRoute(
        method="POST",
        path="/secrets/reseal",
        call="ResealSecrets",
        tag="access",
        summary="Encrypt all secrets with the current key.",
    ),
    ApiRoute(
        method="GET",
        path="/quotas",
        call="ListQuotas",
        tag="access",
        summary="The quotas, and the names that use most of them.",
        items="quotas",
    ),
    ApiRoute(
        method="PUT",
        path="/quotas/{kind}/{name}",
        call="PutQuota",
        tag="access",
        summary="Set a quota.",
        places={"kind": "quota.kind", "name": "quota.name"},
        body="quota",
        rest="name",
    ),
    ApiRoute(
        method="DELETE",
        path="/quotas/{kind}/{name}",
        call="DeleteQuota",
        tag="access",
        summary="Remove a quota.",
        rest="name",
    ),
    ApiRoute(
        method="GET",
        path="/audit-log",
        call="ListAuditEntries",
        tag="access",
        summary="The audit log: calls that users made, and refusals, the newest first.",
        query=_same_names("user", "call", "resource", "allowed", "since", "until") | _PAGE,
        items="entries",
    ),
)


def _check_routes() -> None:
    missing = {method.name for method in ADMIN.methods} - {route.call for route in ROUTES}
    unknown = {route.call for route in ROUTES} - CALLS.keys()
    if missing or unknown:
        raise AssertionError(f"calls without a route: {sorted(missing)}; of no call: {sorted(unknown)}")


_check_routes()
