"""When a thing that clients can bring about as often as they like is said in the log again."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

INTERVAL_S = 60.0
SUBJECTS_MAX = 1024


class Seldom:
    """Says yes once a minute for each subject, and remembers `SUBJECTS_MAX` of them: beyond that many within a minute
    it says no. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._now = now
        self._said_at: dict[Hashable, float] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._said_at)

    def is_due(self, subject: "Hashable" = None) -> bool:
        """Whether it is time to say it, which counts as said then."""
        now = self._now()
        while self._said_at and now - self._said_at[oldest := next(iter(self._said_at))] >= INTERVAL_S:
            del self._said_at[oldest]
        if subject in self._said_at or len(self._said_at) >= SUBJECTS_MAX:
            return False
        self._said_at[subject] = now
        return True
