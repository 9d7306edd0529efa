"""When a broker that fails is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_proxy.message_service.cluster.broker_links.circuit_breaker import FIRST_S, LONGEST_S, CircuitBreaker

LONG_AFTER_S = LONGEST_S + 1


def test_waits_double_up_to_the_longest() -> None:
    aside, now = CircuitBreaker(), 0.0
    waits = []
    for _ in range(10):
        waits.append(aside.record_failure(now))
        now += LONG_AFTER_S
    assert waits[:4] == pytest.approx([FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S])
    assert waits == pytest.approx(sorted(waits))
    assert waits[-1] == pytest.approx(LONGEST_S)


def test_a_broker_that_is_away_for_days_is_still_tried() -> None:
    aside, now = CircuitBreaker(), 0.0
    for _ in range(20_000):
        assert 0 < aside.record_failure(now) <= LONGEST_S + 1e-6
        now += LONG_AFTER_S


def test_failures_of_calls_that_were_under_way_together_count_once() -> None:
    aside = CircuitBreaker()
    assert aside.record_failure(100.0) == pytest.approx(FIRST_S)
    assert aside.record_failure(100.0 + FIRST_S / 2) < FIRST_S
    assert aside.failures == 1


@given(times=st.lists(st.floats(0, 5), max_size=30))
def test_it_is_aside_until_its_time_and_well_after_a_success(times: list[float]) -> None:
    aside, now = CircuitBreaker(), 0.0
    for step in times:
        now += step
        wait = aside.record_failure(now)
        assert aside.is_aside(now)
        assert not aside.is_aside(now + wait + 1e-9)
    aside.record_success()
    assert not aside.is_aside(now)
    assert aside.record_failure(now) == pytest.approx(FIRST_S)
