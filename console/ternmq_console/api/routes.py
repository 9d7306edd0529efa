"""Which path is which call. All of the Admin service is here: what is not is an error at the start."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_console.calls import ADMIN, CALLS, READING, RECALLING, SEEKING, SENDING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "/api/v1"
WHOLE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`path` is below PREFIX. Its parameters go to fields of the request: those in `places`, by their dotted paths, and
    others of the same name. `body` is the field that the JSON body fills, WHOLE for the request itself, empty for none.
    `query` are the fields that a query may have, by the names that it has for them. `items` is the field of an answer
    that lists something, and is told line by line to who wants that."""

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
    """What the OpenAPI file calls it, if that is not the name of the call."""
    rest: str = ""
    """The parameter that may have slashes in it."""
    makes: bool = False
    """Answered with 201 where the answer does not say that it was there before."""

    @property
    def is_paged(self) -> bool:
        """Whether a list comes in pages."""
        return "page" in self.query

    @property
    def parameters(self) -> list[str]:
        """Of the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def place_of(self, parameter: str) -> str:
        """The field of the request that a parameter of the path fills."""
        return self.places.get(parameter, parameter)


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_PAGE = _same("limit", "page")
_SEARCH = _same("search", "limit", "page")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/topics",
        call="ListTopics",
        tag="topics",
        summary="The topics, by name, or a page of them.",
        query={"name": "names", **_SEARCH},
        items="topics",
    ),
    Route(
        method="POST",
        path="/topics",
        call="CreateTopic",
        tag="topics",
        summary="Make a topic.",
        body="topic",
        makes=True,
    ),
    Route(
        method="GET",
        path="/topics/{name}",
        call="DescribeTopic",
        tag="topics",
        summary="A topic, and what its queues hold.",
        query=_same("contents"),
    ),
    Route(
        method="PATCH",
        path="/topics/{name}",
        call="UpdateTopic",
        tag="topics",
        summary="Change what the body has of a topic.",
        body=WHOLE,
    ),
    Route(
        method="DELETE",
        path="/topics/{name}",
        call="DeleteTopic",
        tag="topics",
        summary="Delete a topic and all of its messages.",
    ),
    Route(
        method="POST",
        path="/topics/{name}/purge",
        call="PurgeTopic",
        tag="topics",
        summary="Remove messages of a topic, all or those before a time.",
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/topics/{topic}/messages",
        call="QueryMessages",
        tag="messages",
        summary="Messages with a key or of an id, the newest first.",
        query=_same("key", "limit"),
        items="messages",
    ),
    Route(
        method="POST",
        path="/topics/{topic}/messages",
        call=SENDING,
        tag="messages",
        summary="Send a message.",
        places={"topic": "topic.name"},
        body=WHOLE,
        makes=True,
    ),
    Route(
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
    Route(
        method="GET",
        path="/topics/{topic}/queues/{queue}/messages/{offset}",
        call="DescribeMessage",
        tag="messages",
        summary="A message, and which groups have finished it, have it, or wait for it.",
        places={"queue": "queue_id"},
        query=_same("broker", "lite_topic"),
    ),
    Route(
        method="GET",
        path="/topics/{topic}/history",
        call="GetHistory",
        operation="GetTopicHistory",
        tag="topics",
        summary="Rates of a topic over the last hours.",
    ),
    Route(
        method="GET",
        path="/topics/{topic}/queues/{queue}/offset",
        call=SEEKING,
        tag="messages",
        summary="The offset of a time in a queue, or of its beginning or end.",
        places={"topic": "message_queue.topic.name", "queue": "message_queue.id"},
        query={"broker": "message_queue.broker.name", "policy": "query_offset_policy", "time": "timestamp"},
    ),
    Route(
        method="POST",
        path="/topics/{topic}/recall",
        call=RECALLING,
        tag="messages",
        summary="Take back a message that waits for its time.",
        places={"topic": "topic.name"},
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/groups",
        call="ListGroups",
        tag="groups",
        summary="The groups, by name, or a page of them.",
        query=_SEARCH,
        items="groups",
    ),
    Route(
        method="POST",
        path="/groups",
        call="CreateGroup",
        tag="groups",
        summary="Make a group.",
        body="group",
        makes=True,
    ),
    Route(
        method="GET",
        path="/groups/{name}",
        call="DescribeGroup",
        tag="groups",
        summary="A group, how far it is in each queue, and its members.",
    ),
    Route(
        method="PUT",
        path="/groups/{name}",
        call="UpdateGroup",
        tag="groups",
        summary="Change the settings of a group.",
        places={"name": "group.name"},
        body="group",
    ),
    Route(
        method="DELETE",
        path="/groups/{name}",
        call="DeleteGroup",
        tag="groups",
        summary="Delete a group, its progress and retries; its dead letters too if `with_dead_letters` says so.",
        query=_same("with_dead_letters"),
    ),
    Route(
        method="GET",
        path="/groups/{group}/history",
        call="GetHistory",
        operation="GetGroupHistory",
        tag="groups",
        summary="The lag of a group over the last hours.",
    ),
    Route(
        method="POST",
        path="/groups/{group}/offsets",
        call="ResetOffsets",
        tag="groups",
        summary="Move a group in a topic; with `dry_run` say only where to.",
        body=WHOLE,
    ),
    Route(
        method="POST",
        path="/groups/{group}/dead-letters/resend",
        call="ResendDeadLetters",
        tag="groups",
        summary="Deliver dead letters again.",
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/timers",
        call="ListTimers",
        tag="timers",
        summary="Timed messages that wait, by their times.",
        query=_same("topic") | _PAGE,
        items="timers",
    ),
    Route(
        method="GET",
        path="/transactions",
        call="ListTransactions",
        tag="transactions",
        summary="Transactions that wait for their outcome, the oldest first.",
        query=_same("state", "topic", "message_id") | _PAGE,
        items="transactions",
    ),
    Route(
        method="GET",
        path="/transactions/{transaction_id}",
        call="GetTransaction",
        tag="transactions",
        summary="A transaction and its half message.",
    ),
    Route(
        method="POST",
        path="/transactions/{transaction_id}/resolution",
        call="ResolveTransaction",
        tag="transactions",
        summary="Commit or roll back in the place of the producer.",
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/brokers",
        call="ListBrokers",
        tag="cluster",
        summary="The brokers and what they say of themselves.",
        items="brokers",
    ),
    Route(
        method="GET",
        path="/proxies",
        call="ListProxies",
        tag="cluster",
        summary="The proxies of the cluster, and what each says of itself.",
        items="proxies",
    ),
    Route(
        method="PATCH",
        path="/brokers/{name}",
        call="UpdateBroker",
        tag="cluster",
        summary="Drain a broker, or change what may be done there.",
        body=WHOLE,
    ),
    Route(
        method="DELETE",
        path="/brokers/{name}",
        call="RemoveBroker",
        tag="cluster",
        summary="Forget a broker.",
        query=_same("force"),
    ),
    Route(
        method="GET",
        path="/brokers/{name}/remaining",
        call="BrokerRemaining",
        tag="cluster",
        summary="What would be lost with a broker.",
    ),
    Route(
        method="PUT",
        path="/brokers/{broker}/leader",
        call="MoveLeader",
        tag="cluster",
        summary="Ask a broker's leader to hand over to a replica.",
        body=WHOLE,
    ),
    Route(
        method="POST",
        path="/brokers/{broker}/election",
        call="ElectReplica",
        tag="cluster",
        summary="Make a replica leader that is not in sync: messages are lost.",
        body=WHOLE,
    ),
    Route(
        method="POST",
        path="/brokers/{broker}/replicas",
        call="AddReplica",
        tag="cluster",
        summary="Let a broker have one more replica.",
    ),
    Route(
        method="DELETE",
        path="/brokers/{broker}/replicas/{replica}",
        call="RemoveReplica",
        tag="cluster",
        summary="Forget a replica.",
    ),
    Route(
        method="GET",
        path="/server",
        call="GetServerInfo",
        tag="server",
        summary="Version, time and memory of the server.",
    ),
    Route(
        method="GET",
        path="/history",
        call="GetHistory",
        tag="server",
        summary="Rates, latencies and memory over the last hours.",
    ),
    Route(method="GET", path="/status", call="GetStatus", tag="server", summary="What is well and what is amiss."),
    Route(
        method="GET",
        path="/clients",
        call="ListClients",
        tag="server",
        summary="The clients that are connected.",
        query=_same("group", "topic") | _PAGE,
        items="clients",
    ),
    Route(method="GET", path="/log-levels", call="GetLogLevels", tag="server", summary="The log levels in force."),
    Route(
        method="PUT",
        path="/log-levels",
        call="UpdateLogLevels",
        tag="server",
        summary="Change the log levels.",
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/diagnostics",
        call="GetDiagnostics",
        tag="server",
        summary="Settings, threads and tasks of each process.",
    ),
    Route(
        method="POST",
        path="/clock",
        call="AdvanceClock",
        tag="server",
        summary="Let time pass on a server with a test clock.",
        body=WHOLE,
    ),
    Route(
        method="GET",
        path="/users",
        call="ListUsers",
        tag="access",
        summary="The users, by name, a page of them.",
        query=_PAGE,
        items="users",
    ),
    Route(
        method="POST", path="/users", call="CreateUser", tag="access", summary="Make a user.", body=WHOLE, makes=True
    ),
    Route(method="GET", path="/users/{name}", call="DescribeUser", tag="access", summary="A user and his policies."),
    Route(
        method="PATCH",
        path="/users/{name}",
        call="UpdateUser",
        tag="access",
        summary="Change what the body has of a user.",
        body=WHOLE,
    ),
    Route(method="DELETE", path="/users/{name}", call="DeleteUser", tag="access", summary="Delete a user."),
    Route(
        method="POST",
        path="/users/{user}/secret",
        call="RotateSecret",
        tag="access",
        summary="Give a user another secret.",
        body=WHOLE,
    ),
    Route(
        method="PUT",
        path="/users/{user}/policies",
        call="PutPolicy",
        tag="access",
        summary="Add a policy, or put it in the place of one.",
        body="policy",
    ),
    Route(
        method="DELETE",
        path="/users/{user}/policies",
        call="DeletePolicy",
        tag="access",
        summary="Take a policy away.",
        query=_same("resource", "deny"),
    ),
    Route(
        method="POST",
        path="/secrets/reseal",
        call="ResealSecrets",
        tag="access",
        summary="Encrypt all secrets with the key of now.",
    ),
    Route(
        method="GET",
        path="/quotas",
        call="ListQuotas",
        tag="access",
        summary="The quotas, and who takes most of them.",
        items="quotas",
    ),
    Route(
        method="PUT",
        path="/quotas/{kind}/{name}",
        call="PutQuota",
        tag="access",
        summary="Have a quota.",
        places={"kind": "quota.kind", "name": "quota.name"},
        body="quota",
        rest="name",
    ),
    Route(
        method="DELETE",
        path="/quotas/{kind}/{name}",
        call="DeleteQuota",
        tag="access",
        summary="Have a quota no more.",
        rest="name",
    ),
    Route(
        method="GET",
        path="/audit-log",
        call="ListAuditEntries",
        tag="access",
        summary="Who did what, and who was not allowed to, the newest first.",
        query=_same("user", "call", "resource", "allowed", "since", "until") | _PAGE,
        items="entries",
    ),
)


def _check() -> None:
    missing = {method.name for method in ADMIN.methods} - {route.call for route in ROUTES}
    unknown = {route.call for route in ROUTES} - CALLS.keys()
    if missing or unknown:
        raise AssertionError(f"calls without a route: {sorted(missing)}; of no call: {sorted(unknown)}")


_check()
