"""The clock that stored times and deadlines are read from: the wall clock, or one that tests can move.

A wall clock jumps when somebody sets it. Whoever remembers when spans end, which are no times of the day, asks to be
notified by how much (`on_set`); whoever sleeps until a time of this clock asks for that too (`on_jump`), and looks
again then. The test clock jumps too, but is not set: there the time has passed.
"""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def now_ms() -> int:
    """Milliseconds since the epoch, by the machine's clock."""
    return time.time_ns() // 1_000_000


class Clock:
    """The machine's clock. Belongs to the event loop's thread, but for `now_ms`."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._set_listeners: list[Callable[[int], None]] = []
        self._check: Callable[[], None] | None = None
        self._judge: Callable[[], str | None] | None = None

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def on_jump(self, listener: "Callable[[], None]") -> None:
        """Have `listener` called after each jump, in the order of these calls."""
        self._listeners.append(listener)

    def on_set(self, listener: "Callable[[int], None]") -> None:
        """Have `listener` called with the milliseconds by which the clock was set, before those of `on_jump`."""
        self._set_listeners.append(listener)

    def watched_by(self, check: "Callable[[], None]") -> None:
        """Who notices when the clock was set."""
        self._check = check

    def check(self) -> None:
        """Whoever listens has heard of it when this returns, if the clock was set until now."""
        if self._check is not None:
            self._check()

    def judged_by(self, judge: "Callable[[], str | None]") -> None:
        """Who knows a better clock, and says why this one can't be relied on, None while it can."""
        self._judge = judge

    def problem(self) -> str | None:
        """Why nobody knows which time it is: what goes by a time of the day has to wait. None: it is known, as far as
        anybody can tell."""
        return None if self._judge is None else self._judge()

    def checked_ms(self) -> int:
        """The time by which something may be ended: nothing is ended since the clock was set a moment ago."""
        self.check()
        return self.now_ms()

    def jumped(self, set_by_ms: int = 0) -> None:
        """Tell everybody that time did not just go by; the clock was set by so much, if by anything."""
        if set_by_ms:
            for rebase in self._set_listeners:
                rebase(set_by_ms)
        for listener in self._listeners:
            listener()


class MovableClock(Clock):
    """A clock that goes with the machine's, `ahead_ms` before it, and can be moved further ahead."""

    def __init__(self, ahead_ms: int = 0) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def advance(self, milliseconds: int) -> None:
        """Let so much time have passed, and notify everybody."""
        assert milliseconds >= 0
        self.ahead_ms += milliseconds
        self.jumped()
