"""Throttles log lines about what clients can cause as often as they like, and counts the lines that are left out.

A kind of line is logged once a minute for each host, or a few times; the next line says how many were left out. The
throttle remembers `REMEMBERED_MAX` kinds and hosts, and treats all beyond as one.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S = 60.0
REMEMBERED_MAX = 1000
_OTHERS = ("others", "")


class _ThrottledMinute:
    """A minute from `since` on; `logged` and `left_out` count its lines."""

    __slots__ = ("left_out", "logged", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.logged = 1
        self.left_out = 0


class LogThrottle:
    """Lets `per_minute` lines of a kind and host through. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]", *, per_minute: int = 1) -> None:
        self._now = now
        self._per_minute = per_minute
        self._minutes: dict[tuple[str, str], _ThrottledMinute] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._minutes)

    def admit_line(self, peer: str, kind: str, *, times: int = 1) -> int | None:
        """Decide about one line: how many were left out since the last one, or None to leave this one out too.

        `peer` is `host:port`.
        """
        now = self._now()
        key = self._key_of(peer, kind, now)
        minute = self._minutes.get(key)
        if minute is None or now - minute.since >= INTERVAL_S:
            self._minutes.pop(key, None)
            self._minutes[key] = _ThrottledMinute(now)
            return minute.left_out if minute is not None else 0
        if minute.logged >= self._per_minute:
            minute.left_out += times
            return None
        minute.logged += 1
        return 0

    def is_due(self, subject: str = "") -> bool:
        """Whether to log a line about this subject now, for lines that do not say how many were left out."""
        return self.admit_line("", subject) is not None

    def _key_of(self, peer: str, kind: str, now: float) -> tuple[str, str]:
        key = (peer.rpartition(":")[0], kind)
        if key in self._minutes or len(self._minutes) < REMEMBERED_MAX:
            return key
        oldest = next(iter(self._minutes))
        if now - self._minutes[oldest].since < INTERVAL_S:
            return _OTHERS
        del self._minutes[oldest]
        return key


def left_out_text(left_out: int) -> str:
    """The end of a line after which so many were left out."""
    return f"; {left_out} times more since it was logged last" if left_out else ""
