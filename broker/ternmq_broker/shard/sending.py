"""The broker's sends: messages, timed messages, half messages. See `MessageSending`."""

from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import lite_parent
from ternmq_common.shard.model import AppendedMessage, QueueRef
from ternmq_runtime.observability.tracing import child_span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.sending.message_appender import MessageAppender
    from ternmq_broker.shard.admission import Admission
    from ternmq_broker.timers import TimerDelivery
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_broker.upkeep.disk_room import DiskErrors
    from ternmq_common.clock import SystemClock
    from ternmq_common.shard.model import (
        HalfMessage,
        NewMessage,
        Placed,
        Stored,
        TimedMessage,
        TransactionEnded,
        TransactionResolution,
    )
    from ternmq_common.shard.recall_handle import RecallHandle
    from ternmq_common.shard.transaction_id import TransactionId
    from ternmq_runtime.observability.name_counts import NameCounts

# Timers and half messages wait for replicas by the shard's replication mode, not by their topic's.
_WAITS_FOR_REPLICAS: Final = ""


class BrokerSending:
    """Stores messages, and decides about hidden ones."""

    def __init__(
        self,
        name: str,
        appending: "MessageAppender",
        timers: "TimerDelivery",
        transactions: "Transactions",
        admission: "Admission",
        writing: "DiskErrors",
        sent: "NameCounts",
        clock: "SystemClock",
    ) -> None:
        self._name = name
        self._appending = appending
        self._timers = timers
        self._transactions = transactions
        self._admission = admission
        self._writing = writing
        self._sent = sent
        self._clock = clock

    def append_nowait(self, queue: QueueRef, messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """Store the messages, in order; `done` is called when they may be acknowledged, or at once."""
        self._appending.append_nowait(queue, messages, done)

    def append_one_nowait(self, queue: QueueRef, message: "NewMessage", done: "Placed") -> None:
        """Store a message; `done` is called when it may be acknowledged, or at once."""

        def take_offset(first: int, error: Exception | None) -> None:
            if error is not None:
                done(None, error)
                return
            [log_offset] = self._appending.find_log_offsets(queue, first, 1)
            done(AppendedMessage(message.keys[0], first, broker=self._name, log_offset=log_offset), None)

        self._appending.append_nowait(queue, [message], take_offset)

    def find_log_offset(self, queue: QueueRef, offset: int) -> int:
        """Return the log offset of a message that was stored a moment ago, -1 if that would need a read."""
        [log_offset] = self._appending.find_log_offsets(queue, offset, 1)
        return log_offset

    async def append(self, queue: QueueRef, messages: "Sequence[NewMessage]") -> list[AppendedMessage]:
        """Store the messages, in order, and return when they may be acknowledged."""
        with child_span("append", lite_parent(queue.topic)):
            first = await self._appending.append(queue, messages)
        places = self._appending.find_log_offsets(queue, first, len(messages))
        # The first key is the id; the property `message_id` would be a call of plain Python.
        return [
            AppendedMessage(message.keys[0], first + number, broker=self._name, log_offset=places[number])
            for number, message in enumerate(messages)
        ]

    async def schedule(self, queue: QueueRef, messages: "Sequence[TimedMessage]") -> list[AppendedMessage]:
        """Store messages that become visible in the queue at their times; return when they may be acknowledged.

        HA_NOT_AVAILABLE while the clock can't be relied on.
        """
        self._admission.check_accepts(_WAITS_FOR_REPLICAS)
        if problem := self._clock.find_problem():
            raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"broker {self._name}: {problem}")
        with child_span("append", queue.topic), self._writing:
            appended = await self._timers.store_timers(queue.topic, queue.queue_id, messages)
        self._sent.add_count(queue.topic, len(messages))
        return [AppendedMessage(each.message_id, each.queue_offset, broker=self._name) for each in appended]

    async def recall(self, handle: "RecallHandle") -> None:
        """Take back a timed message; see `Timers.recall_message`."""
        self._admission.check_durable()
        with self._writing:
            await self._timers.recall_message(handle)

    async def begin_transaction(self, queue: QueueRef, half: "HalfMessage") -> AppendedMessage:
        """Store a half message; see `Transactions.begin_transaction`."""
        self._admission.check_accepts(_WAITS_FOR_REPLICAS)
        with child_span("append", queue.topic), self._writing:
            return await self._transactions.begin_transaction(queue.topic, queue.queue_id, half)

    def begin_transaction_nowait(self, queue: QueueRef, half: "HalfMessage", done: "Placed") -> bool:
        """Store a half message, and call `done` when it may be acknowledged. Return False, with nothing done, if that
        has to wait for a read."""
        self._admission.check_accepts(_WAITS_FOR_REPLICAS)
        return self._transactions.begin_transaction_nowait(queue.topic, queue.queue_id, half, done)

    def end_transaction_nowait(
        self, topic: str, transaction: "TransactionId", resolution: "TransactionResolution", done: "TransactionEnded"
    ) -> bool:
        """Commit or roll back, and call `done` when that may be acknowledged. Return False, with nothing done, if that
        has to wait for a read."""
        return self._transactions.end_transaction_nowait(topic, transaction, resolution, done)

    async def end_transaction(
        self,
        topic: str,
        transaction: "TransactionId",
        resolution: "TransactionResolution",
        *,
        by_operator: bool = False,
    ) -> None:
        """Commit or roll back; see `Transactions.end`."""
        with self._writing:
            await self._transactions.end_transaction(topic, transaction, resolution, by_operator=by_operator)
