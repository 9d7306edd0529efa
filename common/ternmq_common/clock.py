"""The clock that stored times and deadlines are read from: the wall clock, or one that tests can move.

A wall clock jumps when somebody sets it. Whoever sleeps until a time of this clock asks to be told (`on_jump`), and
looks again then.
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

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def on_jump(self, listener: "Callable[[], None]") -> None:
        """Have `listener` called after each jump, in the order of these calls."""
        self._listeners.append(listener)

    def jumped(self) -> None:
        """Tell everybody that time did not just go by."""
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
        """Let so much time have passed, and tell everybody."""
        assert milliseconds >= 0
        self.ahead_ms += milliseconds
        self.jumped()
