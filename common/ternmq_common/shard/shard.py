"""What one broker does: `Shard`, as a `Broker` does it in its process and a remote one over a link.

`Storage` is the part that all brokers of a proxy together do by the same words, since the queue, the handle or the
transaction names its broker. Errors are `MessagingError`s; a call that raises has changed nothing, except where a lost
answer is said to be possible. Times are milliseconds, waits are seconds. The annotations are what travels (`calls.py`).
"""

from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ternmq_common.cluster import UnfinishedWork
from ternmq_common.message_filter import MessageFilter
from ternmq_common.model import (
    Appended,
    AppendOutcome,
    AppendRequests,
    Delivery,
    HalfMessage,
    History,
    HistoryOf,
    LiteSync,
    MessageStatus,
    NewMessage,
    OpenTransaction,
    PopOrder,
    ProxyAnswer,
    Pulled,
    QueueBounds,
    QueueProgress,
    QueueReaderId,
    QueueRef,
    Resolution,
    SettleOutcome,
    StoredMessage,
    Subscription,
    TimedMessage,
    TimerPage,
    TopicContent,
    TransactionPage,
    TransactionState,
)
from ternmq_common.ranges import Int64, Seconds, UInt32
from ternmq_common.recall_handle import RecallHandle
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_common.transaction_id import TransactionId

T = TypeVar("T")


class Done(Generic[T]):
    """A result that is there: awaiting it waits for nothing, and a call over a link is answered without a task."""

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, None, T]:
        return self.result
        yield


DONE = Done(None)


class Storage(Protocol):
    """What is the same of one broker and of all."""

    def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> Awaitable[list[Appended]]:
        """Store the messages in order and return when that may be acknowledged, by the broker's flush mode."""

    def schedule(self, queue: QueueRef, messages: Sequence[TimedMessage]) -> Awaitable[list[Appended]]:
        """Store messages that are to be in the queue at their times; returns as `append` does. One whose time has come
        is there at once."""

    def recall(self, handle: RecallHandle) -> Awaitable[None]:
        """Take back a timed message, so that it never appears; BAD_REQUEST when its time has come. A handle of which
        nothing is known, which may have been used before, is fine."""

    def begin_transaction(self, queue: QueueRef, half: HalfMessage) -> Awaitable[Appended]:
        """Store a half message, which nobody sees before its transaction is committed; `transaction_id` names it. The
        queue is the one where it will be then. TOO_MANY_REQUESTS when too many transactions are open."""

    def end_transaction(
        self, topic: str, transaction: TransactionId, resolution: Resolution, *, by_operator: bool = False
    ) -> Awaitable[None]:
        """Publish the half message, or drop it; returns when that may be acknowledged. The same end again is fine;
        INVALID_TRANSACTION_ID for one that contradicts, for an unknown transaction or one of another topic, and, for
        all but an operator, for a discarded one."""

    def transactions(
        self, state: TransactionState, *, topic: str, start: str, limit: UInt32
    ) -> Awaitable[TransactionPage]:
        """Pending or discarded transactions, each broker's oldest first, of that topic or, if it is empty, of all.
        `start` is what `following` of the page before was, or empty; BAD_REQUEST if it is anything else."""

    def transaction(self, transaction: TransactionId) -> Awaitable[tuple[OpenTransaction, StoredMessage]]:
        """The outcome of a transaction, and its half message; INVALID_TRANSACTION_ID if there is none."""

    def acknowledge(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> Awaitable[list[SettleOutcome]]:
        """Finish messages; an outcome for each handle, in order."""

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: Int64, *, counts: bool
    ) -> Awaitable[ReceiptHandle]:
        """Hide a message until then (0: show it at once) and replace its handle; INVALID_RECEIPT_HANDLE if the handle
        is not in force. With `counts` false the attempt so far is not counted."""

    def prolong(
        self, group: str, topic: str, handles: Sequence[ReceiptHandle], invisible_ms: Int64
    ) -> Awaitable[list[bool]]:
        """Hide messages for longer and keep their handles; False for each handle that is not in force."""

    def release(self, group: str, topic: str, handles: Sequence[ReceiptHandle], *, counts: bool) -> Awaitable[None]:
        """Show messages at once; their handles settle them until another consumer has them. With `counts` false the
        messages never reached their consumer."""

    def sync_lite(self, sync: LiteSync) -> Awaitable[None]:
        """A client of a lite group says what it subscribes. ILLEGAL_TOPIC if the group is none of that topic,
        LITE_SUBSCRIPTION_QUOTA_EXCEEDED for too much: nothing has changed. Forgotten in a restart, and by three minutes
        without a word."""

    def lite_clients(self, group: str, topic: str) -> Awaitable[list[str]]:
        """The ids of the lite group's clients that subscribe the lite topic whose queue has that topic."""

    def dead_letter(
        self, group: str, topic: str, handle: ReceiptHandle, *, attempts: Int64 = 0
    ) -> Awaitable[SettleOutcome]:
        """Put a copy among the group's dead letters, then finish the message, even if the handle's time has passed.
        STALE when it is finished already; EXPIRED when another consumer has it, or will. `attempts` is how often its
        consumer says to have tried, which may be more often than it was delivered."""

    def pull(
        self,
        queue: QueueRef,
        offset: Int64,
        passing: MessageFilter,
        *,
        batch: UInt32,
        poll_s: Seconds,
        reader: QueueReaderId | None = None,
    ) -> Awaitable[Pulled]:
        """Read from `offset` on without a claim; waits at the end of the queue for something to pass the filter."""

    def bounds(self, queue: QueueRef) -> Awaitable[QueueBounds]:
        """The offsets that the queue holds."""

    def offset_at(self, queue: QueueRef, time_ms: Int64) -> Awaitable[int]:
        """The first offset stored at or after that time; the end of the queue if there is none."""

    def committed(self, group: str, queue: QueueRef) -> Awaitable[int | None]:
        """Below which offset the group has finished everything; None if it never was in the queue."""

    def set_committed(
        self, group: str, queue: QueueRef, offset: Int64, *, reader: QueueReaderId | None = None
    ) -> Awaitable[None]:
        """Let the group go on there; claims under way in that queue end. FORBIDDEN if another member has the queue for
        itself; without `reader` an operator says so, and nobody has it any more."""

    def skip(self, group: str, queue: QueueRef, offset: Int64) -> Awaitable[None]:
        """Finish the message at that offset, whoever has it; BAD_REQUEST if the group has not come there yet."""

    def leave(self, group: str, client_id: str) -> Awaitable[None]:
        """A member of the group is gone: the queues that it had for itself are free."""

    def drop_retries(self, group: str, topic: str) -> Awaitable[None]:
        """Finish all messages of the topic that wait in the group's retry topic."""

    def purge(self, queue: QueueRef, below: Int64, *, retries: bool) -> Awaitable[None]:
        """Have the queue hold nothing below that offset, for good. What waits for its time or for the end of its
        transaction is in no queue, and stays. With `retries` all goes that groups keep of the topic for another
        delivery."""

    def progress(self, group: str, topics: Sequence[str] = ()) -> Awaitable[list[QueueProgress]]:
        """How far the group is in every queue that it has touched, its retry topic's included, and in every other one
        with messages: of topics of which it has taken some, that clients subscribe in its name, or that are named here.
        After a restart of a broker nothing is known of subscriptions that are not told again (`subscribed`)."""

    def find_by_key(self, topic: str, key: str, limit: UInt32) -> Awaitable[list[StoredMessage]]:
        """The newest messages of the topic with that key or message id."""

    def retry(self, group: str, topic: str, messages: Sequence[NewMessage]) -> Awaitable[None]:
        """Deliver messages of the topic to that group alone, with all their attempts; not for a FIFO group."""

    def standings(self, queue: QueueRef, offset: Int64, message_id: str) -> Awaitable[list[MessageStatus]]:
        """How the message of that id, which is there in the queue, stands with each group that is known to have the
        topic; with the first 1,000 by name."""

    def content(self, topic: str) -> Awaitable[TopicContent]:
        """What the queues of the topic hold besides offsets, who has it, and how fast it comes and goes."""

    def timers(self, *, topic: str, start: str, limit: UInt32) -> Awaitable[TimerPage]:
        """Timed messages that wait, each broker's in the order of their times, of that topic or, if it is empty, of
        all. `start` is what `following` of the page before was, or empty; BAD_REQUEST if it is anything else. A page
        may be empty although more follow."""

    def history(self, of: HistoryOf, name: str) -> Awaitable[History]:
        """The figures of the last hours of the topic or group of that name, or of the broker."""

    def dead_letters(self, group: str, broker: str, offsets: Sequence[Int64]) -> Awaitable[dict[int, StoredMessage]]:
        """Those of the group's dead letters that are on that broker, by their offsets; an empty name is fine where
        there is one broker."""

    def remaining(self, broker: str) -> Awaitable[UnfinishedWork]:
        """What would be lost with that broker."""

    def forget_topic(self, topic: str, *, version: Int64) -> Awaitable[None]:
        """The topic was deleted, which gave the registry that version: none of its messages is found any more. A broker
        that can't be reached does so before it comes back."""

    def forget_group(self, group: str, *, version: Int64) -> Awaitable[None]:
        """The group was deleted, as `forget_topic`: drop its progress, its retries and its dead letters."""


class Shard(Storage, Protocol):
    """One broker."""

    def subscribed(self, subscriptions: Sequence[Subscription]) -> Awaitable[None]:
        """Count what waits in these topics for these groups, also where they have never been. Forgotten in a
        restart."""

    def wait_for_more(self, queue: QueueRef, offset: Int64, poll_s: Seconds) -> Awaitable[bool]:
        """Whether there is something to pull at that offset or behind it, or comes within `poll_s` seconds."""


class RemoteShard(Shard, Protocol):
    """One broker in another process, as a proxy has it."""

    def append_each(self, requests: AppendRequests) -> Awaitable[list[AppendOutcome]]:
        """As `append` for each of several requests, which share one call; the outcome of each."""

    def pop(self, order: PopOrder, *, watch: bool) -> Awaitable[list[Delivery]]:
        """Claim what is there for a consumer. With `watch` the proxy is notified once, if that is nothing or the broker
        can't say yet what it has (HA_NOT_AVAILABLE), when there may be something."""

    def urgency(self, group: str, topic: str, queues: range, *, lowest_first: bool) -> Awaitable[int]:
        """How many queues of a PRIORITY topic come before the first one that may have something for the group; all of
        them if none has."""

    def pulling_members(self, group: str, topic: str) -> Awaitable[list[str]]:
        """The client ids of the group's members that pull the topic, through whichever proxy."""

    def ask_proxies(self, question: str, argument: str) -> Awaitable[list[ProxyAnswer]]:
        """What each other proxy says that has a stream to the broker, by their names; see `form.TELL`. It comes within
        a second, with None for those who have not answered by then."""
