"""Which ends a transaction may have, and when producers are asked about one."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.delivery.check_schedule import NEXT, NEXT_BY_OPERATOR, CheckRules, CheckSchedule
from ternmq_broker.store.index.half_index import HalfIndex, WaitingHalf
from ternmq_common.shard.model import TransactionResolution, TransactionState

RULES = CheckRules(first_check_ms=60, interval_ms=100, checks_max=3, age_max_ms=2000)


def stored(halves: HalfIndex, log_offset: int, stored_ms: int, topic: str = "orders") -> WaitingHalf:
    """A half message that has just been appended."""
    halves.add_half(log_offset, 1)
    half = halves.waiting[log_offset]
    halves.describe_half(half, topic=topic, message_id=f"m{log_offset}", sender="", stored_ms=stored_ms)
    return half


@pytest.mark.parametrize(("state", "resolution"), list(product(TransactionState, TransactionResolution)))
def test_a_transaction_ends_once(state: TransactionState, resolution: TransactionResolution) -> None:
    asked = TransactionState.COMMITTED if resolution is TransactionResolution.COMMIT else TransactionState.ROLLED_BACK
    may_producer = state in (TransactionState.PENDING, asked)
    may_operator = may_producer or state is TransactionState.DISCARDED
    assert NEXT.get((state, resolution)) == (asked if may_producer else None)
    assert NEXT_BY_OPERATOR.get((state, resolution)) == (asked if may_operator else None)


def test_the_recovery_duration_of_a_message_counts_instead_of_the_default() -> None:
    halves = HalfIndex()
    schedule = CheckSchedule(halves, RULES)
    schedule.add_half(stored(halves, 1, stored_ms=1000), None)
    schedule.add_half(stored(halves, 2, stored_ms=1000), 10)
    schedule.add_half(stored(halves, 3, stored_ms=1000), 500)
    assert [each.log_offset for each in schedule.take_due(1059, 10)] == [2]
    assert [each.log_offset for each in schedule.take_due(1060, 10)] == [1]
    assert schedule.next_due_ms() == 1159
    assert [each.log_offset for each in schedule.take_due(1500, 10)] == [2, 1, 3]


def test_after_a_restart_producers_get_an_interval_to_come_back() -> None:
    halves = HalfIndex()
    schedule = CheckSchedule(halves, RULES)
    asked = stored(halves, 1, stored_ms=1000)
    halves.set_checks(1, 2)
    schedule.restore_half(asked, None, now_ms=5000)
    schedule.restore_half(stored(halves, 2, stored_ms=4990), None, now_ms=5000)
    assert schedule.next_due_ms() == 5050
    assert [each.log_offset for each in schedule.take_due(5100, 10)] == [2, 1]


class CheckMachine(RuleBasedStateMachine):
    """Half messages come and go, time passes by jumps, some checks find nobody."""

    @initialize()
    def start(self) -> None:
        self.halves = HalfIndex()
        self.schedule = CheckSchedule(self.halves, RULES)
        self.now = 0
        self.count = 0
        self.model: dict[int, tuple[WaitingHalf, int]] = {}  # by log offset, with the time of its next turn

    @rule(recovery_ms=st.none() | st.integers(1, 300))
    def one_is_stored(self, recovery_ms: int | None) -> None:
        self.count += 1
        new = stored(self.halves, self.count, self.now, topic="odd" if self.count % 2 else "even")
        self.schedule.add_half(new, recovery_ms)
        self.model[self.count] = (new, self.now + (RULES.first_check_ms if recovery_ms is None else recovery_ms))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def one_is_ended(self, data: st.DataObject) -> None:
        log_offset = data.draw(st.sampled_from(sorted(self.model)))
        del self.model[log_offset]
        self.halves.settle_half(log_offset, 1000 + log_offset, discards=False)

    @rule(milliseconds=st.integers(-100, 400), limit=st.integers(1, 4), answered=st.booleans())
    def questions_are_due(self, milliseconds: int, limit: int, answered: bool) -> None:
        self.now = max(0, self.now + milliseconds)
        due = self.schedule.take_due(self.now, limit)
        expected = [offset for offset, (_, next_ms) in self.model.items() if next_ms <= self.now]
        assert len(due) == min(limit, len(expected))
        for each in due:
            assert each.log_offset in expected
            is_old = self.now - each.stored_ms >= RULES.age_max_ms
            assert self.schedule.is_exhausted(each, self.now) == (is_old or each.checks >= RULES.checks_max)
            self.model[each.log_offset] = (each, self.now + RULES.interval_ms)
            if answered and not is_old and each.checks < RULES.checks_max:
                self.halves.set_checks(each.log_offset, each.checks + 1)

    @invariant()
    def the_next_turn_is_known(self) -> None:
        assert self.schedule.next_due_ms() == min((next_ms for _, next_ms in self.model.values()), default=None)
        assert [each.log_offset for each in self.halves.waiting_in_order()] == sorted(self.model)
        assert len(self.halves.waiting) == len(self.model)
        assert {each.log_offset for each in self.halves.waiting_of_topic("odd")} == {n for n in self.model if n % 2}
        assert {each.log_offset for each in self.halves.waiting_below(5)} == {n for n in self.model if n < 5}


CheckMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCheckMachine = CheckMachine.TestCase
