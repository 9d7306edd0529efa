"""Searches by message key, in threads, a few at the same time, so that other work gets its turn.

Limits   a number of searches run, more wait for a limited time; beyond that TOO_MANY_REQUESTS.
Threads  a search yields the interpreter about each half millisecond, and ends soon after its caller is gone.
"""

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ternmq_broker.store.interpreter_yield import yield_interpreter
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.eager import ensure_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.record_reader import RecordReader

SEARCHES_AT_ONCE = 2
SEARCHES_WAITING_MAX = 64
WAIT_S = 3.0
_TURN_S = 0.0005


class _SearchEnded(Exception):
    """The caller of the search does not wait any more."""


class _SearchPace:
    """The pauses of one search; `end_search` may be called in any thread."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._is_ended = False

    def end_search(self) -> None:
        self._is_ended = True

    def __call__(self) -> None:
        if self._is_ended:
            raise _SearchEnded
        if time.perf_counter() - self._began > _TURN_S:
            yield_interpreter()
            self._began = time.perf_counter()


class KeySearches:
    """Runs the searches of one broker; on the event loop."""

    def __init__(
        self,
        reader: "RecordReader",
        *,
        at_once: int = SEARCHES_AT_ONCE,
        waiting_max: int = SEARCHES_WAITING_MAX,
        wait_s: float = WAIT_S,
    ) -> None:
        self._reader = reader
        self._slots = asyncio.Semaphore(at_once)
        self._waiting = 0
        self._waiting_max = waiting_max
        self._wait_s = wait_s

    async def find_messages(self, topic: str, key: str, limit: int) -> "list[Record]":
        """The newest messages of the topic and its lite topics with that key or message id. TOO_MANY_REQUESTS."""
        async with self._search_slot():
            pace = _SearchPace()
            try:
                return await asyncio.to_thread(self._reader.find_by_key, topic, key, limit, pace)
            finally:
                pace.end_search()  # a caller that was cancelled leaves a thread behind

    @asynccontextmanager
    async def _search_slot(self) -> "AsyncIterator[None]":
        await self._acquire_slot()
        try:
            yield
        finally:
            self._slots.release()

    async def _acquire_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # at once
            return
        if self._waiting >= self._waiting_max:
            raise _too_many(f"{self._waiting} searches by key wait already, as many as may")
        self._waiting += 1
        try:
            await ensure_task()
            async with asyncio.timeout(self._wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise _too_many(f"no search by key ended for {self._wait_s:g} s") from None
        finally:
            self._waiting -= 1


def _too_many(reason: str) -> MessagingError:
    return MessagingError(ErrorCode.TOO_MANY_REQUESTS, f"{reason}; try again later")
