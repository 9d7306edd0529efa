"""When handshakes of TLS begin: not more than so many a second, and addresses take turns."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle


class Log:
    """What became of each, in order."""

    def __init__(self, turns: HandshakeThrottle) -> None:
        self._turns = turns
        self.begun: list[str] = []
        self.given_up: list[str] = []
        self.changed = asyncio.Event()

    def ask(self, source: str) -> None:

        def begin() -> bool:
            self._note(self.begun, source)
            return True

        self._turns.start_handshake(source, begin, lambda: self._note(self.given_up, source))

    def _note(self, where: list[str], source: str) -> None:
        where.append(source)
        self.changed.set()

    async def all_of(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.begun) + len(self.given_up) < count:
                self.changed.clear()
                await self.changed.wait()


async def test_a_burst_begins_at_once_and_the_rest_waits_in_turns() -> None:
    log = Log(HandshakeThrottle(per_second=16, waiting_max=100))
    for _ in range(9):
        log.ask("flood")
    assert log.begun == ["flood"] * 4
    log.ask("late")
    log.ask("other")
    await log.all_of(7)
    assert log.begun[4:7] == ["flood", "late", "other"]
    assert log.given_up == []


async def test_who_has_most_is_given_up_where_too_many_wait() -> None:
    log = Log(HandshakeThrottle(per_second=1, waiting_max=4))
    log.ask("first")
    for _ in range(5):
        log.ask("flood")
    assert log.given_up == ["flood"]
    log.ask("late")
    log.ask("other")
    assert log.given_up == ["flood"] * 3
    log.ask("late")  # it would have no more than the flood has
    assert Counter(log.given_up) == {"flood": 3, "late": 1}


@given(st.lists(st.sampled_from("abcdef"), max_size=60))
def test_each_is_begun_or_given_up_once(sources: list[str]) -> None:
    async def run() -> None:
        log = Log(HandshakeThrottle(per_second=5_000, waiting_max=6))
        burst = log._turns._rate
        burst.take_tokens(burst.capacity - 3, asyncio.get_running_loop().time())
        for source in sources:
            log.ask(source)
        await log.all_of(len(sources))
        assert Counter(log.begun + log.given_up) == Counter(sources)
        assert log._turns._waiting == {}

    asyncio.run(run())


async def test_a_wait_ends_with_its_turn_or_an_error() -> None:
    turns = HandshakeThrottle(per_second=1, waiting_max=1)
    await turns.wait_turn("a")
    waiting = asyncio.create_task(turns.wait_turn("a"))
    await asyncio.sleep(0)
    with pytest.raises(ConnectionError, match="too many TLS handshakes"):
        await turns.wait_turn("a")
    async with asyncio.timeout(20):
        await waiting
