"""Limits the rate of TLS handshakes, and lets addresses take turns.

A handshake costs the server a signature, and the client 105 bytes: without a limit one host could take a core away from
all clients. Handshakes are limited to a share of the loop's time too, since a busy machine manages fewer. Those beyond
the rate wait. Where too many wait, the newest of the address that has most is given up.
"""

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.pacing.bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SECOND = 400
WAITING_MAX = 1000
_LOOK_S = 0.005
_BURST_S = 0.25
# Share of the loop's time, and how much of it at once.
_SHARE, _WORK_MAX_S = 0.4, 0.02


class _WaitingHandshake(NamedTuple):
    begin: "Callable[[], bool]"
    give_up: "Callable[[], None]"


class HandshakeThrottle:
    """The throttle of one port, on one event loop. A burst may be a quarter of a second's handshakes."""

    def __init__(self, per_second: float = PER_SECOND, waiting_max: int = WAITING_MAX) -> None:
        self._rate = TokenBucket(per_second, _BURST_S, 0.0)
        self._waiting_max = waiting_max
        self._work_s = self._now_s = 0.0
        self._waiting: dict[str, deque[_WaitingHandshake]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def start_handshake(self, source: str, begin: "Callable[[], bool]", give_up: "Callable[[], None]") -> None:
        """Call one of the two functions, now or later: `begin` when it is its turn, which returns whether the peer is
        still there, or `give_up` if too many wait."""
        self._note_time()
        if self._may_begin and not self._count:
            self._begin_handshake(begin)
            return
        if self._count >= self._waiting_max and not self._gave_up_other(source):
            give_up()
            return
        self._waiting.setdefault(source, deque()).append(_WaitingHandshake(begin, give_up))
        self._count += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._begin_waiting)

    async def wait_turn(self, source: str) -> None:
        """Wait for the turn of a handshake. ConnectionError: too many wait."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> bool:
            if turn.done():
                return False
            turn.set_result(None)
            return True

        def give_up() -> None:
            if not turn.done():
                turn.set_exception(ConnectionError("too many TLS handshakes wait for their turn"))

        self.start_handshake(source, begin, give_up)
        await turn

    def _note_time(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._work_s = max(0.0, self._work_s - (now_s - self._now_s) * _SHARE)
        self._now_s = now_s

    @property
    def _may_begin(self) -> bool:
        return self._rate.token_level(self._now_s) >= 1 and self._work_s < _WORK_MAX_S

    def _begin_handshake(self, begin: "Callable[[], bool]") -> None:
        began_s = time.perf_counter()
        if begin():
            self._rate.take_tokens(1, self._now_s)
            self._work_s += time.perf_counter() - began_s

    def _begin_waiting(self) -> None:
        self._timer = None
        self._note_time()
        while self._count and self._may_begin:
            source = next(iter(self._waiting))
            queue = self._waiting.pop(source)
            first = queue.popleft()
            self._count -= 1
            if queue:
                self._waiting[source] = queue  # behind the others
            self._begin_handshake(first.begin)
        if self._count:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._begin_waiting)

    def _gave_up_other(self, source: str) -> bool:
        """Give up the newest handshake of an address that has more than this one; return whether there was one."""
        own = len(self._waiting.get(source, ()))
        if own and own >= self._count // len(self._waiting):
            return False
        most, queue = max(self._waiting.items(), key=lambda item: len(item[1]))
        last = queue.pop()
        self._count -= 1
        if not queue:
            del self._waiting[most]
        last.give_up()
        return True
