"""The time of a turn of the event loop: looked at once, for all that is settled in it."""

from ternmq_common.clock import Clock
from ternmq_common.turn_end import turn_end


class TurnClock:
    """Over a clock; what is settled before the turn ends is settled at the time that the first of it was."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ms = 0
        clock.on_jump(self._forget)

    def checked_ms(self) -> int:
        """As `Clock.checked_ms`, a turn of the loop ago at most."""
        if not self._now_ms:
            self._now_ms = self._clock.checked_ms()
            turn_end().work(self._forget)
        return self._now_ms

    def _forget(self) -> None:
        self._now_ms = 0
