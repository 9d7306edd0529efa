"""Notices when the machine's clock is set, says so, and tells all who sleep until a time of it.

Between two looks the wall clock and the monotonic clock must have gone on alike. What drifts less than half a second
from one look to the next is no jump: time servers slew, and machines are suspended for a moment.

Who is about to end something since its time has passed has the clock looked at first (`Clock.checked_ms`): what only a
jump has passed is to be rebased, not ended.
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
        self._looked_ms = self._ahead_ms()
        clock.watched_by(self.check)

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="clock watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self.check()

    def check(self) -> None:
        """Look at once; what depends on the clock has heard of a jump when this returns."""
        before_ms, self._looked_ms = self._looked_ms, self._ahead_ms()
        self._tell(self._looked_ms - before_ms)

    def _tell(self, jump_ms: float) -> None:
        if abs(jump_ms) >= JUMP_MS:
            direction = "forward" if jump_ms > 0 else "back"
            _log.warning(
                "the clock was set %s by %.1f s; claims keep their remaining time, and timers are checked again",
                direction,
                abs(jump_ms) / 1000,
            )
            self._clock.jumped(round(jump_ms))

    def _ahead_ms(self) -> float:
        return self._wall_ms() - time.monotonic() * 1000
