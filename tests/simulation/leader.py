"""What a replica does while it leads. It asks `Leading` what to decide."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.disk import Record
from tests.simulation.registry import UNKNOWN, Looked
from tests.simulation.replica import Told
from tests.simulation.world import FOLLOWER, LEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.replication.epochs import EpochMarks
    from ternmq_broker.replication.leader_state import InSyncChange, Members
    from tests.simulation.replica import Replica, Upstream
    from tests.simulation.world import Stream

WINDOW = 64
"""Records that are on the way to a follower at most."""


@dataclass(slots=True, eq=False)
class Session:
    """A leader's end of a follower's connection, for one epoch."""

    leader: "Leader"
    stream: "Stream"
    follower: "Replica"
    upstream: "Upstream"
    store: str
    heard_s: float
    sent: int = -1
    """-1 until the follower is ready."""
    position: int = 0

    def is_ready(self, end: int, durable: int) -> None:
        if not self._counts():
            return
        leader = self.leader
        before = leader.sessions.get(self.store)
        if before is not None:
            before.stream.close(LEADER)
        leader.sessions[self.store] = self
        self.sent, self.position = end, durable
        self.heard_s = leader.replica.now_s()
        leader.leading.add_follower(self.store, durable, self.heard_s)
        leader.after_answer()
        self.tell()

    def _counts(self) -> bool:
        """An answer is worth something in the leadership, and of the connection, in which it was asked for."""
        return self.stream.open[LEADER] and self.leader.is_leading()

    def answered(self, position: int, requested_s: float, end_then: int, promises: bool) -> None:
        if not self._counts() or self.leader.sessions.get(self.store) is not self:
            return
        self.leader.took_answer(self, position, requested_s, end_then, promises)

    def closed(self) -> None:
        if self.leader.sessions.get(self.store) is self:
            del self.leader.sessions[self.store]
            self.leader.leading.note_disconnect(self.store, self.leader.replica.now_s())

    def tell(self, *, at_least_a_beat: bool = True) -> None:
        disk = self.leader.disk
        if self.sent < disk.base:
            self.stream.close(LEADER)
            self.closed()
            return
        upto = min(disk.end, self.position + WINDOW)
        if upto <= self.sent and not at_least_a_beat:
            return
        records = disk.log[self.sent - disk.base : upto - disk.base] if upto > self.sent else []
        told = Told(
            first=self.sent,
            records=records,
            requested_s=self.leader.replica.now_s(),
            end_then=disk.end,
            acknowledged=self.leader.leading.acknowledged,
            progress=disk.progress,
        )
        self.sent += len(records)
        self.stream.send(FOLLOWER, self.follower.take, self.upstream, told)


class Leader:
    """One leadership."""

    def __init__(self, replica: "Replica", epoch: int, in_sync: "Members", leased_at_s: float) -> None:
        self.replica = replica
        self.disk = replica.disk
        self.epoch = epoch
        self.sessions: dict[str, Session] = {}
        self.progress = self.disk.progress
        self._world = replica.world
        self._timing = replica.timing
        self._ticks = 0
        self._numbers = 0
        self._move_to = ""
        self._moving_until_s = 0.0
        self._retired: Callable[[], None] | None = None
        """Called when it is to end, and has handed over or not."""
        self._is_handing_over = False
        """From then on it never serves again in this epoch."""
        self.leading = replica.parts.leading(
            replica.name,
            in_sync,
            min_insync=self._world.plan.min_insync,
            timing=self._timing,
            now_s=replica.now_s(),
            leased_at_s=leased_at_s,
            start=self.disk.end,
            acknowledged=replica.known_acknowledged,
            waits_for_replicas=self._world.plan.waits_for_replicas,
        )
        self._checked = self.leading.acknowledged

    def begin(self) -> None:
        self._world.note(
            "{} leads in epoch {}, its log ends at {}, {} known to be acknowledged, in sync {}",
            *(self.replica.name, self.epoch, self.disk.end, self.leading.acknowledged, self.leading.in_sync),
        )
        self.replica.checks.leads(self)
        self._append([Record(self.epoch, 0, self.leading.acknowledged)])
        self._beat()
        self._tick()

    def is_leading(self) -> bool:
        return self.replica.leader is self

    def step_down(self, why: str) -> None:
        self._world.note("{} steps down from epoch {}: {}", self.replica.name, self.epoch, why)
        for session in self.sessions.values():
            session.stream.close(LEADER)
        self.replica.known_acknowledged = max(self.replica.known_acknowledged, self.leading.acknowledged)
        self.replica.follow(self.epoch)

    # --- followers

    def accept(
        self, stream: "Stream", follower: "Replica", upstream: "Upstream", marks: "EpochMarks", end: int
    ) -> None:
        session = Session(self, stream, follower, upstream, follower.name, self.replica.now_s())
        stream.on_closed[LEADER] = session.closed
        common = self.common_end(marks, end)
        if common is None and follower.name in self.leading.possible_members:
            self._world.note(
                "{} refuses {}, which is in sync: their logs can't be compared", self.replica.name, follower.name
            )
            stream.close(LEADER)
            return
        base = self.disk.base
        marks_before = self.disk.marks.cut_at(base)
        stream.send(FOLLOWER, follower.welcomed, upstream, session, self.epoch, common, base, marks_before)

    def common_end(self, marks: "EpochMarks", end: int) -> int | None:
        return self.disk.marks.common_end(self.disk.end, marks, end)

    def took_answer(self, session: Session, position: int, requested_s: float, end_then: int, promises: bool) -> None:
        session.heard_s, session.position = self.replica.now_s(), max(session.position, position)
        self.leading.note_answer(session.store, position, requested_s=requested_s, end_then=end_then, promises=promises)
        self.after_answer()
        session.tell(at_least_a_beat=False)

    def after_answer(self) -> None:
        now = self.leading.acknowledged
        if now > self._checked:
            before, self._checked = self._checked, now
            self.replica.checks.acknowledges(self, before, now)

    def is_durable(self) -> None:
        """The log has grown, or was synced."""
        self.leading.note_own_log(self.disk.end, self.disk.durable)
        self.after_answer()

    # --- messages

    def send(self, count: int) -> None:
        """A client does."""
        if not self.is_leading() or self._is_moving() or self.leading.refusal_reason(self.replica.now_s()) is not None:
            return
        vouched = self.vouches_for()
        self._append([Record(self.epoch, self._numbers + each, vouched) for each in range(1, count + 1)])
        self._numbers += count

    def vouches_for(self) -> int:
        return self.leading.acknowledged

    def _append(self, records: list[Record]) -> None:
        self.disk.append(records)
        self.is_durable()
        self.replica.sync_soon()
        for session in list(self.sessions.values()):
            session.tell(at_least_a_beat=False)

    def _consume(self) -> None:
        if not self._is_handing_over and self.leading.may_serve(self.replica.now_s()):
            upto = self.may_be_read()
            if upto > self.progress:
                self.progress = self._world.dice.randint(self.progress, upto)
            self.replica.checks.serves(self, self.progress)
            if self._ticks % 10 == 0:
                self.disk.progress = self.progress

    def may_be_read(self) -> int:
        return self.leading.acknowledged

    # --- what it does all the time

    def _tick(self) -> None:
        if not self.is_leading():
            return
        self._ticks += 1
        now_s = self.replica.now_s()
        change = self.leading.next_change(now_s)
        if change is not None:
            self._change(change)
        for session in list(self.sessions.values()):
            if now_s - session.heard_s > self._timing.lease_s / 2:
                session.stream.close(LEADER)
                session.closed()
            elif self._ticks % 2 == 0:
                session.tell()
        self._consume()
        if self._is_moving():
            self._hand_over()
        self.replica.later(self._timing.lease_s / 20, self._tick)

    def _beat(self) -> None:
        if self.is_leading():
            requested_s = self.replica.now_s()
            self.replica.ask(lambda answer: self._beaten(answer, requested_s), "heartbeat", self.epoch, waits=False)

    def _beaten(self, answer: object, requested_s: float) -> None:
        if not self.is_leading():
            return
        if answer is False:
            self.step_down("the registry refuses its epoch")
            return
        if answer is True:
            self.renewed(requested_s)
        self.replica.later(self._timing.lease_s / (12 if answer is UNKNOWN else 3), self._beat)

    def renewed(self, requested_s: float) -> None:
        self.leading.note_renewal(requested_s)

    def looked(self, looked: Looked) -> None:
        if looked.view.epoch > self.epoch:
            self.step_down("the registry has another epoch")
        elif looked.move_to and not self._is_moving():
            self._begin_move(looked.move_to)

    # --- the in-sync set

    def _change(self, change: "InSyncChange") -> None:
        def tried(answer: object) -> None:
            if self.is_leading():
                self.tried(change, answer)

        self.replica.ask(tried, "set_in_sync", self.epoch, change.expected, change.wanted)

    def tried(self, change: "InSyncChange", answer: object) -> None:
        if answer is True:
            self.changed(change.wanted)
        elif answer is UNKNOWN:
            self.changed(None)
        else:
            self._learn_in_sync()

    def _learn_in_sync(self) -> None:
        """Another set, or another epoch, was there."""

        def learned(answer: object) -> None:
            if not self.is_leading():
                return
            if not isinstance(answer, Looked):
                self.changed(None)
            elif answer.view.epoch != self.epoch:
                self.step_down("the registry has another epoch")
            else:
                self.changed(answer.view.in_sync)

        self.replica.ask(learned, "look", self.replica.name, waits=False)

    def changed(self, actual: "Members | None") -> None:
        self.leading.finish_change(actual)
        self.after_answer()

    # --- a planned move, or end: whether it was done or not, this leadership is over

    def _begin_move(self, move_to: str) -> None:
        self._move_to = move_to
        self._moving_until_s = self.replica.now_s() + self._timing.lease_s / 4

    def retire(self, retired: "Callable[[], None]") -> None:
        """The process is to end: have any other replica lead, or else give up the lease."""
        self._retired = retired
        if not self._is_handing_over:
            self._begin_move("")

    def _is_moving(self) -> bool:
        return self._moving_until_s > 0

    def _hand_over(self) -> None:
        if self._is_handing_over:
            return
        for store, session in sorted(self.sessions.items()):
            is_whole = session.position >= self.disk.end and store in self.leading.in_sync
            if is_whole and self._move_to in {"", store}:
                self._is_handing_over = True
                self.replica.ask(self.handed_over, "hand_over", self.epoch, store)
                return
        if self.replica.now_s() > self._moving_until_s:
            self._is_handing_over = True
            self.handed_over(None)

    def handed_over(self, answer: object) -> None:
        """Refused or unknown: to lead again it has to ask for it, in a call that waits for the row as this one did."""
        if not self.is_leading():
            return
        if self._retired is not None and answer is None:
            self.replica.ask(lambda _: None, "give_up", self.epoch, waits=False)
        if self._retired is not None:
            self._retired()
        else:
            self.step_down(f"handed over: {answer}")
