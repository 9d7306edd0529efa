"""How many wrong secrets and signatures an address may try each second.

Beyond that nothing that comes from there is looked at until the second is over, so that a guess that is right is not
known from one that was not tried. Calls of a connection that has proved who it is go on: they are not verified again.
"""

from typing import TYPE_CHECKING

from ternmq_rpc.tls.handshake_turns import source_of

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SECOND = 20
SOURCES_MAX = 1000


class GuessLimit:
    """Wrong ones by address, of hosts in a network of IPv6 together. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]", *, per_second: int = PER_SECOND) -> None:
        self._now = now
        self._per_second = per_second
        self._wrong: dict[str, tuple[int, int]] = {}  # the second, and how many in it; the oldest first

    def is_reached(self, host: str) -> bool:
        """Whether nothing more from there is to be looked at in this second."""
        second, count = self._wrong.get(source_of((host,)), (-1, 0))
        return count >= self._per_second and second == int(self._now())

    def count_wrong(self, host: str) -> None:
        """A wrong one came from there."""
        source, now_s = source_of((host,)), int(self._now())
        second, count = self._wrong.pop(source, (now_s, 0))
        if len(self._wrong) >= SOURCES_MAX:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[source] = (now_s, count + 1 if second == now_s else 1)
