"""Brokers, the server itself and its clock, and their admin calls."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_flag, check_text
from ternmq.admin.requests.words import Permission, permission_number, permission_word, read_moment, replication_word
from ternmq_protos.admin_v1 import admin_pb2

# The work that becomes due all at once may keep a server busy.
ADVANCE_TIMEOUT_S = 60.0
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """The load that a broker reports every few seconds: messages a second, counts, and a share from 0 to 1.

    `messages` are in its queues, `unfinished` counts those that groups have to finish, for each group, and `timers`
    wait for their time; None while it has not counted them. `clock_skew`: by how many seconds its clock is ahead of the
    registry's, None if unknown.

    """

    messages_in: float
    messages_out: float
    proxies: int
    transactions: int
    disk_used: float
    messages: int | None = None
    unfinished: int | None = None
    timers: int | None = None
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedBroker:
    """The `topics` that a removed broker had, and the last load that it reported; None if it was empty."""

    topics: tuple[str, ...]
    lost: BrokerLoad | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A copy of a shard. One that is `in_sync` has all that was acknowledged, so it may lead. `position`: how many
    bytes of its log are durable, as it last reported. `lease_end` is by the registry's clock, None if there is no
    lease."""

    name: str
    store_id: str
    address: str
    leader: bool
    in_sync: bool
    live: bool
    position: int
    version: str
    started: datetime | None
    lease_end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker. One that is not `live` has not reported for some seconds; a `draining` one accepts nothing new.
    `address` is where proxies find it; `epoch` grows with each start. It counts as live until `lease_end` without
    another report, by the registry's clock; None if there is no lease.

    A broker with `replicas` is a shard, and these values are its leader's. It may have `replicas_wanted`; `min_insync`
    must have a message before it is acknowledged, and `replication` (`sync` or `async`) says when a send is answered.
    `move_to` is the replica that is to lead next, "" if there is none.

    """

    name: str
    address: str
    live: bool
    permission: str
    draining: bool
    epoch: int
    version: str
    started: datetime | None
    load: BrokerLoad
    replicas: tuple[Replica, ...] = ()
    replicas_wanted: int = 1
    min_insync: int = 1
    replication: str = "sync"
    move_to: str = ""
    lease_end: datetime | None = None

    @property
    def leader(self) -> Replica | None:
        """The replica that leads, or led last; None without replicas."""
        return next((replica for replica in self.replicas if replica.leader), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Messages of a topic that a group has begun to consume on a broker and has not finished."""

    group: str
    topic: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRemaining:
    """The work that would be lost with a broker: backlogs, pending timers, open transactions."""

    backlogs: tuple[Backlog, ...]
    timers: int
    transactions: int

    @property
    def is_nothing(self) -> bool:
        return not (self.backlogs or self.timers or self.transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The server's state. `now` is its time, None if the server is too old to report it; a `test_clock` can be
    moved."""

    version: str
    started: datetime | None
    resident_bytes: int
    now: datetime | None
    test_clock: bool


def list_brokers() -> AdminCall[list[Broker]]:
    """List all brokers by name."""
    return AdminCall(admin_pb2.ListBrokersRequest(), _read_list)


def update_broker(
    name: str, *, permission: Permission | None = None, draining: bool | None = None
) -> AdminCall[Broker]:
    """Set what clients may do with a broker's queues, or drain it: it delivers what it has and accepts nothing
    new."""
    request = admin_pb2.UpdateBrokerRequest(name=check_text("name", name))
    if permission is not None:
        request.permission = permission_number(permission)
    if draining is not None:
        request.draining = check_flag("draining", draining)
    return AdminCall(request, lambda answer: read_broker(answer.broker))


def remove_broker(name: str, *, force: bool = False) -> AdminCall[RemovedBroker]:
    """Remove a broker. It must be draining and have nothing left, as it reports or last reported, unless `force`
    gives that up; the result has what is known to be lost."""
    request = admin_pb2.RemoveBrokerRequest(name=check_text("name", name), force=check_flag("force", force))
    return AdminCall(request, _read_removed)


def broker_remaining(name: str) -> AdminCall[BrokerRemaining]:
    """Return what would be lost with a broker."""
    request = admin_pb2.BrokerRemainingRequest(name=check_text("name", name))
    return AdminCall(request, _read_remaining)


def advance_clock(by: timedelta | float) -> AdminCall[datetime]:
    """Move the test clock; return the server's time then. A plain number is seconds, rounded up to milliseconds."""
    if not isinstance(by, timedelta | float | int) or isinstance(by, bool):
        raise TypeError(f"by is a timedelta or seconds, which {by!r} is not")
    seconds = by.total_seconds() if isinstance(by, timedelta) else by
    request = admin_pb2.AdvanceClockRequest()
    request.by.FromTimedelta(math.ceil(seconds * 1000) * _MS)
    return AdminCall(request, lambda answer: answer.now.ToDatetime(tzinfo=UTC), at_least_s=ADVANCE_TIMEOUT_S)


def server_info() -> AdminCall[ServerInfo]:
    """Return the server's version, start, memory and time."""
    return AdminCall(admin_pb2.GetServerInfoRequest(), _read_info)


def _read_list(answer: admin_pb2.ListBrokersResponse) -> list[Broker]:
    return sorted(map(read_broker, answer.brokers), key=lambda broker: broker.name)


def read_broker(broker: admin_pb2.Broker) -> Broker:
    return Broker(
        name=broker.name,
        address=broker.address,
        live=broker.live,
        permission=permission_word(broker.permission),
        draining=broker.draining,
        epoch=broker.epoch,
        version=broker.version,
        started=read_moment(broker.started),
        load=_load_of(broker.load),
        replicas=tuple(sorted(map(read_replica, broker.replicas), key=lambda replica: replica.name)),
        # A server that does not report it is an older one, without replicas.
        replicas_wanted=broker.replicas_wanted or 1,
        min_insync=broker.min_insync or 1,
        replication=replication_word(broker.replication or admin_pb2.REPLICATION_SYNC),
        move_to=broker.move_to,
        lease_end=read_moment(broker.lease_end),
    )


def _load_of(load: admin_pb2.BrokerLoad) -> BrokerLoad:
    return BrokerLoad(
        messages_in=load.messages_in,
        messages_out=load.messages_out,
        proxies=load.proxies,
        transactions=load.transactions,
        disk_used=load.disk_used,
        messages=load.messages if load.HasField("messages") else None,
        unfinished=load.unfinished if load.HasField("unfinished") else None,
        timers=load.timers if load.HasField("timers") else None,
        clock_skew=load.clock_skew if load.HasField("clock_skew") else None,
    )


def _read_removed(answer: admin_pb2.RemoveBrokerResponse) -> RemovedBroker:
    lost = _load_of(answer.lost) if answer.HasField("lost") else None
    return RemovedBroker(topics=tuple(answer.topics), lost=lost)


def read_replica(replica: admin_pb2.Replica) -> Replica:
    return Replica(
        name=replica.name,
        store_id=replica.store_id,
        address=replica.address,
        leader=replica.leader,
        in_sync=replica.in_sync,
        live=replica.live,
        position=replica.position,
        version=replica.version,
        started=read_moment(replica.started),
        lease_end=read_moment(replica.lease_end),
    )


def _read_remaining(answer: admin_pb2.BrokerRemainingResponse) -> BrokerRemaining:
    backlogs = (
        Backlog(group=backlog.group, topic=backlog.topic, messages=backlog.messages) for backlog in answer.backlogs
    )
    return BrokerRemaining(backlogs=tuple(backlogs), timers=answer.timers, transactions=answer.transactions)


def _read_info(answer: admin_pb2.GetServerInfoResponse) -> ServerInfo:
    return ServerInfo(
        version=answer.version,
        started=read_moment(answer.started),
        resident_bytes=answer.resident_bytes,
        now=read_moment(answer.now),
        test_clock=answer.test_clock,
    )
