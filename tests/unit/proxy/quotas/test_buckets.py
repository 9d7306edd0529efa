"""Token buckets: no more than the rate over any time, and whoever comes when told to is let in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.pacing.bucket import TokenBucket

AMOUNTS = st.floats(1, 500)
STEPS = st.lists(st.tuples(st.floats(0, 3), AMOUNTS), max_size=60)


@given(rate=st.floats(0.5, 1000), burst_s=st.floats(0.1, 10), steps=STEPS)
def test_no_more_is_taken_than_rate_burst_and_one_batch_allow(
    rate: float, burst_s: float, steps: list[tuple[float, float]]
) -> None:
    now, taken, largest = 50.0, 0.0, 0.0
    bucket = TokenBucket(rate, burst_s, now)
    for pause_s, amount in steps:
        now += pause_s
        if not bucket.wait_s(amount, now):
            bucket.take_tokens(amount, now)
            taken += amount
            largest = max(largest, amount)
    assert taken <= (rate * (now - 50.0) + bucket.capacity + largest) * 1.001


@given(rate=st.floats(0.5, 1000), burst_s=st.floats(0.1, 10), steps=STEPS)
def test_who_comes_again_when_told_to_is_let_in(rate: float, burst_s: float, steps: list[tuple[float, float]]) -> None:
    now = 0.0
    bucket = TokenBucket(rate, burst_s, now)
    for pause_s, amount in steps:
        now += pause_s
        now += bucket.wait_s(amount, now)
        assert not bucket.wait_s(amount, now)
        bucket.take_tokens(amount, now)


def test_a_batch_above_the_burst_passes_a_full_bucket_and_is_paid_for() -> None:
    bucket = TokenBucket(10, 1, 0.0)
    assert not bucket.wait_s(100, 0.0)
    bucket.take_tokens(100, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(9.1)
    assert not bucket.wait_s(1, 9.2)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10, 1, 100.0)
    bucket.take_tokens(10, 100.0)
    assert bucket.token_level(50.0) == 0
    assert bucket.token_level(100.5) == pytest.approx(5)


def test_another_rate_keeps_a_debt_and_no_more_than_its_burst() -> None:
    bucket = TokenBucket(10, 1, 0.0)
    bucket.set_rate(4, 0.0)
    assert bucket.token_level(0.0) == 4
    bucket.take_tokens(8, 0.0)
    bucket.set_rate(100, 0.0)
    assert bucket.token_level(0.0) == -4
