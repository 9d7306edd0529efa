"""Notices when the machine's clock is set, says so, and tells all who sleep until a time of it.

Between two looks the wall clock and the monotonic clock must have gone on alike. What drifts less than half a second
from one look to the next is no jump: time servers slew, and machines are suspended for a moment.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import Clock

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
JUMP_MS = 500


def make_up_for(clock: "Clock", last_stored_ms: int) -> None:
    """Deal with messages that are from the future: a test clock goes on from there, of others it is said.

    New messages are stored with the time of the newest one until the clock is there.
    """
    behind_ms = last_stored_ms - clock.now_ms()
    if behind_ms <= 0:
        return
    if isinstance(clock, MovableClock):
        clock.advance(behind_ms)
    elif behind_ms > JUMP_MS:
        _log.warning("the clock is %.1f s behind the time at which the newest message was stored", behind_ms / 1000)


class ClockWatch:
    """Looks at the clock every second."""

    def __init__(self, clock: "Clock", *, wall_ms: "Callable[[], int]" = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock = clock
        self._wall_ms = wall_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="clock watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        ahead_ms = self._ahead_ms()
        while True:
            await asyncio.sleep(_LOOK_S)
            ahead_ms = self.look(ahead_ms)

    def look(self, before_ms: float) -> float:
        """How far the wall clock is ahead of the monotonic one, after `before_ms` at the look before."""
        ahead_ms = self._ahead_ms()
        jump_ms = ahead_ms - before_ms
        if abs(jump_ms) >= JUMP_MS:
            direction = "forward" if jump_ms > 0 else "back"
            _log.warning(
                "the clock was set %s by %.1f s; what waits for a time is looked at again",
                direction,
                abs(jump_ms) / 1000,
            )
            self._clock.jumped()
        return ahead_ms

    def _ahead_ms(self) -> float:
        return self._wall_ms() - time.monotonic() * 1000
