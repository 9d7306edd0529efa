"""What others bring about is logged once a minute for each of them, with the number left out, in bounded memory."""

import logging

import pytest

from ternmq_common.pacing.log_throttle import REMEMBERED_MAX, LogThrottle
from ternmq_rpc.serving.limit_log import LimitLog
from tests.support.hand_clock import Clock


def test_each_kind_of_each_host_is_let_through_once_a_minute() -> None:
    seconds = Clock(100.0)
    throttle = LogThrottle(seconds)
    assert throttle.admit_line("10.0.0.1:5000", "a") == 0
    assert throttle.admit_line("10.0.0.1:5001", "a") is None
    assert throttle.admit_line("10.0.0.1:5000", "b") == 0
    assert throttle.admit_line("[::1]:5000", "a") == 0
    assert throttle.admit_line("10.0.0.1:5002", "a", times=3) is None
    seconds.now_s += 59.9
    assert throttle.admit_line("10.0.0.1:5000", "a") is None
    seconds.now_s += 0.1
    assert throttle.admit_line("10.0.0.1:5000", "a") == 5
    seconds.now_s += 3600
    assert throttle.admit_line("10.0.0.1:5000", "a") == 0


def test_more_a_minute_may_be_let_through() -> None:
    seconds = Clock(100.0)
    throttle = LogThrottle(seconds, per_minute=3)
    assert [throttle.admit_line("h:1", "a") for _ in range(5)] == [0, 0, 0, None, None]
    seconds.now_s += 60
    assert [throttle.admit_line("h:1", "a") for _ in range(4)] == [2, 0, 0, None]


def test_what_is_remembered_has_a_limit_and_those_beyond_are_one() -> None:
    seconds = Clock(100.0)
    throttle = LogThrottle(seconds)
    admitted = [throttle.admit_line(f"host{number}:1", "a") for number in range(3 * REMEMBERED_MAX)]
    assert admitted[: REMEMBERED_MAX + 1] == [0] * (REMEMBERED_MAX + 1)
    assert set(admitted[REMEMBERED_MAX + 1 :]) == {None}
    assert len(throttle) == REMEMBERED_MAX + 1
    seconds.now_s += 60
    assert throttle.admit_line("another:1", "a") == 0
    assert throttle.admit_line("host1:1", "a") == 0
    assert len(throttle) <= REMEMBERED_MAX + 1


def test_a_limit_is_said_with_the_number_left_out(caplog: pytest.LogCaptureFixture) -> None:
    seconds = Clock(100.0)
    limits = LimitLog(seconds)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            limits.log_limit("10.0.0.1:5", "resets", "calls are broken off", times=2)
        seconds.now_s += 60
        limits.log_limit("10.0.0.1:6", "resets", "calls are broken off")
    assert [record.getMessage() for record in caplog.records] == [
        "10.0.0.1:5: calls are broken off (resets)",
        "10.0.0.1:6: calls are broken off (resets); 8 times more since it was logged last",
    ]
    assert limits.limit_counts == {"resets": 11}
