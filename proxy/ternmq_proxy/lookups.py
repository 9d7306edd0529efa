"""When to query the registry for what isn't known here.

What another proxy made must be found by who asks after that, so each question is answered by a read of the registry
that begins after it; all that wait share the next one. Clients that ask for what isn't there must not keep a database
busy: no more than READS_PER_S reads begin a second, beyond a few at once, and of a registry that is out one a second.
"""

import asyncio
import math
from typing import TYPE_CHECKING

from ternmq_proxy.quotas.bucket import TokenBucket
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_registry.directory import Directory

READS_PER_S = 50.0
READS_AT_ONCE = 100
OUT_S = 1.0


class Lookups:
    """`now` is a monotonic clock in seconds."""

    def __init__(
        self,
        directory: "Directory",
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

    async def look(self) -> None:
        """Have the directory know what is there now; `RegistryUnavailable` if nobody can tell."""
        if self._directory.problem is not None and self._now() - self._failed_at < OUT_S:
            raise RegistryUnavailable(self._directory.problem)
        if self._next is None:
            self._next = asyncio.create_task(self._read(), name="registry lookup")
        error = await asyncio.shield(self._next)
        if error is not None:
            raise error

    async def _read(self) -> RegistryUnavailable | None:
        """For all who wait; an error is theirs, also if none of them is left."""
        wait_s = self._pace.wait_s(1, self._now())
        if wait_s:
            await self._sleep(wait_s)
        self._pace.take(1, self._now())
        self._next = None  # whoever comes from here on needs another
        try:
            await self._directory.refresh()
        except RegistryUnavailable as error:
            self._failed_at = self._now()
            return error
        return None
