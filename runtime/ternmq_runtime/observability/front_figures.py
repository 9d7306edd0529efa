"""The figures of a front: how often each call was answered with which code, and how long it took.

Threads     as in `figures`.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ternmq_runtime.observability.durations import DurationHistogram
from ternmq_runtime.observability.figures import TrafficFigures

if TYPE_CHECKING:
    from collections.abc import Callable


class FrontFigures:
    """A front's counts of its calls; codes are names of the protocol's codes. `traffic` is read from its server."""

    def __init__(self, traffic: "Callable[[], TrafficFigures]" = TrafficFigures) -> None:
        self.traffic = traffic
        self.calls: dict[tuple[str, str], DurationHistogram] = {}
        self.polls: dict[tuple[str, str], DurationHistogram] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.polls_waiting = 0
        self.streams = 0
        self._clients: Counter[str] = Counter()

    def record_call(self, method: str, code: str, seconds: float) -> None:
        """Record a call that has ended."""
        _histogram_of(self.calls, method, code).record_duration(seconds)

    def record_poll(self, method: str, code: str, seconds: float) -> None:
        """Record a call that may wait for messages and has ended; how much of the time was waiting is not known."""
        _histogram_of(self.polls, method, code).record_duration(seconds)

    def count_stream(self, client_id: str) -> None:
        self.streams += 1
        self._clients[client_id] += 1

    def uncount_stream(self, client_id: str) -> None:
        self.streams -= 1
        self._clients[client_id] -= 1
        if not self._clients[client_id]:
            del self._clients[client_id]

    @property
    def clients(self) -> int:
        """The number of clients that have a stream."""
        return len(self._clients)


def _histogram_of(durations: dict[tuple[str, str], DurationHistogram], method: str, code: str) -> DurationHistogram:
    found = durations.get((method, code))
    if found is None:
        found = durations[method, code] = DurationHistogram()
    return found
