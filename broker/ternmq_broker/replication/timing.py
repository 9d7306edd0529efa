"""The times of replication: leases, lag and clock drift."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTiming:
    """Times of replication, in seconds of a monotonic clock. Clocks may differ in speed by `drift`, as a share."""

    lease_s: float = 6.0
    """The leader's lease in the registry."""
    lag_s: float = 1.5
    """After how long a replica that does not have everything leaves the in-sync set."""
    disconnected_s: float = 0.3
    """After how long a replica that is not connected leaves the in-sync set."""
    drift: float = 0.05

    @property
    def promise_s(self) -> float:
        """For how long a follower promises not to take over, from each answer on."""
        return self.lease_s / 2

    def usable_s(self, given_s: float) -> float:
        """Return for how long a process may rely on what another clock measures as `given_s`."""
        return given_s * (1 - 2 * self.drift)
