"""Decides whether a send is served under overload; pure, and for one process.

Wait        is how long received bytes have not been processed; connections take turns, so bytes of a quiet connection
            wait for a turn, and those of a busy one for everything before them on it.
Overload    begins when some waited longer than `target_s` each time for a tenth of a second, at least three times (as
            in CoDel): a burst passes, and a moment in which the machine stood still, a standing queue does not. From
            then on sends that waited longer are refused, which are those of the senders with most under way.
End         when nothing had to be refused for a second.
"""

from typing import Final

INTERVAL_S: Final = 0.1
_QUIET_INTERVALS: Final = 10
_SEEN_MIN: Final = 3


class SendShedder:
    """Decides which sends are shed. `refused` counts since the start. Times are in seconds of a monotonic clock."""

    __slots__ = (
        "_interval_end",
        "_least_s",
        "_quiet",
        "_refused_before",
        "_seen",
        "is_shedding",
        "refused",
        "target_s",
    )

    def __init__(self, target_s: float, now: float) -> None:
        self.target_s = target_s
        self.is_shedding = False
        self.refused = 0
        self._quiet = 0
        self.start_watching(now)

    def start_watching(self, now: float) -> None:
        """Start to watch, without a past."""
        self._least_s = float("inf")
        self._seen = 0
        self._interval_end = now + INTERVAL_S
        self._refused_before = self.refused

    def refuses_send(self, waited_s: float) -> bool:
        """Return whether a send that waited so long is refused."""
        if not self.is_shedding or waited_s <= self.target_s:
            return False
        self.refused += 1
        return True

    def observe_wait(self, wait_s: float, now: float) -> None:
        """Observe the longest wait of this moment."""
        self._least_s = min(self._least_s, wait_s)
        self._seen += 1
        if now >= self._interval_end and self._seen >= _SEEN_MIN:
            self._decide_shedding()
            self.start_watching(now)

    def _decide_shedding(self) -> None:
        if not self.is_shedding:
            self.is_shedding = self._least_s > self.target_s
            self._quiet = 0
        elif self.refused > self._refused_before:
            self._quiet = 0
        else:
            self._quiet += 1
            self.is_shedding = self._quiet < _QUIET_INTERVALS
