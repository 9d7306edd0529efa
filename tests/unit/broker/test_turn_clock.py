"""The time of a turn: one look for all of it, and none that is older than a turn or a jump."""

import asyncio

from ternmq_broker.consumption.turn_clock import TurnClock
from ternmq_common.clock import MovableClock


class CountingClock(MovableClock):
    """A second goes by with each look."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return 1000 * self.looks


async def test_all_of_one_turn_have_the_same_time_and_those_of_the_next_another() -> None:
    clock = CountingClock()
    turn = TurnClock(clock)
    assert [turn.checked_ms() for _ in range(3)] == [1000] * 3
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [turn.checked_ms() for _ in range(3)] == [2000] * 3
    assert clock.looks == 2


async def test_after_a_jump_the_clock_is_looked_at_again() -> None:
    clock = MovableClock()
    turn = TurnClock(clock)
    before_ms = turn.checked_ms()
    clock.advance_by(60_000)
    assert turn.checked_ms() >= before_ms + 60_000


async def test_a_jump_that_the_look_itself_notices_is_in_what_it_says() -> None:
    clock = MovableClock()
    turn = TurnClock(clock)
    jumps = iter([60_000, 0])

    def check() -> None:
        if jump_ms := next(jumps, 0):
            clock.advance_by(jump_ms)

    clock.set_watcher(check)
    told_ms = turn.checked_ms()
    assert told_ms > MovableClock().now_ms() + 50_000
    assert turn.checked_ms() == told_ms
