"""Values that pass between the layers: topics, groups, routes, and messages on their way in and out.

What travels between proxy and broker does so as it is here (`shard/form.py`). What is made for each message is a
Struct, which is made in a seventh of a dataclass's time. It travels as an array: a field that is added goes to its end,
and has a default. The fields of a dataclass travel with their names: one that is added has a default.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from ternmq_common.cluster import FlushMode, Permission, ReplicationMode
from ternmq_common.limits import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY_FACTOR, DEFAULT_QUEUES, RECEIVE_BATCH_MAX
from ternmq_common.lite_group import LiteGroup
from ternmq_common.message_filter import MessageFilter
from ternmq_common.message_type import MessageType
from ternmq_common.names import is_lite_queue, lite_wait_key
from ternmq_common.ranges import Int64, UInt32
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.retry_backoff import DEFAULT_BACKOFF, RetryBackoff

MIXED = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the registry has it; `type` is what its messages must be, `queues` counts them on each broker.

    `brokers` names those that have its queues, in a cluster; embedded it is empty, for the one there is.
    `created_version` is the version of the registry's change that created the topic, 0 if that was before it was
    noted: a broker that does not know yet what was deleted before takes no messages of it. `replication` is when its
    sends are answered in shards with replicas, None: as each shard has it; `flush` the same of each broker's disk.
    Messages older than `retention_ms` are gone, 0: when the broker removes them. One that is `mixed` is NORMAL, and
    takes others too. Of a LITE one, a lite topic to which nothing was sent for `lite_ttl_ms` is dropped, 0: when the
    broker has removed its messages.
    """

    name: str
    type: "MessageType"
    queues: int = DEFAULT_QUEUES
    created_ms: int = 0
    permission: Permission = Permission.READ_WRITE
    brokers: tuple[str, ...] = ()
    created_version: int = 0
    replication: ReplicationMode | None = None
    mixed: bool = False
    flush: FlushMode | None = None
    retention_ms: int = 0
    lite_ttl_ms: int = 0

    @property
    def accepted(self) -> "tuple[MessageType, ...]":
        """What its messages may be; MIXED is what clients of every age know."""
        return MIXED if self.mixed else (self.type,)

    @property
    def kind(self) -> str:
        """The name of what its messages must be."""
        return "MIXED" if self.mixed else MessageType(self.type).name

    @property
    def keeps_order(self) -> bool:
        """Whether there may be messages that must not be in another queue than theirs."""
        return self.mixed or self.type in (MessageType.FIFO, MessageType.LITE)

    @property
    def identity(self) -> str:
        """What tells it from any other topic, an earlier or later one of its name above all. What it is made of never
        changes and is never given again: versions of the registry grow with each change and with the time."""
        return f"{self.created_ms:x}-{self.created_version:x}"


DEFAULT_CONSUME_FROM = "auto"
DEFAULT_ASSIGNMENT = "averagely"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A consumer group as the registry has it.

    `max_attempts` counts the first delivery too. `consume_from` says where the group begins in a queue that it was
    never in: `auto` (the first message while the queue has every message it ever had, else the end), `earliest`,
    `latest`, or milliseconds since the epoch as digits. `assignment` is the text of an assignment strategy, for
    members that pull. `queue_lock_hold_ms` above 0 gives each queue one pulling reader at a time; see
    `ternmq_broker.delivery.queue_access`. `priority_factor`: of 100 receives from a PRIORITY topic so many begin with
    the highest priority, the others with each of the lower ones in turn, so that none starves. `created_version` is
    the version of the registry's change that created the group, as `Topic.created_version`: a broker that does not
    know yet what was deleted before keeps nothing of the group. `lite` has the settings of a lite group, None for
    every other one.
    """

    name: str
    fifo: bool = False
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    created_ms: int = 0
    retry_backoff: RetryBackoff = DEFAULT_BACKOFF
    consume_from: str = DEFAULT_CONSUME_FROM
    assignment: str = DEFAULT_ASSIGNMENT
    queue_lock_hold_ms: int = 0
    priority_factor: int = DEFAULT_PRIORITY_FACTOR
    created_version: int = 0
    lite: LiteGroup | None = None


class QueueRef(Struct, frozen=True, array_like=True, gc=False):
    """One message queue: which one of which topic on which broker."""

    topic: str
    broker: str
    queue_id: UInt32


class NewMessage(Struct, frozen=True, array_like=True, gc=False):
    """A checked message on its way into the store, already in stored form.

    `tag_hash` is that of its tag (`tag_filter`). `system` is the serialized `SystemProperties` without the fields that
    the server owns, `rest` the serialized `Message` without `topic` and `system_properties`. `keys` are what it can be
    found by: its id, and behind it its own keys.
    """

    tag_hash: UInt32
    system: bytes
    rest: bytes
    keys: tuple[str, ...]

    @property
    def message_id(self) -> str:
        return self.keys[0]


class Appended(Struct, frozen=True, array_like=True, gc=False):
    """Where a message was stored: of a timed or half message the place in the commit log, of others in its queue.

    `broker` is named where it may be another one than that of the queue that was asked for.
    """

    message_id: str
    queue_offset: Int64
    transaction_id: str = ""
    broker: str = ""


AppendRequests = Sequence[tuple[QueueRef, Sequence[NewMessage]]]
"""Requests to store messages, each in order in one queue, and each whole or not at all."""


class AppendOutcome(Struct, frozen=True, array_like=True, gc=False):
    """The outcome of one of them: the queue offset of the first message; or a code that is not OK, and its text."""

    first: Int64
    code: UInt32
    text: str = ""


Stored = Callable[[int, Exception | None], None]
"""Called when a request's messages may be acknowledged, with the queue offset of the first; or with the error for which
they are not stored, or perhaps not."""


class TimedMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message that is to be in its queue from `due_ms` on, milliseconds since the epoch."""

    message: NewMessage
    due_ms: Int64


class HalfMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message that waits for its producer's word. `sender` is that client's id; `recovery_ms` is how long nobody is
    asked about it, None for the broker's default."""

    message: NewMessage
    sender: str
    recovery_ms: Int64 | None = None


class Resolution(enum.Enum):
    """What a producer, or an operator, says of a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"


class TransactionState(enum.Enum):
    """Where a transaction is; DISCARDED after its last check, until an operator says more."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction as operators see it. `stored_ms` is when its half message was stored, None if that isn't known any
    more; `checks` is how many checks it had, `next_check_ms` when the next will be, None when none will."""

    transaction_id: str
    topic: str
    message_id: str
    state: TransactionState
    stored_ms: Int64 | None
    checks: UInt32 = 0
    next_check_ms: Int64 | None = None
    sender: str = ""


class StoredMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message as it was read back; `system` and `rest` as in `NewMessage`, `stored_ms` since the epoch."""

    queue: QueueRef
    queue_offset: Int64
    stored_ms: Int64
    system: bytes
    rest: bytes


class Delivery(Struct, frozen=True, array_like=True, gc=False):
    """One handing out of a message to one consumer of a group; `attempt` counts from 1."""

    message: StoredMessage
    handle: ReceiptHandle
    attempt: UInt32


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far a group is in one queue; the terms are those of `ternmq.admin.v1.Progress`. In a queue in which it has
    never been, `committed` and `cursor` are where it would begin if it came now.

    `oldest_ms` is when the first message that is not finished was stored, None when all are. `lost` messages are those
    that retention or a purge took before the group had read them.
    """

    queue: QueueRef
    committed: Int64
    cursor: Int64
    in_flight: Int64
    max_offset: Int64
    oldest_ms: Int64 | None = None
    lost: Int64 = 0


class Subscription(Struct, frozen=True, array_like=True, gc=False):
    """A group one of whose clients wants the messages of that topic."""

    group: str
    topic: str


class HeldTopic(NamedTuple):
    """What a store has of a topic: the queues up to the last one that was used, and the messages that are left."""

    queues: int
    messages: int


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """A queue holds the offsets `minimum` up to, not including, `maximum`. `purged_below` is where the last purge by an
    operator had it begin, 0 if there was none; None: the broker does not tell."""

    minimum: Int64
    maximum: Int64
    purged_below: Int64 | None = field(default=None, compare=False)


RETRY_QUEUE_ID = 0xFFFF
"""How receipt handles and progress of a topic name the group's retry queue, which is in a topic of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedTransaction:
    """A half message about which a producer is to be asked, `sender` for choice, or with `sender_only` nobody else."""

    transaction_id: str
    topic: str
    sender: str
    message: StoredMessage
    sender_only: bool = False


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """Some transactions, and where the next ones begin, empty when there are no more."""

    transactions: list[OpenTransaction]
    following: str


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """What one process of a proxy says to a question of another, None if nothing came in time, or it does not know the
    question. `proxy` is what brokers call it."""

    proxy: str
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTimer:
    """A timed message whose time has not come: the queue where it will be, its system properties (`NewMessage`), and
    how long its record is in bytes."""

    queue: QueueRef
    due_ms: Int64
    stored_ms: Int64
    system: bytes
    size: UInt32


@dataclass(frozen=True, slots=True)
class TimerPage:
    """Some timed messages, and where the next ones begin, empty when there are no more."""

    timers: list[WaitingTimer]
    following: str


class MessageState(enum.Enum):
    """The state of a message in a consumer group."""

    AHEAD = "ahead"  # the group has not come to it, or it waits behind one of its message group
    HELD = "held"  # a consumer has it
    AGAIN = "again"  # it was delivered, and waits for another delivery
    FINISHED = "finished"  # acknowledged, filtered out or skipped
    DEAD = "dead"  # it is among the group's dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """The status of one message in one consumer group. `attempts` counts its deliveries; of a finished message it is 0:
    nobody knows any more. `until_ms` is when the claim of its consumer ends, 0 without one; `dead_offset` is the offset
    of the dead letter, -1 without one."""

    group: str
    state: MessageState
    attempts: UInt32 = 0
    until_ms: Int64 = 0
    dead_offset: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueContent:
    """What a queue holds: about so many bytes of the log, and when the first message was stored, None if there is
    none."""

    queue: QueueRef
    bytes: Int64
    oldest_ms: Int64 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicContent:
    """What is known of a topic besides its offsets: the groups that have taken of it or subscribe it, messages a second
    over the last moments, and how many lite topics it has, with how many messages in them together."""

    queues: list[QueueContent]
    groups: list[str]
    sent_per_s: float
    delivered_per_s: float
    lite_topics: Int64 = 0
    lite_messages: Int64 = 0


class HistoryOf(enum.Enum):
    """Whose figures are remembered."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Figures over the last hours, by their names: a value for each `step_ms`, the last of them ending at `end_ms`, or
    a moment before. -1 is where nothing is known."""

    step_ms: Int64
    end_ms: Int64
    series: dict[str, list[float]]


class SettleOutcome(enum.Enum):
    """The outcome of an acknowledgement."""

    DONE = "done"
    STALE = "stale"  # settled before, or the message has gone to another delivery: nothing left to do
    EXPIRED = "expired"  # the claim ended first


Acknowledged = Callable[[list[SettleOutcome] | None, Exception | None], None]
"""Called with an outcome for each handle of an acknowledgement; or with the error for which nothing of it is sure."""


class PopOrder(Struct, frozen=True, array_like=True, kw_only=True):
    """What a consumer asks for: at most `batch` messages of the queues, claimed for `invisible_ms`.

    `first_queue` is looked at first, if it says so; with `by_priority` the queues are taken from the last to the first,
    or from the first to the last if the `lowest_first`; then nothing comes but of the `most_urgent` so many of them,
    unless that is 0. For a FIFO group: `attempt_id` names the call, and a repetition of
    it, empty for none; `message_group_batch` limits how many messages of one message group come together.

    Nothing is handed out while so many messages of the group, or of the topic, are in flight: of all brokers together
    as a proxy orders it, of one as that is asked.

    With a `lite_client`, of a lite group, nothing comes but of the lite topics that this client subscribes.
    """

    group: str
    topic: str
    queues: range
    filter: MessageFilter
    batch: UInt32
    invisible_ms: Int64
    first_queue: UInt32 | None = None
    attempt_id: str = ""
    message_group_batch: UInt32 = RECEIVE_BATCH_MAX
    by_priority: bool = False
    group_in_flight_max: Int64 | None = None
    topic_in_flight_max: Int64 | None = None
    lowest_first: bool = False
    most_urgent: UInt32 = 0
    lite_client: str = ""

    @property
    def wait_key(self) -> str:
        """Of which polls one is woken when something comes: those for the topic, or those of a client that reads lite
        topics of it. A topic's name has no line break."""
        return lite_wait_key(self.topic, self.lite_client) if self.lite_client else self.topic

    @property
    def by_urgency(self) -> "Sequence[int]":
        """All queues, by priority the first one first."""
        return self.queues if self.lowest_first else self.queues[::-1]


class LiteAction(enum.Enum):
    """What a client says of its subscriptions of lite topics: more of them, fewer, all of them, or none any more."""

    PARTIAL_ADD = "partial add"
    PARTIAL_REMOVE = "partial remove"
    COMPLETE_ADD = "complete add"
    COMPLETE_REMOVE = "complete remove"


class LiteOffset(enum.Enum):
    """Where a group is to be in a lite topic that a client of it adds: at its first message, behind its last, at an
    offset, so many messages before its end, or at the first message from a time on."""

    FIRST = "first"
    END = "end"
    OFFSET = "offset"
    TAIL = "tail"
    TIME = "time"


class LiteSync(Struct, frozen=True, array_like=True):
    """What a client of a lite group says of its subscriptions. `names` are lite topics of `topic`; `begin`, for those
    that are added, has a number with it: an offset, a count, or milliseconds since the epoch."""

    group: str
    topic: str
    client_id: str
    action: LiteAction
    names: Sequence[str] = ()
    begin: LiteOffset | None = None
    number: Int64 = 0


class DroppedLite(Struct, frozen=True, array_like=True):
    """A subscription that its client has no more though it did not say so: the lite topic is gone, or another client
    of an exclusive group has it."""

    group: str
    client_id: str
    name: str


def by_settled_topic(topic: str, deliveries: Sequence[Delivery]) -> dict[str, Sequence[Delivery]]:
    """What a receive of the topic brought, by the topic to settle it with: that of each lite topic's queue, or the
    topic itself."""
    if not deliveries or not is_lite_queue(deliveries[0].message.queue.topic):
        return {topic: deliveries} if deliveries else {}
    found: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.message.queue.topic, []).append(delivery)
    return {**found}


@dataclass(frozen=True, slots=True)
class QueueReaderId:
    """Who pulls: a member of a group. `lock_hold_ms` above 0: it wants the queue for itself (`Group`)."""

    group: str
    client_id: str
    lock_hold_ms: Int64 = 0


@dataclass(frozen=True, slots=True)
class PullingMember:
    """A member of a group that reads by offset, so that queues are shared out to it; without `topics` it reads any."""

    group: str
    client_id: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pulled:
    """Messages read by offset, and where to read on."""

    messages: list[StoredMessage]
    next_offset: Int64


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic is: the names of the brokers that have it, each with `topic.queues` queues.

    `readable` are those that consumers are sent to, `writable` those that take messages now. `ordered` are those among
    which message groups are shared out: also the ones that are away for a moment, as no message group must move then.
    """

    topic: Topic
    brokers: tuple[str, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    ordered: tuple[str, ...]

    @classmethod
    def to_one(cls, topic: Topic, broker: str) -> "Route":
        """The route of a topic that is on one broker, within what the topic permits."""
        one, none = (broker,), ()
        writable = one if topic.permission.can_write else none
        return cls(topic, one, one if topic.permission.can_read else none, writable, writable)
