"""The broker's reads by offset, and groups' offsets. See `ShardReading`."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.event_loop.done_result import DONE, DoneResult
from ternmq_common.shard.model import PulledMessages, QueueBounds, QueueRef

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.locks.queue_locks import QueueLocks
    from ternmq_broker.consumption.pulls import PullCalls
    from ternmq_broker.consumption.retry_handover import RetryHandover
    from ternmq_broker.delivery.offset_resets import OffsetResets
    from ternmq_broker.delivery.queue_readers import QueueReaders
    from ternmq_broker.store.record_reader import RecordReader
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import QueueReaderId
    from ternmq_runtime.observability.name_counts import NameCounts


class BrokerReading:
    """Reads queues by offset, without claims."""

    def __init__(
        self,
        name: str,
        reader: "RecordReader",
        consumption: "Consumption",
        pulls: "PullCalls",
        resets: "OffsetResets",
        readers: "QueueReaders",
        queue_locks: "QueueLocks",
        handover: "RetryHandover",
        pollers: "PollQueues",
        delivered: "NameCounts",
    ) -> None:
        self._name = name
        self._reader = reader
        self._consumption = consumption
        self._pulls = pulls
        self._resets = resets
        self._readers = readers
        self._queue_locks = queue_locks
        self._handover = handover
        self._pollers = pollers
        self._delivered = delivered

    def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "Awaitable[PulledMessages]":
        """Read from `offset` on without claims; see `PullCalls.pull_messages`."""
        if reader is not None:
            self._readers.note_pull(reader.group, reader.client_id, queue.topic, queue.queue_id)
        pulled = self._pulls.pull_ready(queue, offset, passing, batch, reader, room)
        if pulled is None:
            return self._pull_later(queue, offset, passing, batch, poll_s, reader, room)
        self._delivered.add_count(queue.topic, len(pulled.messages))
        return DoneResult(pulled)

    async def _pull_later(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None",
        room: "AnswerRoom | None",
    ) -> PulledMessages:
        pulled = await self._pulls.pull_messages(
            queue, offset, passing, limit=batch, poll_s=poll_s, reader=reader, room=room
        )
        self._delivered.add_count(queue.topic, len(pulled.messages))
        return pulled

    async def wait_for_more(self, queue: QueueRef, offset: int, poll_s: float) -> bool:
        """Whether the queue has a message at or behind that offset; see `PullCalls.wait_for_more`."""
        return await self._pulls.wait_for_more(queue, offset, poll_s)

    def bounds(
        self, queue: QueueRef, *, reader: "QueueReaderId | None" = None, offset: int = 0
    ) -> "DoneResult[QueueBounds]":
        """Return the bounds of the queue; see `OffsetResets` for the answer to a reader."""
        bounds = self._consumption.queue_bounds(queue.topic, queue.queue_id)
        if reader is not None:
            self._readers.note_pull(reader.group, reader.client_id, queue.topic, queue.queue_id)  # it may read a copy
            moved_to = self._resets.follow_reader(reader.group, queue.topic, queue.queue_id, offset)
            if moved_to is not None:
                bounds = QueueBounds(bounds.minimum, bounds.maximum, bounds.purged_below, moved_to)
        return DoneResult(bounds)

    async def offset_at(self, queue: QueueRef, time_ms: int) -> int:
        """The first offset stored at or after that time; the end of the queue if there is none."""
        return await asyncio.to_thread(self._reader.find_offset_at, queue.topic, queue.queue_id, time_ms)

    def begin_pulling(self, group: str, queue: QueueRef) -> DoneResult[int | None]:
        """Return where a member of a group that keeps offsets continues; see `RetryHandover.begin_pulling`."""
        self._resets.begin_queue(group, queue.topic, queue.queue_id)
        return DoneResult(self._handover.begin_pulling(group, queue.topic, queue.queue_id))

    def committed(self, group: str, queue: QueueRef) -> DoneResult[int | None]:
        """Return the group's committed offset in the queue; None if it never read it."""
        return DoneResult(self._consumption.committed_offset(group, queue.topic, queue.queue_id))

    def set_committed(
        self, group: str, queue: QueueRef, offset: int, *, reader: "QueueReaderId | None" = None
    ) -> DoneResult[None]:
        """Set the group's committed offset. FORBIDDEN if another member than `reader` has the queue lock.

        Without `reader` an operator sets it; members that read on elsewhere set nothing until they have followed.
        """
        queue = QueueRef(queue.topic, self._name, queue.queue_id)
        if reader is not None and not self._resets.may_commit(group, queue.topic, queue.queue_id, offset):
            return DONE
        if reader is None:
            self._queue_locks.reset_offset(group, queue, offset)
            if self._resets.note_reset(group, queue.topic, queue.queue_id, offset):
                self._pollers.wake_pulls(queue.topic, queue.queue_id)
        elif reader.lock_hold_ms:
            self._queue_locks.move_offset(reader, queue, offset)
        else:
            self._queue_locks.unlock_queue(group, queue)
        self._handover.finish_pulled(group, queue.topic, offset)
        self._consumption.set_committed(group, queue.topic, queue.queue_id, offset)
        self._pollers.wake_group(group, queue.topic, 1)
        self._consumption.in_flight.wake_for_freed(group, queue.topic, self._pollers)
        return DONE
