"""A circuit breaker: a broker that fails is tried again after a growing backoff. Pure; times in seconds."""

from dataclasses import dataclass

from ternmq_common.pacing.backoff import ExponentialBackoff

FIRST_S = 0.1
LONGEST_S = 10.0


@dataclass(slots=True)
class CircuitBreaker:
    """Consecutive failures of one broker. While the circuit is open the broker is not used; after that the next use is
    the probe that closes the circuit, or opens it for longer."""

    failures: int = 0
    until_s: float = 0.0
    first_s: float = FIRST_S
    longest_s: float = LONGEST_S

    def record_failure(self, now_s: float) -> float:
        """Record a failure; return the backoff from now on. Calls that were under way together count as one failure."""
        if not self.is_aside(now_s):
            self.failures += 1
            self.until_s = now_s + ExponentialBackoff(self.first_s, self.longest_s).delay_s(self.failures)
        return self.until_s - now_s

    def record_success(self) -> None:
        """Close the circuit."""
        self.failures = 0
        self.until_s = 0.0

    def is_aside(self, now_s: float) -> bool:
        return now_s < self.until_s
