"""A shard in another process: each method makes one remote call.

The classes `...Calls` have the calls that `Storage` has; `ask` chooses the broker. `RemoteShard` is one broker.
"""

from collections.abc import Awaitable, Sequence

from ternmq_common.catalog.cluster import UnfinishedWork
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.shard.calls import CALLS, Ask
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


class SendingCalls:
    """`MessageSending` by remote calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> Awaitable[list[AppendedMessage]]:
        return self._ask(CALLS["append"], (queue, messages))

    def schedule(self, queue: QueueRef, messages: Sequence[TimedMessage]) -> Awaitable[list[AppendedMessage]]:
        return self._ask(CALLS["schedule"], (queue, messages))

    def recall(self, handle: RecallHandle) -> Awaitable[None]:
        return self._ask(CALLS["recall"], (handle,))

    def begin_transaction(self, queue: QueueRef, half: HalfMessage) -> Awaitable[AppendedMessage]:
        return self._ask(CALLS["begin_transaction"], (queue, half))

    def end_transaction(
        self, topic: str, transaction: TransactionId, resolution: TransactionResolution, *, by_operator: bool = False
    ) -> Awaitable[None]:
        return self._ask(CALLS["end_transaction"], (topic, transaction, resolution, by_operator))


class ConsumingCalls:
    """`MessageConsuming` by remote calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def acknowledge(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> Awaitable[list[SettleOutcome]]:
        return self._ask(CALLS["acknowledge"], (group, topic, handles))

    def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: Int64, *, counts: bool
    ) -> Awaitable[ReceiptHandle]:
        return self._ask(CALLS["change_invisible"], (group, topic, handle, invisible_ms, counts))

    def prolong(
        self, group: str, topic: str, handles: Sequence[ReceiptHandle], invisible_ms: Int64
    ) -> Awaitable[list[bool]]:
        return self._ask(CALLS["prolong"], (group, topic, handles, invisible_ms))

    def release(self, group: str, topic: str, handles: Sequence[ReceiptHandle], *, counts: bool) -> Awaitable[None]:
        return self._ask(CALLS["release"], (group, topic, handles, counts))

    def dead_letter(
        self, group: str, topic: str, handle: ReceiptHandle, *, attempts: Int64 = 0
    ) -> Awaitable[SettleOutcome]:
        return self._ask(CALLS["dead_letter"], (group, topic, handle, attempts))

    def sync_lite(self, sync: LiteSync) -> Awaitable[None]:
        return self._ask(CALLS["sync_lite"], (sync,))

    def leave(self, group: str, client_id: str) -> Awaitable[None]:
        return self._ask(CALLS["leave"], (group, client_id))

    def lock_queues(
        self, broker: str, group: str, client_id: str, queues: Sequence[QueueRef]
    ) -> Awaitable[list[QueueRef]]:
        return self._ask(CALLS["lock_queues"], (broker, group, client_id, queues))

    def unlock_queues(self, broker: str, group: str, client_id: str, queues: Sequence[QueueRef]) -> Awaitable[None]:
        return self._ask(CALLS["unlock_queues"], (broker, group, client_id, queues))

    def has_locks(self, broker: str, group: str) -> Awaitable[bool]:
        return self._ask(CALLS["has_locks"], (broker, group))

    def hold_way(self, broker: str, group: str, way: str, join: str) -> Awaitable[bool]:
        return self._ask(CALLS["hold_way"], (broker, group, way, join))

    def release_way(self, broker: str, group: str, join: str) -> Awaitable[None]:
        return self._ask(CALLS["release_way"], (broker, group, join))


class ReadingCalls:
    """`QueueReading` by remote calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

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
        return self._ask(CALLS["pull"], (queue, offset, passing, batch, poll_s, reader))

    def bounds(
        self, queue: QueueRef, *, reader: QueueReaderId | None = None, offset: Int64 = 0
    ) -> Awaitable[QueueBounds]:
        return self._ask(CALLS["bounds"], (queue, reader, offset))

    def offset_at(self, queue: QueueRef, time_ms: Int64) -> Awaitable[int]:
        return self._ask(CALLS["offset_at"], (queue, time_ms))

    def begin_pulling(self, group: str, queue: QueueRef) -> Awaitable[int | None]:
        return self._ask(CALLS["begin_pulling"], (group, queue))

    def committed(self, group: str, queue: QueueRef) -> Awaitable[int | None]:
        return self._ask(CALLS["committed"], (group, queue))

    def set_committed(
        self, group: str, queue: QueueRef, offset: Int64, *, reader: QueueReaderId | None = None
    ) -> Awaitable[None]:
        return self._ask(CALLS["set_committed"], (group, queue, offset, reader))


class InspectingCalls:
    """`StorageInspecting` by remote calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def transactions(
        self, state: TransactionState, *, topic: str, start: str, limit: UInt32
    ) -> Awaitable[TransactionPage]:
        return self._ask(CALLS["transactions"], (state, topic, start, limit))

    def transaction(self, transaction: TransactionId) -> Awaitable[tuple[OpenTransaction, StoredMessage]]:
        return self._ask(CALLS["transaction"], (transaction,))

    def progress(self, group: str, topics: Sequence[str] = ()) -> Awaitable[list[QueueProgress]]:
        return self._ask(CALLS["progress"], (group, topics))

    def find_by_key(self, topic: str, key: str, limit: UInt32) -> Awaitable[list[StoredMessage]]:
        return self._ask(CALLS["find_by_key"], (topic, key, limit))

    def standings(self, queue: QueueRef, offset: Int64, message_id: str) -> Awaitable[list[MessageStatus]]:
        return self._ask(CALLS["standings"], (queue, offset, message_id))

    def content(self, topic: str) -> Awaitable[TopicContent]:
        return self._ask(CALLS["content"], (topic,))

    def timers(self, *, topic: str, start: str, limit: UInt32) -> Awaitable[TimerPage]:
        return self._ask(CALLS["timers"], (topic, start, limit))

    def history(self, of: HistoryOf, name: str) -> Awaitable[FigureHistory]:
        return self._ask(CALLS["history"], (of, name))

    def dead_letters(self, group: str, broker: str, offsets: Sequence[Int64]) -> Awaitable[dict[int, StoredMessage]]:
        return self._ask(CALLS["dead_letters"], (group, broker, offsets))

    def find_by_log_offset(self, broker: str, log_offset: Int64) -> Awaitable[StoredMessage | None]:
        return self._ask(CALLS["find_by_log_offset"], (broker, log_offset))

    def remaining(self, broker: str) -> Awaitable[UnfinishedWork]:
        return self._ask(CALLS["remaining"], (broker,))

    def lite_clients(self, group: str, topic: str) -> Awaitable[list[str]]:
        return self._ask(CALLS["lite_clients"], (group, topic))


class AdministeringCalls:
    """`StorageAdministering` by remote calls."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def skip(self, group: str, queue: QueueRef, offset: Int64) -> Awaitable[None]:
        return self._ask(CALLS["skip"], (group, queue, offset))

    def drop_retries(self, group: str, topic: str) -> Awaitable[None]:
        return self._ask(CALLS["drop_retries"], (group, topic))

    def purge(self, queue: QueueRef, below: Int64, *, retries: bool) -> Awaitable[None]:
        return self._ask(CALLS["purge"], (queue, below, retries))

    def retry(self, group: str, topic: str, messages: Sequence[NewMessage]) -> Awaitable[None]:
        return self._ask(CALLS["retry"], (group, topic, messages))

    def forget_topic(self, topic: str, *, version: Int64) -> Awaitable[None]:
        return self._ask(CALLS["forget_topic"], (topic, version))

    def forget_group(self, group: str, *, version: Int64) -> Awaitable[None]:
        return self._ask(CALLS["forget_group"], (group, version))


class SendingRemotely(SendingCalls):
    """`RemoteSending` by remote calls."""

    def append_each(self, requests: AppendRequests) -> Awaitable[list[AppendOutcome]]:
        return self._ask(CALLS["append_each"], (requests,))


class ConsumingRemotely(ConsumingCalls):
    """`RemoteConsuming` by remote calls."""

    def pop(self, order: PopOrder, *, watch: bool) -> Awaitable[list[DeliveredMessage]]:
        return self._ask(CALLS["pop"], (order, watch))

    def urgency(self, group: str, topic: str, queues: range, *, lowest_first: bool) -> Awaitable[int]:
        return self._ask(CALLS["urgency"], (group, topic, queues, lowest_first))

    def subscribed(self, subscriptions: Sequence[TopicSubscription]) -> Awaitable[None]:
        return self._ask(CALLS["subscribed"], (subscriptions,))


class ReadingRemotely(ReadingCalls):
    """`ShardReading` by remote calls."""

    def wait_for_more(self, queue: QueueRef, offset: Int64, poll_s: Seconds) -> Awaitable[bool]:
        return self._ask(CALLS["wait_for_more"], (queue, offset, poll_s))


class InspectingRemotely(InspectingCalls):
    """`RemoteInspecting` by remote calls."""

    def pulling_members(self, group: str, topic: str) -> Awaitable[list[str]]:
        return self._ask(CALLS["pulling_members"], (group, topic))

    def ask_proxies(self, question: str, argument: str) -> Awaitable[list[ProxyAnswer]]:
        return self._ask(CALLS["ask_proxies"], (question, argument))


class RemoteShard:
    """One broker in another process: a `Shard`, and the calls that only a proxy makes."""

    def __init__(self, ask: Ask) -> None:
        self.sending = SendingRemotely(ask)
        self.consuming = ConsumingRemotely(ask)
        self.reading = ReadingRemotely(ask)
        self.inspecting = InspectingRemotely(ask)
        self.administering = AdministeringCalls(ask)
