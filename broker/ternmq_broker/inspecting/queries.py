"""Queries of a broker for operators: progress of groups, messages by key, dead letters, and unfinished work."""

import asyncio
import operator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.consumption.group_progress import untouched_progress
from ternmq_broker.consumption.queue_reader import stored_message
from ternmq_broker.store.log.record import RecordKind
from ternmq_common.catalog.cluster import GroupBacklog, UnfinishedWork
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import RETRY_PREFIX, dead_letter_topic, is_lite_queue
from ternmq_common.shard.model import QueueRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.pulls import PullCalls
    from ternmq_broker.inspecting.key_searches import KeySearches
    from ternmq_broker.inspecting.queue_holders import QueueHolders
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.timers import TimerDelivery
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_common.shard.model import QueueProgress, StoredMessage

_COUNTED_MAX = 1_000_000


class BrokerQueries:
    """Answers queries; changes nothing. Runs on the event loop, and reads the disk in threads."""

    def __init__(
        self,
        name: str,
        store: "MessageStore",
        searches: "KeySearches",
        consumption: "Consumption",
        pulls: "PullCalls",
        timers: "TimerDelivery",
        transactions: "Transactions",
        holders: "QueueHolders",
    ) -> None:
        self._name = name
        self._store = store
        self._searches = searches
        self._consumption = consumption
        self._pulls = pulls
        self._timers = timers
        self._transactions = transactions
        self._holders = holders

    async def query_progress(self, group: str, topics: "Sequence[str]" = ()) -> "list[QueueProgress]":
        """The group's progress, or where it would begin, in each queue with messages, with the age of its lag and with
        its reader; and in empty queues that a member reads.

        Covers the topics that the group is known to have, and `topics`.
        """
        progress = self._consumption.group_progress(group)
        progress += self._consumption.lite_progress.rows_of_topics(group, filter(is_lite_queue, topics))
        untouched = self._consumption.untouched_queues(group, topics)
        untouched += self._empty_queues_with_readers(group, [*(row.queue for row in progress), *untouched])
        consume_from = self._consumption.rules(group).consume_from
        rows = await asyncio.to_thread(self._progress_rows, progress, untouched, consume_from)
        rows = [self._holders.add_holders(group, row) for row in rows]
        return rows + await self._consumption.lite_progress.progress_rows(group)

    def _empty_queues_with_readers(self, group: str, known: "Sequence[QueueRef]") -> list[QueueRef]:
        """The empty ones of the queues that members read, besides these. Others, where the group was never, are read by
        tools that keep no offsets: they have no lag."""
        others = self._holders.find_others(group, known)
        bounds = self._store.indexes.queues.queue_bounds
        return [queue for queue in others if not operator.lt(*bounds(queue.topic, queue.queue_id))]

    def _progress_rows(
        self, progress: "list[QueueProgress]", untouched: list[QueueRef], consume_from: str
    ) -> "list[QueueProgress]":
        """The rows, sorted and with ages; reads, so call it in a thread."""
        begin = self._consumption.predict_begin
        rows = progress + [
            untouched_progress(queue, begin(queue.topic, queue.queue_id, consume_from, may_block=True), self._store)
            for queue in untouched
        ]
        return [self._with_age(row) for row in sorted(rows, key=_sort_key)]

    def _with_age(self, progress: "QueueProgress") -> "QueueProgress":
        if progress.committed >= progress.max_offset:
            return progress
        queue = progress.queue
        return replace(
            progress, oldest_ms=self._store.reader.stored_ms(queue.topic, queue.queue_id, progress.committed)
        )

    async def find_by_key(self, topic: str, key: str, limit: int) -> "list[StoredMessage]":
        """The newest messages of the topic with that key or message id. TOO_MANY_REQUESTS."""
        records = await self._searches.find_messages(topic, key, limit)
        return [stored_message(QueueRef(topic, self._name, record.queue_id), record) for record in records]

    async def read_dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> "dict[int, StoredMessage]":
        """The group's dead letters at these offsets that are there, by offset; `broker` is this one."""
        del broker
        queue = QueueRef(dead_letter_topic(group), self._name, 0)
        found: dict[int, StoredMessage] = {}
        for offset in offsets:
            pulled = await self._pulls.read_available(queue, offset, ALL, 1)
            found.update((message.queue_offset, message) for message in pulled.messages)
        return found

    async def read_log_offset(self, broker: str, log_offset: int) -> "StoredMessage | None":
        """The message in a queue whose record begins there, if it is readable and not removed; `broker` is this one."""
        del broker
        if not 0 <= log_offset < self._store.log.log_end:
            return None
        record = await asyncio.to_thread(self._store.reader.read_record_at, log_offset)
        if record is None or record.kind is not RecordKind.MESSAGE:
            return None
        queue = QueueRef(record.topic, self._name, record.queue_id)
        if await run_when_read(
            partial(self._consumption.reader.readable_from, record.topic, record.queue_id, record.queue_offset)
        ):
            return None
        located = await run_when_read(
            partial(self._consumption.reader.locate_offsets, record.topic, record.queue_id, [record.queue_offset])
        )
        is_held = [each.log_offset for each in located.values()] == [log_offset]
        return stored_message(queue, record) if is_held else None

    async def unfinished_work(self, broker: str) -> UnfinishedWork:
        """Return the work that would be lost with this broker."""
        del broker
        backlogs: dict[tuple[str, str], int] = {}
        for group in {group for group, _ in self._consumption.lag_pairs()}:
            rows = self._consumption.group_progress(group)
            for row in rows + await self._consumption.lite_progress.progress_rows(group):
                left = row.max_offset - row.cursor + row.in_flight
                if left > 0:
                    place = group, row.queue.topic
                    backlogs[place] = backlogs.get(place, 0) + left
        listed = [GroupBacklog(group, topic, messages) for (group, topic), messages in sorted(backlogs.items())]
        return UnfinishedWork(
            listed, await self._timers.count_pending(_COUNTED_MAX), len(self._transactions.halves.waiting)
        )


def _sort_key(progress: "QueueProgress") -> tuple[bool, str, int]:
    """Sort by topic and queue, with the retry topic last, as it is for all topics."""
    queue = progress.queue
    return queue.topic.startswith(RETRY_PREFIX), queue.topic, queue.queue_id
