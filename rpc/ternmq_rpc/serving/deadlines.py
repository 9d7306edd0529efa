"""Deadlines of calls. All that end in the same moment share a timer, since there are thousands of calls."""

import asyncio
import math
from typing import Final, Protocol

_FINE_S: Final = 0.01
_COARSE_S: Final = 1.0
_FINE_UP_TO_S: Final = 60.0


class ExpiringCall(Protocol):
    """Something with a deadline. `moment` belongs to `CallDeadlines`."""

    moment: float

    def expire_call(self) -> None:
        """End it: the deadline has passed."""


class CallDeadlines:
    """Expires calls at their deadlines: up to 10 ms late, or up to a second if the deadline is minutes away."""

    def __init__(self) -> None:
        self._waiting: dict[float, set[ExpiringCall]] = {}

    def set_deadline(self, expiring: ExpiringCall, deadline: float, now: float) -> None:
        """Set a deadline. `deadline` and `now` are in seconds of the loop's clock."""
        step = _FINE_S if deadline - now < _FINE_UP_TO_S else _COARSE_S
        moment = expiring.moment = math.ceil(deadline / step) * step
        waiting = self._waiting.get(moment)
        if waiting is None:
            waiting = self._waiting[moment] = set()
            asyncio.get_running_loop().call_at(moment, self._expire_calls, moment)
        waiting.add(expiring)

    def clear_deadline(self, expiring: ExpiringCall) -> None:
        """Remove the deadline; does nothing if it was never set, or has passed."""
        waiting = self._waiting.get(expiring.moment)
        if waiting is not None:
            waiting.discard(expiring)

    def _expire_calls(self, moment: float) -> None:
        for expiring in self._waiting.pop(moment):
            expiring.expire_call()
