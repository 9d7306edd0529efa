"""Deadlines: what has one ends, and those of one moment share a timer."""

import asyncio

import pytest

from ternmq_rpc.grpc_http2.timeouts import LATEST_S, parse_timeout
from ternmq_rpc.serving.deadlines import CallDeadlines


class Waiting:
    """Something that ends once, with all that wait for the same."""

    def __init__(self, deadlines: CallDeadlines) -> None:
        self.moment = 0.0
        self.ended = asyncio.Event()
        self._deadlines = deadlines

    def expire_call(self) -> None:
        assert not self.ended.is_set()
        self._deadlines.clear_deadline(self)  # as who ends does anyway
        self.ended.set()


async def test_what_ends_in_the_same_moment_shares_a_timer_and_nothing_ends_early() -> None:
    deadlines, loop = CallDeadlines(), asyncio.get_running_loop()
    now = loop.time()
    waiting = [Waiting(deadlines) for _ in range(1000)]
    for each in waiting:
        deadlines.set_deadline(each, now + 0.02, now)
    assert len({each.moment for each in waiting}) == 1
    for each in waiting:
        await each.ended.wait()
    assert now + 0.02 <= loop.time()
    assert not deadlines._waiting


async def test_what_is_unset_does_not_end() -> None:
    deadlines, now = CallDeadlines(), asyncio.get_running_loop().time()
    gone, stays = Waiting(deadlines), Waiting(deadlines)
    for each in (gone, stays):
        deadlines.set_deadline(each, now, now)
    deadlines.clear_deadline(gone)
    deadlines.clear_deadline(gone)
    await stays.ended.wait()
    assert not gone.ended.is_set()


async def test_deadlines_that_are_far_share_a_timer_for_each_second() -> None:
    deadlines, now = CallDeadlines(), 1000.0
    waiting = [Waiting(deadlines) for _ in range(500)]
    for number, each in enumerate(waiting):
        deadlines.set_deadline(each, now + 3600 + number / 100, now)
    assert len(deadlines._waiting) <= 6
    assert all(0 <= each.moment - (now + 3600 + number / 100) <= 1 for number, each in enumerate(waiting))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2H", 7200), ("3M", 180), ("20S", 20), ("2500m", 2.5), ("5u", 5e-6), ("0n", 0), ("86400S", LATEST_S)],
)
def test_every_unit_is_understood(text: str, seconds: float) -> None:
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "S", "1", "1s", "1 S", "-1S", "1.5S", "123456789S", "86401S", "\u0662S"])
def test_what_is_no_timeout_or_too_far_is_none(text: str) -> None:
    assert parse_timeout(text) is None
