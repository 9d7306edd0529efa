"""Room for answers: never more places than there are, none is lost, and whoever can have one gets it."""

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_common.receiving.output_room import PLACES_MAX, AnswerRoom, OutputRoom

FULL = 10


class Peer:
    """A connection with so many unread bytes."""

    def __init__(self, patience_s: float = 1.0) -> None:
        self.unread = 0
        self.room = OutputRoom(lambda: self.unread, FULL, patience_s)

    def reads(self, left: int = 0) -> None:
        self.unread = left
        self.room.admit_waiting()

    def calls(self, count: int) -> list[AnswerRoom]:
        return [AnswerRoom(self.room) for _ in range(count)]


async def turns() -> None:
    """Everything that can happen happens."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_there_are_so_many_places_and_no_more() -> None:
    calls = Peer().calls(PLACES_MAX + 2)
    entering = [asyncio.create_task(call.enter_room()) for call in calls]
    await turns()
    assert [task.done() for task in entering] == [True] * PLACES_MAX + [False] * 2
    calls[0].leave_room()
    calls[0].leave_room()  # once more changes nothing
    await turns()
    assert [task.done() for task in entering[PLACES_MAX:]] == [True, False]
    calls[1].leave_room()
    assert all(await asyncio.gather(*entering))


async def test_nobody_enters_before_the_peer_reads() -> None:
    peer = Peer()
    peer.unread = FULL
    (call,) = peer.calls(1)
    entering = asyncio.create_task(call.enter_room())
    await turns()
    assert not entering.done()
    peer.reads(FULL - 1)
    assert await entering


async def test_who_holds_a_place_enters_again_whatever_is_unread() -> None:
    peer = Peer()
    (call,) = peer.calls(1)
    assert await call.enter_room()
    peer.unread = FULL
    assert call.is_open
    assert await call.enter_room(0)


async def test_who_waits_for_too_long_is_told_so_and_leaves_nothing_behind() -> None:
    peer = Peer(patience_s=0.01)
    peer.unread = FULL
    assert not any(await asyncio.gather(*(call.enter_room(0) for call in peer.calls(100))))
    assert not peer.room._waiting
    peer.reads()
    assert all(await asyncio.gather(*(call.enter_room(0) for call in peer.calls(PLACES_MAX))))


async def test_the_turn_of_one_that_is_cancelled_goes_to_the_next() -> None:
    peer = Peer()
    peer.unread = FULL
    first, second = [asyncio.create_task(call.enter_room()) for call in peer.calls(2)]
    await turns()
    peer.unread = 0
    peer.room.admit_waiting()
    first.cancel()
    assert await second
    await asyncio.gather(first, return_exceptions=True)


async def leave_all(peer: Peer, calls: list[AnswerRoom], entering: dict[int, asyncio.Task[bool]]) -> None:
    """The peer reads, and all leave: all that waited had their turn, and nobody has a place."""
    peer.reads()
    await turns()
    held = sum(call._held for call in calls)
    waiting = sum(not task.done() for task in entering.values())
    assert held == peer.room._taken
    assert not waiting or held == PLACES_MAX
    for call in calls:
        call.leave_room()
        await turns()
    assert all(task.done() for task in entering.values())
    for call in calls:
        call.leave_room()
    assert (peer.room._taken, peer.room._waiting or None) == (0, None)
    outcomes = await asyncio.gather(*entering.values(), return_exceptions=True)
    assert all(outcome is True or isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["enter", "enter at once", "leave", "cancel"]), st.integers(0, 7)),
        st.tuples(st.just("unread"), st.integers(0, FULL + 2)),
        st.tuples(st.just("turn"), st.just(0)),
    ),
    max_size=60,
)


@given(actions=ACTIONS)
@example(actions=[("unread", FULL), ("enter", 0), ("turn", 0), ("cancel", 0), ("unread", 0)])
def test_whatever_happens_no_place_is_lost_or_given_twice(actions: list[tuple[str, int]]) -> None:
    async def run() -> None:
        peer = Peer()
        calls = peer.calls(8)
        entering: dict[int, asyncio.Task[bool]] = {}
        for action, number in actions:
            if action == "enter" and (number not in entering or entering[number].done()):
                entering[number] = asyncio.create_task(calls[number].enter_room())
            elif action == "enter at once" and (number not in entering or entering[number].done()):
                was_open = calls[number].is_open
                assert calls[number].enter_open_room() == was_open == calls[number]._held
            elif action == "leave" and (number not in entering or entering[number].done()):
                calls[number].leave_room()
            elif action == "cancel" and number in entering:
                entering[number].cancel()
            elif action == "unread":
                peer.reads(number)
            elif action == "turn":
                await asyncio.sleep(0)
            assert sum(call._held for call in calls) <= peer.room._taken <= PLACES_MAX
        await leave_all(peer, calls, entering)

    asyncio.run(run())
