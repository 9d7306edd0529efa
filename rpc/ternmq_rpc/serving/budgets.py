"""Limits of a connection: how much memory the peer may make grow, and how fast it may send frames that bring
nothing."""

from dataclasses import dataclass
from typing import Final

from ternmq_common.limits import KIB, MIB

# The cost limit of one turn of a connection, about two milliseconds: a frame of headers begins a call and costs
# `CALL_COST`, any other frame 1. Where many connections are behind, a turn of all together costs four times as much,
# or half of it once the first of them has waited for `CROWDED_S`: shorter turns cost more writes. Each may begin one
# call at least.
SLICE: Final = 1000
CALL_COST: Final = 50
SLICE_MIN: Final = CALL_COST
TURN: Final = 4 * SLICE
CROWDED_TURN: Final = SLICE // 2
CROWDED_S: Final = 0.02
# A request may take a second more than its time limit for each so many bytes.
BODY_BYTES_PER_S: Final = 64 * KIB
# The default limit of all connections together, for requests and for answers.
_TOTAL_BYTES_MAX: Final = 1024 * MIB
# Of what all connections may hold: beyond this share, connections whose requests will end by themselves are paused.
_MUCH: Final = 0.75
# Calls earn an allowance that may be spent later, up to this.
_EARNED_MAX: Final = 100_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBudgets:
    """Limits of a connection, and their defaults. `in_bytes_max` and `out_bytes_max` are for all connections together.

    Sizes in bytes, times in seconds."""

    message_bytes_max: int = 256 * MIB
    streams_max: int = 1000
    connection_in_bytes_max: int = 32 * MIB
    in_bytes_max: int = _TOTAL_BYTES_MAX
    connection_out_bytes_max: int = 8 * MIB
    out_bytes_max: int = _TOTAL_BYTES_MAX
    control_frames_per_s: int = 1000
    resets_per_s: int = 200
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    output_timeout_s: float = 60.0
    idle_s: float = 600.0
    keepalive_s: float = 120.0
    keepalive_timeout_s: float = 20.0
    turn_s: float = 0.004
    """So long a remoting connection begins requests before others have their turn: what a request costs is not known
    before, and a pull of large messages takes milliseconds."""


class BudgetLedger:
    """The memory of all connections of a server together: `held_bytes` bytes of requests in progress, and
    `unread_bytes` bytes of answers.

    `behind`: since when each connection has received bytes that were not processed, the one that fell behind first
    coming first. `in_bytes_max` is the limit of `held_bytes`."""

    __slots__ = ("_much_bytes", "behind", "held_bytes", "unread_bytes")

    def __init__(self, in_bytes_max: int = _TOTAL_BYTES_MAX) -> None:
        self._much_bytes = int(in_bytes_max * _MUCH)
        self.held_bytes = 0
        self.unread_bytes = 0
        self.behind: dict[object, float] = {}

    @property
    def is_nearly_full(self) -> bool:
        """Whether requests in progress have taken nearly all the memory that they may."""
        return self.held_bytes > self._much_bytes

    def turn_budget(self, now: float) -> int:
        """Return how much one connection may cost in this turn, so that a turn in which many have work ends soon."""
        if not self.behind:
            return SLICE
        turn = CROWDED_TURN if self.longest_behind_s(now) > CROWDED_S else TURN
        return max(SLICE_MIN, min(SLICE, turn // len(self.behind)))

    def longest_behind_s(self, now: float) -> float:
        """Return for how many seconds the first of those that are behind has waited; 0 if none is."""
        for since in self.behind.values():
            return now - since
        return 0.0


class RateAllowance:
    """A token bucket: `per_s` tokens a second, a `burst` at most; `add_allowance` adds to it.

    The clock matters only when all tokens are spent.
    """

    __slots__ = ("_burst", "_left", "_per_s", "_since")

    def __init__(self, per_s: float, burst: float, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._since = now

    def try_spend(self, cost: float, now: float) -> bool:
        """Spend tokens; return whether they were there."""
        self._left -= cost
        if self._left >= 0:
            return True
        grown = (now - self._since) * self._per_s
        self._since = now
        self._left = min(self._burst, self._left + grown)
        return self._left >= 0

    def add_allowance(self, gain: float) -> None:
        if self._left < _EARNED_MAX:
            self._left += gain
