"""A token bucket: a rate per second, and a burst at once. Times are those of a monotonic clock, in seconds.

A request larger than the burst passes when the bucket is full, and leaves a debt, so that every batch passes at some
time. Over any time no more is taken than `rate` for it, the burst, and what one batch has beyond that.
"""

import math
from typing import Final

# The time over which taken tokens are averaged.
_MEMORY_S: Final = 2.0


class TokenBucket:
    """A token bucket. Invariant: the level is at most `capacity`; below 0 it is a debt."""

    __slots__ = ("_at", "_burst_s", "_level", "_taken", "_taken_at", "capacity", "rate")

    def __init__(self, rate: float, burst_s: float, now: float) -> None:
        """The bucket begins full. `rate` is tokens per second, above 0."""
        self.rate = rate
        self._burst_s = burst_s
        self.capacity = max(1.0, rate * burst_s)
        self._level = self.capacity
        self._at = now
        self._taken = 0.0
        self._taken_at = now

    def token_level(self, now: float) -> float:
        """Return how many tokens there are."""
        if now > self._at:
            self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
            self._at = now
        return self._level

    def wait_s(self, amount: float, now: float) -> float:
        """Return 0 if so many tokens can be taken, else the seconds until then, if no one else takes any."""
        missing = min(amount, self.capacity) - self.token_level(now)
        # Less than that is a rounding error: a caller that comes back on time must not be refused.
        return missing / self.rate if missing > 1e-6 * self.capacity else 0.0

    def take_tokens(self, amount: float, now: float) -> None:
        """Take tokens, whether they are there or not."""
        self._level = self.token_level(now) - amount
        self._taken = self._recently_taken(now) + amount
        self._taken_at = now

    def taken_per_s(self, now: float) -> float:
        """Return how many tokens per second were taken lately."""
        return self._recently_taken(now) / _MEMORY_S

    def _recently_taken(self, now: float) -> float:
        return self._taken * math.exp((self._taken_at - now) / _MEMORY_S)

    def give_back(self, amount: float) -> None:
        """Return tokens that were taken and not used."""
        self._level = min(self.capacity, self._level + amount)
        self._taken -= amount

    def set_rate(self, rate: float, now: float) -> None:
        """Set the rate; a debt stays, and the level is at most the new burst."""
        level = self.token_level(now)
        self.rate = rate
        self.capacity = max(1.0, rate * self._burst_s)
        self._level = min(level, self.capacity)

    def is_full(self, now: float) -> bool:
        """Return whether the bucket is as if it were new."""
        return self.token_level(now) >= self.capacity
