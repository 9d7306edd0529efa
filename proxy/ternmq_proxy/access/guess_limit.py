"""How many wrong secrets and signatures of a user an address may try each second.

Beyond that nothing more of that user from there is looked at until the second is over, so that a guess that is right is
not known from one that was not tried. Other users of the address are served, and so are calls of a connection that has
proved who it is: they are not verified again.
"""

from typing import TYPE_CHECKING

from ternmq_common.peer_network import network_of

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SECOND = 20
REMEMBERED_MAX = 10_000


class GuessLimit:
    """Wrong ones by address and access key, of hosts in a network of IPv6 together. `now` is a monotonic clock in
    seconds."""

    def __init__(self, now: "Callable[[], float]", *, per_second: int = PER_SECOND) -> None:
        self._now = now
        self._per_second = per_second
        # The second, and how many in it; the oldest first. A peer's name may be long, so its hash stands for it.
        self._wrong: dict[int, tuple[int, int]] = {}

    def is_reached(self, host: str, access_key: str) -> bool:
        """Whether nothing more of that user from there is to be looked at in this second."""
        second, count = self._wrong.get(_guess_key(host, access_key), (-1, 0))
        return count >= self._per_second and second == int(self._now())

    def count_wrong(self, host: str, access_key: str) -> None:
        """A wrong one of that user came from there."""
        key, now_s = _guess_key(host, access_key), int(self._now())
        second, count = self._wrong.pop(key, (now_s, 0))
        if len(self._wrong) >= REMEMBERED_MAX:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[key] = (now_s, count + 1 if second == now_s else 1)


def _guess_key(host: str, access_key: str) -> int:
    return hash((network_of(host), access_key))
