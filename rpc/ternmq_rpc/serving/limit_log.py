"""Logs that a client exceeded a limit: once a minute for each host and limit, however often it happens."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.pacing.log_throttle import LogThrottle, left_out_text

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class LimitLog:
    """The log of exceeded limits. `limit_counts` counts how often each was reached, for metrics."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._throttle = LogThrottle(now)
        self.limit_counts: dict[str, int] = {}

    def log_limit(self, peer: str, limit: str, what: str, *, times: int = 1) -> None:
        """Log that a client at `peer` (`host:port`) exceeded the limit."""
        self.limit_counts[limit] = self.limit_counts.get(limit, 0) + times
        left_out = self._throttle.admit_line(peer, limit, times=times)
        if left_out is not None:
            _log.warning("%s: %s (%s)%s", peer, what, limit, left_out_text(left_out))
