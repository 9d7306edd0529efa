"""The decisions of a follower: which leader it follows, what it promises, when it may take over.

Promise     With each answer it promises not to take over for a while, so that a leader can serve while the registry is
            away. It promises nothing while the registry says that the leader's lease has run out: that leader is cut
            off from the registry, and out of the routes.
Take over   A follower asks the registry, which decides: an in-sync replica may lead, when the leader's lease has run
            out and no promise is in force. It does not know what it promised before a restart, so it waits as long. A
            follower that knows of damage of its log first gives the others time to take over, two leases.
Reads       It gives messages to proxies only while it is in sync, as the registry answered within a lease, and had all
            of its leader's log within about the time after which the leader takes it out of the in-sync set. So it
            knows what is deleted and purged, except for that time.
Epoch       A leader of an epoch below the latest known one is refused: another one has been elected since.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_broker.replication.leader_state import Members
    from ternmq_broker.replication.timing import ReplicationTiming


_DAMAGED_WAIT_LEASES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardView:
    """A shard as the registry had it at one read; replicas by their store ids."""

    epoch: int
    leader: str
    leader_live: bool
    in_sync: "Members"


class FollowerState:
    """One replica as a follower, from its start or the end of its leadership on. Times are of one monotonic clock."""

    def __init__(self, me: str, timing: "ReplicationTiming", now_s: float) -> None:
        self._me = me
        self._timing = timing
        self._promised_until_s = now_s + timing.promise_s
        self._view: ShardView | None = None
        self._seen_s = float("-inf")
        self._due_s: float | None = None
        self.epoch = 0
        """The highest epoch that it knows of."""

    @property
    def shard_view(self) -> ShardView | None:
        return self._view

    def note_view(self, view: ShardView, requested_s: float) -> None:
        """Note what the registry answered to the request of `requested_s`. Answers may overtake each other."""
        if view.epoch > self.epoch or (view.epoch == self.epoch and requested_s >= self._seen_s):
            self._view, self._seen_s, self.epoch = view, requested_s, view.epoch

    def accept_epoch(self, epoch: int) -> bool:
        """Tell whether it may follow the leader of that epoch; if so, it refuses earlier ones from now on."""
        if epoch < self.epoch:
            return False
        self.epoch = epoch
        return True

    def note_leader_message(self, now_s: float) -> bool:
        """Note a message of the leader; return whether to promise with the answer."""
        view = self._view
        is_known_ended = view is not None and view.epoch == self.epoch and not view.leader_live
        if is_known_ended and now_s - self._seen_s < self._timing.lease_s:
            return False
        self._promised_until_s = max(self._promised_until_s, now_s + self._timing.promise_s)
        return True

    def may_take_over(self, now_s: float, *, is_damaged: bool = False) -> bool:
        """Tell whether to ask the registry for the leadership, after it has stopped following. `is_damaged`: its log is
        known to have damage.
        """
        view = self._view
        is_due = (
            view is not None
            and view.epoch == self.epoch
            and view.leader != self._me
            and not view.leader_live
            and self._me in view.in_sync
            and now_s >= self._promised_until_s
        )
        if not is_due:
            self._due_s = None
            return False
        if self._due_s is None:
            self._due_s = now_s
        return not is_damaged or now_s - self._due_s >= _DAMAGED_WAIT_LEASES * self._timing.lease_s

    def why_reads_refused(self, epoch: int, behind_s: float, now_s: float) -> str | None:
        """Return why proxies may read nothing of the copy; None if they may.

        `epoch` is that of the leader whose stream it has, and `behind_s` how long ago it had all of that leader's log.
        """
        view = self._view
        if view is None or now_s - self._seen_s > self._timing.lease_s:
            return "the registry has not confirmed for a lease that it is in sync"
        if not view.epoch == epoch == self.epoch:
            return "it does not follow the present leader"
        if self._me not in view.in_sync:
            return "it is not in sync"
        # An idle leader sends a message ten times a lease.
        if behind_s > max(self._timing.lag_s, self._timing.lease_s / 4):
            return "it has lacked a part of its leader's log for a while"
        return None

    def is_elected(self) -> bool:
        """Tell whether the registry says that this replica leads although it did not ask: by a handover, or an
        operator's election.
        """
        return self._view is not None and self._view.epoch == self.epoch and self._view.leader == self._me
