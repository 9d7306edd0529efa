"""Waiting polls: exactly as many are woken as can be fed, and none is forgotten."""

import asyncio
from collections.abc import Callable

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.receiving.poll_queues import POLLS_IN_ALL, PollQueues
from ternmq_protos.v2 import definition_pb2


def poll(pollers: PollQueues, group: str = "g", seconds: float = 20) -> asyncio.Task[bool]:
    return asyncio.create_task(pollers.wait_for_messages(group, "t", seconds))


async def woken(tasks: list[asyncio.Task[bool]]) -> int:
    """How many of the tasks have ended, when everything that can happen has."""
    for _ in range(5):
        await asyncio.sleep(0)
    return sum(task.done() for task in tasks)


async def test_as_many_polls_of_each_group_are_woken_as_messages_came() -> None:
    pollers = PollQueues()
    first, second = [poll(pollers, "g1") for _ in range(5)], [poll(pollers, "g2") for _ in range(2)]
    await asyncio.sleep(0)
    pollers.wake_topic("t", 3)
    assert await woken(first) == 3
    assert await woken(second) == 2
    pollers.close()
    assert [await task for task in first] == [True, True, True, False, False]


async def test_a_poll_that_waits_on_keeps_its_place() -> None:
    pollers = PollQueues()
    order = list[str]()

    async def wait(name: str, place: int) -> bool:
        was_woken = await pollers.wait_for_messages("g", "t", 20, place)
        order.append(name)
        return was_woken

    first, second = pollers.next_place(), pollers.next_place()
    others = [poll(pollers) for _ in range(2)]
    waiting = [asyncio.create_task(wait("second", second)), asyncio.create_task(wait("first", first))]
    await asyncio.sleep(0)
    pollers.wake_group("g", "t", 2)
    await asyncio.gather(*waiting)
    assert order == ["first", "second"]
    assert await woken(others) == 0
    pollers.wake_group("g", "t", 2)
    await asyncio.gather(*others)


async def test_the_turn_of_a_poll_that_left_goes_to_the_next() -> None:
    pollers = PollQueues()
    gone, stays = poll(pollers), poll(pollers)
    await asyncio.sleep(0)
    pollers.wake_group("g", "t", 1)
    gone.cancel()
    assert await stays
    await asyncio.gather(gone, return_exceptions=True)


async def test_time_ends_a_poll_and_leaves_nothing_behind() -> None:
    pollers = PollQueues()
    assert not await poll(pollers, seconds=0.001)
    assert not pollers.has_waiting("g", "t")
    assert (pollers._lines, pollers._count) == ({}, 0)


async def test_a_poll_that_is_woken_just_as_its_time_ends_takes_its_turn() -> None:
    pollers = PollQueues()
    waiting = poll(pollers, seconds=0)
    await asyncio.sleep(0)
    pollers.wake_group("g", "t", 1)  # the end of its time is in the same turn of the loop
    assert await waiting


async def test_a_full_line_refuses_a_poll() -> None:
    pollers = PollQueues(line_max=2)
    waiting = [poll(pollers) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(MessagingError) as refused:
        await pollers.wait_for_messages("g", "t", 20)
    assert refused.value.code == definition_pb2.TOO_MANY_REQUESTS
    pollers.close()
    await asyncio.gather(*waiting)


async def test_every_watcher_is_told_once() -> None:
    pollers = PollQueues()
    told: list[tuple[str, str, str]] = []

    def first(group: str, topic: str) -> None:
        told.append(("first", group, topic))

    def second(group: str, topic: str) -> None:
        told.append(("second", group, topic))

    pollers.add_watcher("g", "t", first)
    pollers.add_watcher("g", "t", second)
    pollers.add_watcher("other", "t", first)
    assert pollers.has_waiting("g", "t")
    pollers.wake_group("g", "t", 1)
    assert told == [("first", "g", "t"), ("second", "g", "t")]
    pollers.wake_topic("t", 1)
    assert told[2:] == [("first", "other", "t")]
    pollers.wake_topic("t", 1)
    assert len(told) == 3
    assert not pollers.has_waiting("g", "t")


async def test_a_watcher_that_is_gone_is_not_told() -> None:
    pollers = PollQueues()
    told: list[str] = []

    def watcher(group: str, topic: str) -> None:
        told.append(group)

    pollers.add_watcher("g", "t", watcher)
    pollers.add_watcher("g", "other", watcher)
    pollers.remove_watcher(watcher)
    pollers.wake_topic("t", 1)
    assert told == []
    assert pollers._watchers == {}


async def test_waits_that_end_together_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    pollers = PollQueues()
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def noted(when: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, callback, *arguments)

    monkeypatch.setattr(loop, "call_at", noted)
    monkeypatch.setattr(loop, "time", lambda: 1000.0)
    waiting = [poll(pollers, seconds=5) for _ in range(100)]
    await woken(waiting)
    assert timers == [1005.0]
    pollers.close()
    assert not any(await asyncio.gather(*waiting))


def pull(pollers: PollQueues, queue_id: int, seconds: float = 20, topic: str = "t") -> asyncio.Task[bool]:
    return asyncio.create_task(pollers.wait_at_end(topic, queue_id, seconds))


async def test_a_message_wakes_all_pulls_of_its_queue_and_no_others() -> None:
    pollers = PollQueues()
    theirs, others = [pull(pollers, 1) for _ in range(3)], [pull(pollers, 0), pull(pollers, 1, topic="other")]
    receive = poll(pollers)
    await asyncio.sleep(0)
    pollers.wake_queue("t", 1, 1)
    assert await asyncio.gather(*theirs, receive) == [True] * 4
    assert await woken(others) == 0
    pollers.wake_topic("t", 1)  # of receives alone
    assert await woken(others) == 0
    pollers.wake_all(1)
    assert await asyncio.gather(*others) == [True, True]
    assert (pollers.has_pulls, pollers.waiting_count) == (False, 0)


async def test_a_pull_that_ends_leaves_nothing_behind_and_others_waiting() -> None:
    pollers = PollQueues()
    stays, gone = pull(pollers, 1), pull(pollers, 1)
    assert not await pull(pollers, 1, seconds=0.001)
    gone.cancel()
    assert await woken([gone, stays]) == 1
    assert pollers.waiting_count == 1
    pollers.wake_pulls("t", 1)
    pollers.wake_pulls("t", 1)
    assert await stays
    assert not pollers.has_pulls


async def test_a_pull_that_begins_to_wait_while_others_are_woken_waits_for_the_next_message() -> None:
    pollers = PollQueues()
    first = pull(pollers, 1)
    await asyncio.sleep(0)
    second = pull(pollers, 1)  # it begins in the next turn, before the first one goes on
    pollers.wake_pulls("t", 1)
    assert await first
    assert pollers.has_pulls
    assert await woken([second]) == 0
    pollers.wake_pulls("t", 1)
    assert await second


async def test_the_end_ends_waiting_pulls_and_later_ones() -> None:
    pollers = PollQueues()
    waiting = pull(pollers, 1)
    await asyncio.sleep(0)
    pollers.close()
    assert [await waiting, await pull(pollers, 1)] == [False, False]
    assert pollers.waiting_count == 0


async def test_pulls_beyond_the_limit_of_all_waits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pollers = PollQueues()
    monkeypatch.setattr(pollers, "_count", POLLS_IN_ALL)
    with pytest.raises(MessagingError) as refused:
        await pollers.wait_at_end("t", 1, 20)
    assert refused.value.code == definition_pb2.TOO_MANY_REQUESTS
