"""The routes of the JSON API: the call of each path. A call of the Admin service without a route is an error at the
start."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_console.calls import ADMIN, CALLS, READING, RECALLING, SEEKING, SENDING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "/api/v1"
WHOLE = "*"


@dataclass(frozen=True, slots=True)
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

# fmt: off
ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute(
        "GET", "/topics", "ListTopics", "topics", "The topics, by name, or a page of them.",
        query={"name": "names", **_SEARCH}, items="topics",
    ),
    ApiRoute("POST", "/topics", "CreateTopic", "topics", "Create a topic.", body="topic", makes=True),
    ApiRoute(
        "GET", "/topics/{name}", "DescribeTopic", "topics", "A topic, and what its queues hold.",
        query=_same_names("contents"),
    ),
    ApiRoute(
        "PATCH", "/topics/{name}", "UpdateTopic", "topics", "Change the settings of a topic that are in the body.",
        body=WHOLE,
    ),
    ApiRoute("DELETE", "/topics/{name}", "DeleteTopic", "topics", "Delete a topic and all of its messages."),
    ApiRoute(
        "POST", "/topics/{name}/purge", "PurgeTopic", "topics",
        "Remove messages of a topic, all or those before a time.", body=WHOLE,
    ),
    ApiRoute(
        "GET", "/topics/{topic}/messages", "QueryMessages", "messages",
        "Messages with a key or of an id, the newest first.", query=_same_names("key", "limit"), items="messages",
    ),
    ApiRoute(
        "POST", "/topics/{topic}/messages", SENDING, "messages", "Send a message.", places={"topic": "topic.name"},
        body=WHOLE, makes=True,
    ),
    ApiRoute(
        "GET", "/topics/{topic}/queues/{queue}/messages", READING, "messages", "Messages of a queue from an offset on.",
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
        "GET", "/topics/{topic}/queues/{queue}/messages/{offset}", "DescribeMessage", "messages",
        "A message, and its state in each consumer group.", places={"queue": "queue_id"},
        query=_same_names("broker", "lite_topic"),
    ),
    ApiRoute(
        "GET", "/topics/{topic}/history", "GetHistory", "topics", "Rates of a topic over the last hours.",
        operation="GetTopicHistory",
    ),
    ApiRoute(
        "GET", "/topics/{topic}/queues/{queue}/offset", SEEKING, "messages",
        "The offset of a time in a queue, or of its beginning or end.",
        places={"topic": "message_queue.topic.name", "queue": "message_queue.id"},
        query={"broker": "message_queue.broker.name", "policy": "query_offset_policy", "time": "timestamp"},
    ),
    ApiRoute(
        "POST", "/topics/{topic}/recall", RECALLING, "messages", "Recall a timed message before its delivery.",
        places={"topic": "topic.name"}, body=WHOLE,
    ),
    ApiRoute(
        "GET", "/groups", "ListGroups", "groups", "The groups, by name, or a page of them.", query=_SEARCH,
        items="groups",
    ),
    ApiRoute("POST", "/groups", "CreateGroup", "groups", "Create a group.", body="group", makes=True),
    ApiRoute(
        "GET", "/groups/{name}", "DescribeGroup", "groups", "A group, its progress in each queue, and its members.",
    ),
    ApiRoute(
        "PUT", "/groups/{name}", "UpdateGroup", "groups", "Change the settings of a group.",
        places={"name": "group.name"}, body="group",
    ),
    ApiRoute(
        "DELETE", "/groups/{name}", "DeleteGroup", "groups",
        "Delete a group, its progress and retries; with `with_dead_letters` its dead letters too.",
        query=_same_names("with_dead_letters"),
    ),
    ApiRoute(
        "GET", "/groups/{group}/history", "GetHistory", "groups", "The lag of a group over the last hours.",
        operation="GetGroupHistory",
    ),
    ApiRoute(
        "POST", "/groups/{group}/offsets", "ResetOffsets", "groups",
        "Move the offsets of a group in a topic; with `dry_run` only show the new ones.", body=WHOLE,
    ),
    ApiRoute(
        "POST", "/groups/{group}/dead-letters/resend", "ResendDeadLetters", "groups", "Deliver dead letters again.",
        body=WHOLE,
    ),
    ApiRoute(
        "GET", "/timers", "ListTimers", "timers", "Timed messages that are not due yet, by their times.",
        query=_same_names("topic") | _PAGE, items="timers",
    ),
    ApiRoute(
        "GET", "/transactions", "ListTransactions", "transactions", "Open transactions, the oldest first.",
        query=_same_names("state", "topic", "message_id") | _PAGE, items="transactions",
    ),
    ApiRoute(
        "GET", "/transactions/{transaction_id}", "GetTransaction", "transactions",
        "A transaction and its half message.",
    ),
    ApiRoute(
        "POST", "/transactions/{transaction_id}/resolution", "ResolveTransaction", "transactions",
        "Commit or roll back in the place of the producer.", body=WHOLE,
    ),
    ApiRoute(
        "GET", "/brokers", "ListBrokers", "cluster", "The brokers and the load that each reports.", items="brokers",
    ),
    ApiRoute(
        "GET", "/proxies", "ListProxies", "cluster", "The proxies of the cluster, and the load that each reports.",
        items="proxies",
    ),
    ApiRoute(
        "PATCH", "/brokers/{name}", "UpdateBroker", "cluster", "Drain a broker, or change its permission.", body=WHOLE,
    ),
    ApiRoute("DELETE", "/brokers/{name}", "RemoveBroker", "cluster", "Remove a broker.", query=_same_names("force")),
    ApiRoute("GET", "/brokers/{name}/remaining", "BrokerRemaining", "cluster", "What would be lost with a broker."),
    ApiRoute(
        "PUT", "/brokers/{broker}/leader", "MoveLeader", "cluster",
        "Request a handover from a broker's leader to a replica.", body=WHOLE,
    ),
    ApiRoute(
        "POST", "/brokers/{broker}/election", "ElectReplica", "cluster",
        "Make a replica leader that is not in sync: messages are lost.", body=WHOLE,
    ),
    ApiRoute("POST", "/brokers/{broker}/replicas", "AddReplica", "cluster", "Allow a broker one more replica."),
    ApiRoute("DELETE", "/brokers/{broker}/replicas/{replica}", "RemoveReplica", "cluster", "Remove a replica."),
    ApiRoute("GET", "/server", "GetServerInfo", "server", "Version, time and memory of the server."),
    ApiRoute("GET", "/history", "GetHistory", "server", "Rates, latencies and memory over the last hours."),
    ApiRoute("GET", "/status", "GetStatus", "server", "Whether each component is well."),
    ApiRoute(
        "GET", "/clients", "ListClients", "server", "The clients that are connected.",
        query=_same_names("group", "topic") | _PAGE, items="clients",
    ),
    ApiRoute("GET", "/log-levels", "GetLogLevels", "server", "The log levels in force."),
    ApiRoute("PUT", "/log-levels", "UpdateLogLevels", "server", "Change the log levels.", body=WHOLE),
    ApiRoute("GET", "/diagnostics", "GetDiagnostics", "server", "Settings, threads and tasks of each process."),
    ApiRoute("POST", "/clock", "AdvanceClock", "server", "Move a server's test clock ahead.", body=WHOLE),
    ApiRoute("GET", "/users", "ListUsers", "access", "The users, by name, a page of them.", query=_PAGE, items="users"),
    ApiRoute("POST", "/users", "CreateUser", "access", "Create a user.", body=WHOLE, makes=True),
    ApiRoute("GET", "/users/{name}", "DescribeUser", "access", "A user and the user's policies."),
    ApiRoute(
        "PATCH", "/users/{name}", "UpdateUser", "access", "Change the settings of a user that are in the body.",
        body=WHOLE,
    ),
    ApiRoute("DELETE", "/users/{name}", "DeleteUser", "access", "Delete a user."),
    ApiRoute("POST", "/users/{user}/secret", "RotateSecret", "access", "Give a user a new secret.", body=WHOLE),
    ApiRoute("PUT", "/users/{user}/policies", "PutPolicy", "access", "Add or replace a policy.", body="policy"),
    ApiRoute(
        "DELETE", "/users/{user}/policies", "DeletePolicy", "access", "Remove a policy.",
        query=_same_names("resource", "deny"),
    ),
    ApiRoute("POST", "/secrets/reseal", "ResealSecrets", "access", "Encrypt all secrets with the current key."),
    ApiRoute(
        "GET", "/quotas", "ListQuotas", "access", "The quotas, and the names that use most of them.", items="quotas",
    ),
    ApiRoute(
        "PUT", "/quotas/{kind}/{name}", "PutQuota", "access", "Set a quota.",
        places={"kind": "quota.kind", "name": "quota.name"}, body="quota", rest="name",
    ),
    ApiRoute("DELETE", "/quotas/{kind}/{name}", "DeleteQuota", "access", "Remove a quota.", rest="name"),
    ApiRoute(
        "GET", "/audit-log", "ListAuditEntries", "access",
        "The audit log: calls that users made, and refusals, the newest first.",
        query=_same_names("user", "call", "resource", "allowed", "since", "until") | _PAGE, items="entries",
    ),
)
# fmt: on


def _check_routes() -> None:
    missing = {method.name for method in ADMIN.methods} - {route.call for route in ROUTES}
    unknown = {route.call for route in ROUTES} - CALLS.keys()
    if missing or unknown:
        raise AssertionError(f"calls without a route: {sorted(missing)}; of no call: {sorted(unknown)}")


_check_routes()
