"""Limits how many wrong secrets and signatures for a user an address may try each second.

Beyond the limit nothing for that user from that address is examined until the second is over, so that a right guess
can't be distinguished from one that was not tried. Other users of the address are served, and so are calls of a
connection that is already authenticated: they are not verified again.
"""

from typing import TYPE_CHECKING

from ternmq_common.process.peer_network import network_of

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SECOND = 20
REMEMBERED_MAX = 10_000


class GuessLimit:
    """Counts wrong guesses by address and access key; hosts of one IPv6 network count together. `now` is a monotonic
    clock in seconds."""

    def __init__(self, now: "Callable[[], float]", *, per_second: int = PER_SECOND) -> None:
        self._now = now
        self._per_second = per_second
        # The second, and how many in it; the oldest first. A peer's name may be long, so its hash is kept.
        self._wrong: dict[int, tuple[int, int]] = {}

    def is_reached(self, host: str, access_key: str) -> bool:
        """Return whether guesses for that user from that host are no longer examined in this second."""
        second, count = self._wrong.get(_guess_key(host, access_key), (-1, 0))
        return count >= self._per_second and second == int(self._now())

    def count_wrong(self, host: str, access_key: str) -> None:
        """Count a wrong guess for that user from that host."""
        key, now_s = _guess_key(host, access_key), int(self._now())
        second, count = self._wrong.pop(key, (now_s, 0))
        if len(self._wrong) >= REMEMBERED_MAX:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[key] = (now_s, count + 1 if second == now_s else 1)


def _guess_key(host: str, access_key: str) -> int:
    return hash((network_of(host), access_key))
