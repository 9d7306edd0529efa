"""The difference between this process's clock and the registry's, which all processes of a cluster share.

Reading   each read of the registry (`Directory`) gets its time, between two moments of our monotonic clock: so its
          time is known as well as half of the time between them. The monotonic clock goes on from there, so that a
          changed clock is noticed at once, and also while the registry is away.
Limits    the skew exceeds a limit if it does so for any possible reading; it is back when it is safely within the
          limit.
Wrong     beyond the second limit the time is unknown. Work by times of the day then waits: timed messages are not
          accepted and not delivered, and nothing is removed for its age (`Clock.problem`).
Embedded  there is no second clock, and no skew.
"""

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import SystemClock

_log = logging.getLogger(__name__)
# Hysteresis: a skew near a limit is not logged again and again.
_WITHIN = 0.8


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A reading of the other clock, in milliseconds since the epoch, between two moments of the monotonic clock."""

    other_ms: int
    requested_s: float
    answered_s: float

    @property
    def uncertainty_ms(self) -> float:
        return (self.answered_s - self.requested_s) * 500

    def time_ms(self, at_s: float) -> float:
        """The other clock's time at that moment of the monotonic one."""
        return self.other_ms + (at_s - (self.requested_s + self.answered_s) / 2) * 1000


def is_beyond(skew_ms: float, uncertainty_ms: float, limit_ms: float, *, was: bool) -> bool:
    """Whether the limit is passed; what it `was` before where the uncertainty is too large."""
    if abs(skew_ms) - uncertainty_ms > limit_ms:
        return True
    return was and abs(skew_ms) + uncertainty_ms > limit_ms * _WITHIN


class ClockSkew:
    """The clock skew of one process; for the event loop's thread, but for `skew_s`. With `max_ms` 0 no clock is
    wrong."""

    def __init__(
        self, clock: "SystemClock", *, warn_ms: int, max_ms: int, now_s: "Callable[[], float]" = time.monotonic
    ) -> None:
        self._clock = clock
        self._warn_ms = warn_ms
        self._max_ms = max_ms
        self._now_s = now_s
        self._reading: ClockReading | None = None
        self._is_warned = self._is_wrong = False
        clock.set_judge(self.check_skew)

    @property
    def skew_s(self) -> float | None:
        """How many seconds this clock is ahead, below 0 behind; None before the first reading."""
        reading = self._reading
        return None if reading is None else (self._clock.now_ms() - reading.time_ms(self._now_s())) / 1000

    def note_reading(self, reading: "ClockReading | None") -> None:
        """Note a reading of the registry's clock, if it has one of its own."""
        if reading is not None:
            self._reading = reading

    def check_skew(self) -> str | None:
        """Why the clock can't be relied on now, None if it can; logs changes."""
        skew_s = self.skew_s
        if skew_s is None or self._reading is None:
            return None
        uncertainty_ms = self._reading.uncertainty_ms
        was_wrong, was_warned = self._is_wrong, self._is_warned
        self._is_wrong = self._max_ms > 0 and is_beyond(skew_s * 1000, uncertainty_ms, self._max_ms, was=was_wrong)
        self._is_warned = is_beyond(skew_s * 1000, uncertainty_ms, self._warn_ms, was=was_warned)
        if (self._is_wrong, self._is_warned) != (was_wrong, was_warned):
            self._log_change(skew_s)
        return self._describe_problem(skew_s) if self._is_wrong else None

    def _describe_problem(self, skew_s: float) -> str:
        return (
            f"the clock is {_render_skew(skew_s)} the registry's, beyond expert.clock_skew_max_ms "
            f"({self._max_ms / 1000:g} s): "
            "timed messages are not accepted and not delivered, and none is removed for its age"
        )

    def _log_change(self, skew_s: float) -> None:
        if self._is_wrong:
            _log.error("%s, until it is right; look at the NTP of both machines", self._describe_problem(skew_s))
        elif self._is_warned:
            _log.warning("the clock is %s the registry's: look at the NTP of both machines", _render_skew(skew_s))
        else:
            _log.info("the clock agrees with the registry's again: it is %s that one", _render_skew(skew_s))


def _render_skew(skew_s: float) -> str:
    return f"{abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'}"
