"""Watches the process's event loop from another thread, and calls functions on it.

The state of the process belongs to that loop, so it is read there; the thread waits for a moment, and reports that the
loop is busy if nothing comes.
"""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")
# How often the loop is probed, so that a busy one is noticed although no request came.
_ASK_EVERY_S = 2.0


class LoopBusy(Exception):
    """The event loop did not answer in time."""

    def __init__(self) -> None:
        super().__init__("the event loop is busy")


class WatchedLoop:
    """The event loop that creates this object; all methods are called on the loop of another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turned_s = time.monotonic()
        self._probe: asyncio.Future[None] | None = None

    async def watch_loop(self) -> None:
        """Probe the loop at intervals, for ever; only one probe is pending at a time."""
        while True:
            await asyncio.wait({self._current_probe()})
            await asyncio.sleep(_ASK_EVERY_S)

    async def turned_ago_s(self, patience_s: float) -> float:
        """Return how long ago, in seconds, it turned last, after waiting up to `patience_s` for it to turn now."""
        await asyncio.wait({self._current_probe()}, timeout=patience_s)
        return time.monotonic() - self._turned_s

    def _current_probe(self) -> "asyncio.Future[None]":
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._probe_turn())
        return self._probe

    async def _probe_turn(self) -> None:
        async def turn() -> None:
            self._turned_s = time.monotonic()

        with contextlib.suppress(LoopBusy):
            await self._run_on_loop(turn())

    async def call_on_loop(self, question: "Callable[[], T]", patience_s: float) -> T:
        """Return the result of `question`, called on that loop; LoopBusy."""

        async def answered() -> T:
            return question()

        return await self.run_on_loop(answered, patience_s)

    async def run_on_loop(self, work: "Callable[[], Awaitable[T]]", patience_s: float) -> T:
        """Return the result of `work` on that loop, which is cancelled if it takes too long; LoopBusy."""

        async def done() -> T:
            return await work()

        try:
            async with asyncio.timeout(patience_s):
                return await self._run_on_loop(done())
        except TimeoutError as error:
            raise LoopBusy from error

    async def _run_on_loop(self, work: "Coroutine[None, None, T]") -> T:
        if self._loop.is_closed():
            work.close()
            raise LoopBusy
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
