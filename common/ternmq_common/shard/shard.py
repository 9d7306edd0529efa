"""The calls of one broker: `Shard`, implemented by `Broker` in its process and by `RemoteShard` from another one.

They are five protocols: sending, consuming, reading, inspecting, administering. `Storage` is the part that one broker
and all brokers of a proxy have in common, since the queue, the handle or the transaction names its broker. Errors are
`MessagingError`s; a call that raises has changed nothing, except where its answer may have been lost. Times are
milliseconds, waits are seconds. The annotations define the encoding (`calls.py`).
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from ternmq_common.catalog.cluster import UnfinishedWork
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.shard.model import (
    AppendedMessage,
    AppendOutcome,
    AppendRequests,
    DeliveredMessage,
    FigureHistory,
    HalfMessage,
    HistoryOf,
    LiteSync,
    MessageStatus,
    NewMessage,
    OpenTransaction,
    PopOrder,
    ProxyAnswer,
    PulledMessages,
    QueueBounds,
    QueueProgress,
    QueueReaderId,
    QueueRef,
    SettleOutcome,
    StoredMessage,
    TimedMessage,
    TimerPage,
    TopicContent,
    TopicSubscription,
    TransactionPage,
    TransactionResolution,
    TransactionState,
)
from ternmq_common.shard.ranges import Int64, Seconds, UInt32
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_common.shard.transaction_id import TransactionId

T = TypeVar("T")


class MessageSending(Protocol):
    """Storing messages, and deciding about those that are hidden."""

    def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> Awaitable[list[AppendedMessage]]:
        """Store the messages in order; returns when they may be acknowledged, by the broker's flush mode."""

    def schedule(self, queue: QueueRef, messages: Sequence[TimedMessage]) -> Awaitable[list[AppendedMessage]]:
        """Store messages that become visible in the queue at their times, at once if that has come.

        Returns as `append` does.
        """

    def recall(self, handle: RecallHandle) -> Awaitable[None]:
        """Recall a timed message, so that it never becomes visible; BAD_REQUEST when its time has come.

        An unknown handle, which may have been used before, is no error.
        """

    def begin_transaction(self, queue: QueueRef, half: HalfMessage) -> Awaitable[AppendedMessage]:
        """Store a half message, hidden until its transaction is committed; `transaction_id` names it.

        The queue is the one where the message will be. TOO_MANY_REQUESTS when too many transactions are open.
        """

    def end_transaction(
        self, topic: str, transaction: TransactionId, resolution: TransactionResolution, *, by_operator: bool = False
    ) -> Awaitable[None]:
        """Commit or roll back; returns when that may be acknowledged. A repetition is no error.

        INVALID_TRANSACTION_ID for a contradicting repetition, for an unknown transaction or one of another topic, and,
        for all but an operator, for a discarded one.
        """


class MessageConsuming(Protocol):
    """Settling received messages, and what consumers tell of themselves."""

    def acknowledge(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> Awaitable[list[SettleOutcome]]:
        """Finish messages; returns an outcome for each handle, in order."""

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: Int64, *, counts: bool
    ) -> Awaitable[ReceiptHandle]:
        """Hide a message for that long (0: show it at once); returns the handle that replaces the old one.

        INVALID_RECEIPT_HANDLE if the handle is not in force. With `counts` false the attempt so far is not counted.
        """

    def prolong(
        self, group: str, topic: str, handles: Sequence[ReceiptHandle], invisible_ms: Int64
    ) -> Awaitable[list[bool]]:
        """Hide messages for longer and keep their handles; False for each handle that is not in force."""

    def release(self, group: str, topic: str, handles: Sequence[ReceiptHandle], *, counts: bool) -> Awaitable[None]:
        """Show messages at once; their handles settle them until another consumer has them.

        With `counts` false the messages never reached their consumer.
        """

    def dead_letter(
        self, group: str, topic: str, handle: ReceiptHandle, *, attempts: Int64 = 0
    ) -> Awaitable[SettleOutcome]:
        """Copy the message to the group's dead letters, then finish it, even if the handle's time has passed.

        STALE when it is finished already; EXPIRED when another consumer has it, or will. `attempts` is how often its
        consumer reports to have tried, which may be more often than it was delivered.
        """

    def sync_lite(self, sync: LiteSync) -> Awaitable[None]:
        """Change the subscriptions of a client of a lite group.

        ILLEGAL_TOPIC if the group is not bound to that topic, LITE_SUBSCRIPTION_QUOTA_EXCEEDED for too many: nothing
        has changed. Subscriptions are forgotten in a restart, and after three minutes without a call.
        """

    def leave(self, group: str, client_id: str) -> Awaitable[None]:
        """Release the queue locks of a member that has left the group."""

    def lock_queues(
        self, broker: str, group: str, client_id: str, queues: Sequence[QueueRef]
    ) -> Awaitable[list[QueueRef]]:
        """Lock queues of that broker for a client that consumes them in order, for a minute from now; returns those
        that it has."""

    def unlock_queues(self, broker: str, group: str, client_id: str, queues: Sequence[QueueRef]) -> Awaitable[None]:
        """Release those of the queues that the client has locked."""

    def has_locks(self, broker: str, group: str) -> Awaitable[bool]:
        """Whether a client of the group has locked a queue of that broker."""

    def hold_way(self, broker: str, group: str, way: str, join: str) -> Awaitable[bool]:
        """Hold a way of consuming at that broker while a client joins the group, for ten seconds at most; False if
        another client is joining it in another way. `join` is an id of this join."""

    def release_way(self, broker: str, group: str, join: str) -> Awaitable[None]:
        """Note at that broker that the join has ended."""


class QueueReading(Protocol):
    """Reading queues by offset, and groups' offsets in them."""

    def pull(
        self,
        queue: QueueRef,
        offset: Int64,
        passing: MessageFilter,
        *,
        batch: UInt32,
        poll_s: Seconds,
        reader: QueueReaderId | None = None,
    ) -> Awaitable[PulledMessages]:
        """Read from `offset` on without a claim; waits at the end of the queue for a message that passes the filter."""

    def bounds(
        self, queue: QueueRef, *, reader: QueueReaderId | None = None, offset: Int64 = 0
    ) -> Awaitable[QueueBounds]:
        """Return the bounds of the queue. `reader` is a member that keeps its offsets itself, and is about to read from
        `offset` on: the answer has the new place if its group was moved."""

    def offset_at(self, queue: QueueRef, time_ms: Int64) -> Awaitable[int]:
        """The first offset stored at or after that time; the end of the queue if there is none."""

    def begin_pulling(self, group: str, queue: QueueRef) -> Awaitable[int | None]:
        """Return where a member of a group that keeps offsets continues, None if the group never read the queue.

        What the group has in flight there as one that receives is given up, and comes again.
        """

    def committed(self, group: str, queue: QueueRef) -> Awaitable[int | None]:
        """The offset below which the group has finished all messages; None if it never was in the queue."""

    def set_committed(
        self, group: str, queue: QueueRef, offset: Int64, *, reader: QueueReaderId | None = None
    ) -> Awaitable[None]:
        """Set the group's committed offset; claims under way in that queue end.

        FORBIDDEN if another member has the queue lock; without `reader` an operator sets it, and the lock ends.
        """


class StorageInspecting(Protocol):
    """Looking at what is stored, and at what waits."""

    def transactions(
        self, state: TransactionState, *, topic: str, start: str, limit: UInt32
    ) -> Awaitable[TransactionPage]:
        """List pending or discarded transactions, each broker's oldest first, of a topic or of all if it is empty.

        `start` is `following` of the page before, or empty; BAD_REQUEST for anything else.
        """

    def transaction(self, transaction: TransactionId) -> Awaitable[tuple[OpenTransaction, StoredMessage]]:
        """The outcome of a transaction, and its half message; INVALID_TRANSACTION_ID if there is none."""

    def progress(self, group: str, topics: Sequence[str] = ()) -> Awaitable[list[QueueProgress]]:
        """The group's progress in each queue that it has touched, and in each other one with messages.

        The first include its retry topic; the others are of topics that it has consumed of, that clients subscribe for
        it, or that are named here. A restarted broker does not know subscriptions that were not reported again
        (`subscribed`).
        """

    def find_by_key(self, topic: str, key: str, limit: UInt32) -> Awaitable[list[StoredMessage]]:
        """The newest messages of the topic with that key or message id."""

    def standings(self, queue: QueueRef, offset: Int64, message_id: str) -> Awaitable[list[MessageStatus]]:
        """The status of the message with that id in the queue for each group that is known to have the topic.

        Of the first 1,000 groups by name.
        """

    def content(self, topic: str) -> Awaitable[TopicContent]:
        """The contents of the topic's queues besides offsets, its groups, and rates of sends and deliveries."""

    def timers(self, *, topic: str, start: str, limit: UInt32) -> Awaitable[TimerPage]:
        """List timed messages that wait, each broker's in the order of their times, of a topic or of all if it is
        empty.

        `start` is `following` of the page before, or empty; BAD_REQUEST for anything else. A page may be empty
        although more follow.
        """

    def history(self, of: HistoryOf, name: str) -> Awaitable[FigureHistory]:
        """The figures of the last hours of the topic or group of that name, or of the broker."""

    def dead_letters(self, group: str, broker: str, offsets: Sequence[Int64]) -> Awaitable[dict[int, StoredMessage]]:
        """The group's dead letters on that broker, by offset; an empty name is fine where there is one broker."""

    def find_by_log_offset(self, broker: str, log_offset: Int64) -> Awaitable[StoredMessage | None]:
        """The message whose record begins at that offset of the broker's log; None if there is none in a queue."""

    def remaining(self, broker: str) -> Awaitable[UnfinishedWork]:
        """Return the work that would be lost with that broker."""

    def lite_clients(self, group: str, topic: str) -> Awaitable[list[str]]:
        """The ids of the lite group's clients that subscribe the lite topic whose queue has that topic."""


class StorageAdministering(Protocol):
    """Changing by an operator's call what is stored, or how far groups are."""

    def skip(self, group: str, queue: QueueRef, offset: Int64) -> Awaitable[None]:
        """Finish the message at that offset for any member; BAD_REQUEST if the group has not reached it yet."""

    def drop_retries(self, group: str, topic: str) -> Awaitable[None]:
        """Finish all messages of the topic that wait in the group's retry topic."""

    def purge(self, queue: QueueRef, below: Int64, *, retries: bool) -> Awaitable[None]:
        """Remove all messages of the queue below that offset, for good.

        Timed and half messages that still wait are in no queue, and stay. With `retries` all copies of the topic's
        messages that wait for redelivery to groups go too.
        """

    def retry(self, group: str, topic: str, messages: Sequence[NewMessage]) -> Awaitable[None]:
        """Deliver messages of the topic to this group only, with all their attempts; not for a FIFO group."""

    def forget_topic(self, topic: str, *, version: Int64) -> Awaitable[None]:
        """Remove all messages of a topic whose deletion gave the registry that version.

        A broker that can't be reached does so before it serves again.
        """

    def forget_group(self, group: str, *, version: Int64) -> Awaitable[None]:
        """Remove a deleted group, as `forget_topic`: its progress, its retries and its dead letters."""


class ShardConsuming(MessageConsuming, Protocol):
    """`MessageConsuming` of one broker."""

    def subscribed(self, subscriptions: Sequence[TopicSubscription]) -> Awaitable[None]:
        """Count the messages of these topics for these groups, also where they have never been.

        Forgotten in a restart.
        """


class ShardReading(QueueReading, Protocol):
    """`QueueReading` of one broker."""

    def wait_for_more(self, queue: QueueRef, offset: Int64, poll_s: Seconds) -> Awaitable[bool]:
        """Whether the queue has a message at that offset or behind it, or gets one within `poll_s` seconds."""


class RemoteSending(MessageSending, Protocol):
    """`MessageSending` of one broker in another process."""

    def append_each(self, requests: AppendRequests) -> Awaitable[list[AppendOutcome]]:
        """Do `append` for each of several requests, which share one call; returns the outcome of each."""


class RemoteConsuming(ShardConsuming, Protocol):
    """`ShardConsuming` of one broker in another process."""

    def pop(self, order: PopOrder, *, watch: bool) -> Awaitable[list[DeliveredMessage]]:
        """Claim the messages that are there for a consumer.

        With `watch` the proxy is notified once when there may be messages, if there are none or the broker can't say
        yet (HA_NOT_AVAILABLE).
        """

    def urgency(self, group: str, topic: str, queues: range, *, lowest_first: bool) -> Awaitable[int]:
        """How many queues of a PRIORITY topic come before the first one that may have messages for the group; all if
        none has."""


class RemoteInspecting(StorageInspecting, Protocol):
    """`StorageInspecting` of one broker in another process, and of what its proxies know."""

    def pulling_members(self, group: str, topic: str) -> Awaitable[list[str]]:
        """The client ids of the group's members that pull the topic, through all proxies."""

    def ask_proxies(self, question: str, argument: str) -> Awaitable[list[ProxyAnswer]]:
        """Ask all other proxies with a stream to the broker; see `shard_frames.PROXY_QUESTION`. Returns their answers,
        by name.

        Within a second, with None for those that have not answered by then.
        """


class Storage(Protocol):
    """The calls that one broker and all brokers together have in common, as five parts."""

    @property
    def sending(self) -> MessageSending: ...

    @property
    def consuming(self) -> MessageConsuming: ...

    @property
    def reading(self) -> QueueReading: ...

    @property
    def inspecting(self) -> StorageInspecting: ...

    @property
    def administering(self) -> StorageAdministering: ...


class Shard(Storage, Protocol):
    """The calls of one broker."""

    @property
    def consuming(self) -> ShardConsuming: ...

    @property
    def reading(self) -> ShardReading: ...


PROTOCOLS: tuple[type, ...] = (RemoteSending, RemoteConsuming, ShardReading, RemoteInspecting, StorageAdministering)
"""All calls that a proxy makes to a broker in another process; `RemoteShard` has a part for each."""
