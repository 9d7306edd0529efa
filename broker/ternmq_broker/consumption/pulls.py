"""Reads messages by offset, without claims; waits at the end of a queue."""

import asyncio
import itertools
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import done_when_read
from ternmq_common.model import Pulled, QueueRef

if TYPE_CHECKING:
    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.queue_locks import QueueLocks
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import QueueReaderId
    from ternmq_common.output_room import AnswerRoom
    from ternmq_common.pollers import Pollers


class Pulls:
    """The pulls of one broker; for groups that lock their queues, one reader at a time for each queue."""

    def __init__(self, consumption: "Consumption", pollers: "Pollers", locks: "QueueLocks") -> None:
        self._consumption = consumption
        self._pollers = pollers
        self._locks = locks
        self._lines = itertools.count()

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        *,
        limit: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> Pulled:
        """Read from `offset` on without a claim, or wait up to `poll_s` seconds at the end of the queue.

        Nothing is read without a place in `room`; the place is kept if messages were read.
        """
        if reader is not None and not reader.lock_hold_ms:
            self._locks.open(reader.group, queue)
        if reader is None or not reader.lock_hold_ms:
            return await self._pull(queue, offset, passing, limit, poll_s, room)
        if self._pollers.closed:
            poll_s = 0.0
        return await self._locks.pull(
            reader,
            queue,
            offset,
            committed=self._consumption.committed(reader.group, queue.topic, queue.queue_id),
            poll_s=poll_s,
            read=lambda start, wait_s: self._pull(
                queue,
                max(start, self._consumption.reader.first(queue.topic, queue.queue_id)),
                passing,
                limit,
                wait_s,
                room,
            ),
        )

    async def _pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        limit: int,
        poll_s: float,
        room: "AnswerRoom | None",
    ) -> Pulled:
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while True:
            pulled = await self._pull_now(queue, offset, passing, limit, end - loop.time(), room)
            if pulled.messages or pulled.next_offset > offset or self._is_beyond(queue, offset):
                return pulled
            if not await self._wait(queue.topic, end - loop.time()):
                return pulled

    async def _pull_now(
        self,
        queue: QueueRef,
        offset: int,
        passing: "MessageFilter",
        limit: int,
        left_s: float,
        room: "AnswerRoom | None",
    ) -> Pulled:
        if room is None:
            return await self.now(queue, offset, passing, limit)
        pulled = Pulled([], offset)
        if await room.enter(left_s):
            try:
                pulled = await self.now(queue, offset, passing, limit)
            finally:
                if not pulled.messages:
                    room.leave()
        return pulled

    async def _wait(self, topic: str, seconds: float) -> bool:
        """Wait for a message of the topic; False if none came in time."""
        # Pulls do not compete, so each has a wait queue of its own, under a name that no group can have.
        return await self._pollers.wait(f"\n{next(self._lines)}", topic, max(0, seconds))

    async def wait_for_more(self, queue: QueueRef, offset: int, poll_s: float) -> bool:
        """Whether the queue has a message at or behind that offset, or gets one within `poll_s` seconds.

        Returns False at once for an offset beyond the end.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while not await self._has_more(queue, offset):
            if self._is_beyond(queue, offset) or not await self._wait(queue.topic, end - loop.time()):
                return False
        return True

    def _is_beyond(self, queue: QueueRef, offset: int) -> bool:
        """Whether the offset is beyond the end of the queue, as after its broker lost its store.

        The client must ask again and see that, before the queue has grown past the offset.
        """
        return offset > self._consumption.bounds(queue.topic, queue.queue_id).maximum

    async def _has_more(self, queue: QueueRef, offset: int) -> bool:
        locate = self._consumption.reader.locate
        return bool(await done_when_read(lambda: locate(queue.topic, queue.queue_id, offset, 1)))

    async def now(self, queue: QueueRef, offset: int, passing: "MessageFilter", limit: int) -> Pulled:
        """Read the messages that are there at that offset."""
        return await done_when_read(lambda: self._consumption.reader.pull(queue, offset, passing, limit))
