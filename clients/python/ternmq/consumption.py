"""The cache of a push consumer and the workers that run its listener.

Lanes       messages that must be run one after the other share a lane; others have a lane of their own
Invariants  a lane is in one place: waiting in `_ready`, with one worker, or parked until a time
            `messages` and `stored_bytes` count what was accepted and isn't done
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable

from ternmq.message_view import MessageView

logger = logging.getLogger(__name__)


class Lane:
    """Messages in their order; the first one is next, or being worked on."""

    __slots__ = ("key", "views")

    def __init__(self, key: Hashable | None, view: MessageView) -> None:
        self.key = key
        self.views = deque([view])


class Consumption:
    """Works off messages with `concurrency` workers.

    `work` settles one message and returns None, or returns the seconds after which it wants to try the same again.
    """

    def __init__(
        self,
        work: Callable[[MessageView], Awaitable[float | None]],
        *,
        concurrency: int,
        messages_max: int,
        bytes_max: int,
    ) -> None:
        self.messages = 0
        self.stored_bytes = 0
        self._work = work
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._ready: asyncio.Queue[Lane] = asyncio.Queue()
        self._lanes: dict[Hashable, Lane] = {}
        self._parked: dict[Lane, asyncio.TimerHandle] = {}
        self._finishing = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._workers = [asyncio.create_task(self._run()) for _ in range(concurrency)]

    async def room(self) -> None:
        """Wait until there is room for another batch."""
        await self._has_room.wait()

    def accept(self, views: Iterable[MessageView], lane_of: Callable[[MessageView], Hashable | None]) -> None:
        """Take messages; `lane_of` names the lane of a message that has an order, and is None for the others."""
        for view in views:
            self.messages += 1
            self.stored_bytes += view.stored_bytes
            key = lane_of(view)
            lane = self._lanes.get(key) if key is not None else None
            if lane is not None:
                lane.views.append(view)
                continue
            lane = Lane(key, view)
            if key is not None:
                self._lanes[key] = lane
            self._ready.put_nowait(lane)
        self._count()

    async def finish(self, timeout_s: float) -> None:
        """Work off what is there, but no later tries; what isn't done in time is left to be delivered again."""
        self._finishing = True
        for lane, handle in list(self._parked.items()):
            handle.cancel()
            self._drop(lane)
        self._parked.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            logger.warning("%d messages were not consumed in time and will be delivered again", self.messages)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            lane = await self._ready.get()
            retry_after_s: float | None = None
            try:
                retry_after_s = await self._work(lane.views[0])
            except Exception:
                logger.exception("a message could not be settled: %r", lane.views[0])
            if retry_after_s is None:
                self._done(lane)
            elif self._finishing:
                self._drop(lane)
            else:
                self._park(lane, retry_after_s)

    def _done(self, lane: Lane) -> None:
        self._forget(lane.views.popleft())
        if lane.views:
            self._ready.put_nowait(lane)
        elif lane.key is not None:
            del self._lanes[lane.key]
        self._count()

    def _drop(self, lane: Lane) -> None:
        for view in lane.views:
            self._forget(view)
        if lane.key is not None:
            del self._lanes[lane.key]
        self._count()

    def _forget(self, view: MessageView) -> None:
        self.messages -= 1
        self.stored_bytes -= view.stored_bytes

    def _park(self, lane: Lane, seconds: float) -> None:
        """Wait without keeping a worker: one ordered message that fails for hours must not hold up the others."""

        def unpark() -> None:
            del self._parked[lane]
            self._ready.put_nowait(lane)

        self._parked[lane] = asyncio.get_running_loop().call_later(seconds, unpark)

    def _count(self) -> None:
        _set(self._has_room, self.messages < self._messages_max and self.stored_bytes < self._bytes_max)
        _set(self._empty, self.messages == 0)


def _set(event: asyncio.Event, value: bool) -> None:
    if value:
        event.set()
    else:
        event.clear()
