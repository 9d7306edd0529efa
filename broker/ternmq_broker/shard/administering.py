"""Changes by operators: deletions, purges, progress. See `StorageAdministering`."""

import asyncio
import functools
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.done_result import DONE, DoneResult
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID, QueueRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.locks.client_locks import ClientLocks
    from ternmq_broker.consumption.locks.queue_locks import QueueLocks
    from ternmq_broker.consumption.redelivery import Redelivery
    from ternmq_broker.delivery.offset_resets import OffsetResets
    from ternmq_broker.delivery.queue_readers import QueueReaders
    from ternmq_broker.lite_topics import LiteTopics
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.shard.sending import BrokerSending
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_broker.upkeep.disk_room import DiskErrors, DiskSpaceWatch
    from ternmq_broker.upkeep.housekeeping import BrokerHousekeeping
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import NewMessage
    from ternmq_runtime.observability.figures import MessageCounts


class BrokerAdministering:
    """Removes topics, groups and messages, and moves groups' progress."""

    def __init__(
        self,
        name: str,
        store: "MessageStore",
        sending: "BrokerSending",
        consumption: "Consumption",
        redelivery: "Redelivery",
        pollers: "PollQueues",
        lite: "LiteTopics",
        queue_locks: "QueueLocks",
        client_locks: "ClientLocks",
        resets: "OffsetResets",
        readers: "QueueReaders",
        transactions: "Transactions",
        flusher: "LogFlusher",
        room: "DiskSpaceWatch",
        writing: "DiskErrors",
        housekeeping: "BrokerHousekeeping",
        counts: "MessageCounts",
    ) -> None:
        self._name = name
        self._store = store
        self._sending = sending
        self._consumption = consumption
        self._redelivery = redelivery
        self._pollers = pollers
        self._lite = lite
        self._queue_locks = queue_locks
        self._client_locks = client_locks
        self._resets = resets
        self._readers = readers
        self._transactions = transactions
        self._flusher = flusher
        self._room = room
        self._writing = writing
        self._housekeeping = housekeeping
        self._counts = counts

    def skip(self, group: str, queue: QueueRef, offset: int) -> DoneResult[None]:
        """Finish the message at that offset for any member; BAD_REQUEST if the group has not reached it yet."""
        topic, queue_id = queue.topic, queue.queue_id
        if not self._consumption.skip_message(group, topic, queue_id, offset):
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"group {group!r} has not reached offset {offset} of queue {queue_id} of topic {topic!r} yet",
            )
        self._pollers.wake_group(group, topic, 1)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    def drop_retries(self, group: str, topic: str) -> DoneResult[None]:
        """Finish all messages of the topic that wait in the group's retry queue."""
        self._consumption.drop_retries(group, topic)
        self._consumption.in_flight.wake_for_freed(group, topic, self._pollers)
        return DONE

    async def retry(self, group: str, topic: str, messages: "Sequence[NewMessage]") -> None:
        """Deliver messages of the topic to this group only, with all their attempts, as if they had failed there."""
        stored = await self._sending.append(QueueRef(retry_topic(group), self._name, 0), messages)
        for appended in stored:
            self._consumption.find_or_create_retries(group, topic).place_copy(appended.queue_offset, 0)
        self._consumption.mark_changed(group, topic, RETRY_QUEUE_ID)
        self._pollers.wake_group(group, topic, len(stored))

    async def forget_topic(self, topic: str, *, version: int = 0) -> None:
        """Remove all messages of the topic; their disk space is freed with their segments.

        `version` is for `server/deletion_log.py`.
        """
        self._pollers.forget_deleted(topic=topic)
        self._consumption.forget_topic(topic)
        self._readers.forget_topic(topic)
        self._consumption.losses.forget_topic(topic)
        self._consumption.in_flight.wake_all(self._pollers)
        await self._lite.forget_topic(topic)
        with self._writing:
            self._transactions.forget_topic(topic)
            remember = self._store.deletions.forget_topic(topic, version)
            await self._room.with_reserve(lambda: asyncio.to_thread(remember), may_use_all=True)
        self._counts.forget_topic(topic)  # sends under way were counted meanwhile
        await self._wait_for_replicas()

    async def purge(self, queue: QueueRef, below: int, *, retries: bool) -> None:
        """Remove the messages below an offset; see `StorageAdministering`. Claims on them end as after retention."""
        await self._purge_queue(queue, below, retries=retries, by_operator=True)

    async def _purge_queue(self, queue: QueueRef, below: int, *, retries: bool, by_operator: bool) -> None:
        with self._writing:
            origin = self._store.indexes.queues.queue_origin(queue.topic, queue.queue_id)
            remember = self._store.deletions.purge_queue(queue.topic, queue.queue_id, below)
            # No lambda: what mypyc makes of one here fails when it is called.
            await self._room.with_reserve(functools.partial(asyncio.to_thread, remember), may_use_all=True)
            self._consumption.move_past_purge(queue.topic, queue.queue_id, origin=origin, by_operator=by_operator)
            if retries:
                self._consumption.forget_topic(queue.topic)
            self._consumption.in_flight.wake_all(self._pollers)
            await self._room.with_reserve(self._housekeeping.write_journal, may_use_all=True)
        await self._wait_for_replicas()

    async def purge_expired(self, topic: str, queue_id: int, below: int) -> None:
        """Remove the messages below an offset because their time in the topic is over."""
        await self._purge_queue(QueueRef(topic, self._name, queue_id), below, retries=False, by_operator=False)

    async def _wait_for_replicas(self) -> None:
        """Wait until the replicas hold the last operation of the log: only then does it last."""
        if self._store.deletions.is_replicated:
            await self._flusher.wait_until_durable(self._store.log.log_end)

    async def forget_group(self, group: str, *, version: int = 0) -> None:
        """Drop the group's progress and its retries; its dead letters stay."""
        self._pollers.forget_deleted(group=group)
        self._queue_locks.forget_group(group)
        self._client_locks.forget_group(group)
        self._resets.forget_group(group)
        self._readers.forget_group(group)
        with self._writing:
            self._store.deletions.forget_group(group, version)
            await self._room.with_reserve(lambda: self._housekeeping.forget_group(group), may_use_all=True)
        self._consumption.in_flight.wake_all(self._pollers)
        await self.forget_topic(retry_topic(group))
        self._redelivery.dead_letters.forget_name(group)
