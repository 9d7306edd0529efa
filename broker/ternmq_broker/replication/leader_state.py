"""The decisions of a leader: what is acknowledged, which replicas are in sync, whether it may serve.

Acknowledged   is what every in-sync replica has durably, the leader included, while they are at least `min_insync`.
               A replica that is being added or removed counts as in sync for as long as the registry may say so: any
               of them may be the next leader.
In-sync set    follows the replicas that keep up; one change at a time, by compare-and-set in the registry. It never
               shrinks below `min_insync`: nothing could be acknowledged then anyway, and a replica that has everything
               would be given up. One whose log is damaged leaves it when that lasts, and returns when it is repaired.
Serving        is allowed while the lease in the registry is valid, by this process's own clock from before the request;
               or while every other in-sync replica has promised not to take over. So an outage of the registry ends
               nothing, and a leader that is cut off from both stops by itself.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.replication.timing import ReplicationTiming

NO_LOG_LIMIT: Final = 1 << 62
"""Beyond the end of every log."""

Members = frozenset[str]
"""Store ids of replicas."""


@dataclass(frozen=True, slots=True)
class InSyncChange:
    """A change of the in-sync set: the registry applies it if the set is `expected` there, in the leader's epoch."""

    expected: Members
    wanted: Members


@dataclass(slots=True)
class _FollowerProgress:
    """The state of a follower at its leader: its position in the log, its connection, its promise and its damage."""

    position: int
    since_s: float
    caught_up_s: float | None = None
    promised_until_s: float = 0.0
    connected: bool = True
    damaged_s: float | None = None
    gone_s: float = field(default=0.0)


class LeaderState:
    """One replica's leadership, from its election until another epoch.

    `start` is where the log ends before the mark of this epoch, `acknowledged` up to where the earlier leader is known
    to have acknowledged it. Times are of one monotonic clock.
    """

    def __init__(
        self,
        me: str,
        in_sync: "Iterable[str]",
        *,
        min_insync: int,
        timing: "ReplicationTiming",
        now_s: float,
        leased_at_s: float,
        start: int,
        acknowledged: int,
        waits_for_replicas: bool = True,
    ) -> None:
        """`leased_at_s` is before the request for the lease.

        `waits_for_replicas` is false where a send is answered when the leader has it: then the in-sync set may shrink
        to the leader.
        """
        self._me = me
        self._timing = timing
        self._members_min = min_insync if waits_for_replicas else 1
        self._in_sync: Members = frozenset(in_sync) | {me}
        self._change: InSyncChange | None = None
        self._is_result_unknown = False
        self._followers: dict[str, _FollowerProgress] = {}
        self._leased_until_s = leased_at_s + timing.usable_s(timing.lease_s)
        self._began_s = now_s
        self._start = start
        self._own_durable = 0
        self._own_end = start
        self.acknowledged = acknowledged

    # --- what is acknowledged

    @property
    def possible_members(self) -> Members:
        """All replicas that the registry's in-sync set may have."""
        return self._in_sync if self._change is None else self._in_sync | self._change.wanted

    @property
    def in_sync(self) -> Members:
        """The in-sync set that is certain."""
        return self._in_sync

    def note_own_log(self, end: int, durable: int) -> None:
        """Note that the leader's log ends at `end`, and is durable below `durable`."""
        self._own_end, self._own_durable = end, durable
        self._advance_acknowledged()

    @property
    def held_by_others(self) -> int:
        """The log offset below which all other in-sync replicas hold the log; what is beyond waits for them, or for
        enough of them.
        """
        return max(self.acknowledged, self._held_by_others() if self._has_enough_members() else 0)

    def _held_by_others(self) -> int:
        return min(
            (self._position_of(name) for name in self.possible_members if name != self._me), default=NO_LOG_LIMIT
        )

    def _position_of(self, name: str) -> int:
        follower = self._followers.get(name)
        return 0 if follower is None else follower.position

    def _has_enough_members(self) -> bool:
        fewest = len(self._in_sync)
        if self._change is not None:
            fewest = min(fewest, len(self._change.wanted))
        return fewest >= self._members_min

    def _advance_acknowledged(self) -> None:
        if self._has_enough_members():
            self.acknowledged = max(self.acknowledged, min(self._own_durable, self._held_by_others()))

    # --- followers

    def add_follower(self, name: str, position: int, now_s: float) -> None:
        """Add a replica that follows in this epoch, and has the leader's log durably below `position`."""
        before = self._followers.get(name)
        follower = self._followers[name] = _FollowerProgress(position, now_s)
        if before is not None:
            # No new start: else the leader would wait forever for a replica that reconnects often and never keeps up.
            follower.since_s = before.since_s
            follower.promised_until_s = before.promised_until_s
            follower.caught_up_s = before.caught_up_s
            follower.damaged_s = before.damaged_s
        self._advance_acknowledged()

    def note_disconnect(self, name: str, now_s: float) -> None:
        """Note that a replica is not connected any more."""
        follower = self._followers.get(name)
        if follower is not None and follower.connected:
            follower.connected, follower.gone_s = False, now_s

    def note_answer(self, name: str, position: int, *, requested_s: float, end_then: int, promises: bool) -> None:
        """Note a replica's answer to the leader's message of `requested_s`, when the log ended at `end_then`.

        It has the log durably below `position`; `promises`: it promises not to take over for a while.
        """
        follower = self._followers[name]
        follower.position = max(follower.position, position)
        if position >= end_then:
            follower.caught_up_s = max(requested_s, follower.caught_up_s or requested_s)
        if promises:
            until = requested_s + self._timing.usable_s(self._timing.promise_s)
            follower.promised_until_s = max(follower.promised_until_s, until)
        self._advance_acknowledged()

    def note_damage(self, name: str, now_s: float, *, is_damaged: bool) -> None:
        """Note whether the replica's log has damage, as far as it knows."""
        follower = self._followers[name]
        if not is_damaged:
            follower.damaged_s = None
        elif follower.damaged_s is None:
            follower.damaged_s = now_s

    def is_damaged(self, name: str) -> bool:
        """Tell whether the replica last reported damage of its log."""
        follower = self._followers.get(name)
        return follower is not None and follower.damaged_s is not None

    def _is_long_damaged(self, name: str, now_s: float) -> bool:
        """Tell whether the damage lasts. Mostly it is repaired before that matters."""
        follower = self._followers.get(name)
        since_s = None if follower is None else follower.damaged_s
        return since_s is not None and now_s - since_s > self._timing.lag_s

    def _keeps_up(self, name: str, now_s: float) -> bool:
        follower = self._followers.get(name)
        if follower is None:
            return now_s - self._began_s <= self._timing.lag_s
        if not follower.connected and now_s - follower.gone_s > self._timing.disconnected_s:
            return False
        # A new follower gets as much time as a lagging one.
        return now_s - max(follower.caught_up_s or 0.0, follower.since_s) <= self._timing.lag_s

    def _has_all(self, name: str, now_s: float) -> bool:
        follower = self._followers[name]
        if not follower.connected or follower.caught_up_s is None or follower.damaged_s is not None:
            return False
        is_recent = now_s - follower.caught_up_s <= self._timing.lag_s
        return is_recent and follower.position >= max(self.acknowledged, self._start)

    # --- the in-sync set

    def next_change(self, now_s: float) -> InSyncChange | None:
        """Return the change to request from the registry now; until `finish_change` is called there is no other."""
        if self._change is not None:
            is_unsure, self._is_result_unknown = self._is_result_unknown, False
            return self._change if is_unsure else None
        wanted = self._wanted_members(now_s)
        if wanted == self._in_sync:
            return None
        self._change = InSyncChange(self._in_sync, wanted)
        return self._change

    def _wanted_members(self, now_s: float) -> Members:
        come = {name for name in self._followers if name not in self._in_sync and self._has_all(name, now_s)}
        wanted = set(self._in_sync | come)
        behind = [name for name in sorted(self._in_sync - {self._me}) if not self._keeps_up(name, now_s)]
        damaged = [
            name
            for name in sorted(self._in_sync - {self._me})
            if name not in behind and self._is_long_damaged(name, now_s)
        ]
        for name in (behind + damaged)[: max(0, len(wanted) - self._members_min)]:
            wanted.remove(name)
        return frozenset(wanted)

    def finish_change(self, actual: Members | None) -> None:
        """Note the result of a change: the in-sync set that the registry has afterwards, in this epoch.

        None: it is unknown whether it was applied. Then both sets count, and the same change is tried again.
        """
        assert self._change is not None
        if actual is None:
            self._is_result_unknown = True
            return
        self._in_sync = actual
        self._change, self._is_result_unknown = None, False
        self._advance_acknowledged()

    # --- serving

    def note_renewal(self, requested_s: float) -> None:
        """Note that the lease requested at `requested_s` was given."""
        self._leased_until_s = max(self._leased_until_s, requested_s + self._timing.usable_s(self._timing.lease_s))

    def may_serve(self, now_s: float) -> bool:
        """Tell whether no other replica can be the leader now."""
        return now_s < self.serves_until_s

    @property
    def serves_until_s(self) -> float:
        others = self.possible_members - {self._me}
        if not others:
            return float("inf")  # no other replica may take over
        promised = min(self._promised_until_s(name) for name in others)
        return max(self._leased_until_s, promised)

    def _promised_until_s(self, name: str) -> float:
        follower = self._followers.get(name)
        return 0.0 if follower is None else follower.promised_until_s

    def refusal_reason(self, now_s: float) -> str | None:
        """Return why enough replicas can't hold a send, None if they can."""
        if not self.may_serve(now_s):
            return "its lease has expired and can't be renewed"
        there = 1 + sum(name != self._me and self._keeps_up(name, now_s) for name in self.possible_members)
        if there < self._members_min:
            return f"{there} of its replicas are in sync, and {self._members_min} are needed (min_insync)"
        return None
