"""A follower's knowledge of its leader's log, and how long ago it had all of that log."""

import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_broker.server.replication.replica_messages import LeaderHeartbeat

_HAD_ALL_MAX = 1000


class LeaderProgress:
    """The leader's progress. `heartbeat` is its last one on this stream, received at `heard_s` by this replica's
    clock.

    `had_all_s` is when this copy had all of the leader's log for the last time, by the leader's clock; 0: never.
    """

    def __init__(self) -> None:
        self.heartbeat: LeaderHeartbeat | None = None
        self.heard_s = self.had_all_s = 0.0
        self._ends: deque[tuple[float, int]] = deque()  # when the leader's log ended where

    def begin_stream(self, now_s: float) -> None:
        """Reset for a new stream to a leader."""
        self.heartbeat = None
        self.heard_s, self.had_all_s = now_s, 0.0
        self._ends.clear()

    def note_heartbeat(self, heartbeat: "LeaderHeartbeat", now_s: float) -> None:
        """Note a heartbeat of the leader."""
        self.heartbeat, self.heard_s = heartbeat, now_s
        if len(self._ends) < _HAD_ALL_MAX:
            self._ends.append((heartbeat.sent_s, heartbeat.end))

    def note_held(self, log_offset: int) -> None:
        """Note that this copy has the log up to `log_offset`."""
        while self._ends and self._ends[0][1] <= log_offset:
            self.had_all_s, _ = self._ends.popleft()

    def behind_s(self, now_s: float) -> float:
        """How many seconds ago this copy had all of the leader's log, without the time on the way; infinite if
        never."""
        if self.heartbeat is None or not self.had_all_s:
            return math.inf
        return self.heartbeat.sent_s - self.had_all_s + now_s - self.heard_s
