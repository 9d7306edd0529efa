"""Notices when the machine's clock is set, logs it, and reports the jump to all that wait for a time of that clock.

Between two checks the wall clock and the monotonic clock must have advanced alike. A difference of less than half a
second is no jump: time servers slew the clock, and machines are suspended for a moment.

Code that is about to end something because its time has passed has the clock checked first (`Clock.checked_ms`): what
only a jump has passed is rebased, not ended.
"""

import logging
import time
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock
from ternmq_common.event_loop.background_loop import BackgroundLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import SystemClock

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
JUMP_MS = 500


def catch_up_clock(clock: "SystemClock", last_stored_ms: int) -> None:
    """Deal with stored messages whose time is in the future: move a test clock forward, log it for a real one.

    New messages are stored with the time of the newest one until the clock has reached it.
    """
    behind_ms = last_stored_ms - clock.now_ms()
    if behind_ms <= 0:
        return
    if isinstance(clock, MovableClock):
        clock.advance_by(behind_ms)
    elif behind_ms > JUMP_MS:
        _log.warning("the clock is %.1f s behind the time at which the newest message was stored", behind_ms / 1000)


class ClockWatch(BackgroundLoop):
    """Checks the clock every second."""

    def __init__(
        self, clock: "SystemClock", *, wall_ms: "Callable[[], int]" = lambda: time.time_ns() // 1_000_000
    ) -> None:
        super().__init__(self.check_clock, name="clock watch", what="the clock could not be checked", every_s=_LOOK_S)
        self._clock = clock
        self._wall_ms = wall_ms
        self._last_ahead_ms = wall_ms() - time.monotonic() * 1000
        clock.set_watcher(self.check_clock)

    def check_clock(self) -> None:
        """Check the clock now; all that depends on it has been notified of a jump when this returns."""
        ahead_ms = self._wall_ms() - time.monotonic() * 1000
        jump_ms = ahead_ms - self._last_ahead_ms
        self._last_ahead_ms = ahead_ms
        if abs(jump_ms) >= JUMP_MS:
            self._report_jump(jump_ms)

    def _report_jump(self, jump_ms: float) -> None:
        _log.warning(
            "the clock was set %s by %.1f s; claims keep their remaining time, and timers are checked again",
            "forward" if jump_ms > 0 else "back",
            abs(jump_ms) / 1000,
        )
        self._clock.notify_jump(round(jump_ms))
