"""A token bucket: so many a second, and a burst of them at once. Time is a monotonic clock's, in seconds.

What is more than the burst passes when the bucket is full, and leaves a debt, so that a batch is never too large for
ever. Over any time no more is taken than `rate` of them, the burst, and what one batch has more than that.
"""

import math

# Over which what was taken is averaged.
_MEMORY_S = 2.0


class TokenBucket:
    """Invariant: the level is at most `capacity`; below 0 it is a debt."""

    __slots__ = ("_at", "_burst_s", "_level", "_taken", "_taken_at", "capacity", "rate")

    def __init__(self, rate: float, burst_s: float, now: float) -> None:
        """Full. `rate` is tokens a second, above 0."""
        self.rate = rate
        self._burst_s = burst_s
        self.capacity = max(1.0, rate * burst_s)
        self._level = self.capacity
        self._at = now
        self._taken = 0.0
        self._taken_at = now

    def token_level(self, now: float) -> float:
        """Tokens that are there."""
        if now > self._at:
            self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
            self._at = now
        return self._level

    def wait_s(self, amount: float, now: float) -> float:
        """0 if so many can be taken, else the seconds until then, if nobody else takes any."""
        missing = min(amount, self.capacity) - self.token_level(now)
        # Less than that is an error of rounding: who comes when told to must not be sent away.
        return missing / self.rate if missing > 1e-6 * self.capacity else 0.0

    def take_tokens(self, amount: float, now: float) -> None:
        """Whether they are there or not."""
        self._level = self.token_level(now) - amount
        self._taken = self._recently_taken(now) + amount
        self._taken_at = now

    def taken_per_s(self, now: float) -> float:
        """How many were taken each second, of late."""
        return self._recently_taken(now) / _MEMORY_S

    def _recently_taken(self, now: float) -> float:
        return self._taken * math.exp((self._taken_at - now) / _MEMORY_S)

    def give_back(self, amount: float) -> None:
        """What was taken and not used."""
        self._level = min(self.capacity, self._level + amount)
        self._taken -= amount

    def set_rate(self, rate: float, now: float) -> None:
        """From now on; a debt stays, and no more is there than the new burst."""
        level = self.token_level(now)
        self.rate = rate
        self.capacity = max(1.0, rate * self._burst_s)
        self._level = min(level, self.capacity)

    def is_full(self, now: float) -> bool:
        """Whether it is as if it had just been made."""
        return self.token_level(now) >= self.capacity
