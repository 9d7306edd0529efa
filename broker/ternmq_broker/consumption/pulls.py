"""Reads messages by offset, without claims; waits at the end of a queue."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.shard.model import PulledMessages, QueueRef

if TYPE_CHECKING:
    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.locks.queue_locks import QueueLocks
    from ternmq_broker.delivery.offset_resets import OffsetResets
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import QueueReaderId


class PullCalls:
    """The pulls of one broker; for groups that lock their queues, one reader at a time for each queue."""

    def __init__(
        self, consumption: "Consumption", pollers: "PollQueues", locks: "QueueLocks", resets: "OffsetResets"
    ) -> None:
        self._consumption = consumption
        self._pollers = pollers
        self._locks = locks
        self._resets = resets

    def pull_ready(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        limit: int,
        reader: "QueueReaderId | None",
        room: "AnswerRoom | None",
    ) -> PulledMessages | None:
        """Pull messages that are there in memory, as `pull_messages` does; None, and nothing is changed, if that may
        have to wait."""
        if reader is not None and reader.lock_hold_ms:
            return None
        if room is not None and not room.enter_open_room():
            return None
        pulled: PulledMessages | None = None
        try:
            pulled = self._consumption.reader.pull_messages(queue, offset, passing, limit)
        except (WouldBlock, AwaitsRepair):
            return None
        finally:
            if room is not None and (pulled is None or not pulled.messages):
                room.leave_room()
        if not pulled.messages and pulled.next_offset <= offset:
            return None
        if reader is not None:
            self._locks.unlock_queue(reader.group, queue)
        return pulled

    async def pull_messages(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        limit: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> PulledMessages:
        """Read from `offset` on without a claim, or wait up to `poll_s` seconds at the end of the queue.

        Nothing is read without a place in `room`; the place is kept if messages were read.
        """
        if reader is not None and not reader.lock_hold_ms:
            self._locks.unlock_queue(reader.group, queue)
        if reader is None or not reader.lock_hold_ms:
            group = "" if reader is None else reader.group
            return await self._pull_or_wait(queue, offset, passing, limit, poll_s, room, group)
        if self._pollers.closed:
            poll_s = 0.0
        return await self._locks.pull_locked(
            reader,
            queue,
            offset,
            committed=self._consumption.committed_offset(reader.group, queue.topic, queue.queue_id),
            poll_s=poll_s,
            read=lambda start, wait_s: self._pull_or_wait(
                queue,
                max(start, self._consumption.reader.first_offset(queue.topic, queue.queue_id)),
                passing,
                limit,
                wait_s,
                room,
            ),
        )

    async def _pull_or_wait(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        limit: int,
        poll_s: float,
        room: "AnswerRoom | None",
        group: str = "",
    ) -> PulledMessages:
        """Read, or wait; a reset of the group that its members have to follow ends the wait."""
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while True:
            pulled = await self._pull_with_room(queue, offset, passing, limit, end - loop.time(), room)
            if pulled.messages or pulled.next_offset > offset or self._is_beyond(queue, offset):
                return pulled
            if group and self._resets.is_pending(group, queue.topic, queue.queue_id):
                return pulled
            if not await self._wait_for_message(queue, end - loop.time()):
                return pulled

    async def _pull_with_room(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        limit: int,
        left_s: float,
        room: "AnswerRoom | None",
    ) -> PulledMessages:
        if room is None:
            return await self.read_available(queue, offset, passing, limit)
        pulled = PulledMessages([], offset)
        if await room.enter_room(left_s):
            try:
                pulled = await self.read_available(queue, offset, passing, limit)
            finally:
                if not pulled.messages:
                    room.leave_room()
        return pulled

    async def _wait_for_message(self, queue: QueueRef, seconds: float) -> bool:
        """Wait for a message of the queue; False if none came in time."""
        return await self._pollers.wait_at_end(queue.topic, queue.queue_id, max(0, seconds))

    async def wait_for_more(self, queue: QueueRef, offset: int, poll_s: float) -> bool:
        """Whether the queue has a message at or behind that offset, or gets one within `poll_s` seconds.

        Returns False at once for an offset beyond the end.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while not await self._has_more(queue, offset):
            if self._is_beyond(queue, offset) or not await self._wait_for_message(queue, end - loop.time()):
                return False
        return True

    def _is_beyond(self, queue: QueueRef, offset: int) -> bool:
        """Whether the offset is beyond the end of the queue, as after its broker lost its store.

        The client must ask again and see that, before the queue has grown past the offset.
        """
        return offset > self._consumption.queue_bounds(queue.topic, queue.queue_id).maximum

    async def _has_more(self, queue: QueueRef, offset: int) -> bool:
        locate = self._consumption.reader.locate_messages
        return bool(await run_when_read(lambda: locate(queue.topic, queue.queue_id, offset, 1)))

    async def read_available(
        self, queue: QueueRef, offset: int, passing: "MessageFilter", limit: int
    ) -> PulledMessages:
        """Read the messages that are there at that offset."""
        return await run_when_read(lambda: self._consumption.reader.pull_messages(queue, offset, passing, limit))
