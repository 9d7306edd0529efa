"""Backoff: how long to wait before something that failed is tried again. Pure: the randomness is an argument."""

from dataclasses import dataclass

RETRY_S = 1.0
"""The pause before a step in the background is tried again that waits for the disk, the registry or another process."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """A growing delay: `initial_s * multiplier^(attempt - 1)`, at most `max_s`."""

    initial_s: float
    max_s: float
    multiplier: float = 2.0

    def delay_s(self, attempt: int) -> float:
        """The delay after the `attempt`-th failure; they count from 1."""
        try:
            return min(self.initial_s * self.multiplier ** (max(attempt, 1) - 1), self.max_s)
        except OverflowError:
            return self.max_s


def add_jitter(delay_s: float, random_fraction: float) -> float:
    """Return between half and all of a delay, so that clients that failed together don't come back together."""
    return delay_s * (0.5 + random_fraction / 2)
