"""Consumption of one queue against a plain model: every message is finished once, held by one consumer at a time."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.delivery.claims import Claim, ClaimsDelta, ClaimsSnapshot, to_holes
from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_common.shard.model import SettleOutcome


@dataclass
class Held:
    """A delivery as the model remembers it; `state` is held, ended (told of, to be dealt with) or ready."""

    attempt: int
    generation: int
    first_deadline_ms: int
    deadline_ms: int
    released: bool = False
    state: str = "held"


class Journal:
    """What a restart finds: snapshots and deltas put together, as the real journal does."""

    def __init__(self) -> None:
        self.cursor = self.generation = 0
        self.claims: dict[int, Claim] = {}

    def write(self, record: ClaimsSnapshot | ClaimsDelta) -> None:
        self.cursor, self.generation = record.cursor, record.generation
        if isinstance(record, ClaimsSnapshot):
            self.claims = {}
        else:
            for first, count in record.finished:
                for offset in range(first, first + count):
                    del self.claims[offset]
        for hole in record.holes:
            self.claims.update(dict.fromkeys(range(hole.first, hole.first + hole.count), hole.claim))

    def snapshot(self) -> ClaimsSnapshot:
        return ClaimsSnapshot(self.cursor, self.generation, to_holes(self.claims.items()))


class ConsumptionMachine(RuleBasedStateMachine):
    """Messages appear, are handed out, settled, hidden, released and end; the process restarts in between."""

    @initialize()
    def start(self) -> None:
        self.consumption = QueueConsumption(0)
        self.journal = Journal()
        self.end = 0
        self.now = 1_000_000
        self.held: dict[int, Held] = {}
        self.finished: set[int] = set()
        self.delivered: set[int] = set()

    def ready(self) -> list[int]:
        return sorted(offset for offset, held in self.held.items() if held.state == "ready")

    def in_force(self, offset: int) -> bool:
        held = self.held[offset]
        return self.now < held.deadline_ms and (held.state == "held" or held.released)

    @rule(count=st.integers(1, 5))
    def messages_arrive(self, count: int) -> None:
        self.end += count

    @rule(milliseconds=st.integers(1, 40))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(by_ms=st.integers(-500, 500))
    def the_clock_is_set(self, by_ms: int) -> None:
        """Whoever has a message keeps the time that was left."""
        self.now += by_ms
        self.consumption.rebase_claims(by_ms)
        for held in self.held.values():
            if held.generation:
                held.deadline_ms += by_ms

    @rule(batch=st.integers(1, 6), invisible_ms=st.integers(1, 60))
    def a_consumer_receives(self, batch: int, invisible_ms: int) -> None:
        expected = [(offset, self.held[offset].attempt + 1) for offset in self.ready()][:batch]
        ready = self.consumption.ready_offsets(batch)
        assert ready == expected
        assert self.consumption.ready_count == len(self.ready())
        deadline = self.now + invisible_ms
        for offset, attempt in ready:
            self._take([offset], attempt, deadline)
        new = list(range(self.consumption.cursor, min(self.end, self.consumption.cursor + batch - len(ready))))
        assert not self.delivered & set(new)
        if new:
            self._take(new, 1, deadline)

    def _take(self, offsets: list[int], attempt: int, deadline: int) -> None:
        claim = self.consumption.hand_out(offsets, attempt=attempt, deadline_ms=deadline)
        for offset in offsets:
            self.held[offset] = Held(attempt, claim.generation, deadline, deadline)
            self.delivered.add(offset)

    @rule()
    def what_has_ended_is_told_of_once(self) -> None:
        expected = [
            (offset, held.attempt)
            for offset, held in sorted(self.held.items())
            if held.state == "held" and held.deadline_ms <= self.now
        ]
        assert self.consumption.take_ended(self.now) == expected
        for offset, _ in expected:
            self.held[offset].state = "ended"
            self.held[offset].generation = 0
        assert self.consumption.take_ended(self.now) == []

    @precondition(lambda self: any(held.state == "ended" for held in self.held.values()))
    @rule(data=st.data(), moved=st.booleans())
    def what_has_ended_is_shown_or_moved_away(self, data: st.DataObject, moved: bool) -> None:
        offset = data.draw(st.sampled_from([offset for offset, held in self.held.items() if held.state == "ended"]))
        if moved:
            self.consumption.finish_offset(offset)
            del self.held[offset]
            self.finished.add(offset)
        else:
            self.consumption.show_again(offset)
            self.held[offset].state = "ready"

    @rule(attempts=st.integers(0, 3))
    def a_copy_is_placed(self, attempts: int) -> None:
        offset = self.consumption.cursor = max(self.consumption.cursor, self.end)
        self.finished.update(set(range(offset)) - self.held.keys())
        self.delivered.update(range(offset + 1))
        self.end = offset + 1
        self.consumption.place_copy(offset, attempts)
        self.held[offset] = Held(attempts, 0, 0, 0, state="ready")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def the_holder_acknowledges(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        outcome = self.consumption.acknowledge_message(offset, held.generation, held.first_deadline_ms, self.now)
        if self.in_force(offset):
            assert outcome is SettleOutcome.DONE
            del self.held[offset]
            self.finished.add(offset)
        else:
            assert outcome is SettleOutcome.EXPIRED

    @precondition(lambda self: self.delivered)
    @rule(data=st.data(), back=st.integers(1, 3))
    def a_replaced_handle_settles_nothing(self, data: st.DataObject, back: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.delivered)))
        current = self.held[offset].generation if offset in self.held else 10**9
        late = data.draw(st.booleans())
        # What the handle says, by the clock as it was when it was given out.
        deadline = self.now - self.consumption.rebased_ms(current - back, 0) + (-1 if late else 1)
        outcome = self.consumption.acknowledge_message(offset, current - back, deadline, self.now)
        assert outcome is (SettleOutcome.EXPIRED if late else SettleOutcome.STALE)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), duration_ms=st.integers(0, 50), counts=st.booleans())
    def the_holder_changes_the_invisible_time(self, data: st.DataObject, duration_ms: int, counts: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        deadline = self.now + duration_ms
        claim = self.consumption.change_invisible(
            offset, held.generation, now_ms=self.now, deadline_ms=deadline, counts=counts
        )
        assert (claim is not None) == self.in_force(offset)
        if claim is not None:
            self.held[offset] = Held(held.attempt - (not counts), claim.generation, deadline, deadline)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), longer_ms=st.integers(1, 80))
    def the_proxy_prolongs(self, data: st.DataObject, longer_ms: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        deadline = self.now + longer_ms
        done = self.consumption.prolong_claim(offset, held.generation, now_ms=self.now, deadline_ms=deadline)
        assert done == self.in_force(offset)
        if done:
            held.deadline_ms = deadline
            held.released = False
            held.state = "held"

    @precondition(lambda self: self.held)
    @rule(data=st.data(), counts=st.booleans())
    def a_client_goes_and_its_message_is_released(self, data: st.DataObject, counts: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        done = self.consumption.release_message(offset, held.generation, now_ms=self.now, counts=counts)
        assert done == self.in_force(offset)
        if done:
            held.attempt -= not counts
            held.released = True
            held.state = "ready"

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_consumer_gives_a_message_up(self, data: st.DataObject) -> None:
        """It is set aside while a copy of it is made, and then finished."""
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        if held.state == "ended" or not held.generation:
            return
        assert self.consumption.find_claim(offset, held.generation) is not None
        self.consumption.set_aside(offset)
        assert self.consumption.find_claim(offset, held.generation) is None
        held.state, held.generation, held.released = "ended", 0, False

    @rule(whole=st.booleans())
    def the_journal_is_written(self, whole: bool) -> None:
        self.journal.write(self.consumption.record_changes(whole=whole))

    @rule()
    def the_process_restarts(self) -> None:
        self.journal.write(self.consumption.record_changes(whole=False))
        assert self.journal.snapshot() == self.consumption.take_snapshot()
        self.consumption = QueueConsumption.restore_state(self.journal.snapshot(), end=self.end)
        self.journal.write(self.consumption.record_changes(whole=True))
        for held in self.held.values():
            if held.state != "held":  # only its deadline is remembered; none for what had ended
                held.deadline_ms = held.deadline_ms if held.generation else 0
                held.released, held.state = False, "held"

    @rule(offset=st.integers(0, 20))
    def an_operator_resets(self, offset: int) -> None:
        offset = min(offset, self.end)
        self.consumption.reset_to(offset)
        self.held.clear()
        self.delivered = set(range(offset))
        self.finished = set(range(offset))

    @invariant()
    def everything_below_the_cursor_is_finished_or_in_flight(self) -> None:
        assert self.consumption.in_flight == len(self.held)
        assert self.consumption.handed_out_count == len(self.held) - len(self.ready())
        unfinished = [offset for offset in range(self.consumption.cursor) if offset not in self.finished]
        assert unfinished == sorted(self.held)
        assert self.consumption.committed_offset == min(self.held, default=self.consumption.cursor)
        assert all(self.consumption.is_finished(offset) == (offset in self.finished) for offset in self.delivered)

    @invariant()
    def the_next_deadline_is_never_too_late(self) -> None:
        waiting = [held.deadline_ms for held in self.held.values() if held.state == "held"]
        next_deadline = self.consumption.next_deadline_ms()
        if waiting:
            assert next_deadline is not None
            assert next_deadline <= min(waiting)


TestConsumptionMachine = ConsumptionMachine.TestCase


def test_what_was_settled_before_its_time_is_not_remembered_until_then() -> None:
    consumption = QueueConsumption(0)
    for offset in range(10_000):
        claim = consumption.hand_out([offset], attempt=1, deadline_ms=60_000)
        assert consumption.acknowledge_message(offset, claim.generation, 60_000, 1) is SettleOutcome.DONE
    assert len(consumption._deadlines) < 100
    assert consumption.next_deadline_ms() is None


def test_a_handle_from_before_the_clock_was_set_is_late_when_its_time_has_passed() -> None:
    consumption = QueueConsumption(0)
    before = consumption.hand_out([0], attempt=1, deadline_ms=10_060_000)
    assert consumption.acknowledge_message(0, before.generation, 10_060_000, 10_000_000) is SettleOutcome.DONE
    consumption.rebase_claims(-3_600_000)
    assert consumption.acknowledge_message(0, before.generation, 10_060_000, 6_459_999) is SettleOutcome.STALE
    assert consumption.acknowledge_message(0, before.generation, 10_060_000, 6_460_000) is SettleOutcome.EXPIRED
    after = consumption.hand_out([1], attempt=1, deadline_ms=6_520_000)
    assert consumption.acknowledge_message(1, after.generation, 6_520_000, 6_519_999) is SettleOutcome.DONE
    assert consumption.acknowledge_message(1, after.generation, 6_520_000, 6_519_999) is SettleOutcome.STALE


def test_a_receipt_handle_settles_until_its_deadline_and_not_at_it() -> None:
    consumption = QueueConsumption(0)
    claim = consumption.hand_out([0, 1], attempt=1, deadline_ms=60_000)
    assert consumption.acknowledge_message(0, claim.generation, 60_000, 59_999) is SettleOutcome.DONE
    assert consumption.acknowledge_message(1, claim.generation, 60_000, 60_000) is SettleOutcome.EXPIRED


def test_the_end_of_a_claim_tells_its_generation_also_after_the_clock_was_set() -> None:
    consumption = QueueConsumption(0, 1_000)
    before = consumption.hand_out([0, 1], attempt=1, deadline_ms=10_060_000)
    assert consumption.find_generation(0, 10_060_000) == before.generation
    assert consumption.find_generation(0, 10_060_001) == -1
    assert consumption.find_generation(2, 10_060_000) == -1
    consumption.rebase_claims(-3_600_000)
    assert consumption.find_generation(0, 10_060_000) == before.generation
    after = consumption.hand_out([2], attempt=1, deadline_ms=6_520_000)
    assert consumption.find_generation(2, 6_520_000) == after.generation
    changed = consumption.change_invisible(1, before.generation, now_ms=6_400_000, deadline_ms=6_430_000, counts=True)
    assert changed is not None
    assert consumption.find_generation(1, 10_060_000) == -1
    assert consumption.find_generation(1, 6_430_000) == changed.generation


def test_a_message_that_nobody_had_yet_has_no_claim_that_an_end_could_tell() -> None:
    snapshot = ClaimsSnapshot(1, 5, to_holes([(0, Claim(1, 0, 0))]))
    assert QueueConsumption.restore_state(snapshot, end=1).find_generation(0, 0) == -1


def test_the_end_of_a_claim_tells_its_generation_after_a_restart() -> None:
    consumption = QueueConsumption(0, 1_000)
    claim = consumption.hand_out([0, 1], attempt=1, deadline_ms=60_000)
    restored = QueueConsumption.restore_state(consumption.take_snapshot(), end=2)
    assert restored.find_generation(1, 60_000) == claim.generation
    assert restored.acknowledge_message(1, claim.generation, 60_000, 59_999) is SettleOutcome.DONE
