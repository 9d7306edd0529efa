"""Whether the commit log can be written, when to log a failure, and when to probe the disk next."""

_PROBE_WAIT_MAX_S = 60.0
_LOG_AGAIN_S = 60.0


class FailedWrites:
    """`problem` is why the commit log can't be written, None while it can. Times are of one monotonic clock."""

    def __init__(self, every_s: float) -> None:
        """A write is tried at most every `every_s` seconds."""
        self._every_s = every_s
        self.problem: str | None = None
        self._probe_s = self._logged_s = 0.0
        self._worked_s = float("-inf")
        self._wait_s = every_s

    def note_failure(self, error: OSError, now_s: float) -> bool:
        """Note that an append failed; returns whether to log it."""
        is_news = self.problem is None
        self.problem = error.strerror or str(error)
        if is_news:
            # Where the probe works and appends do not, each round refuses a message.
            soon = now_s - self._worked_s < 2 * self._wait_s
            self._wait_s = min(2 * self._wait_s, _PROBE_WAIT_MAX_S) if soon else self._every_s
            self._probe_s, self._logged_s = now_s + self._wait_s, now_s
        return is_news

    def note_failed_probe(self, error: OSError, now_s: float) -> bool:
        """Note that the probe failed; returns whether to log it."""
        self.problem = error.strerror or str(error)
        self._probe_s = now_s + self._wait_s
        is_due = now_s - self._logged_s >= _LOG_AGAIN_S
        if is_due:
            self._logged_s = now_s
        return is_due

    def is_probe_due(self, now_s: float) -> bool:
        """Whether it is time to try a write."""
        return self.problem is not None and now_s >= self._probe_s

    def note_success(self, now_s: float) -> None:
        """Note that the probe worked."""
        self.problem, self._worked_s = None, now_s
