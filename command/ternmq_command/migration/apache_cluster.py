"""Reads the topics, consumer groups, users and lags of a cluster of Apache RocketMQ; it changes nothing there.

Every broker has its own tables, and only masters are queried. Two brokers may have one topic with different settings:
`SourceTopic` and `SourceGroup` are the settings at one broker.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from ternmq_command.calls.remoting_calls import (
    RemotingAccess,
    RemotingCalls,
    RemotingRefused,
    RemotingUnreachable,
    find_masters,
)
from ternmq_command.terminal.failures import CommandFailure, WrongUsage

NAMESRV_SYSTEM_TOPICS, BROKER_SYSTEM_TOPICS = 304, 305
ALL_TOPICS, ALL_GROUPS, _CONSUME_STATS = 21, 201, 208
_USERS, _POLICIES = 3005, 3010
Table = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic on a broker; `kind` is its message type, empty if it has none. Producers send to `queues`, consumers read
    the first `read_queues`."""

    broker: str
    name: str
    queues: int
    permission: int
    kind: str
    read_queues: int = 0


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """A consumer group on a broker. `retries` come after the first delivery; `backoff` is its policy as JSON."""

    broker: str
    name: str
    is_orderly: bool
    is_enabled: bool
    retries: int
    backoff: Table


@dataclass(frozen=True, slots=True)
class SourceUser:
    """A user with its policies, as JSON."""

    name: str
    is_super: bool
    is_enabled: bool
    secret: str = field(repr=False)
    policies: Sequence[Table]


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """The topics, groups and users of the source. `system_topics` are those that its servers list as their own. `users`
    is None where a broker has no access control."""

    brokers: Sequence[str]
    system_topics: frozenset[str]
    topics: Sequence[SourceTopic]
    groups: Sequence[SourceGroup]
    users: Sequence[SourceUser] | None
    lags: Mapping[str, int]


def read_cluster(name_servers: str, access: RemotingAccess) -> SourceCluster:
    """Read the cluster of the first name server that answers, of `HOST:PORT[;HOST:PORT...]`. WrongUsage without an
    address; RemotingUnreachable and RemotingRefused where a server does not answer."""
    with ExitStack() as stack:
        name_server = stack.enter_context(_first_reachable(name_servers, access))
        masters = find_masters(name_server)
        if not masters:
            raise RemotingUnreachable(f"the name server {name_server.address} knows no broker with a master")
        brokers = {name: stack.enter_context(RemotingCalls(at, access)) for name, at in masters.items()}
        system = set(texts_of(name_server.read_table(NAMESRV_SYSTEM_TOPICS).get("topicList")))
        for calls in brokers.values():
            system.update(texts_of(calls.read_table(BROKER_SYSTEM_TOPICS).get("topicList")))
        groups = [group for name, calls in brokers.items() for group in groups_of(name, calls.read_table(ALL_GROUPS))]
        names = sorted({group.name for group in groups})
        return SourceCluster(
            brokers=sorted(brokers),
            system_topics=frozenset(system),
            topics=[
                topic for name, calls in brokers.items() for topic in topics_of(name, calls.read_table(ALL_TOPICS))
            ],
            groups=groups,
            users=_read_users(next(iter(brokers.values()))),
            lags={name: sum(_read_lag(name, calls) for calls in brokers.values()) for name in names},
        )


def _first_reachable(name_servers: str, access: RemotingAccess) -> RemotingCalls:
    failure: CommandFailure | None = None
    for address in split_addresses(name_servers):
        try:
            return RemotingCalls(address, access)
        except RemotingUnreachable as error:
            failure = error
    assert failure is not None
    raise failure


def split_addresses(name_servers: str) -> list[str]:
    """Return the addresses of `HOST:PORT[;HOST:PORT...]`. WrongUsage if there is none."""
    addresses = [each.strip() for each in name_servers.replace(",", ";").split(";") if each.strip()]
    if not addresses:
        raise WrongUsage("--namesrv names no name server: HOST:PORT is needed")
    return addresses


def topics_of(broker: str, content: Table) -> Iterator[SourceTopic]:
    """Yield the topics that a broker lists (21)."""
    for name, topic in _tables(content.get("topicConfigTable")).items():
        attributes = _table(topic.get("attributes"))
        yield SourceTopic(
            broker,
            name,
            _number(topic.get("writeQueueNums"), 0),
            _number(topic.get("perm"), 0),
            str(attributes.get("message.type", "")),
            _number(topic.get("readQueueNums"), 0),
        )


def groups_of(broker: str, content: Table) -> Iterator[SourceGroup]:
    """Yield the groups that a broker lists (201)."""
    for name, group in _tables(content.get("subscriptionGroupTable")).items():
        yield SourceGroup(
            broker,
            name,
            is_orderly=group.get("consumeMessageOrderly") is True,
            is_enabled=group.get("consumeEnable") is not False,
            retries=_number(group.get("retryMaxTimes"), 16),
            backoff=_table(group.get("groupRetryPolicy")),
        )


def _read_lag(group: str, calls: RemotingCalls) -> int:
    """Return how many messages of the broker the group has not consumed."""
    try:
        offsets = calls.read_content(_CONSUME_STATS, consumerGroup=group)
    except RemotingRefused:
        return 0  # the group has no offset on this broker
    table = offsets.get("offsetTable") if isinstance(offsets, dict) else None
    queues = [each for each in table.values() if isinstance(each, dict)] if isinstance(table, dict) else []
    return sum(max(0, _number(each.get("brokerOffset"), 0) - _number(each.get("consumerOffset"), 0)) for each in queues)


def _read_users(calls: RemotingCalls) -> list[SourceUser] | None:
    """Return the users that every broker has; None if it has no access control, or an older one."""
    try:
        users, policies = calls.read_content(_USERS), calls.read_content(_POLICIES)
    except RemotingRefused:
        return None
    by_subject = {str(each.get("subject")): each for each in _objects(policies)}
    return [
        SourceUser(
            name=str(user.get("username")),
            is_super=str(user.get("userType", "")).lower() == "super",
            is_enabled=str(user.get("userStatus", "enable")).lower() != "disable",
            secret=str(user.get("password") or ""),
            policies=_objects(by_subject.get(f"User:{user.get('username')}", {}).get("policies")),
        )
        for user in _objects(users)
    ]


# --- values of others


def _tables(value: object) -> dict[str, Table]:
    """Return the values of a JSON object that are JSON objects, by name."""
    content = value if isinstance(value, dict) else {}
    return {str(name): each for name, each in content.items() if isinstance(each, dict)}


def _table(value: object) -> Table:
    return {str(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _objects(value: object) -> list[Table]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts_of(value: object) -> list[str]:
    """Return the texts of a JSON list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
