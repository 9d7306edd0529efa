"""Lists of messages over brokers and queues: each message once, in order, and named by its place."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import PageContext
from ternmq_console.pages.base.sessions import ConsoleSession
from ternmq_console.pages.dead_letters.resending import read_chosen
from ternmq_console.pages.messages.finding import _walk_queues
from ternmq_console.pages.messages.message_rows import MessagePosition
from ternmq_console.pages.messages.newest import QUEUES_MAX, NewestMessages, parse_position
from ternmq_console.pages.messages.reading import MessageSearch
from ternmq_console.pages.messages.tail import BEHIND_MAX, TailPoll
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2

Key = tuple[str, int]
OK = pb.Status(code=pb.OK)


@dataclass
class Held:
    """One queue: when its messages were stored, in milliseconds; the first of them has offset `first`."""

    first: int
    stored_ms: list[int]

    @property
    def end(self) -> int:
        return self.first + len(self.stored_ms)


class Desk:
    """Answers as a cluster's proxy does: a broker's queues one after the other, from a scroll_id on."""

    def __init__(self, queues: dict[Key, Held], page_max: int = 64) -> None:
        self.queues, self._page_max = queues, page_max

    async def sign_in(self, asker: object) -> None:
        raise AssertionError("pages of a session do not sign in")

    async def call(self, name: str, request: Any, asker: object) -> list[Any]:  # noqa: ANN401
        return list(getattr(self, f"_{name}")(request))

    def _DescribeTopic(self, request: Any) -> Iterable[Any]:  # noqa: ANN401, N802
        yield admin_pb2.DescribeTopicResponse(status=OK, queues=described(self))

    def _QueryMessage(self, request: Any) -> Iterable[Any]:  # noqa: ANN401, N802
        begin, size = 0, min(request.page_size, self._page_max)
        answer = published_pb2.ListMessageResponse(status=OK)
        at = (0, 0)
        if request.scroll_id:
            broker, number, offset = request.scroll_id.rsplit("/", 2)
            assert broker == request.broker_name
            at = int(number), int(offset)
        for (broker, number), held in sorted(self.queues.items()):
            if (
                broker != request.broker_name
                or number < at[0]
                or (request.HasField("queue_id") and number != request.queue_id)
            ):
                continue
            begin = at[1] if number == at[0] else 0
            for offset, stored_ms in enumerate(held.stored_ms, held.first):
                if offset < begin or not within(request, stored_ms):
                    continue
                if len(answer.messages) == size:
                    answer.scroll_id = f"{broker}/{number}/{offset}"
                    yield answer
                    return
                answer.messages.append(message(number, offset, stored_ms))
        yield answer

    def _QueryOffset(self, request: Any) -> Iterable[Any]:  # noqa: ANN401, N802
        yield service_pb2.QueryOffsetResponse(status=OK)

    def _PullMessage(self, request: Any) -> Iterable[Any]:  # noqa: ANN401, N802
        queue = request.message_queue
        held = self.queues[queue.broker.name, queue.id]
        assert held.first <= request.offset <= held.end
        yield service_pb2.PullMessageResponse(status=OK)
        end = min(held.end, request.offset + request.batch_size)
        for offset in range(request.offset, end):
            yield service_pb2.PullMessageResponse(
                message=message(queue.id, offset, held.stored_ms[offset - held.first])
            )
        yield service_pb2.PullMessageResponse(next_offset=end)


def within(request: Any, stored_ms: int) -> bool:  # noqa: ANN401
    begin = request.begin_timestamp.ToMilliseconds() if request.HasField("begin_timestamp") else stored_ms
    end = request.end_timestamp.ToMilliseconds() if request.HasField("end_timestamp") else stored_ms
    return bool(begin <= stored_ms <= end)


def message(queue: int, offset: int, stored_ms: int) -> Any:  # noqa: ANN401
    each = pb.Message(body=b"x", system_properties={"queue_id": queue, "queue_offset": offset})
    each.system_properties.store_timestamp.FromMilliseconds(stored_ms)
    return each


def described(desk: Desk) -> list[Any]:
    return [
        admin_pb2.QueueState(broker=broker, queue_id=number, min_offset=held.first, max_offset=held.end)
        for (broker, number), held in desk.queues.items()
    ]


def asking_at(desk: Desk) -> PageContext:
    return PageContext(desk, ConsoleSession("", "", 0.0, 0.0), "", ())


def time(ms: int | None) -> Timestamp | None:
    if ms is None:
        return None
    at = Timestamp()
    at.FromMilliseconds(ms)
    return at


def places(desk: Desk, since: int | None = None, before: int | None = None) -> set[MessagePosition]:
    return {
        MessagePosition("t", broker, number, offset)
        for (broker, number), held in desk.queues.items()
        for offset, stored_ms in enumerate(held.stored_ms, held.first)
        if (since is None or stored_ms >= since) and (before is None or stored_ms < before)
    }


_KEYS = st.tuples(st.sampled_from(["a", "b/c", "d.e"]), st.integers(0, 3))
_HELD = st.builds(Held, st.integers(0, 5), st.lists(st.integers(0, 20), max_size=12).map(sorted))
DESKS = st.builds(Desk, st.dictionaries(_KEYS, _HELD, min_size=1, max_size=5), st.integers(1, 5))


async def pages(desk: Desk, search: MessageSearch, size: int) -> list[Any]:
    rows, position = [], ""
    while True:
        newest = await NewestMessages.open_search(asking_at(desk), search, described(desk), position, size=size)
        found = await newest.read_page()
        rows += found
        position = newest.following
        if not position:
            return rows
        assert len(found) == size


@given(desk=DESKS, size=st.integers(1, 7), since=st.none() | st.integers(0, 21), before=st.none() | st.integers(0, 21))
def test_the_newest_come_once_each_and_in_order(desk: Desk, size: int, since: int | None, before: int | None) -> None:
    rows = asyncio.run(pages(desk, MessageSearch(topic="t", since=time(since), before=time(before)), size))
    assert {row.place for row in rows} == places(desk, since, before)
    assert len(rows) == len(places(desk, since, before))
    assert [row.stored_ns for row in rows] == sorted((row.stored_ns for row in rows), reverse=True)


@given(desk=DESKS, since=st.none() | st.integers(0, 21), before=st.none() | st.integers(0, 21))
def test_what_is_left_is_all_of_the_search(desk: Desk, since: int | None, before: int | None) -> None:
    async def left() -> set[MessagePosition]:
        search = MessageSearch(topic="t", since=time(since), before=time(before))
        newest = await NewestMessages.open_search(asking_at(desk), search, described(desk), "", size=1)
        return {
            MessagePosition("t", queue.broker, queue.number, offset)
            for queue, offsets in newest.remaining_offsets()
            for offset in offsets
        }

    assert asyncio.run(left()) == places(desk, since, before)


@given(desk=DESKS)
def test_a_walk_comes_to_all_brokers(desk: Desk) -> None:
    async def walked() -> list[Any]:
        rows, at = [], ""
        while True:
            found = await _walk_queues(asking_at(desk), MessageSearch(topic="t", tag="a"), at, described(desk))
            rows += found.rows
            at = found.following
            if not at:
                return rows

    rows = asyncio.run(walked())
    assert {row.place for row in rows} == places(desk)
    assert len(rows) == len(places(desk))


@pytest.mark.parametrize("at", ["a", "a/0", "other/0/1", "a/0/\u00b2", "a/0/x", "a/-1/0", f"a/0/{'9' * 5000}", "/0/1"])
def test_a_walk_from_nowhere_is_refused(at: str) -> None:
    desk = Desk({("a", 0): Held(0, [1, 2])})
    with pytest.raises(BadForm, match="is outdated"):
        asyncio.run(_walk_queues(asking_at(desk), MessageSearch(topic="t", tag="a"), at, described(desk)))


@given(desk=DESKS, more=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2 * BEHIND_MAX)), max_size=4))
def test_a_live_page_shows_what_came_or_counts_it(desk: Desk, more: Sequence[tuple[int, int]]) -> None:
    async def follow() -> None:
        follower = TailPoll(asking_at(desk), "t", "")
        await follower.poll_topic("")
        assert follower.rows == []
        for number, count in more:
            held = list(desk.queues.values())[number % len(desk.queues)]
            held.stored_ms += [21] * count
            position = follower.position
            follower = TailPoll(asking_at(desk), "t", "")
            await follower.poll_topic(position)
            assert len(follower.rows) == min(count, BEHIND_MAX)
            assert len(follower.rows) + follower.passed == count
        position = follower.position
        await follower.poll_topic(position)
        assert follower.position == position

    asyncio.run(follow())


def test_a_topic_that_was_made_anew_is_followed_from_its_beginning() -> None:
    desk = Desk({("a", 0): Held(0, [1, 2])})
    follower = TailPoll(asking_at(desk), "t", "")
    asyncio.run(follower.poll_topic("99"))
    assert (follower.position, follower.rows) == ("2", [])


def test_too_many_queues_are_refused() -> None:
    desk = Desk({("a", number): Held(0, []) for number in range(QUEUES_MAX + 1)})
    with pytest.raises(BadForm, match="choose a broker"):
        asyncio.run(NewestMessages.open_search(asking_at(desk), MessageSearch(topic="t"), described(desk), "", size=25))


@given(st.text() | st.lists(st.integers()).map(lambda numbers: ".".join(map(str, numbers))), st.integers(1, 3))
def test_a_position_is_numbers_or_is_refused(text: str, count: int) -> None:
    try:
        offsets = parse_position(text, count)
    except BadForm:
        return
    assert len(offsets) == count
    assert all(0 <= offset < 10**18 for offset in offsets)


def test_chosen_letters_are_named_by_broker_and_offset() -> None:
    form = PageForm([("letter", "a/1"), ("letter", "b/c/2"), ("letter", "a/1"), ("letter", "a/3")])
    assert form.texts("letter") == ["a/1", "b/c/2", "a/1", "a/3"]
    assert form.text("letter") == "a/3"
    assert read_chosen(form) == {"a": [1, 3], "b/c": [2]}
    assert form.texts("other") == []
