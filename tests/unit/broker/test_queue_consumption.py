"""Consumption of one queue against a plain model: every message is finished once, held by one consumer at a time."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_common.model import Settled


@dataclass
class Held:
    """A delivery as the model remembers it."""

    attempt: int
    generation: int
    first_deadline_ms: int
    deadline_ms: int
    released: bool = False


class ConsumptionMachine(RuleBasedStateMachine):
    """Messages appear, are handed out, settled, hidden, released and expire; the process restarts in between."""

    @initialize()
    def start(self) -> None:
        self.consumption = QueueConsumption(0)
        self.end = 0
        self.now = 1000
        self.held: dict[int, Held] = {}
        self.finished: set[int] = set()
        self.delivered: set[int] = set()

    def ready(self) -> list[int]:
        return sorted(offset for offset, held in self.held.items() if held.released or held.deadline_ms <= self.now)

    def in_force(self, offset: int) -> bool:
        return self.now < self.held[offset].deadline_ms

    @rule(count=st.integers(1, 5))
    def messages_arrive(self, count: int) -> None:
        self.end += count

    @rule(milliseconds=st.integers(1, 40))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(batch=st.integers(1, 6), invisible_ms=st.integers(1, 60))
    def a_consumer_receives(self, batch: int, invisible_ms: int) -> None:
        expected = [(offset, self.held[offset].attempt + 1) for offset in self.ready()][:batch]
        ready = self.consumption.ready(self.now, batch)
        assert ready == expected
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

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def the_holder_acknowledges(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        outcome = self.consumption.acknowledge(offset, held.generation, held.first_deadline_ms, self.now)
        if self.in_force(offset):
            assert outcome is Settled.DONE
            del self.held[offset]
            self.finished.add(offset)
        else:
            assert outcome is Settled.EXPIRED

    @precondition(lambda self: self.delivered)
    @rule(data=st.data(), back=st.integers(1, 3))
    def a_replaced_handle_settles_nothing(self, data: st.DataObject, back: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.delivered)))
        current = self.held[offset].generation if offset in self.held else 10**9
        late = data.draw(st.booleans())
        deadline = self.now - 1 if late else self.now + 1
        outcome = self.consumption.acknowledge(offset, current - back, deadline, self.now)
        assert outcome is (Settled.EXPIRED if late else Settled.STALE)

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
        done = self.consumption.prolong(offset, held.generation, now_ms=self.now, deadline_ms=deadline)
        assert done == self.in_force(offset)
        if done:
            held.deadline_ms = deadline
            held.released = False

    @precondition(lambda self: self.held)
    @rule(data=st.data(), counts=st.booleans())
    def a_client_goes_and_its_message_is_released(self, data: st.DataObject, counts: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        held = self.held[offset]
        done = self.consumption.release(offset, held.generation, now_ms=self.now, counts=counts)
        assert done == self.in_force(offset)
        if done:
            held.attempt -= not counts
            held.released = True

    @rule()
    def the_process_restarts(self) -> None:
        self.consumption = QueueConsumption.restore(self.consumption.snapshot(), end=self.end)
        for held in self.held.values():
            held.released = False  # only its deadline is remembered

    @rule(offset=st.integers(0, 20))
    def an_operator_resets(self, offset: int) -> None:
        offset = min(offset, self.end)
        self.consumption.reset(offset)
        self.held.clear()
        self.delivered = set(range(offset))
        self.finished = set(range(offset))

    @invariant()
    def everything_below_the_cursor_is_finished_or_in_flight(self) -> None:
        assert self.consumption.in_flight == len(self.held)
        unfinished = [offset for offset in range(self.consumption.cursor) if offset not in self.finished]
        assert unfinished == sorted(self.held)
        assert self.consumption.committed == min(self.held, default=self.consumption.cursor)

    @invariant()
    def the_next_deadline_is_never_too_late(self) -> None:
        waiting = [held.deadline_ms for held in self.held.values() if held.deadline_ms > self.now and not held.released]
        next_deadline = self.consumption.next_deadline_ms()
        if waiting:
            assert next_deadline is not None
            assert next_deadline <= min(waiting)


TestConsumptionMachine = ConsumptionMachine.TestCase


def test_what_was_settled_before_its_time_is_not_remembered_until_then() -> None:
    consumption = QueueConsumption(0)
    for offset in range(10_000):
        claim = consumption.hand_out([offset], attempt=1, deadline_ms=60_000)
        assert consumption.acknowledge(offset, claim.generation, 60_000, 1) is Settled.DONE
    assert len(consumption._deadlines) < 100
    assert consumption.next_deadline_ms() is None
