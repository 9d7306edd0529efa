"""Ordered consumption of one queue against a plain model: a message group's messages come one after the other."""

import copy
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.delivery.claims import Claim
from ternmq_broker.delivery.ordered_consumption import MessageGroupLane, OrderedConsumption
from ternmq_common.shard.model import SettleOutcome
from tests.unit.broker.test_queue_consumption import Journal

GROUPS = ["a", "b", ""]
ATTEMPTS_MAX = 3


@dataclass
class Entry:
    """A message that is not finished: waiting (perhaps released), claimed, moving to the dead letters, or blocked: it
    can't be read."""

    group: str
    state: str = "waiting"
    attempt: int = 0
    generation: int = 0
    deadline_ms: int = 0
    attempt_id: str = ""
    released: bool = False
    told: bool = False
    """Since the restart it is known that its claim has ended, and not yet which lane it is of."""


@dataclass
class Model:
    """Everything that a restart brings back as it was when the journal was written."""

    entries: dict[int, Entry] = field(default_factory=dict)
    cursor: int = 0


class OrderedMachine(RuleBasedStateMachine):
    """Messages of several groups appear, are received, settled, hidden, given up; processes restart and crash."""

    @initialize()
    def start(self) -> None:
        self.consumption = OrderedConsumption(0)
        self.journal = Journal()
        self.groups: list[str] = []
        self.skipped: set[int] = set()
        self.now = 1_000_000
        self.model = Model()
        self.journalled = Model()
        self.journal.write(self.consumption.record_changes(whole=True))

    # --- the model

    def is_open(self, group: str) -> bool:
        return not any(
            entry.group == group and entry.state in ("claimed", "moving", "blocked")
            for entry in self.model.entries.values()
        )

    def in_force(self, entry: Entry) -> bool:
        return entry.generation > 0 and self.now < entry.deadline_ms and entry.state == "claimed"

    def unfinished(self, *states: str) -> list[int]:
        return sorted(offset for offset, entry in self.model.entries.items() if entry.state in states)

    # --- messages and time

    @rule(groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=6))
    def messages_arrive(self, groups: list[str]) -> None:
        self.groups += groups

    @rule(milliseconds=st.integers(1, 40))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(by_ms=st.integers(-500, 500))
    def the_clock_is_set(self, by_ms: int) -> None:
        """Whoever has a message keeps the time that was left. What the journal knows was written by the clock before,
        so it is told at once here."""
        self.now += by_ms
        self.consumption.rebase_claims(by_ms)
        for entry in self.model.entries.values():
            if entry.generation:
                entry.deadline_ms += by_ms
        self.the_journal_is_written(whole=False)

    # --- receiving

    @rule(
        batch=st.integers(1, 5),
        invisible_ms=st.integers(1, 60),
        attempt_id=st.sampled_from(["", "x", "y"]),
        filtered=st.booleans(),
    )
    def a_consumer_receives(self, batch: int, invisible_ms: int, attempt_id: str, filtered: bool) -> None:
        deadline = self.now + invisible_ms
        for held in list(self.consumption.lanes_of_attempt(attempt_id)):
            self._again(held, deadline, attempt_id)
        self._look_at_all(filtered)
        left = batch
        while left:
            lane = self.consumption.open_lane()
            if lane is None:
                break
            left -= self._take(lane, left, deadline, attempt_id)
        if left:
            assert not any(
                entry.state == "waiting" and self.is_open(entry.group) for entry in self.model.entries.values()
            )

    def _look_at_all(self, filtered: bool) -> None:
        while again := self.consumption.offsets_to_scan(2):
            for offset in again:
                self.consumption.admit_message(offset, self.groups[offset], self.now)
        for offset in range(self.consumption.cursor, len(self.groups)):
            if filtered and offset % 3 == 0:
                self.consumption.skip_message(offset)
                self.skipped.add(offset)
            else:
                self.consumption.admit_message(offset, self.groups[offset], self.now)
                self.model.entries[offset] = Entry(self.groups[offset])
        self.model.cursor = max(self.model.cursor, len(self.groups))
        # What was claimed before a restart and has ended since was not told of while its lane was unknown.
        for entry in self.model.entries.values():
            if entry.state == "unknown":
                entry.state = "claimed" if self.now < entry.deadline_ms else "waiting"

    def _take(self, lane: MessageGroupLane, left: int, deadline: int, attempt_id: str) -> int:
        assert self.is_open(lane.key)
        expected = sorted(offset for offset, entry in self.model.entries.items() if entry.group == lane.key)
        offsets = list(lane.waiting)[:left]
        assert offsets == expected[:left], "a message group's messages come in order, none left out"
        claims = self.consumption.hand_out(lane, offsets, deadline_ms=deadline, attempt_id=attempt_id)
        for offset, claim in zip(offsets, claims, strict=True):
            entry = self.model.entries[offset]
            assert claim.attempt == entry.attempt + 1
            self.model.entries[offset] = Entry(
                lane.key, "claimed", claim.attempt, claim.generation, deadline, attempt_id
            )
        return len(offsets)

    def _again(self, lane: MessageGroupLane, deadline: int, attempt_id: str) -> None:
        before = {
            offset: entry
            for offset, entry in self.model.entries.items()
            if entry.group == lane.key and entry.attempt_id == attempt_id and entry.state in ("claimed", "ended")
        }
        claims = self.consumption.hand_out_again(lane, deadline_ms=deadline)
        assert {offset: claim.attempt for offset, claim in claims.items()} == {
            offset: entry.attempt for offset, entry in before.items()
        }
        for offset, claim in claims.items():
            entry = self.model.entries[offset]
            entry.state, entry.generation, entry.deadline_ms = "claimed", claim.generation, deadline
            entry.released = False

    # --- ends

    @rule()
    def what_has_ended_is_dealt_with(self) -> None:
        exhausted = self.consumption.take_ended(self.now, ATTEMPTS_MAX)
        ended = [
            offset
            for offset, entry in sorted(self.model.entries.items())
            if entry.state in ("claimed", "unknown") and entry.deadline_ms <= self.now
            if entry.generation or (entry.state == "unknown" and entry.attempt)
        ]
        used_up = [offset for offset in ended if self.model.entries[offset].attempt >= ATTEMPTS_MAX]
        assert [offset for offset, _ in exhausted] == used_up
        for offset in ended:
            entry = self.model.entries[offset]
            if offset in used_up:
                entry.state, entry.generation, entry.deadline_ms = "moving", 0, 0
            elif entry.state == "claimed":
                entry.state = "ended"
            else:
                entry.told = True
        self._settle_lanes()

    @precondition(lambda self: self.unfinished("moving"))
    @rule(data=st.data(), moved=st.booleans())
    def a_copy_is_made_or_fails(self, data: st.DataObject, moved: bool) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("moving")))
        if moved:
            self.consumption.finish_offset(offset)
            del self.model.entries[offset]
        else:
            self.consumption.return_message(offset)
            self.model.entries[offset].state = "ended"
        self._settle_lanes()

    def _settle_lanes(self) -> None:
        """What ended waits for the rest of what was handed out with it."""
        for entry in self.model.entries.values():
            if entry.state == "ended" and self.is_open(entry.group):
                entry.state, entry.attempt_id = "waiting", ""

    @precondition(lambda self: self.unfinished("claimed"))
    @rule(data=st.data())
    def a_consumer_gives_a_message_up(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("claimed")))
        entry = self.model.entries[offset]
        assert self.consumption.find_claim(offset, entry.generation) is not None
        self.consumption.set_aside(offset)
        entry.state, entry.generation, entry.deadline_ms = "moving", 0, 0

    # --- what can't be read

    @rule()
    def the_next_message_cannot_be_read(self) -> None:
        lane = self.consumption.open_lane()
        if lane is not None:
            self.model.entries[lane.waiting[0]].state = "blocked"
            self.consumption.block_lane(lane)
            assert self.consumption.open_lane() is not lane
            assert len(self.consumption._blocked) == len(self.unfinished("blocked"))

    @precondition(lambda self: self.unfinished("waiting", "claimed", "blocked"))
    @rule(data=st.data())
    def an_operator_skips(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("waiting", "claimed", "blocked")))
        self.consumption.finish_offset(offset)
        del self.model.entries[offset]
        self._settle_lanes()

    # --- settling

    @precondition(lambda self: self.model.entries)
    @rule(data=st.data())
    def a_message_is_acknowledged(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.model.entries)))
        entry = self.model.entries[offset]
        if not entry.generation:
            return
        outcome = self.consumption.acknowledge_message(offset, entry.generation, entry.deadline_ms, self.now)
        assert outcome is (SettleOutcome.DONE if self.now < entry.deadline_ms else SettleOutcome.EXPIRED)
        if outcome is SettleOutcome.DONE:
            del self.model.entries[offset]
            self._settle_lanes()

    @precondition(lambda self: self.unfinished("claimed"))
    @rule(data=st.data(), duration_ms=st.integers(0, 50), counts=st.booleans())
    def a_holder_changes_the_invisible_time(self, data: st.DataObject, duration_ms: int, counts: bool) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("claimed")))
        entry = self.model.entries[offset]
        claim = self.consumption.change_invisible(
            offset, entry.generation, now_ms=self.now, deadline_ms=self.now + duration_ms, counts=counts
        )
        assert (claim is not None) == self.in_force(entry)
        if claim is not None:
            entry.generation, entry.deadline_ms = claim.generation, self.now + duration_ms
            entry.attempt -= not counts

    @precondition(lambda self: self.unfinished("claimed"))
    @rule(data=st.data(), longer_ms=st.integers(1, 80))
    def the_proxy_prolongs(self, data: st.DataObject, longer_ms: int) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("claimed")))
        entry = self.model.entries[offset]
        deadline = self.now + longer_ms
        done = self.consumption.prolong_claim(offset, entry.generation, now_ms=self.now, deadline_ms=deadline)
        assert done == self.in_force(entry)
        if done:
            entry.deadline_ms = deadline

    @precondition(lambda self: self.unfinished("claimed"))
    @rule(data=st.data(), counts=st.booleans())
    def a_client_goes(self, data: st.DataObject, counts: bool) -> None:
        offset = data.draw(st.sampled_from(self.unfinished("claimed")))
        entry = self.model.entries[offset]
        done = self.consumption.release_message(offset, entry.generation, now_ms=self.now, counts=counts)
        assert done == self.in_force(entry)
        if done:
            entry.attempt -= not counts
            entry.state = "ended"
            self._settle_lanes()

    # --- restarts

    @rule(whole=st.booleans())
    def the_journal_is_written(self, whole: bool) -> None:
        self.journal.write(self.consumption.record_changes(whole=whole))
        assert self.journal.snapshot() == self.consumption.take_snapshot()
        self.journalled = copy.deepcopy(self.model)

    @rule(clean=st.booleans())
    def the_process_restarts(self, clean: bool) -> None:
        if clean:
            self.the_journal_is_written(whole=False)
        self.model = copy.deepcopy(self.journalled)
        self.consumption = OrderedConsumption.restore_state(self.journal.snapshot(), end=len(self.groups))
        self.journal.write(self.consumption.record_changes(whole=True))
        for entry in self.model.entries.values():
            entry.attempt_id = ""
            # Its lane is not known before it is looked at, nor whether it was released.
            entry.state, entry.told = "unknown", False
        self.skipped = {offset for offset in self.skipped if offset < self.model.cursor}

    @precondition(lambda self: len(self.groups) < 40)
    @rule(offset=st.integers(0, 20))
    def an_operator_resets(self, offset: int) -> None:
        offset = min(offset, len(self.groups))
        self.consumption.reset_to(offset)
        self.model = Model(cursor=offset)

    @invariant()
    def everything_below_the_cursor_is_finished_or_known(self) -> None:
        assert self.consumption.cursor == self.model.cursor
        assert self.consumption.in_flight == len(self.model.entries)
        assert self.consumption.committed_offset == min(self.model.entries, default=self.model.cursor)

    @invariant()
    def handed_out_is_what_somebody_has_or_moves(self) -> None:
        expected = [
            entry
            for entry in self.model.entries.values()
            if entry.state in ("claimed", "moving")
            or (entry.state == "unknown" and (entry.attempt or entry.generation) and not entry.told)
        ]
        assert self.consumption.handed_out_count == len(expected)

    @invariant()
    def the_next_deadline_is_never_too_late(self) -> None:
        waiting = [entry.deadline_ms for entry in self.model.entries.values() if entry.state == "claimed"]
        next_deadline = self.consumption.next_deadline_ms()
        if waiting:
            assert next_deadline is not None
            assert next_deadline <= min(waiting)


TestOrderedMachine = OrderedMachine.TestCase
TestOrderedMachine.settings = settings(max_examples=3 * settings().max_examples, stateful_step_count=60)


def hand_out_first(consumption: OrderedConsumption, deadline_ms: int) -> Claim:
    """Of the lane that is open, to one consumer."""
    lane = consumption.open_lane()
    assert lane is not None
    (claim,) = consumption.hand_out(lane, [0], deadline_ms=deadline_ms, attempt_id="")
    return claim


def test_a_message_that_is_being_moved_again_after_a_restart_is_with_nobody_else() -> None:
    """The journal remembers its first move as a claim that has ended."""
    before = OrderedConsumption(0)
    before.admit_message(0, "a", now_ms=1000)
    hand_out_first(before, 2000)
    before.set_aside(0)
    after = OrderedConsumption.restore_state(before.take_snapshot(), end=1)
    after.admit_message(0, "a", now_ms=1000)
    hand_out_first(after, 3000)
    after.set_aside(0)
    assert after.take_ended(1000, ATTEMPTS_MAX) == []
    assert (after.handed_out_count, after.open_lane()) == (1, None)
    after.finish_offset(0)
    assert (after.handed_out_count, after.in_flight) == (0, 0)


def test_a_message_is_exhausted_by_its_last_attempt_and_not_before() -> None:
    consumption = OrderedConsumption(0)
    consumption.admit_message(0, "a", 0)
    exhausted: list[tuple[int, int]] = []
    for attempt in range(1, ATTEMPTS_MAX + 1):
        assert exhausted == []
        claim = hand_out_first(consumption, 10 * attempt)
        assert claim.attempt == attempt
        exhausted = consumption.take_ended(10 * attempt, ATTEMPTS_MAX)
    assert exhausted == [(0, ATTEMPTS_MAX)]
    assert consumption.open_lane() is None


def test_the_next_message_of_a_group_waits_until_the_one_before_is_settled() -> None:
    consumption = OrderedConsumption(0)
    consumption.admit_message(0, "a", 0)
    claim = hand_out_first(consumption, 10)
    consumption.admit_message(1, "a", 0)
    assert consumption.open_lane() is None
    assert consumption.acknowledge_message(0, claim.generation, 10, 9) is SettleOutcome.DONE
    following = consumption.open_lane()
    assert following is not None
    assert list(following.waiting) == [1]


def test_a_message_whose_lane_is_not_known_since_a_restart_can_be_given_up() -> None:
    before = OrderedConsumption(0)
    before.admit_message(0, "a", now_ms=1000)
    hand_out_first(before, 2000)
    after = OrderedConsumption.restore_state(before.take_snapshot(), end=1)
    after.set_aside(0)
    assert (after.handed_out_count, after.in_flight) == (1, 1)
    after.finish_offset(0)
    assert (after.handed_out_count, after.in_flight) == (0, 0)
