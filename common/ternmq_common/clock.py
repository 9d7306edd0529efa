"""The clock for stored times and deadlines: the wall clock, or one that tests can move.

A wall clock jumps when it is set. Code that remembers ends of durations, which are no times of the day, registers to
be notified by how much (`on_set`); code that sleeps until a time of this clock registers too (`on_jump`), and checks
again. The test clock jumps too, but is not set: there the time has passed.
"""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def now_ms() -> int:
    """Milliseconds since the epoch, by the machine's clock."""
    return time.time_ns() // 1_000_000


class SystemClock:
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
        """Call `listener` after each jump, in the order of registration."""
        self._listeners.append(listener)

    def on_set(self, listener: "Callable[[int], None]") -> None:
        """Call `listener` with the milliseconds by which the clock was set, before the listeners of `on_jump`."""
        self._set_listeners.append(listener)

    def set_watcher(self, check: "Callable[[], None]") -> None:
        """Set the function that notices when the clock was set."""
        self._check = check

    def check_for_jump(self) -> None:
        """Notify the listeners if the clock was set; they have been called when this returns."""
        if self._check is not None:
            self._check()

    def set_judge(self, judge: "Callable[[], str | None]") -> None:
        """Set the function that compares with a better clock; it returns why this one can't be relied on, or None."""
        self._judge = judge

    def find_problem(self) -> str | None:
        """Why the time is unknown, so that what depends on the time of the day must wait; None if it is known."""
        return None if self._judge is None else self._judge()

    def checked_ms(self) -> int:
        """The time to decide whether something has ended; first checks that the clock was not set just now."""
        self.check_for_jump()
        return self.now_ms()

    def notify_jump(self, set_by_ms: int = 0) -> None:
        """Notify the listeners that time did not just go by; the clock was set by `set_by_ms`, if it is not 0."""
        if set_by_ms:
            for rebase in self._set_listeners:
                rebase(set_by_ms)
        for listener in self._listeners:
            listener()


class MovableClock(SystemClock):
    """A clock that runs `ahead_ms` before the machine's, and can be moved further ahead."""

    def __init__(self, ahead_ms: int = 0) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def advance_by(self, milliseconds: int) -> None:
        """Let so much time pass at once, and notify the listeners."""
        assert milliseconds >= 0
        self.ahead_ms += milliseconds
        self.notify_jump()
