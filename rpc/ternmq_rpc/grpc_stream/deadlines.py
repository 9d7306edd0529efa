"""Deadlines of calls: all that end in the same moment share a timer, for calls come by the thousand."""

import asyncio
import functools
import math
from typing import Protocol

TIMEOUT = "grpc-timeout"
_FINE_S, _COARSE_S = 0.01, 1.0
_FINE_UP_TO_S = 60.0
# What is to end later has no deadline: its timer would wait on when the call is long over.
LATEST_S = 24 * 3600.0
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_DIGITS_MAX = 8
_CACHED_MAX = 4096


class Expiring(Protocol):
    """What ends. `moment` belongs to `Deadlines`."""

    moment: float

    def expire(self) -> None:
        """Its time is over."""


class Deadlines:
    """Ends what has a time to end, up to a hundredth of a second late, and what ends in minutes up to a second."""

    def __init__(self) -> None:
        self._waiting: dict[float, set[Expiring]] = {}

    def set(self, expiring: Expiring, deadline: float, now: float) -> None:
        """Both by the loop's clock."""
        step = _FINE_S if deadline - now < _FINE_UP_TO_S else _COARSE_S
        moment = expiring.moment = math.ceil(deadline / step) * step
        waiting = self._waiting.get(moment)
        if waiting is None:
            waiting = self._waiting[moment] = set()
            asyncio.get_running_loop().call_at(moment, self._ring, moment)
        waiting.add(expiring)

    def unset(self, expiring: Expiring) -> None:
        """Nothing happens to one that was never set, or is over."""
        waiting = self._waiting.get(expiring.moment)
        if waiting is not None:
            waiting.discard(expiring)

    def _ring(self, moment: float) -> None:
        for expiring in self._waiting.pop(moment):
            expiring.expire()


@functools.lru_cache(_CACHED_MAX)  # clients ask for the same time, less the microseconds until they said it
def parsed_timeout(text: str) -> float | None:
    """Seconds of a header `grpc-timeout`; None for one that is no such header, or so long that it does not matter."""
    digits, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS_MAX:
        return None
    seconds = int(digits) * unit
    return seconds if seconds <= LATEST_S else None
