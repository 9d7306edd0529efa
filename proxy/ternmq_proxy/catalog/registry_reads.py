"""Reads of the registry for topics and groups that this process does not know.

A client must find what another proxy created before the client's request, so a read that begins after the request
answers it; all waiting requests share the next read. Requests for missing names must not keep the database busy: at
most READS_PER_S reads begin per second, beyond a few at once, and one per second while the registry is unavailable.
"""

import asyncio
import math
from typing import TYPE_CHECKING

from ternmq_common.pacing.bucket import TokenBucket
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_registry.directory import RegistryDirectory

READS_PER_S = 50.0
READS_AT_ONCE = 100
OUT_S = 1.0


class RegistryReads:
    """Reads the registry, one read for all waiting requests. `now` is a monotonic clock in seconds."""

    def __init__(
        self,
        directory: "RegistryDirectory",
        now: "Callable[[], float]",
        *,
        sleep: "Callable[[float], Awaitable[None]]" = asyncio.sleep,
    ) -> None:
        self._directory = directory
        self._now = now
        self._sleep = sleep
        self._pace = TokenBucket(READS_PER_S, READS_AT_ONCE / READS_PER_S, now())
        self._failed_at = -math.inf
        self._next: asyncio.Task[RegistryUnavailable | None] | None = None

    async def refresh_directory(self) -> None:
        """Refresh the directory from the registry. Raises RegistryUnavailable."""
        if self._directory.problem is not None and self._now() - self._failed_at < OUT_S:
            raise RegistryUnavailable(self._directory.problem)
        if self._next is None:
            self._next = asyncio.create_task(self._read_registry(), name="registry read")
        error = await asyncio.shield(self._next)
        if error is not None:
            raise error

    async def _read_registry(self) -> RegistryUnavailable | None:
        """Read the registry for all waiting requests, which also get the error, even if none of them is left."""
        wait_s = self._pace.wait_s(1, self._now())
        if wait_s:
            await self._sleep(wait_s)
        self._pace.take_tokens(1, self._now())
        self._next = None  # later requests need another read
        try:
            await self._directory.refresh_snapshot()
        except RegistryUnavailable as error:
            self._failed_at = self._now()
            return error
        return None
