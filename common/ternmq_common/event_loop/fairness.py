"""Fairness on the event loop: long work lets other tasks go on after every half a millisecond.

All long work shares one wait queue, of which one task continues in each turn of the loop: so other tasks wait no
longer for a hundred long tasks than for one.
"""

import asyncio
import time
from collections import deque
from weakref import WeakKeyDictionary

TURN_S = 0.0005


class WorkTurns:
    """The turns of one long work; call `next_turn` after each small step where other tasks may change the state."""

    __slots__ = ("_end_s",)

    def __init__(self) -> None:
        self._end_s = time.perf_counter() + TURN_S

    async def next_turn(self) -> None:
        """Let other tasks go on if this turn has lasted long enough."""
        if time.perf_counter() >= self._end_s:
            await wait_for_turn()
            self._end_s = time.perf_counter() + TURN_S


async def wait_for_turn() -> None:
    """Wait until no other long work is before this one."""
    loop = asyncio.get_running_loop()
    line = _WAIT_QUEUES.get(loop)
    if line is None:
        line = _WAIT_QUEUES[loop] = _WaitQueue()
    await line.wait_in_queue(loop)


class _WaitQueue:
    """The wait queue of one loop; cancelled tasks are passed over."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._moves = False

    async def wait_in_queue(self, loop: asyncio.AbstractEventLoop) -> None:
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        if not self._moves:
            self._moves = True
            loop.call_soon(self._release_next, loop)
        await place

    def _release_next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                loop.call_soon(self._release_next, loop)
                return
        self._moves = False


_WAIT_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _WaitQueue] = WeakKeyDictionary()
