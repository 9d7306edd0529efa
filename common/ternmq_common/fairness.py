"""Turns on the event loop: who has much to do lets others go on after every half a millisecond.

All who have much to do are in one wait queue, of which one has its turn in each turn of the loop: so the others wait no
longer for a hundred of them than for one.
"""

import asyncio
import time
from collections import deque
from weakref import WeakKeyDictionary

TURN_S = 0.0005


class Turns:
    """To be asked after each small step of a long work, where its state allows that others change theirs."""

    __slots__ = ("_end_s",)

    def __init__(self) -> None:
        self._end_s = time.perf_counter() + TURN_S

    async def next(self) -> None:
        """Let others go on if this turn has lasted long enough."""
        if time.perf_counter() >= self._end_s:
            await its_turn()
            self._end_s = time.perf_counter() + TURN_S


async def its_turn() -> None:
    """Wait until nobody else who has much to do is before this one."""
    loop = asyncio.get_running_loop()
    line = _LINES.get(loop)
    if line is None:
        line = _LINES[loop] = _Line()
    await line.stand(loop)


class _Line:
    """Of one loop; those who were cancelled are passed over."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._moves = False

    async def stand(self, loop: asyncio.AbstractEventLoop) -> None:
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        if not self._moves:
            self._moves = True
            loop.call_soon(self._move, loop)
        await place

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                loop.call_soon(self._move, loop)
                return
        self._moves = False


_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
