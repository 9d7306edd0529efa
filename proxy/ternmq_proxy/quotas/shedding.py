"""Whether a send is served while there is more to do than can be done; pure, and of one process.

Wait        is how long bytes that came have not been looked at; connections take turns, so those of one that sends
            little wait for a turn, and those of one that sends much for all that came before them on it.
Overload    when some waited longer than `target_s` each time for a tenth of a second, three times at least (as CoDel
            has it): a burst passes, and a moment in which the machine stood still, a queue that stands does not. From
            then on sends that waited longer are refused, whose senders are those that have most under way.
End         when for a second nobody had to be refused.
"""

INTERVAL_S = 0.1
_QUIET_INTERVALS = 10
_SEEN_MIN = 3


class SendShedder:
    """`refused` counts since the start. Times are in seconds of a monotonic clock."""

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
        """Look from now on, as if nothing had been seen."""
        self._least_s = float("inf")
        self._seen = 0
        self._interval_end = now + INTERVAL_S
        self._refused_before = self.refused

    def refuses_send(self, waited_s: float) -> bool:
        """Whether a send that waited so long is refused."""
        if not self.is_shedding or waited_s <= self.target_s:
            return False
        self.refused += 1
        return True

    def observe_wait(self, wait_s: float, now: float) -> None:
        """Whatever waits longest does so for that long."""
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
