"""The times by which replicas go."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTiming:
    """In seconds of a monotonic clock. Clocks may differ in speed by `drift`, as a share."""

    lease_s: float = 6.0
    """The leader's lease in the registry."""
    lag_s: float = 1.5
    """A replica that has not had everything for so long leaves the in-sync set."""
    gone_s: float = 0.3
    """One that is not connected leaves it after so long."""
    drift: float = 0.05

    @property
    def promise_s(self) -> float:
        """How long a follower lets its leader be, from each answer on."""
        return self.lease_s / 2

    def held_s(self, given_s: float) -> float:
        """For how long one may go by what another clock measures as `given_s`."""
        return given_s * (1 - 2 * self.drift)
