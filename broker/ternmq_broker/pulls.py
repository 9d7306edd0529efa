"""Reads by offset, without claims: whatever is there at once, or a wait at the end of a queue."""

import asyncio
import itertools
from typing import TYPE_CHECKING

from ternmq_broker.store.files import WouldBlock
from ternmq_common.model import Pulled, QueueRef

if TYPE_CHECKING:
    from ternmq_broker.consumption import Consumption
    from ternmq_broker.queue_locks import QueueLocks
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import QueueReaderId
    from ternmq_common.pollers import Pollers


class Pulls:
    """The pulls of one broker; of groups that lock their queues, one reader a queue at a time."""

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
    ) -> Pulled:
        """Read from `offset` on without a claim, or wait up to `poll_s` seconds when it is the end of the queue."""
        if reader is not None and not reader.lock_hold_ms:
            self._locks.open(reader.group, queue)
        if reader is None or not reader.lock_hold_ms:
            return await self._pull(queue, offset, passing, limit, poll_s)
        if self._pollers.closed:
            poll_s = 0.0
        return await self._locks.pull(
            reader,
            queue,
            offset,
            committed=self._consumption.committed(reader.group, queue.topic, queue.queue_id),
            poll_s=poll_s,
            read=lambda start, wait_s: self._pull(
                queue, max(start, self._consumption.reader.first(queue.topic, queue.queue_id)), passing, limit, wait_s
            ),
        )

    async def _pull(self, queue: QueueRef, offset: int, passing: "MessageFilter", limit: int, poll_s: float) -> Pulled:
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while True:
            pulled = await self.now(queue, offset, passing, limit)
            if pulled.messages or pulled.next_offset > offset:
                return pulled
            # A pull competes with nobody, so it stands in a line of its own, under a name that no group can have.
            line = f"\n{next(self._lines)}"
            if not await self._pollers.wait(line, queue.topic, max(0, end - loop.time())):
                return pulled

    async def now(self, queue: QueueRef, offset: int, passing: "MessageFilter", limit: int) -> Pulled:
        """What is there at that offset."""
        while True:
            try:
                return self._consumption.read(queue, offset, passing, limit)
            except WouldBlock as reading:
                await asyncio.to_thread(reading.wait)
