"""Limits the messages on the way to one client: none are claimed for a client that does not read.

`OutputRoom` belongs to a connection, `AnswerRoom` to one of its calls, which has a place from before it claims
messages until they are written. Bytes that are written and not read count, and so do places.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ternmq_common.event_loop.eager import ensure_task

if TYPE_CHECKING:
    from collections.abc import Callable

# How many calls of one connection may claim messages at the same time; each may fill one answer.
PLACES_MAX: Final = 4
PATIENCE_S: Final = 1.0


class OutputRoom:
    """The room of one connection. `unread` returns how many bytes are written and not read.

    Each call waits for at least `patience_s`.
    """

    __slots__ = ("_bytes_max", "_taken", "_unread", "_waiting", "patience_s")

    def __init__(self, unread: "Callable[[], int]", bytes_max: int, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._unread = unread
        self._bytes_max = bytes_max
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] | None = None  # an empty deque takes 760 bytes

    def admit_waiting(self) -> None:
        """Let waiting calls in, one after the other: the client has read, or a place is free."""
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

    async def take_place(self) -> None:
        while not self.is_open:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self.admit_waiting()  # it was this one's turn
                elif self._waiting is not None and waiter in self._waiting:
                    self._waiting.remove(waiter)
                raise
        self._taken += 1

    def take_open_place(self) -> None:
        """Take a place of a room that is open."""
        self._taken += 1

    def give_place_back(self) -> None:
        self._taken -= 1
        self.admit_waiting()


class AnswerRoom:
    """The place of one call; every method may be called again."""

    __slots__ = ("_held", "_room")

    def __init__(self, room: OutputRoom) -> None:
        self._room = room
        self._held = False

    @property
    def is_open(self) -> bool:
        """Whether `enter_room` would not wait."""
        return self._held or self._room.is_open

    async def enter_room(self, within_s: float | None = None) -> bool:
        """Wait until the client has read enough, then hold a place; False when that took too long.

        A client that reads has room soon, so even a call that is not to wait at all waits for a second.
        """
        if not self._held:
            if not self._room.is_open:
                await ensure_task()
                try:
                    async with asyncio.timeout(None if within_s is None else max(within_s, self._room.patience_s)):
                        await self._room.take_place()
                except TimeoutError:
                    return False
            else:
                await self._room.take_place()
            self._held = True
        return True

    def enter_open_room(self) -> bool:
        """Hold a place if that does not wait; False if it does."""
        if not self._held:
            if not self._room.is_open:
                return False
            self._room.take_open_place()
            self._held = True
        return True

    def leave_room(self) -> None:
        """Give the place back: no messages were claimed, or all are written."""
        if self._held:
            self._held = False
            self._room.give_place_back()
