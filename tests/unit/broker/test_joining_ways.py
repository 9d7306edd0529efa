"""Ways that joins hold at a broker: one way at a time for a group."""

import pytest

from ternmq_broker.delivery.joining_ways import HELD_MS, JoiningWays
from ternmq_common.errors import ErrorCode, MessagingError


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_joins_of_one_way_share_it_and_the_other_way_waits_for_all() -> None:
    ways = JoiningWays(Clock())
    assert [ways.hold_way("g", "pops", "1"), ways.hold_way("g", "pops", "2")] == [True, True]
    assert ways.hold_way("g", "pulls", "3") is False
    assert ways.hold_way("h", "pulls", "3") is True
    ways.release_way("g", "1")
    assert ways.hold_way("g", "pulls", "3") is False
    ways.release_way("g", "2")
    assert ways.hold_way("g", "pulls", "3") is True
    ways.release_way("g", "unknown")
    assert ways.hold_way("g", "pops", "1") is False


def test_a_join_that_nobody_ends_ends_by_itself() -> None:
    clock = Clock()
    ways = JoiningWays(clock)
    ways.hold_way("g", "pops", "1")
    clock.now_ms = HELD_MS - 1
    assert ways.hold_way("g", "pulls", "2") is False
    clock.now_ms = HELD_MS
    assert ways.hold_way("g", "pulls", "2") is True
    assert ways.hold_way("g", "pops", "1") is False


def test_there_are_not_more_joins_than_allowed_and_ended_ones_make_room() -> None:
    clock = Clock()
    ways = JoiningWays(clock, joins_max=1)
    ways.hold_way("g", "pops", "1")
    with pytest.raises(MessagingError) as refused:
        ways.hold_way("h", "pops", "2")
    assert refused.value.code is ErrorCode.TOO_MANY_REQUESTS
    clock.now_ms = HELD_MS
    assert ways.hold_way("h", "pops", "2") is True
    ways.release_way("h", "2")
    assert ways.hold_way("g", "pulls", "3") is True
