"""What one seed makes of a run, besides chance."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Times in seconds."""

    replicas: int
    min_insync: int
    lease_s: float
    lag_s: float
    drift: float
    """How much a clock may be faster or slower, as a share."""
    segment_bytes: int
    journal_ms: int
    disturbed_s: float
    pause_s: float
    """The mean time from one disturbance to the next."""
    send_s: float
    """The mean time from one send to the next, of each producer."""

    @classmethod
    def of(cls, dice: "random.Random") -> "Plan":
        """By chance."""
        lease_s = dice.choice((1.0, 1.0, 2.0))
        return cls(
            replicas=3,
            min_insync=dice.choice((2, 2, 2, 1)),
            lease_s=lease_s,
            lag_s=dice.choice((lease_s / 4, 0.5)),
            drift=dice.choice((0.0, 0.02)),
            segment_bytes=16 << 20,
            journal_ms=dice.choice((50, 300, 1000)),
            disturbed_s=dice.choice((6.0, 10.0, 14.0)) * lease_s,
            pause_s=dice.choice((0.3, 0.7, 1.5)) * lease_s,
            send_s=dice.choice((0.05, 0.1)),
        )
