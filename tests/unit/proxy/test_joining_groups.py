"""Of two clients that join a group at once in different ways, at two proxies, one is a member, whatever comes first."""

import itertools
from collections.abc import Awaitable, Coroutine, Generator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ternmq_broker.delivery.joining_ways import JoiningWays
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import ProxyAnswer
from ternmq_proxy.operations.by_queue.group_ways import GroupWay, answer_way, joining
from ternmq_proxy.processors.client_settings import ClientSettings
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.clients import ConnectedClient

if TYPE_CHECKING:
    from ternmq_proxy.services import Services

GROUP, BROKERS = "g", ("b0", "b1")
_STEPS = 8
"""Of a join that succeeds: two questions, each on its way there and back, and two calls to each of the brokers."""


class Travel:
    """A call or an answer is on its way: others may do something."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Brokers:
    """The brokers, `away` those that can't be reached, and the proxies that ask each other by way of them."""

    def __init__(self) -> None:
        self.ways = {name: JoiningWays(lambda: 0) for name in BROKERS}
        self.away: set[str] = set()
        self.proxies: list[Proxy] = []


class Proxy:
    """What `joining` uses of a proxy's services. `is_silent`: it answers no questions."""

    def __init__(self, name: str, brokers: Brokers) -> None:
        self.name = name
        self.is_silent = False
        self.members: list[ConnectedClient] = []
        self._brokers = brokers
        brokers.proxies.append(self)
        self.services = cast(
            "Services",
            SimpleNamespace(
                clients=SimpleNamespace(group_members=lambda _: self.members),
                catalog=SimpleNamespace(
                    group_or_default=lambda _: SimpleNamespace(remoting_pop=False),
                    list_brokers=lambda: [SimpleNamespace(name=each) for each in reversed(BROKERS)],
                ),
                messages=SimpleNamespace(
                    consuming=self, ask_proxies=self._ask_proxies, pulling_members=self._pulling_members
                ),
            ),
        )

    async def _ask_proxies(self, question: str, argument: str) -> list[ProxyAnswer]:
        assert question == "group-way"
        await Travel()
        others = [each for each in self._brokers.proxies if each is not self]
        answers = [
            ProxyAnswer(each.name, None if each.is_silent else await answer_way(argument, each.services))
            for each in others
        ]
        await Travel()
        return answers

    async def _pulling_members(self, group: str, topic: str, here: Sequence[str]) -> list[str]:
        del group, topic
        members = [each for proxy in self._brokers.proxies for each in proxy.members if each.is_pulling]
        return [*here, *(each.client_id for each in members)]

    def _find_ways(self, broker: str) -> JoiningWays:
        if broker in self._brokers.away:
            raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"{broker} is away")
        return self._brokers.ways[broker]

    async def hold_way(self, broker: str, group: str, way: str, join: str) -> bool:
        await Travel()
        return self._find_ways(broker).hold_way(group, way, join)

    async def release_way(self, broker: str, group: str, join: str) -> None:
        await Travel()
        self._find_ways(broker).release_way(group, join)

    async def join(self, way: GroupWay) -> str:
        """Have a client join; return the text of the refusal, or nothing."""
        try:
            async with joining(GROUP, way, self.services):
                self.members.append(member(way))
        except MessagingError as error:
            return error.message if error.code is ErrorCode.FORBIDDEN else "wrong"
        return ""


def member(way: GroupWay) -> ConnectedClient:
    pulls = way is GroupWay.PULLS
    kind = ClientType.PULL_CONSUMER if pulls else ClientType.PUSH_CONSUMER
    settings = ClientSettings(client_type=kind, consumes=True, group=GROUP, member_id="own" if pulls else "")
    return ConnectedClient(f"client that {way.value}", GROUP, settings, kind, popping="" if pulls else GROUP)


def run_in_order(joins: Sequence[Coroutine[Any, Any, str]], order: Sequence[int]) -> list[str]:
    """Let each join do a step when its number comes, then the rest; return what they return."""
    results = [""] * len(joins)
    running = dict(enumerate(joins))

    def step(number: int) -> None:
        if number in running:
            try:
                running[number].send(None)
            except StopIteration as done:
                results[number] = done.value
                del running[number]

    for number in order:
        step(number)
    while running:
        for number in list(running):
            step(number)
    return results


def run(work: Awaitable[str]) -> str:
    async def wait() -> str:
        return await work

    [result] = run_in_order([wait()], [])
    return result


def test_of_two_that_join_at_once_one_is_a_member_in_every_order() -> None:
    refusals: set[str] = set()
    for first in itertools.combinations(range(2 * _STEPS), _STEPS):
        brokers = Brokers()
        one, other = Proxy("one", brokers), Proxy("other", brokers)
        chosen = set(first)
        order = [0 if step in chosen else 1 for step in range(2 * _STEPS)]
        results = run_in_order([one.join(GroupWay.PULLS), other.join(GroupWay.POPS)], order)
        assert len(one.members) + len(other.members) == 1
        assert [bool(one.members), bool(other.members)] == [not refused for refused in results]
        refusals.update(filter(None, results))
        assert all(ways.hold_way(GROUP, "any", "next") for ways in brokers.ways.values())  # nothing is held any more
    assert {text.partition(" consumers now")[0] for text in refusals} == {
        "consumer group 'g' has remoting",
        "consumer group 'g' has gRPC",
    }


@pytest.mark.parametrize("away", BROKERS)
def test_so_it_is_while_a_broker_is_away(away: str) -> None:
    for first in itertools.islice(itertools.combinations(range(2 * _STEPS), _STEPS), 0, None, 11):
        brokers = Brokers()
        brokers.away = {away}
        one, other = Proxy("one", brokers), Proxy("other", brokers)
        chosen = set(first)
        order = [0 if step in chosen else 1 for step in range(2 * _STEPS)]
        run_in_order([one.join(GroupWay.PULLS), other.join(GroupWay.POPS)], order)
        assert len(one.members) + len(other.members) == 1


def test_those_of_one_way_join_at_once() -> None:
    for way in (GroupWay.PULLS, GroupWay.POPS):
        brokers = Brokers()
        one, other = Proxy("one", brokers), Proxy("other", brokers)
        assert run_in_order([one.join(way), other.join(way)], [0, 1] * _STEPS) == ["", ""]
        assert len(one.members) == len(other.members) == 1


def test_one_that_is_refused_each_time_holds_up_nobody() -> None:
    brokers = Brokers()
    one, other = Proxy("one", brokers), Proxy("other", brokers)
    assert run(one.join(GroupWay.PULLS)) == ""
    for step in range(_STEPS):
        order = [0] * step + [1] * _STEPS
        refused, joined = run_in_order([other.join(GroupWay.POPS), one.join(GroupWay.PULLS)], order)
        assert "stop all remoting consumers" in refused
        assert joined == ""


def test_members_of_a_proxy_that_does_not_answer_count() -> None:
    brokers = Brokers()
    one, other = Proxy("one", brokers), Proxy("other", brokers)
    assert run(one.join(GroupWay.PULLS)) == ""
    one.is_silent = True
    assert "stop all remoting consumers" in run(other.join(GroupWay.POPS))
