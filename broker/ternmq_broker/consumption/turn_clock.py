"""A clock that is read once a turn of the event loop, for everything that is settled in that turn."""

from ternmq_common.clock import SystemClock
from ternmq_common.event_loop.turn_end import TurnEnd, turn_end


class TurnClock:
    """Gives all of one turn of the event loop the same time."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._now_ms = 0
        self._turn_end: TurnEnd | None = None
        clock.on_jump(self._forget_time)

    def checked_ms(self) -> int:
        """Return the time of `Clock.checked_ms`, at most one turn of the loop old."""
        if not self._now_ms:
            self._now_ms = self._clock.checked_ms()
            if self._turn_end is None:
                self._turn_end = turn_end()
            self._turn_end.add_work(self._forget_time)
        return self._now_ms

    def _forget_time(self) -> None:
        self._now_ms = 0
