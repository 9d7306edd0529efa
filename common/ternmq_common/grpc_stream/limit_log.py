"""Says that a client went beyond a limit: once a minute for each host and limit, however often it does."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_EVERY_S = 60.0
# Hosts and limits that are remembered; with more of them, all others are one.
_REMEMBERED_MAX = 1000
_OTHERS = ("others", "")


class LimitLog:
    """`passed` counts how often each limit was reached, for metrics."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._now = now
        self._said: dict[tuple[str, str], float] = {}
        self._unsaid: dict[tuple[str, str], int] = {}
        self.passed: dict[str, int] = {}

    def say(self, peer: str, limit: str, what: str, *, times: int = 1) -> None:
        """A client at `peer` (`host:port`) went beyond the limit."""
        self.passed[limit] = self.passed.get(limit, 0) + times
        now = self._now()
        key = (peer.rpartition(":")[0], limit)
        if key not in self._said and len(self._said) >= _REMEMBERED_MAX:
            self._forget(now)
            if len(self._said) >= _REMEMBERED_MAX:
                key = _OTHERS
        if now - self._said.get(key, -_EVERY_S) < _EVERY_S:
            self._unsaid[key] = self._unsaid.get(key, 0) + times
            return
        self._said[key] = now
        more = self._unsaid.pop(key, 0)
        _log.warning("%s: %s (%s)%s", peer, what, limit, f"; {more} times more since it was said last" if more else "")

    def _forget(self, now: float) -> None:
        for key in [key for key, said in self._said.items() if now - said >= _EVERY_S]:
            del self._said[key]
            self._unsaid.pop(key, None)
