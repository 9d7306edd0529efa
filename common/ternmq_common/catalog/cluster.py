"""The processes of a cluster as the registry describes them to each other."""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.access.users import AccessSnapshot
from ternmq_common.catalog.handle_keys import HandleKey
from ternmq_common.resources.modes import FlushMode as FlushMode  # noqa: PLC0414 - who has cluster's values has these
from ternmq_common.resources.modes import QueuePermission as QueuePermission  # noqa: PLC0414 - who has cluster's values has these
from ternmq_common.resources.modes import ReplicationMode as ReplicationMode  # noqa: PLC0414 - who has cluster's values has these
from ternmq_common.resources.quotas import QuotaSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ternmq_common.shard.model import ConsumerGroup, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """The load that a broker reports with each heartbeat: rates per second, counts, and shares from 0 to 1.

    What would be lost with it is counted now and then, None before the first count: `messages` in its queues,
    `unfinished`, how many of these groups have still to finish, summed over groups, and `timers` that wait for their
    time. `clock_skew` is by how many seconds its clock is ahead of the registry's, None where that is unknown.
    """

    messages_in: float = 0.0
    messages_out: float = 0.0
    proxies: int = 0
    transactions: int = 0
    disk_used: float = 0.0
    messages: int | None = None
    unfinished: int | None = None
    timers: int | None = None
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLoad:
    """The load that a process of a proxy reports every few seconds.

    `clients` are those with a stream. `calls` is the recent rate per second, `call_p99_ms` below what 99 of 100 of
    them took; None before the first are counted. `problem` is its problem, "" if it has none.
    """

    connections: int = 0
    clients: int = 0
    calls: float | None = None
    call_p99_ms: float | None = None
    problem: str = ""


REPLICAS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEntry:
    """One copy of a shard as the registry has it.

    `name` is unique in the shard, `store_id` everywhere. `address` is HOST:PORT of its storage service. `in_sync`: it
    has all that was acknowledged, so that it may lead. `live`: its own lease has not run out; `lease_end_ms` is by the
    registry's clock, 0 where there is none. `position` is the log offset below which its log is durable, by its last
    report.
    """

    name: str
    store_id: str
    address: str
    in_sync: bool
    live: bool
    version: str = ""
    started_ms: int = 0
    position: int = 0
    lease_end_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A storage broker as the registry has it: one shard.

    `address` is HOST:PORT of its storage service. `epoch` grows with each registration: of two processes of one name
    the one with the higher epoch is the broker. `live`: its lease has not run out; `lease_end_ms` is by the registry's
    clock, 0 where there is none. A draining broker keeps what it has and accepts nothing new.

    A shard has `replicas`, sorted by name, none if the broker is not replicated; all of the above is of the leader,
    whose store is `store_id`. `replicas_wanted` is how many there may be, `min_insync` how many must have a message
    before it is acknowledged, `move_to` the store that was requested to lead, "" if none was.
    """

    name: str
    address: str
    epoch: int
    permission: QueuePermission = QueuePermission.READ_WRITE
    draining: bool = False
    live: bool = True
    version: str = ""
    started_ms: int = 0
    load: BrokerLoad = field(default_factory=BrokerLoad)
    store_id: str = ""
    replicas: tuple[ReplicaEntry, ...] = ()
    replicas_wanted: int = 1
    min_insync: int = 1
    replication: ReplicationMode = ReplicationMode.SYNC
    move_to: str = ""
    lease_end_ms: int = 0

    @property
    def can_read(self) -> bool:
        return self.permission.can_read

    @property
    def can_write(self) -> bool:
        return self.permission.can_write and not self.draining


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEntry:
    """A process that serves clients of the cluster, by its own report.

    `name` is unique among all processes; `server` is the name of the proxy, which may have several processes.
    `address` is its first listener's, HOST:PORT or unix:PATH. `lease_end_ms` is by the registry's clock, 0 without a
    registry.
    """

    name: str
    server: str
    address: str
    version: str
    started_ms: int
    load: ProxyLoad = field(default_factory=ProxyLoad)
    lease_end_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """An election that may have lost messages.

    `elected` is the leader of `epoch`, `in_sync` the others that had all that was acknowledged, each as it was known
    before. Positions are the last reported ones: more may be lost.
    """

    epoch: int
    elected: ReplicaEntry
    in_sync: tuple[ReplicaEntry, ...]

    @property
    def lost_bytes(self) -> int:
        """Bytes of the log that a replica had, and the new leader has not, as far as it is known."""
        most = max((each.position for each in self.in_sync), default=0)
        return max(0, most - self.elected.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySnapshot:
    """The registry at one moment.

    Every change of anything but leases, loads and replicas' positions gives it a higher `version`. `is_placed`: a
    topic is on the brokers that it names; else on all, as in a stack with one broker.
    """

    version: int = 0
    topics: "Mapping[str, Topic]" = field(default_factory=dict)
    groups: "Mapping[str, ConsumerGroup]" = field(default_factory=dict)
    brokers: "Mapping[str, BrokerEntry]" = field(default_factory=dict)
    access: AccessSnapshot = field(default_factory=AccessSnapshot)
    handle_keys: tuple[HandleKey, ...] = ()
    quotas: QuotaSnapshot = field(default_factory=QuotaSnapshot)
    is_placed: bool = True

    def brokers_of(self, topic: str) -> "Collection[str]":
        """The brokers that have the topic's queues; an unknown topic, as a retry topic, is on all."""
        entry = self.topics.get(topic)
        return entry.brokers if entry is not None and self.is_placed else self.brokers

    def topic_created_version(self, name: str) -> int:
        """The version at which the topic was created; 0 if the registry does not have it, as a retry topic."""
        topic = self.topics.get(name)
        return 0 if topic is None else topic.created_version

    def group_created_version(self, name: str) -> int:
        """The version at which the group was created; 0 if the registry does not have it."""
        group = self.groups.get(name)
        return 0 if group is None else group.created_version


class DeletedKind(enum.StrEnum):
    """The kind of what was deleted."""

    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class RegistryDeletion:
    """A topic or group that was deleted, and the version that the registry had then."""

    version: int
    kind: DeletedKind
    name: str


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """Messages of a topic that a group has begun to consume on a broker, and not finished."""

    group: str
    topic: str
    messages: int


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """The work that would be lost with a broker: backlogs of groups, timed messages, and open transactions."""

    backlogs: list[GroupBacklog]
    timers: int
    transactions: int

    @property
    def is_nothing(self) -> bool:
        return not (self.backlogs or self.timers or self.transactions)
