"""Room for messages on the way to one client: nothing is taken out of a queue for a client that does not read.

`OutputRoom` belongs to a connection, `AnswerRoom` to one of its calls, which holds a place from before it takes
messages until they are written. What is written and not read counts by its bytes, what is being taken by its place.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# What is taken at the same time for one connection; each may be as much as one answer holds.
PLACES_MAX = 4


class OutputRoom:
    """`unread` tells how many bytes are written and not read."""

    __slots__ = ("_bytes_max", "_taken", "_unread", "_waiting")

    def __init__(self, unread: "Callable[[], int]", bytes_max: int) -> None:
        self._unread = unread
        self._bytes_max = bytes_max
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def changed(self) -> None:
        """The client has read, or a place is free: let those in who fit, one after the other."""
        free = PLACES_MAX - self._taken
        while self._waiting and free > 0 and self._unread() < self._bytes_max:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

    async def take(self) -> None:
        while self._taken >= PLACES_MAX or self._unread() >= self._bytes_max:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self.changed()  # it may have been this one's turn
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

    async def enter(self) -> None:
        """Wait until the client takes more, then hold a place."""
        if not self._held:
            await self._room.take()
            self._held = True

    def leave(self) -> None:
        """Nothing was taken, or all of it is written."""
        if self._held:
            self._held = False
            self._room.give_back()
