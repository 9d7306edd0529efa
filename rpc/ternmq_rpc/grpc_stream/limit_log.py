"""Logs that a client exceeded a limit: once a minute for each host and limit, however often it happens."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.log_throttle import LogThrottle, more_times

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class LimitLog:
    """The log of exceeded limits. `passed` counts how often each was reached, for metrics."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._throttle = LogThrottle(now)
        self.passed: dict[str, int] = {}

    def say(self, peer: str, limit: str, what: str, *, times: int = 1) -> None:
        """Log that a client at `peer` (`host:port`) exceeded the limit."""
        self.passed[limit] = self.passed.get(limit, 0) + times
        left_out = self._throttle.admit(peer, limit, times=times)
        if left_out is not None:
            _log.warning("%s: %s (%s)%s", peer, what, limit, more_times(left_out))
