"""Which sends are refused in an overload: none in a burst, those that waited long, and none when it is over."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_proxy.quotas.shedding import INTERVAL_S, SendShedder

TARGET_S = 0.02
LONG_S = 0.05


def overloaded() -> SendShedder:
    shedder = SendShedder(TARGET_S, 0.0)
    for step in range(1, 5):
        shedder.observe_wait(LONG_S, step * 0.04)
    assert shedder.is_shedding
    return shedder


def test_a_server_that_is_in_time_refuses_nobody() -> None:
    shedder = SendShedder(TARGET_S, 0.0)
    for step in range(1000):
        shedder.observe_wait(0.01, step * 0.01)
        assert not shedder.refuses_send(LONG_S)


def test_a_burst_between_moments_without_wait_refuses_nobody() -> None:
    shedder = SendShedder(TARGET_S, 0.0)
    for step in range(300):
        shedder.observe_wait(0.0 if step % 3 == 0 else 0.5, step * 0.03)
    assert not shedder.is_shedding


def test_a_machine_that_stood_still_once_refuses_nobody() -> None:
    shedder = SendShedder(TARGET_S, 0.0)
    shedder.observe_wait(5.0, 5.0)
    shedder.observe_wait(0.0, 5.01)
    shedder.observe_wait(0.0, 5.02)
    assert not shedder.is_shedding


def test_what_was_seen_before_a_rest_does_not_count() -> None:
    shedder = SendShedder(TARGET_S, 0.0)
    shedder.observe_wait(LONG_S, 0.01)
    shedder.observe_wait(LONG_S, 0.02)
    shedder.start_watching(100.0)
    shedder.observe_wait(LONG_S, 100.01)
    assert not shedder.is_shedding


def test_who_waited_long_is_refused_and_who_comes_at_once_is_served() -> None:
    shedder = overloaded()
    assert shedder.refuses_send(LONG_S)
    assert not shedder.refuses_send(TARGET_S)
    assert not shedder.refuses_send(0.0)
    assert shedder.refused == 1


def test_it_goes_on_while_somebody_is_refused_and_ends_a_second_after() -> None:
    shedder, now = overloaded(), 1.0
    for _ in range(100):
        now += INTERVAL_S / 4
        assert shedder.refuses_send(LONG_S)
        shedder.observe_wait(LONG_S, now)
    assert shedder.is_shedding
    last = now
    while shedder.is_shedding:
        now += INTERVAL_S / 4
        shedder.observe_wait(LONG_S, now)
        assert now - last < 2
    assert now - last > 0.9


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 0.2)), max_size=300))
def test_nobody_is_refused_who_did_not_wait_and_all_are_counted(steps: list[tuple[bool, float]]) -> None:
    shedder, now, refused = SendShedder(TARGET_S, 0.0), 0.0, 0
    for comes, wait_s in steps:
        now += 0.01 + wait_s
        if comes:
            was_shedding = shedder.is_shedding
            is_refused = shedder.refuses_send(wait_s)
            assert is_refused == (was_shedding and wait_s > TARGET_S)
            refused += is_refused
        else:
            shedder.observe_wait(wait_s, now)
    assert shedder.refused == refused
