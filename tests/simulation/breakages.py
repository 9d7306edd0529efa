"""The protocol, broken on purpose, one way each: what the simulator is to find.

Each is a part of a run with one thing changed. `found_after` runs seeds until one fails.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ternmq_broker.replication.follower_state import FollowerState, ShardView
from ternmq_broker.replication.leader_state import LeaderState
from ternmq_broker.replication.timing import ReplicationTiming
from tests.simulation.leader import Leader
from tests.simulation.parts import Parts
from tests.simulation.registry import UNKNOWN, Looked, Registry
from tests.simulation.replica import Replica, Told, Upstream
from tests.simulation.run import Run
from tests.simulation.seeds import run_seed

if TYPE_CHECKING:
    from ternmq_broker.replication.epochs import EpochMarks
    from ternmq_broker.replication.leader_state import InSyncChange, Members
    from tests.simulation.leader import Session
    from tests.simulation.world import Plan, Stream


@dataclass(frozen=True, slots=True)
class Breakage:
    what: str
    parts: Parts
    waits_for_replicas: bool | None = None
    """Where it breaks nothing in the other mode."""

    def planned(self, plan: "Plan") -> "Plan":
        return plan if self.waits_for_replicas is None else replace(plan, waits_for_replicas=self.waits_for_replicas)


def found_after(breakage: Breakage, seeds: int) -> tuple[int, str] | None:
    """How many seeds it took, and what the last of them said; None if none of so many found it."""
    for seed in range(seeds):
        failure = run_seed(seed, Run(seed, breakage.parts, breakage.planned))
        if failure is not None:
            return seed + 1, failure
    return None


# --- what is acknowledged


class IgnoresTheAdded(LeaderState):
    @property
    def possible_members(self) -> "Members":
        return self._in_sync


class TrustsAShrinkAtOnce(LeaderState):
    @property
    def possible_members(self) -> "Members":
        return self._in_sync if self._change is None else self._in_sync & self._change.wanted


class CountsTheConnectedOnly(LeaderState):
    @property
    def possible_members(self) -> "Members":
        return frozenset(name for name in super().possible_members if self._is_there(name))

    def _is_there(self, name: str) -> bool:
        return name == self._me or (name in self._followers and self._followers[name].connected)


class CountsAMajority(LeaderState):
    """As Raft does, but any of the in-sync set may be the next leader here."""

    def _held_by_others(self) -> int:
        positions = sorted(
            (self._position_of(name) for name in self.possible_members if name != self._me), reverse=True
        )
        return positions[(len(positions) + 1) // 2 - 1] if positions else self._own_end


class DoesNotWaitForItsOwnDisk(LeaderState):
    def note_own_log(self, end: int, durable: int) -> None:
        super().note_own_log(end, end)


class TakesUnknownForRefused(Leader):
    def tried(self, change: "InSyncChange", answer: object) -> None:
        if answer is UNKNOWN:
            self.changed(change.expected)
        else:
            super().tried(change, answer)


class TakesUnknownForDone(Leader):
    def tried(self, change: "InSyncChange", answer: object) -> None:
        super().tried(change, True if answer is UNKNOWN else answer)


class AddsWhoHasJustCome(LeaderState):
    def _has_all(self, name: str, now_s: float) -> bool:
        return self._followers[name].connected


class GoesOnWithFewer(LeaderState):
    def _has_enough_members(self) -> bool:
        return True

    def _wanted_members(self, now_s: float) -> "Members":
        least, self._members_min = self._members_min, 1
        try:
            return super()._wanted_members(now_s)
        finally:
            self._members_min = least


class AnswersBeforeItsSync(Replica):
    def answered_position(self) -> int:
        return self.disk.end


class CountsAnswersOfAFormerLeadership(Leader):
    def accept(self, stream: "Stream", follower: Replica, upstream: Upstream, marks: "EpochMarks", end: int) -> None:
        super().accept(stream, follower, upstream, marks, end)
        # Taken for true of the follower's log before it was compared.
        self.leading.add_follower(follower.name, end, self.replica.now_s())
        self.after_answer()


# --- the registry


class SetsWithoutTheEpoch(Registry):
    def set_in_sync(self, epoch: int, expected: "Members", wanted: "Members") -> bool:
        return super().set_in_sync(self.epoch, expected, wanted)


class KeepsTheEpoch(Registry):
    """When a leader is elected."""

    def _led_by(self, store: str) -> int:
        epoch = max(2, self.epoch)
        super()._led_by(store)
        self.epoch = epoch
        return epoch


class ElectsWhoIsNotInSync(Registry):
    def lead(self, store: str, epoch: int) -> int | None:
        self.in_sync |= {store}
        return super().lead(store, epoch)


class AsksThoughNotInSync(FollowerState):
    def note_view(self, view: ShardView, requested_s: float) -> None:
        super().note_view(replace(view, in_sync=view.in_sync | {self._me}), requested_s)


class ElectsDuringTheLease(Registry):
    def look(self, store: str) -> Looked:
        looked = super().look(store)
        return replace(looked, view=replace(looked.view, leader_live=False))

    def lead(self, store: str, epoch: int) -> int | None:
        if store != self.leader:
            self.lease_end_s = 0.0
        return super().lead(store, epoch)


# --- logs


class ComparesEndsOnly(Leader):
    def common_end(self, marks: "EpochMarks", end: int) -> int | None:
        return min(self.disk.end, end)


class TruncatesToItsStart(Leader):
    """Everything beyond where this leader's part begins, whoever the follower followed."""

    def common_end(self, marks: "EpochMarks", end: int) -> int | None:
        return (
            min(end, self.disk.marks.end_of_part(self.disk.marks.marks[-2], self.disk.end))
            if len(self.disk.marks.marks) > 1
            else super().common_end(marks, end)
        )


class TruncatesToWhatItKnowsAsAcknowledged(Replica):
    """As followers did before they had epochs."""

    def welcomed(
        self, upstream: Upstream, session: "Session", epoch: int, common: int | None, base: int, marks: "EpochMarks"
    ) -> None:
        known = None if common is None else min(common, max(self.known_acknowledged, base, self.disk.base))
        super().welcomed(upstream, session, epoch, known, base, marks)


class ListensToAll(Replica):
    """For as long as the bytes fit to its log, and whatever the epoch."""

    def listens(self, upstream: Upstream, epoch: int) -> bool:
        return self.following is not None

    def take(self, upstream: Upstream, told: Told) -> None:
        if upstream is self.upstream or told.first == self.disk.end:
            super().take(upstream, told)

    def drop_upstream(self) -> None:
        self.upstream = None


# --- serving and taking over


class ForgetsItsPromise(FollowerState):
    """With a restart."""

    def __init__(self, me: str, timing: ReplicationTiming, now_s: float) -> None:
        super().__init__(me, timing, now_s)
        self._promised_until_s = now_s


class BreaksItsPromise(FollowerState):
    def note_leader_message(self, now_s: float) -> bool:
        before = self._promised_until_s
        promises = super().note_leader_message(now_s)
        self._promised_until_s = before
        return promises


class LeaseFromTheAnswerOn(Leader):
    def renewed(self, requested_s: float) -> None:
        super().renewed(self.replica.now_s())


class PromiseFromTheAnswerOn(Leader):
    def took_answer(self, session: "Session", position: int, requested_s: float, end_then: int, promises: bool) -> None:
        super().took_answer(session, position, self.replica.now_s(), end_then, promises)


class ServesByOnePromise(LeaderState):
    @property
    def serves_until_s(self) -> float:
        promised = max(
            (self._promised_until_s(name) for name in self.possible_members - {self._me}), default=float("inf")
        )
        return max(super().serves_until_s, promised)


class ServesAsLongAsItLeads(LeaderState):
    def may_serve(self, now_s: float) -> bool:
        return True


class TrustsClocks(ReplicationTiming):
    def usable_s(self, given_s: float) -> float:
        return given_s


class FollowsWhileItAsks(Replica):
    """Bytes are taken, and answered, while the registry is asked for the leadership."""

    def drop_upstream(self) -> None:
        if self.following is None or not self.following.may_take_over(self.now_s()):
            super().drop_upstream()


class LooksWhetherItLeads(Replica):
    """After a call of which nobody knows whether it was done, which may be done later than the look."""

    def took_over(self, answer: object, epoch: int, requested_s: float) -> None:
        super().took_over(None if answer is UNKNOWN else answer, epoch, requested_s)


class ServesWhileItHandsOver(Leader):
    def _consume(self) -> None:
        is_handing_over, self._is_handing_over = self._is_handing_over, False
        super()._consume()
        self._is_handing_over = is_handing_over


class GoesOnAfterAnUnknownHandOver(Leader):
    def handed_over(self, answer: object) -> None:
        if answer is UNKNOWN:
            self._is_handing_over, self._moving_until_s = False, 0.0
        else:
            super().handed_over(answer)


class AsksAHeartbeatWhetherItHandedOver(GoesOnAfterAnUnknownHandOver):
    """A heartbeat does not wait for changes that are under way."""

    def handed_over(self, answer: object) -> None:
        if answer is UNKNOWN:
            self._is_unsure = True
        else:
            super().handed_over(answer)

    _is_unsure = False

    def renewed(self, requested_s: float) -> None:
        super().renewed(requested_s)
        if self._is_unsure:
            super().handed_over(UNKNOWN)

    def _begin_move(self, move_to: str) -> None:
        if not self._is_unsure:  # else the next move would hide the last one
            super()._begin_move(move_to)


# --- progress and derived files


class ReadsWhatIsNotAcknowledged(Leader):
    def may_be_read(self) -> int:
        return self.disk.durable


class SpillsWhatIsDurable(Replica):
    def spill(self) -> None:
        self.disk.spilled = max(self.disk.spilled, self.disk.durable)


class VouchesForItsOwnDisk(Leader):
    def vouches_for(self) -> int:
        return self.disk.durable


class BelievesBeforeItTruncates(Replica):
    """What the leader says is acknowledged is of the leader's log."""

    def welcomed(
        self, upstream: Upstream, session: "Session", epoch: int, common: int | None, base: int, marks: "EpochMarks"
    ) -> None:
        if self.listens(upstream, epoch):
            self.known_acknowledged = max(self.known_acknowledged, session.leader.leading.acknowledged)
            self.spill()
        super().welcomed(upstream, session, epoch, common, base, marks)


BREAKAGES: tuple[Breakage, ...] = (
    Breakage("acknowledges without a member that is being added", Parts(leading=IgnoresTheAdded)),
    Breakage("relies on a shrink of the in-sync set before the registry has it", Parts(leading=TrustsAShrinkAtOnce)),
    Breakage("waits only for members that are connected", Parts(leading=CountsTheConnectedOnly)),
    Breakage("waits for half of the other members only", Parts(leading=CountsAMajority)),
    Breakage("acknowledges before its own sync", Parts(leading=DoesNotWaitForItsOwnDisk)),
    Breakage("takes a change of unknown outcome for refused", Parts(leader=TakesUnknownForRefused)),
    Breakage("takes a change of unknown outcome for done", Parts(leader=TakesUnknownForDone)),
    Breakage("adds a replica that has just come", Parts(leading=AddsWhoHasJustCome)),
    Breakage("goes on with fewer than min_insync", Parts(leading=GoesOnWithFewer)),
    Breakage("a follower answers before its sync", Parts(replica=AnswersBeforeItsSync)),
    Breakage("counts a follower's end before the logs were compared", Parts(leader=CountsAnswersOfAFormerLeadership)),
    Breakage("the in-sync set is changed whatever the epoch", Parts(registry=SetsWithoutTheEpoch)),
    Breakage("a leader gets the epoch of the one before", Parts(registry=KeepsTheEpoch)),
    Breakage("one that is not in sync is elected", Parts(registry=ElectsWhoIsNotInSync, following=AsksThoughNotInSync)),
    Breakage("a leader is elected during another's lease", Parts(registry=ElectsDuringTheLease)),
    Breakage("logs are compared by their ends, not by epochs", Parts(leader=ComparesEndsOnly)),
    Breakage("a follower truncates to where the leader's part begins", Parts(leader=TruncatesToItsStart)),
    Breakage(
        "a follower truncates to what it knows as acknowledged", Parts(replica=TruncatesToWhatItKnowsAsAcknowledged)
    ),
    Breakage("a follower takes bytes from a connection that it has given up", Parts(replica=ListensToAll)),
    Breakage("forgets with a restart what it promised", Parts(following=ForgetsItsPromise)),
    Breakage("takes over although it has promised not to", Parts(following=BreaksItsPromise)),
    Breakage("counts its lease from the registry's answer on", Parts(leader=LeaseFromTheAnswerOn)),
    Breakage("counts a promise from the follower's answer on", Parts(leader=PromiseFromTheAnswerOn)),
    Breakage("serves while only one of the others has promised", Parts(leading=ServesByOnePromise)),
    Breakage("serves until it hears of another leader", Parts(leading=ServesAsLongAsItLeads)),
    Breakage("takes all clocks for equally fast", Parts(timing=TrustsClocks)),
    Breakage("follows on while it asks for the leadership", Parts(replica=FollowsWhileItAsks)),
    Breakage("only looks whether a call for the leadership was done", Parts(replica=LooksWhetherItLeads)),
    Breakage("serves while it hands over", Parts(leader=ServesWhileItHandsOver)),
    Breakage("goes on after a move of unknown outcome", Parts(leader=GoesOnAfterAnUnknownHandOver)),
    Breakage("a heartbeat tells whether a move was done", Parts(leader=AsksAHeartbeatWhetherItHandedOver)),
    Breakage("hands out what is durable and not acknowledged", Parts(leader=ReadsWhatIsNotAcknowledged)),
    Breakage("derives files from what is durable and not acknowledged", Parts(replica=SpillsWhatIsDurable)),
    Breakage("vouches in records for its own disk only", Parts(leader=VouchesForItsOwnDisk)),
    Breakage("believes what is acknowledged before it truncates", Parts(replica=BelievesBeforeItTruncates)),
)
