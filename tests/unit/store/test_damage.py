"""What is known of a log to be damaged, against a plain set of bytes."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ternmq_broker.store.repairing import damage as module
from ternmq_broker.store.repairing.damage import LogDamage

places = st.integers(0, 40)


class DamageMachine(RuleBasedStateMachine):
    """`damaged` are the log offsets that must be known to be damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.damage = LogDamage()
        self.damage.may_be_repaired = True
        self.damaged: set[int] = set()
        self.given_up: set[int] = set()

    @rule(begin=places, size=st.integers(1, 8))
    def found(self, begin: int, size: int) -> None:
        is_new = self.damage.add_range(begin, begin + size, 0.0)
        assert is_new is (begin not in self.damaged)
        if is_new:
            following = min((each for each in self.damaged if each > begin), default=begin + size)
            self.damaged.update(range(begin, min(begin + size, following)))

    @precondition(lambda self: self.damaged)
    @rule(data=st.data())
    def repaired(self, data: st.DataObject) -> None:
        begin, end = data.draw(st.sampled_from(self.damage.damaged_ranges))
        up_to = data.draw(st.integers(begin + 1, end))
        before = self.damage.repaired_bytes
        self.damage.remove_repaired(begin, up_to)
        assert self.damage.repaired_bytes == before + up_to - begin
        gone = set(range(begin, up_to))
        self.damaged -= gone
        self.given_up -= gone

    @precondition(lambda self: self.damaged)
    @rule(data=st.data())
    def given_up_by_all(self, data: st.DataObject) -> None:
        begin, end = data.draw(st.sampled_from(self.damage.damaged_ranges))
        is_new = self.damage.postpone_repair(begin, 0.0, is_given_up=True)
        assert is_new is (begin not in self.given_up)
        self.given_up.update(range(begin, end))

    @rule(start=places)
    def removed_below(self, start: int) -> None:
        partly = {each for begin, end in self.damage.damaged_ranges if begin < start for each in range(begin, end)}
        self.damage.drop_outside(start, 1000)
        self.damaged -= partly
        self.given_up -= partly

    @invariant()
    def all_that_is_damaged_is_known_and_nothing_else(self) -> None:
        ranges = self.damage.damaged_ranges
        assert ranges == sorted(ranges)
        known = [each for begin, end in ranges for each in range(begin, end)]
        assert len(known) == len(set(known)), "the ranges are apart"
        assert set(known) == self.damaged
        assert self.damage.is_known is bool(self.damaged)
        assert self.damage.damaged_bytes == len(self.damaged)
        for place in range(50):
            assert self.damage.awaits_repair(place) is (place in self.damaged - self.given_up)
            assert self.damage.has_damage_within(place, place + 1) is (place in self.damaged)


TestDamageMachine = DamageMachine.TestCase


def test_what_is_known_has_a_limit() -> None:
    damage = LogDamage()
    for number in range(module.RANGES_MAX + 10):
        damage.add_range(2 * number, 2 * number + 1, 0.0)
        damage.report_damage(1_000_000 + number, 1)
    assert len(damage.damaged_ranges) == module.RANGES_MAX
    assert len(damage.open_reports()) == 10_000
    damage.remove_repaired(0, 1)
    assert damage.add_range(2 * module.RANGES_MAX, 2 * module.RANGES_MAX + 1, 0.0), "there is room again"
