"""Limits how many topics and groups are created by their use each minute, and creates each once for all callers.

All of a minute's creations may come at once; after that they come free one by one. Topics that operators create have no
limit: only creation by use does, since any client can cause it.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.pacing.bucket import TokenBucket
from ternmq_common.pacing.log_throttle import LogThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_log = logging.getLogger(__name__)
_MINUTE_S = 60.0


class AutoCreation:
    """Creates topics and groups. `now` is a monotonic clock in seconds."""

    def __init__(self, *, per_minute: int, now: "Callable[[], float]") -> None:
        self._per_minute = per_minute
        self._now = now
        self._pace = TokenBucket(per_minute / _MINUTE_S, _MINUTE_S, now())
        self._log_throttle = LogThrottle(now)
        self._making: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def create_once(
        self,
        kind: str,
        name: str,
        create: "Callable[[], Coroutine[Any, Any, None]]",
        admit: "Callable[[], None] | None" = None,
    ) -> None:
        """Run `create` for the `topic` or `group` of that name; a failed creation does not count.

        Raises TOO_MANY_REQUESTS if the limit is reached, without creating anything. `admit` is called first, unless a
        creation of it is already under way, and may raise too.
        """
        making = self._making.get((kind, name))
        if making is None:
            if admit is not None:
                admit()
            self._take_token(kind, name)
            making = self._making[kind, name] = asyncio.create_task(self._create_counted(kind, name, create))
            making.add_done_callback(_retrieve_error)
        await asyncio.shield(making)  # others may wait for it too

    async def _create_counted(self, kind: str, name: str, create: "Callable[[], Coroutine[Any, Any, None]]") -> None:
        try:
            await create()
        except BaseException:
            self._pace.give_back(1)
            raise
        finally:
            del self._making[kind, name]

    def _take_token(self, kind: str, name: str) -> None:
        now = self._now()
        if not self._pace.wait_s(1, now):
            self._pace.take_tokens(1, now)
            return
        if self._log_throttle.is_due():
            _log.warning(
                "auto-creation is throttled to %d topics and groups a minute (auto_create_per_minute); refused, among "
                "others: %s %s",
                self._per_minute, kind, name,
            )  # fmt: skip
        raise MessagingError(
            ErrorCode.TOO_MANY_REQUESTS,
            f"{kind} {name!r} does not exist, and auto-creation is throttled to {self._per_minute} topics and groups a "
            f"minute (auto_create_per_minute); create it with `ternmq {kind} create {name}`, or try again later",
        )


def _retrieve_error(task: "asyncio.Task[None]") -> None:
    """Retrieve the error, which the waiting callers had, so that asyncio does not log it if they are all gone."""
    if not task.cancelled():
        task.exception()
