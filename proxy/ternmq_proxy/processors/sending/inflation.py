"""Inflates bodies within limits: a kilobyte can become a megabyte, so all requests together have limited room.

Small bodies are inflated at once, and share 32 MiB among all requests. Requests with a large body, and those that
arrive when the 32 MiB are used up, take turns: each inflates in a thread, one body at a time, and keeps its room until
its messages are stored.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import KIB, MIB
from ternmq_proxy.processors.sending.compression import Compression, InflatedBody

if TYPE_CHECKING:
    from ternmq_common.limits import RequestLimits

LARGE_AT_ONCE = 1
SMALL_BYTES_IN_ALL = 32 * MIB
SMALL_COMPRESSED_MAX = 64 * KIB
SMALL_INFLATED_MAX = 256 * KIB


class InflationRoom:
    """The room for inflated bodies in a process; small ones share `small_bytes_max`."""

    def __init__(self, small_bytes_max: int = SMALL_BYTES_IN_ALL) -> None:
        self._small_bytes_max = small_bytes_max
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._small_bytes = 0

    def take_small(self, size: int) -> bool:
        """Take room for small bodies; return whether there is enough."""
        if self._small_bytes + size > self._small_bytes_max:
            return False
        self._small_bytes += size
        return True

    async def take_large(self) -> None:
        """Wait for the turn of a request with large bodies."""
        await self._large.acquire()

    def release(self, small_bytes: int, *, large: bool) -> None:
        """Give back the room of a request: bytes of small bodies, and the turn of large ones."""
        self._small_bytes -= small_bytes
        if large:
            self._large.release()


class RequestInflation:
    """The compressed bodies of one request; call `release` when its messages are stored, or refused."""

    __slots__ = ("_bytes", "_is_large", "_limits", "_room", "_small_bytes")

    def __init__(self, room: InflationRoom, limits: "RequestLimits") -> None:
        self._room = room
        self._limits = limits
        self._bytes = self._small_bytes = 0
        self._is_large = False

    def release(self) -> None:
        """Give back the room that the bodies took."""
        self._room.release(self._small_bytes, large=self._is_large)
        self._small_bytes, self._is_large = 0, False

    async def inflate_body(
        self, compressed: bytes, body_bytes_max: int, compression: Compression = Compression.GZIP
    ) -> bytes | None:
        """Return the inflated body; None if it stays compressed, since it would exceed the limit of bodies, or
        has data after its first part.

        Raises MESSAGE_CORRUPTED for a body that is not compressed or not complete; TOO_MANY_REQUESTS when all bodies of
        the request are too large.
        """
        if len(compressed) <= SMALL_COMPRESSED_MAX and not self._is_large:
            small = InflatedBody(compressed, min(SMALL_INFLATED_MAX, body_bytes_max), compression)
            if small.fits and self._room.take_small(len(small.body)):
                self._small_bytes += len(small.body)
                return self._count_inflated(small)
        if not self._is_large:
            await self._room.take_large()
            self._is_large = True
        most = min(body_bytes_max, self._limits.inflated_bytes_max - self._bytes)
        return self._count_inflated(await asyncio.to_thread(InflatedBody, compressed, most, compression))

    def _count_inflated(self, inflated: InflatedBody) -> bytes | None:
        self._bytes += len(inflated.body)
        if self._bytes > self._limits.inflated_bytes_max:
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"the bodies of the request have more than {self._limits.inflated_bytes_max} bytes once they are "
                "inflated; send them in several requests (request_inflated_bytes_max)",
            )
        return inflated.whole_body()
