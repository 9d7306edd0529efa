"""The order of sends that are repeated: pure, but for those that wait."""

import asyncio
from contextlib import ExitStack

from ternmq.producing.group_order import GroupOrder
from tests.support.until import until

LONG_S = 60.0


async def test_nobody_begins_before_an_earlier_one_has() -> None:
    order, went = GroupOrder(), list[str]()

    async def send(name: str, group: str) -> None:
        with order.create_turn("t", {group}) as turn:
            await has_route[name].wait()
            assert await turn.wait_turn(timeout_s=LONG_S)
            went.append(name)
            await end.wait()

    end, has_route = asyncio.Event(), {name: asyncio.Event() for name in ("first", "second", "third", "other")}
    async with asyncio.TaskGroup() as tasks:
        for name in has_route:
            tasks.create_task(send(name, "b" if name == "other" else "a"))
        await asyncio.sleep(0)
        for name in ("other", "third", "second"):
            has_route[name].set()
        await until(lambda: went == ["other"])
        has_route["first"].set()
        await until(lambda: len(went) == 4)
        end.set()
    assert went == ["other", "first", "second", "third"]
    assert not order._groups


async def test_nobody_waits_until_a_send_is_repeated() -> None:
    order = GroupOrder()
    with (
        order.create_turn("t", {"a"}) as first,
        order.create_turn("t", {"a"}) as second,
        order.create_turn("t", ()) as without,
    ):
        assert await first.wait_turn(timeout_s=0)
        assert await second.wait_turn(timeout_s=0)
        for turn in (first, without, second):
            turn.mark_repeating()
        assert await first.wait_turn(timeout_s=0)
        assert await without.wait_turn(timeout_s=0)
        assert not await second.wait_turn(timeout_s=0)
        with order.create_turn("t", {"b"}) as other, order.create_turn("other", {"a"}) as elsewhere:
            assert await other.wait_turn(timeout_s=0)
            assert await elsewhere.wait_turn(timeout_s=0)


async def test_those_behind_go_one_by_one_and_then_together_but_never_before_each_other() -> None:
    order, went = GroupOrder(), list[int]()
    ends = [asyncio.Event() for _ in range(6)]

    async def send(number: int, groups: set[str], *, again: bool) -> None:
        with order.create_turn("t", groups) as turn:
            if again:
                turn.mark_repeating()
            assert await turn.wait_turn(timeout_s=LONG_S)
            went.append(number)
            await ends[number].wait()
        if number == 1:  # others were woken and don't run yet
            tasks.create_task(send(5, {"a"}, again=False))

    async with asyncio.TaskGroup() as tasks:
        for number, groups, again in (
            (0, {"a"}, True), (1, {"a", "b"}, True), (2, {"a"}, False), (3, {"a"}, False), (4, {"c"}, False)
        ):  # fmt: skip
            tasks.create_task(send(number, groups, again=again))
        await asyncio.sleep(0)
        assert went == [0, 4]
        ends[0].set()
        await until(lambda: len(went) == 3)
        assert went == [0, 4, 1]
        ends[1].set()
        await until(lambda: len(went) == 6)
        for end in ends:
            end.set()
    assert went == [0, 4, 1, 2, 3, 5]
    assert not order._groups


async def test_a_send_that_gives_up_lets_the_next_one_go() -> None:
    order = GroupOrder()
    with ExitStack() as others:
        with order.create_turn("t", {"a"}) as first:
            first.mark_repeating()
            assert await first.wait_turn(timeout_s=0)
            late, last = (others.enter_context(order.create_turn("t", {"a"})) for _ in range(2))
            assert not await late.wait_turn(timeout_s=0.001)
            waiting = asyncio.create_task(last.wait_turn(timeout_s=LONG_S))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting
    assert not order._groups


async def test_nobody_passes_a_send_that_has_failed_and_pauses_before_it_is_repeated() -> None:
    order, first_done = GroupOrder(), ExitStack()
    first = first_done.enter_context(order.create_turn("t", {"a"}))
    with order.create_turn("t", {"a"}) as second:
        for turn in (first, second):
            assert await turn.wait_turn(timeout_s=0)
        for turn in (first, second):
            turn.mark_repeating()
        assert await first.wait_turn(timeout_s=0)
        first_done.close()  # while the second one pauses
        with order.create_turn("t", {"a"}) as third:
            assert not await third.wait_turn(timeout_s=0)
        assert await second.wait_turn(timeout_s=0)
    assert not order._groups
