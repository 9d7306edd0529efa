"""Values that pass between the layers: topics, groups, routes, and messages on their way in and out.

Proxy and broker exchange them as they are here (`shard/form.py`). Values that exist for each message or call are
Structs, which are created in a seventh of a dataclass's time. A Struct that is `array_like` travels as an array: a new
field goes to its end, and has a default. The fields of other Structs, and of dataclasses, travel with their names: a
new one has a default.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_common.names import is_lite_queue, lite_wait_key
from ternmq_common.resources.group_settings import GroupSettings
from ternmq_common.resources.topic_settings import TopicSettings
from ternmq_common.shard.ranges import Int64, UInt32
from ternmq_common.shard.receipt_handle import ReceiptHandle

MIXED = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(TopicSettings):
    """A topic as the registry has it; `type` is what its messages must be.

    `brokers` names those that have its queues, in a cluster; embedded it is empty, for the only one. `created_version`
    is the version of the registry's change that created the topic, 0 if that was before versions were noted: a broker
    that does not know yet what was deleted before accepts no messages of it. A `mixed` one is NORMAL, and accepts other
    types too. Its other fields are its settings.
    """

    name: str
    type: "MessageType"
    created_ms: int = 0
    brokers: tuple[str, ...] = ()
    created_version: int = 0
    mixed: bool = False

    @property
    def accepted_types(self) -> "tuple[MessageType, ...]":
        """The message types that it accepts; MIXED is the types that clients of every version know."""
        return MIXED if self.mixed else (self.type,)

    @property
    def type_name(self) -> str:
        """The name of its message type."""
        return "MIXED" if self.mixed else MessageType(self.type).name

    @property
    def keeps_order(self) -> bool:
        """Whether it may have messages that must stay in their queue."""
        return self.mixed or self.type in (MessageType.FIFO, MessageType.LITE)

    @property
    def identity(self) -> str:
        """Its identity, which differs from that of any other topic, also of an earlier or later one of its name.

        Its parts never change and are never used again: versions of the registry grow with each change and with the
        time.
        """
        return f"{self.created_ms:x}-{self.created_version:x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(GroupSettings):
    """A consumer group as the registry has it.

    `created_version` is the version of the registry's change that created the group, as `Topic.created_version`: a
    broker that does not know yet what was deleted before stores nothing of the group. `lite` has the settings of a lite
    group, None for every other one. Its other fields are its settings.
    """

    name: str
    created_ms: int = 0
    created_version: int = 0
    lite: LiteGroup | None = None


class QueueRef(Struct, frozen=True, array_like=True, gc=False):
    """One message queue of a topic on a broker."""

    topic: str
    broker: str
    queue_id: UInt32


class NewMessage(Struct, frozen=True, array_like=True, gc=False):
    """A checked message on its way into the store, already in stored form.

    `tag_hash` is that of its tag (`filters/`). `system` is the serialized `SystemProperties` without the fields that
    the server owns, `rest` the serialized `Message` without `topic` and `system_properties`. `keys` are what it can be
    found by: first its id, then its own keys.
    """

    tag_hash: UInt32
    system: bytes
    rest: bytes
    keys: tuple[str, ...]

    @property
    def message_id(self) -> str:
        return self.keys[0]


class AppendedMessage(Struct, frozen=True, array_like=True, gc=False):
    """The place of a stored message: a timed or half message by its log offset, others by their queue offset.

    `broker` is set where it may be another one than that of the requested queue. `log_offset` is -1 if the broker does
    not report it.
    """

    message_id: str
    queue_offset: Int64
    transaction_id: str = ""
    broker: str = ""
    log_offset: Int64 = -1


AppendRequests = Sequence[tuple[QueueRef, Sequence[NewMessage]]]
"""Requests to store messages, each in order in one queue, and each whole or not at all."""


class AppendOutcome(Struct, frozen=True, array_like=True, gc=False):
    """The outcome of one request: the queue offset of the first message, and where its record begins in the log; or a
    code that is not OK, and its text."""

    first: Int64
    code: UInt32
    text: str = ""
    log_offset: Int64 = -1


Stored = Callable[[int, Exception | None], None]
"""Called when a request's messages may be acknowledged, with the queue offset of the first; or with the error for which
they are not stored, or perhaps not."""


Placed = Callable[[AppendedMessage | None, Exception | None], None]
"""Called when a message may be acknowledged, with where it was stored; or with the error for which it is not stored, or
perhaps not."""


class TimedMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message that becomes visible in its queue at `due_ms`, milliseconds since the epoch."""

    message: NewMessage
    due_ms: Int64


class HalfMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message that waits for its producer's commit or rollback.

    `sender` is that client's id; `recovery_ms` is the time without transaction checks, None for the broker's default.
    """

    message: NewMessage
    sender: str
    recovery_ms: Int64 | None = None


class TransactionResolution(enum.Enum):
    """The decision of a producer, or an operator, about a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"


class TransactionState(enum.Enum):
    """The state of a transaction; DISCARDED after its last check, until an operator decides."""

    PENDING = "pending"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction as operators see it.

    `stored_ms` is when its half message was stored, None if that is not known any more; `checks` is how many checks it
    had, `next_check_ms` when the next one is due, None if there will be none.
    """

    transaction_id: str
    topic: str
    message_id: str
    state: TransactionState
    stored_ms: Int64 | None
    checks: UInt32 = 0
    next_check_ms: Int64 | None = None
    sender: str = ""


class StoredMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message as it was read back; `system` and `rest` as in `NewMessage`, `stored_ms` since the epoch.

    `log_offset` is where its record begins in the broker's commit log, -1 if the broker does not report it;
    `half_offset` where its half message begins, -1 if it is of no transaction.
    """

    queue: QueueRef
    queue_offset: Int64
    stored_ms: Int64
    system: bytes
    rest: bytes
    log_offset: Int64 = -1
    half_offset: Int64 = -1


class DeliveredMessage(Struct, frozen=True, array_like=True, gc=False):
    """One delivery of a message to one consumer of a group; `attempt` counts from 1."""

    message: StoredMessage
    handle: ReceiptHandle
    attempt: UInt32


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReader:
    """The member of a group that pulls from a queue, since when, and when it did last; milliseconds since the epoch."""

    client_id: str
    since_ms: Int64
    pulled_ms: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The member of a group that has locked a queue, since when, and until when if it asks for it no more."""

    client_id: str
    since_ms: Int64
    until_ms: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far a group is in one queue; the terms are those of `ternmq.admin.v1.Progress`.

    In a queue that is new to it, `committed` and `cursor` are where it would begin now. `oldest_ms` is when the first
    message that is not finished was stored, None when all are. `lost` messages are those that retention or a purge
    removed before the group had read them. `reader` and `lock` are None where no member keeps offsets itself.
    """

    queue: QueueRef
    committed: Int64
    cursor: Int64
    in_flight: Int64
    max_offset: Int64
    oldest_ms: Int64 | None = None
    lost: Int64 = 0
    reader: QueueReader | None = None
    lock: LockHolder | None = None


class TopicSubscription(Struct, frozen=True, array_like=True, gc=False):
    """A group, one of whose clients subscribes that topic."""

    group: str
    topic: str


class HeldTopic(NamedTuple):
    """A topic in a store: the queues up to the last used one, and the remaining messages."""

    queues: int
    messages: int


class QueueBounds(Struct, frozen=True, eq=False):
    """The bounds of a queue: offsets from `minimum` up to, not including, `maximum`.

    `purged_below` is where the last purge by an operator had it begin, 0 if there was none; None: the broker does not
    report it. `moved_to` is where the calling reader must continue, since its group was moved; None: where it is. Equal
    are those with equal offsets.
    """

    minimum: Int64
    maximum: Int64
    purged_below: Int64 | None = None
    moved_to: Int64 | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueBounds):
            return NotImplemented
        return self.minimum == other.minimum and self.maximum == other.maximum

    def __hash__(self) -> int:
        return hash((self.minimum, self.maximum))


RETRY_QUEUE_ID: Final = 0xFFFF
"""The id of the group's retry queue, which is in a topic of its own, in receipt handles and progress of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedTransaction:
    """A half message for a transaction check at a producer, its `sender` if possible; with `sender_only` at no
    other."""

    transaction_id: str
    topic: str
    sender: str
    message: StoredMessage
    sender_only: bool = False


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """A page of transactions, and where the next page begins, empty at the end."""

    transactions: list[OpenTransaction]
    following: str


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """The answer of one process of a proxy to a question of another.

    `data` is None if none came in time, or it does not know the question. `proxy` is its name at the brokers.
    """

    proxy: str
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTimer:
    """A timed message that is not due yet.

    It has the queue where it will be, its system properties (`NewMessage`), and the size of its record in bytes.
    """

    queue: QueueRef
    due_ms: Int64
    stored_ms: Int64
    system: bytes
    size: UInt32


@dataclass(frozen=True, slots=True)
class TimerPage:
    """A page of timed messages, and where the next page begins, empty at the end."""

    timers: list[WaitingTimer]
    following: str


class MessageState(enum.Enum):
    """The state of a message in a consumer group."""

    AHEAD = "ahead"  # the group has not reached it, or it waits behind one of its message group
    HELD = "held"  # a consumer has it
    AGAIN = "again"  # it was delivered, and waits for another delivery
    FINISHED = "finished"  # acknowledged, filtered out or skipped
    DEAD = "dead"  # it is among the group's dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """The status of one message in one consumer group.

    `attempts` counts its deliveries, 0 for a finished message, whose number is not kept. `until_ms` is when the claim
    of its consumer ends, 0 without one; `dead_offset` is the offset of the dead letter, -1 without one.
    """

    group: str
    state: MessageState
    attempts: UInt32 = 0
    until_ms: Int64 = 0
    dead_offset: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueContent:
    """The contents of a queue: about how many bytes of the log, and when the first message was stored, None without
    one."""

    queue: QueueRef
    bytes: Int64
    oldest_ms: Int64 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicContent:
    """Figures of a topic besides its offsets.

    The groups that have consumed of it or subscribe it, messages per second of late, and the number of its lite
    topics, with the number of messages in them.
    """

    queues: list[QueueContent]
    groups: list[str]
    sent_per_s: float
    delivered_per_s: float
    lite_topics: Int64 = 0
    lite_messages: Int64 = 0


class HistoryOf(enum.Enum):
    """Whose figures are recorded."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureHistory:
    """Figures over the last hours, by name: a value for each `step_ms`, the last one ending at `end_ms`, or just
    before.

    -1 means an unknown value.
    """

    step_ms: Int64
    end_ms: Int64
    series: dict[str, list[float]]


class SettleOutcome(enum.Enum):
    """The outcome of an acknowledgement."""

    DONE = "done"
    STALE = "stale"  # settled before, or the message has gone to another delivery: nothing left to do
    EXPIRED = "expired"  # the claim ended first


TransactionEnded = Callable[[Exception | None], None]
"""Called when the end of a transaction may be acknowledged; or with the error for which nothing of it is sure."""

Acknowledged = Callable[[list[SettleOutcome] | None, Exception | None], None]
"""Called with an outcome for each handle of an acknowledgement; or with the error for which nothing of it is sure."""


class PopOrder(Struct, frozen=True, array_like=True, kw_only=True):
    """The request of a consumer: at most `batch` messages of the queues, claimed for `invisible_ms`.

    `first_queue` comes first, if it is set; with `by_priority` the queues go from the last to the first, or from the
    first to the last with `lowest_first`; then only the `most_urgent` so many of them are read, unless that is 0. For
    a FIFO group: `attempt_id` names the call and its repetitions, empty for none; `message_group_batch` limits how
    many messages of one message group come together.

    Nothing is delivered while so many messages of the group, or of the topic, are in flight: of all brokers together
    in an order to a proxy, of one in an order to that.

    With a `lite_client`, of a lite group, only the lite topics that this client subscribes are read.
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
        """The key of polls of which one is woken when messages come: those for the topic, or those of one lite client.

        A topic's name has no line break.
        """
        return lite_wait_key(self.topic, self.lite_client) if self.lite_client else self.topic

    @property
    def by_urgency(self) -> "Sequence[int]":
        """All queues, the most urgent one first."""
        return self.queues if self.lowest_first else self.queues[::-1]


class LiteAction(enum.Enum):
    """How a client changes its subscriptions of lite topics: adds some, removes some, replaces all, or removes all."""

    PARTIAL_ADD = "partial add"
    PARTIAL_REMOVE = "partial remove"
    COMPLETE_ADD = "complete add"
    COMPLETE_REMOVE = "complete remove"


class LiteOffset(enum.Enum):
    """The start of a group in a lite topic that one of its clients adds.

    At its first message, behind its last, at an offset, so many messages before its end, or at the first message from
    a time on.
    """

    FIRST = "first"
    END = "end"
    OFFSET = "offset"
    TAIL = "tail"
    TIME = "time"


class LiteSync(Struct, frozen=True, array_like=True):
    """A change of a lite client's subscriptions.

    `names` are lite topics of `topic`; `begin`, for those that are added, goes with a number: an offset, a count, or
    milliseconds since the epoch.
    """

    group: str
    topic: str
    client_id: str
    action: LiteAction
    names: Sequence[str] = ()
    begin: LiteOffset | None = None
    number: Int64 = 0


class DroppedLite(Struct, frozen=True, array_like=True):
    """A subscription that its client lost: the lite topic is gone, or another client of an exclusive group has it."""

    group: str
    client_id: str
    name: str


def group_by_settled_topic(topic: str, deliveries: Sequence[DeliveredMessage]) -> dict[str, Sequence[DeliveredMessage]]:
    """Group the deliveries of a receive by the topic to settle them with: a lite topic's queue topic, or the topic."""
    if not deliveries or not is_lite_queue(deliveries[0].message.queue.topic):
        return {topic: deliveries} if deliveries else {}
    found: dict[str, list[DeliveredMessage]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.message.queue.topic, []).append(delivery)
    return {**found}


class QueueReaderId(Struct, frozen=True):
    """A member of a group that pulls. `lock_hold_ms` above 0: it locks the queue (`ConsumerGroup`)."""

    group: str
    client_id: str
    lock_hold_ms: Int64 = 0


MEMBERS_CHANGED = "remoting-members-changed"
"""The question by which proxies learn that members of a group changed. Its argument is the group's name, and optionally
a line break and the group's subscriptions."""


@dataclass(frozen=True, slots=True)
class PullingMember:
    """A member of a group that reads by offset, so that it gets a share of queues; without `topics` it reads any."""

    group: str
    client_id: str
    topics: tuple[str, ...] = ()


class PulledMessages(Struct, frozen=True):
    """Messages read by offset, and the offset to read on from."""

    messages: list[StoredMessage]
    next_offset: Int64


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic: the names of the brokers that have it, each with `topic.queues` queues.

    `readable` are those that consumers are sent to, `writable` those that accept messages now. Message groups are
    spread over `ordered`, which also has brokers that are away for a moment: no message group must move then.
    """

    topic: Topic
    brokers: tuple[str, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    ordered: tuple[str, ...]

    @classmethod
    def to_one_broker(cls, topic: Topic, broker: str) -> "TopicRoute":
        """The route of a topic that is on one broker, within what the topic permits."""
        one, none = (broker,), ()
        writable = one if topic.permission.can_write else none
        return cls(topic, one, one if topic.permission.can_read else none, writable, writable)
