"""Pieces of frames that wait to be written to a stream; all that wait go in one frame.

`shard/form.py` encodes pieces and joins them.
"""

import asyncio
from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

from ternmq_common.shard.shard_frames import join_pieces as frame_of

FRAME_BYTES: Final = 1 << 20

T = TypeVar("T")


class OutboxBatch(NamedTuple, Generic[T]):
    """A frame, and the tokens of its pieces, in order."""

    frame: bytes
    tokens: list[T]


class FrameOutbox(Generic[T]):
    """Waiting pieces in the order in which they were added, each with a token for its owner."""

    def __init__(self, frame_bytes: int = FRAME_BYTES) -> None:
        self._frame_bytes = frame_bytes
        self._pieces: deque[tuple[bytes, T]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._writing = False
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def add_piece(self, piece: bytes, token: T) -> None:
        self._pieces.append((piece, token))
        self.bytes += len(piece)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def take_batch(self) -> OutboxBatch[T]:
        """Take all waiting pieces, at most about `frame_bytes`; waits for the first piece.

        For one writer, which has written the last batch when it calls again.
        """
        self._writing = False
        self._notify_drained()
        while not self._pieces:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        frame: list[bytes] = []
        tokens: list[T] = []
        size = 0
        while self._pieces and (not size or size + len(self._pieces[0][0]) <= self._frame_bytes):
            piece, token = self._pieces.popleft()
            frame.append(piece)
            tokens.append(token)
            size += len(piece)
        self.bytes -= size
        self._writing = True
        return OutboxBatch(frame_of(frame), tokens)

    def clear(self) -> list[T]:
        """Drop all that waits, and return the tokens; there is no writer any more."""
        tokens = [token for _, token in self._pieces]
        self._pieces.clear()
        self.bytes = 0
        self._writing = False
        self._notify_drained()
        return tokens

    async def wait_until_drained(self) -> None:
        """Return when everything was written."""
        while self._pieces or self._writing:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def _notify_drained(self) -> None:
        if self._drained is not None and not self._drained.done() and not self._pieces:
            self._drained.set_result(None)
