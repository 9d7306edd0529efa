"""One process of the shard: what it does from its start on, and as a follower. It asks `FollowerState` what to
decide."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.registry import UNKNOWN, Looked, RegistryCalls
from tests.simulation.world import FOLLOWER, LEADER, Machine, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.replication.epochs import EpochMarks
    from ternmq_broker.replication.follower_state import FollowerState
    from tests.simulation.checks import Checks
    from tests.simulation.disk import Record
    from tests.simulation.leader import Leader, Session
    from tests.simulation.parts import Parts
    from tests.simulation.world import World


@dataclass(slots=True, eq=False)
class Upstream:
    """A follower's connection to a leader."""

    stream: Stream
    leader: str
    epoch: int
    heard_s: float
    session: "Session | None" = None
    requested_s: float = 0.0
    end_then: int = 0
    is_copying: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a leader sends: records from `first` on, or none."""

    first: int
    records: "list[Record]"
    requested_s: float
    end_then: int
    acknowledged: int
    progress: int


class Replica:
    """Everything happens in `get`, in order, while the process lives and is not stopped."""

    def __init__(
        self, world: "World", machine: Machine, calls: RegistryCalls, checks: "Checks", parts: "Parts"
    ) -> None:
        self.world = world
        self.machine = machine
        self.disk = machine.disk
        self.name = machine.disk.store
        self.calls = calls
        self.checks = checks
        self.parts = parts
        self.timing = world.plan.timing
        self.is_alive = True
        self.following: FollowerState | None = None
        self.leader: Leader | None = None
        self.upstream: Upstream | None = None
        self.known_acknowledged = self.disk.spilled
        """The log is known to be acknowledged below it."""
        self._is_taking_over = False
        self._is_syncing = False
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    # --- a process

    def now_s(self) -> float:
        return self.machine.clock_s()

    def get(self, do: "Callable[..., None]", args: tuple[Any, ...]) -> None:
        if self.is_alive:
            if self.machine.stopped:
                self._held.append((do, args))
            else:
                do(*args)

    def later(self, delay_s: float, do: "Callable[..., None]", *args: Any) -> None:  # noqa: ANN401
        self.world.at(self.world.now + delay_s / self.machine.rate, self.get, do, args)

    def go_on(self) -> None:
        """It was stopped, and is not any more."""
        held, self._held = self._held, []
        for do, args in held:
            self.get(do, args)

    def die(self, *, power_lost: bool) -> None:
        self.is_alive = False
        for stream in sorted(self.world.streams, key=lambda stream: stream.number):
            side = stream.end_of(self)
            if side is not None:
                stream.died(side) if power_lost else stream.close(side)

    def ask(self, then: "Callable[[Any], None]", what: str, *args: Any, waits: bool = True) -> None:  # noqa: ANN401
        self.calls.ask(self, then, what, *args, waits=waits)

    def sync_soon(self) -> None:
        if not self._is_syncing:
            self._is_syncing = True
            self.later(self._sync_s(), self._synced, self.disk.end, self.disk.generation)

    def _sync_s(self) -> float:
        sync_s = self.world.dice.random() * self.world.plan.sync_s * self.machine.sync_factor
        return min(sync_s, self.timing.lease_s)

    def _synced(self, end: int, generation: int) -> None:
        self._is_syncing = False
        self.disk.synced(end, generation)
        if self.leader is not None:
            self.leader.is_durable()
        elif self.upstream is not None and self.upstream.is_copying:
            self.answer(self.upstream)
        if self.disk.durable < self.disk.end:
            self.sync_soon()

    # --- start, and the registry

    def start(self) -> None:
        self.ask(self._joined, "join", self.name, self.machine.name)

    def _joined(self, answer: object) -> None:
        if answer is not True:
            self.later(self.timing.lease_s / 6, self.start)
            return
        self.follow()
        self._look()

    def follow(self, epoch: int = 0) -> None:
        """From a start, or the end of a leadership in `epoch`, on."""
        self.leader = None
        self.following = self.parts.following(self.name, self.timing, self.now_s())
        self.following.accept_epoch(epoch)
        self._is_taking_over = False

    def _look(self) -> None:
        requested_s = self.now_s()
        self.ask(lambda answer: self._looked(answer, requested_s), "look", self.name, waits=False)

    def _looked(self, answer: object, requested_s: float) -> None:
        if isinstance(answer, Looked) and self.leader is not None:
            self.leader.looked(answer)
        elif self.following is not None and not self._is_taking_over:
            if isinstance(answer, Looked):
                self.following.note_view(answer.view, requested_s)
                self._lead_or_not(self.following)
            self._follow_leader(self.following)
        self._drop_silent()
        self.later(self.timing.lease_s / 8, self._look)

    def _lead_or_not(self, following: "FollowerState") -> None:
        if following.is_elected() or following.may_take_over(self.now_s()):
            self.drop_upstream()
            self.world.note("{} asks for the leadership, after epoch {}", self.name, following.epoch)
            self._is_taking_over = True
            self.take_over(following.epoch)

    def _follow_leader(self, following: "FollowerState") -> None:
        """Who leads as far as is known: the registry may be away."""
        view, upstream = following.shard_view, self.upstream
        if self._is_taking_over or view is None or view.leader == self.name or view.epoch != following.epoch:
            return
        if upstream is None or upstream.leader != view.leader or upstream.epoch < view.epoch:
            self.drop_upstream()
            self._connect(view.leader, view.epoch)

    def _drop_silent(self) -> None:
        upstream = self.upstream
        if upstream is not None and self.now_s() - upstream.heard_s > self.timing.lease_s / 2:
            self.drop_upstream()

    # --- taking over: nothing is taken from a leader, and nothing answered, from the question on

    def take_over(self, epoch: int) -> None:
        requested_s = self.now_s()
        self.ask(lambda answer: self.took_over(answer, epoch, requested_s), "lead", self.name, epoch)

    def took_over(self, answer: object, epoch: int, requested_s: float) -> None:
        """Whether it leads is only told by a call that waits for the row as the first did: that one may be done later
        than a mere look, and then this replica would lead without knowing it, while it promises not to."""
        if answer is UNKNOWN:
            self.take_over(epoch)
        elif isinstance(answer, int):
            self.learn_in_sync(answer, requested_s)
        else:
            self._is_taking_over = False

    def learn_in_sync(self, epoch: int, leased_at_s: float) -> None:
        def learned(answer: object) -> None:
            if not isinstance(answer, Looked):
                self.learn_in_sync(epoch, leased_at_s)
            elif (answer.view.epoch, answer.view.leader) == (epoch, self.name):
                self._is_taking_over = False
                self.following = None
                self.leader = self.parts.leader(self, epoch, answer.view.in_sync, leased_at_s)
                self.leader.begin()
            else:
                self._is_taking_over = False

        self.ask(learned, "look", self.name, waits=False)

    # --- following a leader

    def _connect(self, leader: str, epoch: int) -> None:
        target = next((machine for machine in self.world.machines if machine.disk.store == leader), None)
        if target is None or target.process is None:
            return
        stream = Stream(self.world, self, target.process)
        upstream = self.upstream = Upstream(stream, leader, epoch, self.now_s())
        stream.on_closed[FOLLOWER] = lambda: self._closed(upstream)
        disk = self.disk
        stream.send(LEADER, target.process.accept, stream, self, upstream, disk.marks, disk.end)

    def accept(self, stream: Stream, follower: "Replica", upstream: Upstream, marks: "EpochMarks", end: int) -> None:
        """A follower has come to this process."""
        if self.leader is None or self.leader.epoch < upstream.epoch:
            stream.close(LEADER)
        else:
            self.leader.accept(stream, follower, upstream, marks, end)

    def _closed(self, upstream: Upstream) -> None:
        if upstream is self.upstream:
            self.upstream = None

    def drop_upstream(self) -> None:
        if self.upstream is not None:
            self.upstream.stream.close(FOLLOWER)
            self.upstream = None

    def welcomed(
        self, upstream: Upstream, session: "Session", epoch: int, common: int | None, base: int, marks: "EpochMarks"
    ) -> None:
        """The leader has compared the logs."""
        if not self.listens(upstream, epoch):
            return
        disk = self.disk
        upstream.epoch, upstream.session, upstream.heard_s = epoch, session, self.now_s()
        self.world.note("{} has {} in common with epoch {}, of {}", self.name, common, epoch, disk.end)
        if common is None or common < max(base, disk.base):
            self.checks.begins_anew(self)
            disk.begin_anew(base, marks)
            self.known_acknowledged = base
        elif common < disk.end:
            self.checks.truncates(self, common, epoch)
            disk.truncate(common)
        self.later(self._sync_s(), self._copy, upstream, disk.end, disk.generation)

    def listens(self, upstream: Upstream, epoch: int) -> bool:
        """Whether it still takes anything from that connection."""
        if upstream is not self.upstream or self.following is None:
            return False
        if not self.following.accept_epoch(epoch):
            self.drop_upstream()
            return False
        return True

    def _copy(self, upstream: Upstream, end: int, generation: int) -> None:
        """The truncation is durable."""
        self.disk.synced(end, generation)
        if self.listens(upstream, upstream.epoch) and upstream.session is not None:
            upstream.is_copying = True
            upstream.stream.send(LEADER, upstream.session.is_ready, self.disk.end, self.disk.durable)

    def take(self, upstream: Upstream, told: Told) -> None:
        if not self.listens(upstream, upstream.epoch):
            return
        disk = self.disk
        upstream.heard_s, upstream.requested_s, upstream.end_then = self.now_s(), told.requested_s, told.end_then
        if told.records:
            assert told.first == disk.end
            self.checks.appends(self, told.records)
            disk.append(told.records)
            self.sync_soon()
        self.known_acknowledged = max(self.known_acknowledged, told.acknowledged)
        self.checks.progressed(self, told.progress)
        disk.progress = told.progress
        if not told.records:
            self.answer(upstream)

    def answer(self, upstream: Upstream) -> None:
        assert self.following is not None
        assert upstream.session is not None
        upstream.stream.send(
            LEADER,
            upstream.session.answered,
            self.answered_position(),
            upstream.requested_s,
            upstream.end_then,
            self.following.note_leader_message(self.now_s()),
        )

    def answered_position(self) -> int:
        return self.disk.durable

    # --- what goes on beside

    def spill(self) -> None:
        """Derived files are written, of what is sure to stay."""
        known = self.known_acknowledged if self.leader is None else self.leader.leading.acknowledged
        self.disk.spilled = max(self.disk.spilled, min(self.disk.durable, known))

    def retain(self, share: float) -> None:
        """The oldest part of the log goes, of what derived files cover."""
        self.spill()
        disk = self.disk
        disk.retain_from(disk.base + int(share * max(0, disk.spilled - disk.base)))
