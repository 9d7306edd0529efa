"""Room for messages on the way to one client: nothing is taken out of a queue for a client that does not read.

`OutputRoom` belongs to a connection, `AnswerRoom` to one of its calls, which holds a place from before it takes
messages until they are written. What is written and not read counts by its bytes, what is being taken by its place.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ternmq_common.eager import in_task

if TYPE_CHECKING:
    from collections.abc import Callable

# What is taken at the same time for one connection; each may be as much as one answer holds.
PLACES_MAX = 4
PATIENCE_S = 1.0


class OutputRoom:
    """`unread` tells how many bytes are written and not read. Each call waits for `patience_s` at least."""

    __slots__ = ("_bytes_max", "_taken", "_unread", "_waiting", "patience_s")

    def __init__(self, unread: "Callable[[], int]", bytes_max: int, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._unread = unread
        self._bytes_max = bytes_max
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] | None = None  # an empty one takes 760 bytes

    def changed(self) -> None:
        """The client has read, or a place is free: let those in who fit, one after the other."""
        if self._waiting is None:
            return
        free = PLACES_MAX - self._taken
        while self._waiting and free > 0 and self._unread() < self._bytes_max:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1
        if not self._waiting:
            self._waiting = None

    @property
    def is_open(self) -> bool:
        """Whether a place can be taken at once."""
        return self._taken < PLACES_MAX and self._unread() < self._bytes_max

    async def take(self) -> None:
        while not self.is_open:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self.changed()  # it was this one's turn
                elif self._waiting is not None and waiter in self._waiting:
                    self._waiting.remove(waiter)
                raise
        self._taken += 1

    def give_back(self) -> None:
        self._taken -= 1
        self.changed()


class AnswerRoom:
    """One call's place; every method may be called again."""

    __slots__ = ("_held", "_room")

    def __init__(self, room: OutputRoom) -> None:
        self._room = room
        self._held = False

    @property
    def is_open(self) -> bool:
        """Whether `enter` would not wait."""
        return self._held or self._room.is_open

    async def enter(self, within_s: float | None = None) -> bool:
        """Wait until the client takes more, then hold a place; False when that took too long.

        A client that reads has room in a moment, so a call that is not to wait at all waits for a second still.
        """
        if not self._held:
            if not self._room.is_open:
                await in_task()
                try:
                    async with asyncio.timeout(None if within_s is None else max(within_s, self._room.patience_s)):
                        await self._room.take()
                except TimeoutError:
                    return False
            else:
                await self._room.take()
            self._held = True
        return True

    def leave(self) -> None:
        """Nothing was taken, or all of it is written."""
        if self._held:
            self._held = False
            self._room.give_back()
