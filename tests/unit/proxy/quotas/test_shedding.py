"""Which sends are refused in an overload: none in a burst, the greedy first, and never all for one."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_proxy.quotas.shedding import LIMIT_MIN, Shedder

TARGET_S = 0.02


def overloaded(under_way: int = 100, caller: str = "greedy") -> Shedder:
    shedder = Shedder(TARGET_S, 0.0)
    for _ in range(under_way):
        assert shedder.enters(caller)
    for step in range(1, 5):
        shedder.observe(0.05, step * 0.04)
    assert shedder.limit is not None
    return shedder


def test_a_loop_that_is_in_time_refuses_nobody() -> None:
    shedder = Shedder(TARGET_S, 0.0)
    for step in range(1000):
        assert shedder.enters("a")
        shedder.observe(0.01, step * 0.01)
    assert shedder.limit is None


def test_a_burst_between_moments_without_delay_refuses_nobody() -> None:
    shedder = Shedder(TARGET_S, 0.0)
    for step in range(300):
        assert shedder.enters("a")
        shedder.observe(0.0 if step % 3 == 0 else 0.5, step * 0.03)
    assert shedder.limit is None


def test_a_machine_that_stood_still_once_refuses_nobody() -> None:
    shedder = Shedder(TARGET_S, 0.0)
    for _ in range(100):
        assert shedder.enters("a")
    shedder.observe(5.0, 5.0)
    shedder.observe(0.0, 5.01)
    shedder.observe(0.0, 5.02)
    assert shedder.limit is None


def test_a_delay_that_few_sends_can_not_have_made_refuses_nobody() -> None:
    shedder = Shedder(TARGET_S, 0.0)
    assert shedder.enters("a")
    for step in range(1, 50):
        shedder.observe(0.2, step * 0.2)
    assert shedder.limit is None


def test_who_has_most_under_way_is_refused_and_who_has_little_is_served() -> None:
    shedder = overloaded()
    assert not shedder.enters("greedy")
    assert shedder.enters("modest")


def test_beyond_twice_the_limit_nobody_is_served() -> None:
    shedder = overloaded()
    assert shedder.limit is not None
    limit = shedder.limit
    others = 0
    while shedder.enters(f"caller{others}"):
        others += 1
    assert shedder.under_way >= 2 * limit
    assert others <= 2 * limit


def test_the_end_of_the_delay_ends_the_overload() -> None:
    shedder = overloaded()
    for _ in range(100):
        shedder.leaves("greedy")
    for step in range(200):
        shedder.observe(0.0, 1 + step * 0.01)
    assert shedder.limit is None


def test_refusals_go_on_while_the_delay_stays_and_the_limit_has_a_floor() -> None:
    shedder = overloaded()
    for step in range(2000):
        shedder.observe(0.05, 1 + step * 0.05)
    assert shedder.limit == LIMIT_MIN


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 0.2)), max_size=300))
def test_what_entered_and_left_is_what_is_under_way(steps: list[tuple[str, bool, float]]) -> None:
    shedder, inside, now = Shedder(TARGET_S, 0.0), {"a": 0, "b": 0, "c": 0}, 0.0
    for caller, comes, delay_s in steps:
        now += 0.01 + delay_s
        shedder.observe(delay_s, now)
        if comes:
            alone = inside[caller] == 0 and (shedder.limit is None or shedder.under_way < 2 * shedder.limit)
            served = shedder.enters(caller)
            assert served or not alone  # who has nothing under way is served, as long as anybody is
            inside[caller] += served
        elif inside[caller]:
            shedder.leaves(caller)
            inside[caller] -= 1
        assert shedder.under_way == sum(inside.values())
