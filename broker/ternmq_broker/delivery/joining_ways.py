"""The ways in which clients are about to join groups: a group pulls or pops, and two clients may join at once.

A proxy holds its client's way at the brokers, looks for members of the other way at all proxies, notes the client as a
member, and releases the way. So of two that join in different ways the second finds the first, as joining or as a
member. A way that is not released, since its proxy is gone, ends after `HELD_MS`.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError

if TYPE_CHECKING:
    from collections.abc import Callable

HELD_MS = 10_000
"""Longer than a proxy takes to have a client join."""
JOINS_MAX = 100_000


class _Join(NamedTuple):
    way: str
    end_ms: int


class JoiningWays:
    """The ways held at one broker, at most `joins_max`: of a group all the same. `now_ms` is a monotonic clock."""

    def __init__(self, now_ms: "Callable[[], int]", *, joins_max: int = JOINS_MAX) -> None:
        self._now_ms = now_ms
        self._joins_max = joins_max
        self._joins: dict[str, dict[str, _Join]] = {}  # group, join
        self._count = 0

    def hold_way(self, group: str, way: str, join: str) -> bool:
        """Hold the way for a join, which has an id of its own; False if the group is joined the other way now. Raises
        TOO_MANY_REQUESTS."""
        now_ms = self._now_ms()
        known = self._joins.get(group, {})
        for ended in [each for each, held in known.items() if held.end_ms <= now_ms]:
            self.release_way(group, ended)
        if any(held.way != way for held in known.values()):
            return False
        if self._count >= self._joins_max:
            self._drop_ended(now_ms)
            if self._count >= self._joins_max:
                raise MessagingError(
                    ErrorCode.TOO_MANY_REQUESTS, f"{self._joins_max} clients join groups now, the most"
                )
        held_here = self._joins.setdefault(group, {})
        self._count += join not in held_here
        held_here[join] = _Join(way, now_ms + HELD_MS)
        return True

    def release_way(self, group: str, join: str) -> None:
        """Note that a join has ended."""
        known = self._joins.get(group, {})
        if known.pop(join, None) is not None:
            self._count -= 1
            if not known:
                del self._joins[group]

    def _drop_ended(self, now_ms: int) -> None:
        ended = [
            (group, join)
            for group, joins in self._joins.items()
            for join, held in joins.items()
            if held.end_ms <= now_ms
        ]
        for group, join in ended:
            self.release_way(group, join)
