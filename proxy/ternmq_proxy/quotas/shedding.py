"""Whether a send is served while there is more to do than can be done; pure, and of one process.

Delay       is how late the event loop comes to what is due: as long a request waits before anybody has seen it.
Overload    when that was more than `target_s` each time for a tenth of a second, three times at least (as CoDel has
            it): a burst passes, and a moment in which the machine stood still, a queue that stands does not. From then
            on no more sends are under way together than `limit`, which falls while the delay is too long and grows
            while it is not.
Fair        a caller that has less under way than an equal part of the limit is served; those that have most are
            refused. Beyond twice the limit everybody is.
End         when for a second nobody had to be refused.
"""

INTERVAL_S = 0.1
LIMIT_MIN = 8
_LESS, _MORE = 0.7, 1.1
_QUIET_INTERVALS = 10
_SEEN_MIN = 3


class Shedder:
    """Invariant: `under_way` is the sum of what each caller has under way, all of them above 0."""

    __slots__ = (
        "_by_caller",
        "_interval_end",
        "_least_s",
        "_most_under_way",
        "_quiet",
        "_refused_before",
        "_seen",
        "limit",
        "refused",
        "target_s",
        "under_way",
    )

    def __init__(self, target_s: float, now: float) -> None:
        """`now` is a monotonic clock in seconds."""
        self.target_s = target_s
        self.limit: float | None = None
        """How many sends may be under way; None while there is no overload."""
        self.refused = 0
        self.under_way = 0
        self._by_caller: dict[str, int] = {}
        self._most_under_way = 0
        self._least_s: float | None = None
        self._interval_end = now + INTERVAL_S
        self._refused_before = 0
        self._quiet = 0
        self._seen = 0

    def enters(self, caller: str) -> bool:
        """Whether a send of this caller is served, which is under way then until it `leaves`."""
        own = self._by_caller.get(caller, 0)
        limit = self.limit
        if limit is not None and self.under_way >= limit:
            fair = limit / len(self._by_caller) if self._by_caller else limit
            if own >= max(1.0, fair) or self.under_way >= 2 * limit:
                self.refused += 1
                return False
        self._by_caller[caller] = own + 1
        self.under_way += 1
        if self.under_way > self._most_under_way:
            self._most_under_way = self.under_way
        return True

    def leaves(self, caller: str) -> None:
        """A send of this caller is answered."""
        self.under_way -= 1
        own = self._by_caller[caller] - 1
        if own:
            self._by_caller[caller] = own
        else:
            del self._by_caller[caller]

    def observe(self, delay_s: float, now: float) -> None:
        """The loop came so late to what was due."""
        if self._least_s is None or delay_s < self._least_s:
            self._least_s = delay_s
        self._seen += 1
        if now >= self._interval_end and self._seen >= _SEEN_MIN:
            self._decide(self._least_s)
            self._seen = 0
            self._interval_end = now + INTERVAL_S
            self._least_s = None
            self._most_under_way = self.under_way
            self._refused_before = self.refused

    def _decide(self, least_s: float) -> None:
        if least_s > self.target_s:
            standing = self._most_under_way if self.limit is None else self.limit
            if standing >= LIMIT_MIN:  # else it is not sends that hold the loop
                self.limit = max(float(LIMIT_MIN), standing * _LESS)
            self._quiet = 0
        elif self.limit is not None:
            self._quiet = 0 if self.refused > self._refused_before else self._quiet + 1
            self.limit = None if self._quiet >= _QUIET_INTERVALS else self.limit * _MORE + 1
