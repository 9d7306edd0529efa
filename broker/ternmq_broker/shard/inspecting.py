"""Reports about stored and waiting messages. See `StorageInspecting`."""

from typing import TYPE_CHECKING

from ternmq_common.event_loop.done_result import DoneResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.inspecting.broker_history import BrokerHistory
    from ternmq_broker.inspecting.message_statuses import MessageStatuses
    from ternmq_broker.inspecting.queries import BrokerQueries
    from ternmq_broker.inspecting.timer_pages import TimerPages
    from ternmq_broker.inspecting.topic_contents import TopicContents
    from ternmq_broker.lite_topics import LiteTopics
    from ternmq_broker.store.index.log_index import LogIndex
    from ternmq_broker.transactions.transaction_queries import TransactionQueries
    from ternmq_common.catalog.cluster import UnfinishedWork
    from ternmq_common.shard.model import (
        FigureHistory,
        HeldTopic,
        HistoryOf,
        MessageStatus,
        OpenTransaction,
        QueueProgress,
        QueueRef,
        StoredMessage,
        TimerPage,
        TopicContent,
        TransactionPage,
        TransactionState,
    )
    from ternmq_common.shard.transaction_id import TransactionId


class BrokerInspecting:
    """Answers operators' questions; each answer comes from its own object."""

    def __init__(
        self,
        queues: "LogIndex",
        transactions: "TransactionQueries",
        queries: "BrokerQueries",
        statuses: "MessageStatuses",
        contents: "TopicContents",
        timers: "TimerPages",
        history: "BrokerHistory",
        lite: "LiteTopics",
    ) -> None:
        self._queues = queues
        self._transactions = transactions
        self._queries = queries
        self._statuses = statuses
        self._contents = contents
        self._timers = timers
        self._history = history
        self._lite = lite

    async def transactions(self, state: "TransactionState", *, topic: str, start: str, limit: int) -> "TransactionPage":
        """A page of pending or discarded transactions."""
        return await self._transactions.list_page(state, topic=topic, start=start, limit=limit)

    async def transaction(self, transaction: "TransactionId") -> "tuple[OpenTransaction, StoredMessage]":
        """The outcome of a transaction, and its half message."""
        return await self._transactions.describe_transaction(transaction)

    async def progress(self, group: str, topics: "Sequence[str]" = ()) -> "list[QueueProgress]":
        """The group's progress in each queue."""
        return await self._queries.query_progress(group, topics)

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """The newest messages of the topic with that key or message id."""
        return await self._queries.find_by_key(topic, key, limit)

    async def standings(self, queue: "QueueRef", offset: int, message_id: str) -> "list[MessageStatus]":
        """The status of a message for each group."""
        return await self._statuses.find_statuses(queue, offset, message_id)

    async def content(self, topic: str) -> "TopicContent":
        """Return the contents of the topic's queues."""
        return await self._contents.describe_topic(topic)

    async def timers(self, *, topic: str, start: str, limit: int) -> "TimerPage":
        """A page of timed messages that wait."""
        return await self._timers.list_timers(topic=topic, start=start, limit=limit)

    def history(self, of: "HistoryOf", name: str) -> "DoneResult[FigureHistory]":
        """The recorded figures of the topic or group of that name, or of the broker."""
        return DoneResult(self._history.find_history(of, name))

    async def dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        """The group's dead letters, by offset."""
        return await self._queries.read_dead_letters(group, broker, offsets)

    async def find_by_log_offset(self, broker: str, log_offset: int) -> "StoredMessage | None":
        """The message whose record begins there."""
        return await self._queries.read_log_offset(broker, log_offset)

    async def remaining(self, broker: str) -> "UnfinishedWork":
        """Return the work that would be lost with this broker."""
        return await self._queries.unfinished_work(broker)

    def lite_clients(self, group: str, topic: str) -> DoneResult[list[str]]:
        """The ids of the lite group's clients that subscribe the lite topic."""
        return self._lite.subscribed_clients(group, topic)

    def held_topics(self) -> "dict[str, HeldTopic]":
        """All topics with messages in queues, whether or not the registry knows them."""
        return self._queues.held_topics()
