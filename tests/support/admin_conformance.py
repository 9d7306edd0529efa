"""Each call of the Admin service as its surfaces have it: gRPC, the JSON API, the Python clients and the command.

A row has what must be there before, the request, how the client and the command make the same request, and what each of
them tells: the same facts. `error` is the code with which all answer the request where nothing is there before.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import ternmq
from ternmq_protos.admin_v1 import admin_pb2 as admin
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, duration, moment

SHARD = "broker-0"
MESSAGE_ID = "id-of-a-message"
READER = "client-of-root"
CLIENT_FACTS = ("client_id", "client_type", "protocol", "group")
# Answers and what the client and the command tell are of as many types as there are calls.
Told = Any


@dataclass(slots=True)
class Names:
    """What a request is about; each surface has its own. `id` is what the server made for it, such as a transaction."""

    topic: str
    group: str
    user: str
    id: str = "unknown"


Before = Callable[[RawClient, Names], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`told`, `of_client` and `of_command` find the facts in an answer, a result and what is printed as JSON. A row
    without `facts` is of a call that this server always refuses; of a set of facts an answer may have more. `client`
    and `command` are None for a call that they don't make, or not alone. `wrong` are names that can't be."""

    request: Callable[[Names], Told]
    client: Callable[[ternmq.Admin, Names], Told] | None
    command: Callable[[Names], tuple[str, ...]] | None
    before: tuple[Before, ...] = ()
    facts: Callable[[Names], object] | None = None
    told: Callable[[Told], object] = lambda answer: None
    of_client: Callable[[Told], object] = lambda result: result
    of_command: Callable[[list[Told]], object] = lambda records: None
    error: str = ""
    needs: tuple[tuple[str, ...], ...] = ()
    """A user needs all policies of one of these sets, and no more, if the topic is `t` and the group `g`. None: every
    user may."""
    super_only: bool = False
    client_reads_first: bool = False
    """Then it needs more than the right to the call, as most commands do."""
    wrong: dict[str, str] = field(default_factory=dict)


# --- what a user needs


def one(*policies: str) -> tuple[tuple[str, ...], ...]:
    return tuple((policy,) for policy in policies)


# --- what must be there before


async def topic(root: RawClient, n: Names) -> None:
    await root.create_topic(n.topic)


async def delay_topic(root: RawClient, n: Names) -> None:
    await root.create_topic(n.topic, kind=pb.DELAY)


async def group(root: RawClient, n: Names) -> None:
    await root.create_group(n.group, consume_from="earliest")


async def reader(root: RawClient, n: Names) -> None:
    """A member of the group that pulls from the topic's queue, and has committed its end."""
    queue = {"topic": {"name": n.topic}}
    request = rpc.PullMessageRequest(group={"name": n.group}, message_queue=queue, offset=1, batch_size=1)
    assert [item async for item in root.stream("PullMessage", request)]
    await root.call("UpdateOffset", group={"name": n.group}, message_queue=queue, offset=1)
    await root.configure(pb.Settings(client_type=pb.PULL_CONSUMER, subscription={"group": {"name": n.group}}))


async def message(root: RawClient, n: Names) -> None:
    sent = await root.send(n.topic, b"body", keys=["key"])
    n.id = sent.entries[0].message_id


async def timer(root: RawClient, n: Names) -> None:
    due = moment(await root.server_ms() + 3_600_000)
    n.id = (await root.send(n.topic, b"later", delivery_timestamp=due)).entries[0].message_id


async def transaction(root: RawClient, n: Names) -> None:
    await root.create_topic(n.topic, kind=pb.TRANSACTION)
    n.id = (await root.send(n.topic, b"half", message_type=pb.TRANSACTION)).entries[0].transaction_id


async def shard(_: RawClient, n: Names) -> None:
    n.id = SHARD


async def user(root: RawClient, n: Names) -> None:
    assert (await root.admin("CreateUser", name=n.user)).status.code == pb.OK


async def policy(root: RawClient, n: Names) -> None:
    request = admin.PutPolicyRequest(user=n.user, policy={"resource": f"Topic:{n.topic}", "actions": "Pub"})
    assert (await root.admin("PutPolicy", request)).status.code == pb.OK


async def quota(root: RawClient, n: Names) -> None:
    request = admin.PutQuotaRequest(quota={"kind": "user", "name": n.user, "messages_in": 100})
    assert (await root.admin("PutQuota", request)).status.code == pb.OK


# --- what most rows find in an answer


def _topic(answer: Told) -> object:
    return answer.name, answer.queues


def _printed_topic(records: list[Told]) -> object:
    return records[0]["name"], records[0]["queues"]


def _described_topic(told: Told) -> object:
    queues = [(each.broker, each.queue_id, each.min_offset, each.max_offset) for each in told.queues]
    return told.topic.name, told.topic.queues, queues


def _printed_description(records: list[Told]) -> object:
    (record,) = records
    queues = [(q["broker"], q["queue"], q["first_offset"], q["end_offset"]) for q in record["message_queues"]]
    return record["name"], record["queues"], queues


def _described_group(told: Told) -> object:
    readers = [(each.topic, each.queue_id, each.reader.client_id) for each in told.progress]
    return told.group.name, told.group.max_attempts, readers, [(each.client_id, each.protocol) for each in told.members]


def _printed_group(records: list[Told]) -> object:
    (record,) = records
    readers = [(each["topic"], each["queue"], each["reader"]["client"]) for each in record["progress"]]
    members = [(each["client"], each["protocol"]) for each in record["members"]]
    return record["name"], record["max_attempts"], readers, members


def _listed_clients(told: Told) -> object:
    listed = [[getattr(each, name) for name in CLIENT_FACTS] for each in told.clients]
    types = {number: name.lower() for name, number in pb.ClientType.items()}
    return [(client_id, types.get(kind, kind), *others) for client_id, kind, *others in listed]


def _named(name: str) -> Callable[[list[Told]], object]:
    return lambda records: records[0][name]


def _open_transaction(transaction: admin.Transaction) -> object:
    state = admin.TransactionState.Name(transaction.state).lower()
    return transaction.transaction_id, transaction.topic, state


def _policies(told: Told) -> object:
    return [(each.resource, each.actions) for each in told.policies]


async def _all(found: Told) -> list[Told]:
    return [each async for each in found]


# fmt: off
ROWS: dict[str, Row] = {
    # Topics
    "CreateTopic": Row(needs=one("Topic:t Create"),
        request=lambda n: admin.CreateTopicRequest(topic={"name": n.topic, "queues": 2, "type": pb.FIFO}),
        client=lambda a, n: a.create_topic(n.topic, "fifo", 2),
        command=lambda n: ("topic", "create", n.topic, "--type", "fifo", "--queues", "2"), facts=lambda _: True,
        told=lambda answer: answer.created, of_command=_named("created"), error="ILLEGAL_TOPIC",
        wrong={"topic": "no spaces"}),
    "ListTopics": Row(before=(topic,), request=lambda n: admin.ListTopicsRequest(search=n.topic),
        client=lambda a, n: a.list_topics(search=n.topic), command=lambda _: ("topic", "list"),
        facts=lambda n: {n.topic}, told=lambda answer: {each.name for each in answer.topics},
        of_client=lambda found: {each.name for each in found},
        of_command=lambda records: {each["name"] for each in records}),
    "DescribeTopic": Row(needs=one("Topic:t Get"),
        before=(topic, message), request=lambda n: admin.DescribeTopicRequest(name=n.topic),
        client=lambda a, n: a.describe_topic(n.topic), command=lambda n: ("topic", "describe", n.topic),
        facts=lambda n: (n.topic, 1, [(SHARD, 0, 0, 1)]), told=_described_topic, of_client=_described_topic,
        of_command=_printed_description, error="TOPIC_NOT_FOUND"),
    "UpdateTopic": Row(needs=one("Topic:t Update"),
        before=(topic,), request=lambda n: admin.UpdateTopicRequest(name=n.topic, queues=3),
        client=lambda a, n: a.update_topic(n.topic, queues=3),
        command=lambda n: ("topic", "update", n.topic, "--queues", "3"), facts=lambda n: (n.topic, 3),
        told=lambda answer: _topic(answer.topic), of_client=_topic, of_command=_printed_topic, error="TOPIC_NOT_FOUND"),
    "DeleteTopic": Row(needs=one("Topic:t Delete"),
        before=(topic,), request=lambda n: admin.DeleteTopicRequest(name=n.topic),
        client=lambda a, n: a.delete_topic(n.topic), command=lambda n: ("topic", "delete", n.topic, "--yes"),
        facts=lambda _: None, error="TOPIC_NOT_FOUND"),
    "PurgeTopic": Row(needs=one("Topic:t Delete"),
        before=(topic, message), request=lambda n: admin.PurgeTopicRequest(name=n.topic),
        client=lambda a, n: a.purge_topic(n.topic), command=lambda n: ("topic", "purge", n.topic, "--yes"),
        facts=lambda _: 1, told=lambda answer: sum(each.after - each.first for each in answer.queues),
        of_client=lambda queues: sum(each.removed for each in queues), of_command=_named("messages"),
        error="TOPIC_NOT_FOUND"),
    # Groups
    "CreateGroup": Row(needs=one("Group:g Create"),
        request=lambda n: admin.CreateGroupRequest(group={"name": n.group, "fifo": True, "max_attempts": 3}),
        client=lambda a, n: a.create_group(n.group, fifo=True, max_attempts=3),
        command=lambda n: ("group", "create", n.group, "--fifo", "--max-attempts", "3"), facts=lambda _: True,
        told=lambda answer: answer.created, of_command=_named("created"), error="ILLEGAL_CONSUMER_GROUP",
        wrong={"group": "no spaces"}),
    "ListGroups": Row(before=(group,), request=lambda n: admin.ListGroupsRequest(search=n.group),
        client=lambda a, n: a.list_groups(search=n.group), command=lambda _: ("group", "list"),
        facts=lambda n: {n.group}, told=lambda answer: {each.name for each in answer.groups},
        of_client=lambda found: {each.name for each in found},
        of_command=lambda records: {each["name"] for each in records}),
    "DescribeGroup": Row(needs=one("Group:g Get"),
        before=(topic, message, group, reader),
        request=lambda n: admin.DescribeGroupRequest(name=n.group),
        client=lambda a, n: a.describe_group(n.group), command=lambda n: ("group", "describe", n.group),
        facts=lambda n: (n.group, 17, [(n.topic, 0, READER)], [(READER, "grpc")]), told=_described_group,
        of_client=_described_group, of_command=_printed_group, error="CONSUMER_GROUP_NOT_FOUND"),
    "UpdateGroup": Row(needs=one("Group:g Update"),
        before=(group,),
        request=lambda n: admin.UpdateGroupRequest(group={"name": n.group, "max_attempts": 5}),
        client=lambda a, n: a.update_group(n.group, max_attempts=5), client_reads_first=True,
        command=lambda n: ("group", "update", n.group, "--max-attempts", "5"), facts=lambda n: (n.group, 5),
        told=lambda answer: (answer.group.name, answer.group.max_attempts),
        of_client=lambda found: (found.name, found.max_attempts),
        of_command=lambda records: (records[0]["name"], records[0]["max_attempts"]), error="CONSUMER_GROUP_NOT_FOUND"),
    "DeleteGroup": Row(needs=one("Group:g Delete"),
        before=(group,), request=lambda n: admin.DeleteGroupRequest(name=n.group),
        client=lambda a, n: a.delete_group(n.group), command=lambda n: ("group", "delete", n.group, "--yes"),
        facts=lambda _: None, error="CONSUMER_GROUP_NOT_FOUND"),
    "ResetOffsets": Row(needs=one("Group:g Update"),
        before=(topic, message, group),
        request=lambda n: admin.ResetOffsetsRequest(group=n.group, topic=n.topic, latest=True),
        client=lambda a, n: a.reset_offsets(n.group, n.topic, "latest"),
        command=lambda n: ("group", "offset", "reset", n.group, "--topic", n.topic, "--to-latest", "--yes"),
        facts=lambda _: [(0, 1)], told=lambda answer: [(each.queue_id, each.after) for each in answer.moves],
        of_client=lambda moves: [(each.queue_id, each.after) for each in moves],
        of_command=lambda records: [(each["queue"], each["after"]) for each in records[0]["moves"]],
        error="CONSUMER_GROUP_NOT_FOUND"),
    "ResendDeadLetters": Row(needs=(("Group:g Update", "Topic:t Pub"),),
        before=(topic, group),
        request=lambda n: admin.ResendDeadLettersRequest(group=n.group, offsets=[0], to_topic=n.topic),
        client=lambda a, n: a.resend_dead_letters(n.group, [0], to_topic=n.topic),
        command=None,  # it reads the letters first; `test_consumption_commands.py`
        facts=lambda _: [(0, "MESSAGE_NOT_FOUND")],
        told=lambda answer: [(each.offset, pb.Code.Name(each.status.code)) for each in answer.letters],
        of_client=lambda letters: [(each.offset, pb.Code.Name(each.error.code)) for each in letters],
        error="CONSUMER_GROUP_NOT_FOUND"),
    # What is stored
    "QueryMessages": Row(needs=one("Topic:t Sub", "Topic:t Get"),
        before=(topic, message),
        request=lambda n: admin.QueryMessagesRequest(topic=n.topic, key="key"),
        client=lambda a, n: a.find_messages(n.topic, "key"),
        command=lambda n: ("message", "find", n.topic, "--key", "key"), facts=lambda n: [n.id],
        told=lambda answer: [each.system_properties.message_id for each in answer.messages],
        of_client=lambda found: [each.message_id for each in found],
        of_command=lambda records: [each["message_id"] for each in records], error="TOPIC_NOT_FOUND"),
    "DescribeMessage": Row(needs=one("Topic:t Sub", "Topic:t Get"),
        before=(topic, message),
        request=lambda n: admin.DescribeMessageRequest(topic=n.topic, queue_id=0, offset=0),
        client=lambda a, n: a.describe_message(n.topic, 0, 0),
        command=lambda n: ("message", "groups", n.topic, "--queue", "0", "--offset", "0"), facts=lambda _: [],
        told=lambda answer: list(answer.standings), of_client=lambda found: list(found.standings), of_command=list,
        error="TOPIC_NOT_FOUND"),
    "ListTimers": Row(needs=one("Topic:t Get"),
        before=(delay_topic, timer), request=lambda n: admin.ListTimersRequest(topic=n.topic),
        client=lambda a, n: _all(a.list_timers(topic=n.topic)), command=lambda n: ("timer", "list", "--topic", n.topic),
        facts=lambda n: [n.id], told=lambda answer: [each.message_id for each in answer.timers],
        of_client=lambda found: [each.message_id for each in found],
        of_command=lambda records: [each["message_id"] for each in records], error="TOPIC_NOT_FOUND"),
    "GetHistory": Row(needs=one("Topic:t Get"),
        before=(topic,), request=lambda n: admin.GetHistoryRequest(topic=n.topic),
        client=lambda a, n: a.history(topic=n.topic), command=lambda n: ("history", "--topic", n.topic),
        facts=lambda _: 10, told=lambda answer: answer.step.seconds,
        of_client=lambda found: found.step / timedelta(seconds=1), of_command=_named("step_s"),
        error="TOPIC_NOT_FOUND"),
    "ListTransactions": Row(needs=one("Topic:t Get"),
        before=(transaction,),
        request=lambda n: admin.ListTransactionsRequest(topic=n.topic, state=admin.PENDING),
        client=lambda a, n: _all(a.list_transactions(topic=n.topic)),
        command=lambda n: ("transaction", "list", "--topic", n.topic), facts=lambda n: [n.id],
        told=lambda answer: [each.transaction_id for each in answer.transactions],
        of_client=lambda found: [each.transaction_id for each in found],
        of_command=lambda records: [each["transaction_id"] for each in records], error="TOPIC_NOT_FOUND"),
    "GetTransaction": Row(needs=one("Topic:t Get"),
        before=(transaction,), request=lambda n: admin.GetTransactionRequest(transaction_id=n.id),
        client=lambda a, n: a.describe_transaction(n.id), command=lambda n: ("transaction", "show", n.id),
        facts=lambda n: (n.id, n.topic, "pending"),
        told=lambda answer: _open_transaction(answer.transaction),
        of_client=lambda found: (found.transaction.transaction_id, found.transaction.topic, found.transaction.state),
        of_command=lambda records: tuple(records[0][each] for each in ("transaction_id", "topic", "state")),
        error="INVALID_TRANSACTION_ID"),
    "ResolveTransaction": Row(needs=one("Topic:t Update"),
        before=(transaction,),
        request=lambda n: admin.ResolveTransactionRequest(transaction_id=n.id, resolution=pb.COMMIT),
        client=lambda a, n: a.resolve_transaction(n.id, "commit"),
        command=lambda n: ("transaction", "commit", n.id, "--yes"), facts=lambda _: "committed",
        told=lambda answer: admin.TransactionState.Name(answer.transaction.state).lower(),
        of_client=lambda found: found.state, of_command=_named("state"), error="INVALID_TRANSACTION_ID"),
    # The cluster: an embedded server has its one broker, which stays as it is; tests/cluster has the others.
    "ListBrokers": Row(needs=one("Cluster:brokers Get", "Cluster:brokers List"),
        request=lambda _: admin.ListBrokersRequest(), client=lambda a, _: a.list_brokers(),
        command=lambda _: ("broker", "list"), facts=lambda _: [(SHARD, True)],
        told=lambda answer: [(each.name, each.live) for each in answer.brokers],
        of_client=lambda found: [(each.name, each.live) for each in found],
        of_command=lambda records: [(each["name"], each["live"]) for each in records]),
    "ListProxies": Row(needs=one("Cluster:brokers Get", "Cluster:brokers List"),
        request=lambda _: admin.ListProxiesRequest(), client=lambda a, _: a.list_proxies(),
        command=lambda _: ("proxy", "list"), facts=lambda _: [(SHARD, 1)],
        told=lambda answer: [(each.name, each.processes) for each in answer.proxies],
        of_client=lambda found: [(each.name, each.processes) for each in found.proxies],
        of_command=lambda records: [(each["name"], each["processes"]) for each in records]),
    "UpdateBroker": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.UpdateBrokerRequest(name=SHARD, permission=pb.READ),
        client=lambda a, _: a.update_broker(SHARD, permission="read"),
        command=lambda _: ("broker", "permission", SHARD, "read"), error="BAD_REQUEST"),
    "RemoveBroker": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.RemoveBrokerRequest(name=SHARD),
        client=lambda a, _: a.remove_broker(SHARD), command=lambda _: ("broker", "remove", SHARD, "--yes"),
        error="BAD_REQUEST"),
    "BrokerRemaining": Row(needs=one("Cluster:brokers Get"),
        request=lambda n: admin.BrokerRemainingRequest(name=n.id),
        client=lambda a, n: a.broker_remaining(n.id), command=None,  # `broker drain` looks at it, again and again
        before=(transaction, shard), facts=lambda _: True, told=lambda answer: answer.transactions > 0,
        of_client=lambda remaining: remaining.transactions > 0, error="NOT_FOUND"),
    "MoveLeader": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.MoveLeaderRequest(broker=SHARD, replica="a"),
        client=lambda a, _: a.move_leader(SHARD, "a"),
        command=None,  # `shard move-leader` looks for the replica first, as `shard elect` and `remove-replica` do
        error="BAD_REQUEST"),
    "ElectReplica": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.ElectReplicaRequest(broker=SHARD, replica="a"),
        client=lambda a, _: a.elect_replica(SHARD, "a"), command=None, error="BAD_REQUEST"),
    "AddReplica": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.AddReplicaRequest(broker=SHARD), client=lambda a, _: a.add_replica(SHARD),
        command=lambda _: ("shard", "add-replica", SHARD), error="BAD_REQUEST"),
    "RemoveReplica": Row(needs=one("Cluster:brokers Update"),
        request=lambda _: admin.RemoveReplicaRequest(broker=SHARD, replica="a"),
        client=lambda a, _: a.remove_replica(SHARD, "a"), command=None, error="BAD_REQUEST"),
    # The server
    "AdvanceClock": Row(needs=one("Cluster:clock Update"),
        request=lambda _: admin.AdvanceClockRequest(by=duration(60)),
        client=lambda a, _: a.advance_clock(60), command=lambda _: ("clock", "advance", "60s"), facts=lambda _: True,
        told=lambda answer: answer.now.seconds > 0, of_client=lambda now: now.timestamp() > 0,
        of_command=lambda records: records[0]["ahead_s"] >= 60),
    "GetServerInfo": Row(needs=one("Cluster:server Get"),
        request=lambda _: admin.GetServerInfoRequest(), client=lambda a, _: a.server_info(),
        command=lambda _: ("version", "--server"), facts=lambda _: version("ternmq"),
        told=lambda answer: answer.version, of_client=lambda info: info.version, of_command=_named("server")),
    "ListClients": Row(needs=one("Cluster:clients Get", "Cluster:clients List"),
        before=(topic, message, group, reader),
        request=lambda n: admin.ListClientsRequest(group=n.group), client=lambda a, n: a.list_clients(group=n.group),
        command=lambda n: ("client", "list", "--group", n.group),
        facts=lambda n: [(READER, "pull_consumer", "grpc", n.group)], told=_listed_clients, of_client=_listed_clients,
        of_command=lambda records: [
            tuple(each[name] for name in ("client_id", "type", "protocol", "group")) for each in records]),
    "GetStatus": Row(needs=one("Cluster:server Get"),
        request=lambda _: admin.GetStatusRequest(), client=None, command=lambda _: ("status",),
        facts=lambda _: [("server", True), ("registry", True), ("broker", True)],
        told=lambda answer: [(each.kind, each.well) for each in answer.components],
        of_command=lambda records: [(each["component"], each["well"]) for each in records[0]["components"]]),
    "GetLogLevels": Row(needs=one("Cluster:log-levels Get"),
        request=lambda _: admin.GetLogLevelsRequest(), client=None, command=lambda _: ("log-level",),
        facts=lambda _: [SHARD], told=lambda answer: [each.process for each in answer.processes],
        of_command=lambda records: [each["process"] for each in records[0]["processes"]]),
    "UpdateLogLevels": Row(needs=one("Cluster:log-levels Update"),
        request=lambda _: admin.UpdateLogLevelsRequest(levels="loud"), client=None,
        command=None,  # it checks levels itself
        error="BAD_REQUEST"),
    "GetDiagnostics": Row(needs=one("Cluster:diagnostics Get"),
        request=lambda _: admin.GetDiagnosticsRequest(), client=None,
        command=None,  # a part of the bundle of `ternmq diag`
        facts=lambda _: [SHARD], told=lambda answer: [each.process for each in answer.processes]),
    # Users and quotas
    "CreateUser": Row(super_only=True,
        request=lambda n: admin.CreateUserRequest(name=n.user), client=lambda a, n: a.create_user(n.user),
        command=lambda n: ("user", "create", n.user), facts=lambda n: (n.user, True),
        told=lambda answer: (answer.user.name, bool(answer.secret)),
        of_client=lambda made: (made.user.name, bool(made.secret)),
        of_command=lambda records: (records[0]["name"], bool(records[0]["secret"])), error="BAD_REQUEST",
        wrong={"user": "no spaces"}),
    "DescribeUser": Row(super_only=True,
        before=(user, policy), request=lambda n: admin.DescribeUserRequest(name=n.user),
        client=lambda a, n: a.describe_user(n.user), command=lambda n: ("user", "show", n.user),
        facts=lambda n: [(f"Topic:{n.topic}", "Pub")], told=lambda answer: _policies(answer.user), of_client=_policies,
        of_command=lambda records: [(each["resource"], each["actions"]) for each in records[0]["policies"]],
        error="NOT_FOUND"),
    "UpdateUser": Row(super_only=True,
        before=(user,), request=lambda n: admin.UpdateUserRequest(name=n.user, enabled=False),
        client=lambda a, n: a.update_user(n.user, enabled=False),
        command=lambda n: ("user", "update", n.user, "--disable"), facts=lambda n: (n.user, False),
        told=lambda answer: (answer.user.name, answer.user.enabled),
        of_client=lambda found: (found.name, found.enabled),
        of_command=lambda records: (records[0]["name"], records[0]["enabled"]), error="NOT_FOUND"),
    "DeleteUser": Row(super_only=True,
        before=(user,), request=lambda n: admin.DeleteUserRequest(name=n.user),
        client=lambda a, n: a.delete_user(n.user), command=lambda n: ("user", "delete", n.user, "--yes"),
        facts=lambda _: None, error="NOT_FOUND"),
    "ListUsers": Row(super_only=True,
        before=(user,), request=lambda _: admin.ListUsersRequest(limit=1000),
        client=lambda a, _: _all(a.list_users()), command=lambda _: ("user", "list"), facts=lambda n: {n.user},
        told=lambda answer: {each.name for each in answer.users}, of_client=lambda found: {each.name for each in found},
        of_command=lambda records: {each["name"] for each in records}),
    "RotateSecret": Row(super_only=True,
        before=(user,), request=lambda n: admin.RotateSecretRequest(user=n.user),
        client=lambda a, n: a.rotate_secret(n.user), command=lambda n: ("user", "rotate", n.user),
        facts=lambda n: (n.user, True), told=lambda answer: (answer.user.name, bool(answer.secret)),
        of_client=lambda made: (made.user.name, bool(made.secret)),
        of_command=lambda records: (records[0]["name"], bool(records[0]["secret"])), error="NOT_FOUND"),
    "PutPolicy": Row(super_only=True,
        before=(user,),
        request=lambda n: admin.PutPolicyRequest(
            user=n.user, policy={"resource": f"Topic:{n.topic}", "actions": "Pub"}),
        client=lambda a, n: a.put_policy(n.user, f"Topic:{n.topic}", "Pub"),
        command=lambda n: ("policy", "allow", n.user, f"Topic:{n.topic}", "Pub"),
        facts=lambda n: [(f"Topic:{n.topic}", "Pub")], told=lambda answer: _policies(answer.user), of_client=_policies,
        of_command=lambda records: [(each["resource"], each["actions"]) for each in records[0]["policies"]],
        error="NOT_FOUND"),
    "DeletePolicy": Row(super_only=True,
        before=(user, policy),
        request=lambda n: admin.DeletePolicyRequest(user=n.user, resource=f"Topic:{n.topic}"),
        client=lambda a, n: a.delete_policy(n.user, f"Topic:{n.topic}"),
        command=lambda n: ("policy", "remove", n.user, f"Topic:{n.topic}"), facts=lambda _: [],
        told=lambda answer: list(answer.user.policies), of_client=lambda found: list(found.policies),
        of_command=_named("policies"), error="NOT_FOUND"),
    "ResealSecrets": Row(super_only=True,
        request=lambda _: admin.ResealSecretsRequest(), client=lambda a, _: a.reseal_secrets(),
        command=lambda _: ("user", "reseal"), facts=lambda _: [], told=lambda answer: list(answer.unreadable),
        of_client=lambda done: list(done.unreadable), of_command=_named("unreadable")),
    "PutQuota": Row(super_only=True,
        request=lambda n: admin.PutQuotaRequest(quota={"kind": "user", "name": n.user, "messages_in": 100}),
        client=lambda a, n: a.put_quota("user", n.user, messages_in=100),
        command=lambda n: ("quota", "set", f"user:{n.user}", "--messages-in", "100/s"), facts=lambda _: 100,
        told=lambda answer: 100 if answer.created else 0, of_client=lambda created: 100 if created else 0,
        of_command=lambda records: int(records[0]["messages_in"].removesuffix("/s"))),
    "DeleteQuota": Row(super_only=True,
        before=(quota,), request=lambda n: admin.DeleteQuotaRequest(kind="user", name=n.user),
        client=lambda a, n: a.delete_quota("user", n.user), command=lambda n: ("quota", "remove", f"user:{n.user}"),
        facts=lambda _: None, error="NOT_FOUND"),
    "ListQuotas": Row(needs=one("Cluster:quotas Get"),
        before=(quota,), request=lambda _: admin.ListQuotasRequest(), client=lambda a, _: a.list_quotas(),
        command=lambda _: ("quota", "list"), facts=lambda n: {n.user},
        told=lambda answer: {each.name for each in answer.quotas},
        of_client=lambda found: {each.name for each in found.quotas},
        of_command=lambda records: {each["quota"].removeprefix("user:") for each in records[0]["quotas"]}),
    "ListAuditEntries": Row(super_only=True,
        before=(user,),
        request=lambda n: admin.ListAuditEntriesRequest(resource=f"Cluster:users/{n.user}"),
        client=lambda a, n: _all(a.list_audit_entries(resource=f"Cluster:users/{n.user}")),
        command=lambda n: ("audit", "--resource", f"Cluster:users/{n.user}"),
        facts=lambda _: [("root", "CreateUser", True)],
        told=lambda answer: [(each.user, each.call, each.allowed) for each in answer.entries],
        of_client=lambda found: [(each.user, each.call, each.allowed) for each in found],
        of_command=lambda records: [(each["user"], each["call"], each["allowed"]) for each in records]),
}
