"""Receives that wait for several brokers: when all that is under way has arrived, none waits for what a broker has."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import DeliveredMessage, PopOrder, Topic
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.receives.polls import BrokerPolls
from ternmq_proxy.message_service.cluster.receives.receiving import ClusterReceiving
from tests.support.all_parts import AllParts

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_registry.directory import RegistryDirectory

GROUP, TOPIC = "g", "orders"
NAMES = ("broker-0", "broker-1", "broker-2")
POLL_S = 1e6
MESSAGE = cast("DeliveredMessage", object())


def order() -> PopOrder:
    return PopOrder(group=GROUP, topic=TOPIC, queues=range(1), filter=ALL, batch=1, invisible_ms=1000)


def directory_of(*names: str) -> "RegistryDirectory":
    entries = {name: BrokerEntry(name=name, address="", epoch=1) for name in NAMES}
    topic = Topic(name=TOPIC, type=MessageType.NORMAL, brokers=names)

    class Known:
        snapshot = RegistrySnapshot(version=1, topics={TOPIC: topic}, brokers=entries)

    return cast("RegistryDirectory", Known())


@dataclass(eq=False)
class Asked:
    """A pop on its way: to the broker, or with its answer on the way back."""

    answer: "asyncio.Future[list[DeliveredMessage]]"
    watch: bool


@dataclass(eq=False)
class ModelBroker(AllParts):
    """What a broker does: `said` are answers and words on their way to the proxy, in order; an answer without a list is
    a refusal. One that is `behind` does not know yet what was deleted before the group was made."""

    name: str
    messages: int = 0
    is_watched: bool = False
    is_connected: bool = True
    is_behind: bool = False
    has_refused: bool = False
    asked: deque[Asked] = field(default_factory=deque)
    said: "deque[tuple[Asked, list[DeliveredMessage] | None] | None]" = field(default_factory=deque)

    @property
    def shard(self) -> "ModelBroker":
        return self

    async def pop(self, _: PopOrder, *, watch: bool) -> list[DeliveredMessage]:
        asked = Asked(asyncio.get_running_loop().create_future(), watch)
        self.asked.append(asked)
        return await asked.answer

    def store(self) -> None:
        self.messages += 1
        if self.is_watched:
            self.is_watched = False
            self.said.append(None)

    def serve(self) -> None:
        asked = self.asked.popleft()
        if self.is_behind:
            self.has_refused |= asked.watch
            self.said.append((asked, None))
            return
        taken = [MESSAGE] if self.messages else []
        self.messages -= len(taken)
        self.is_watched |= asked.watch and not taken
        self.said.append((asked, taken))

    def learn(self) -> None:
        self.is_behind = False
        if self.has_refused:
            self.has_refused = False
            self.said.append(None)

    def lose(self) -> list[Asked]:
        """The link breaks; messages that were on their way go to others."""
        under_way = [*self.asked, *(said[0] for said in self.said if said is not None)]
        self.messages += sum(len(said[1] or ()) for said in self.said if said is not None)
        self.asked.clear()
        self.said.clear()
        self.is_watched = self.is_connected = self.has_refused = False
        return under_way


class ModelLinks:
    def __init__(self, brokers: dict[str, ModelBroker]) -> None:
        self._brokers = brokers

    def is_connected(self, name: str) -> bool:
        return self._brokers[name].is_connected

    def require_broker(self, name: str) -> ModelBroker:
        return self._brokers[name]


class NoWakeIsLost(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.loop = self.runner.get_loop()
        self.brokers = {name: ModelBroker(name) for name in NAMES}
        self.polls = BrokerPolls()
        self.receiving = ClusterReceiving(
            directory_of(*NAMES), cast("BrokerLinks", ModelLinks(self.brokers)), self.polls
        )
        self.tasks: list[asyncio.Task[list[DeliveredMessage]]] = []

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            self.runner.close()  # cancels those that wait

    def _begin(self, first: str, poll_s: float) -> None:
        task = self.loop.create_task(self.receiving.pop(order(), broker=first, poll_s=poll_s))
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self.tasks.append(task)
        self._spin()

    def _spin(self) -> None:
        for _ in range(6):
            self.loop.run_until_complete(asyncio.sleep(0))

    def _hear(self, broker: ModelBroker) -> None:
        """The first thing that is on its way from the broker arrives."""
        said = broker.said.popleft()
        if said is None:
            self.polls.note_ready(broker.name, GROUP, TOPIC)
        elif said[0].answer.done():
            if said[1]:
                broker.store()  # nobody waits for it any more: it is given back
        elif said[1] is None:
            said[0].answer.set_exception(BrokerRefused("behind"))
        else:
            said[0].answer.set_result(said[1])

    def _settle(self) -> None:
        """All that is under way happens; then nobody may wait for what is there."""
        self._spin()
        while any(broker.asked or broker.said for broker in self.brokers.values()):
            for broker in self.brokers.values():
                if broker.asked:
                    broker.serve()
                elif broker.said:
                    self._hear(broker)
                self._spin()
        giving = {name: each for name, each in self.brokers.items() if each.is_connected and not each.is_behind}
        left = {name: each.messages for name, each in giving.items() if each.messages}
        assert not (left and self.polls.waiting_count), f"{self.polls.waiting_count} wait, and there are {left}"

    # --- what happens

    @rule(first=st.sampled_from(("", *NAMES)))
    def poll(self, first: str) -> None:
        self._begin(first, POLL_S)

    @rule(first=st.sampled_from(("", *NAMES)))
    def ask_without_waiting(self, first: str) -> None:
        self._begin(first, 0)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), spin=st.booleans())
    def cancel(self, data: st.DataObject, spin: bool) -> None:
        self.tasks[data.draw(st.integers(0, len(self.tasks) - 1))].cancel()
        if spin:
            self._spin()

    @rule(name=st.sampled_from(NAMES))
    def store(self, name: str) -> None:
        self.brokers[name].store()

    @rule(name=st.sampled_from(NAMES))
    def serve(self, name: str) -> None:
        if self.brokers[name].asked:
            self.brokers[name].serve()

    @rule(name=st.sampled_from(NAMES), spin=st.booleans())
    def hear(self, name: str, spin: bool) -> None:
        if self.brokers[name].said:
            self._hear(self.brokers[name])
        if spin:
            self._spin()

    @rule(name=st.sampled_from(NAMES))
    def answer_too_late(self, name: str) -> None:
        for asked in self.brokers[name].asked:
            if not asked.answer.done():
                asked.answer.set_exception(LateAnswer(name))
        self._spin()

    @rule(name=st.sampled_from(NAMES))
    def link_breaks_or_is_made(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.is_connected:
            for asked in broker.lose():
                if not asked.answer.done():
                    asked.answer.set_exception(BrokerUnavailable("lost", maybe_done=True))
        else:
            broker.is_connected = True
        self.polls.note_broker_changed(name)
        self._spin()

    @rule(name=st.sampled_from(NAMES))
    def falls_behind_or_learns(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.is_behind:
            broker.learn()
        else:
            broker.is_behind = True

    @rule()
    def everything_is_forgotten(self) -> None:
        self.polls.forget_deleted(topic=TOPIC)

    @rule()
    def settle(self) -> None:
        self._settle()


TestNoWakeIsLost = NoWakeIsLost.TestCase
TestNoWakeIsLost.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=30)


async def begin_two_polls() -> tuple[BrokerPolls, ModelBroker, asyncio.Task[Any], asyncio.Task[Any]]:
    brokers = {name: ModelBroker(name) for name in NAMES}
    polls = BrokerPolls()
    receiving = ClusterReceiving(directory_of("broker-0"), cast("BrokerLinks", ModelLinks(brokers)), polls)
    broker = brokers["broker-0"]
    first, second = (asyncio.create_task(receiving.pop(order(), broker="", poll_s=POLL_S)) for _ in range(2))
    await spin()
    return polls, broker, first, second


async def test_a_cancelled_poll_passes_its_turn_on() -> None:
    polls, broker, first, second = await begin_two_polls()
    for asked in broker.asked:
        asked.answer.set_result([])
    broker.asked.clear()
    await spin()
    assert polls.waiting_count == 2
    polls.note_ready("broker-0", GROUP, TOPIC)
    await spin()
    assert len(broker.asked) == 1
    first.cancel()
    await spin()
    assert len(broker.asked) == 2  # the second one asks now
    broker.asked[-1].answer.set_result([MESSAGE])
    assert await second == [MESSAGE]


async def test_a_poll_that_was_woken_in_vain_keeps_its_place() -> None:
    polls, broker, first, second = await begin_two_polls()
    for _ in range(3):  # both have asked, and the first one was woken and asked once more
        broker.asked.popleft().answer.set_result([])
        await spin()
        if not broker.asked:
            polls.note_ready("broker-0", GROUP, TOPIC)
            await spin()
    broker.asked.popleft().answer.set_result([MESSAGE])
    assert await first == [MESSAGE]
    assert not second.done()
    second.cancel()


async def test_a_broker_that_fails_does_not_keep_others_from_giving() -> None:
    brokers = {name: ModelBroker(name) for name in NAMES}
    receiving = ClusterReceiving(
        directory_of("broker-0", "broker-1"), cast("BrokerLinks", ModelLinks(brokers)), BrokerPolls()
    )
    polling = asyncio.create_task(receiving.pop(order(), broker="", poll_s=POLL_S))
    await spin()
    brokers["broker-0"].asked[0].answer.set_exception(LateAnswer("broker-0"))
    await spin()
    brokers["broker-1"].asked[0].answer.set_result([MESSAGE])
    assert await polling == [MESSAGE]


async def test_a_broker_that_refuses_is_asked_again_when_it_says_so_and_not_before() -> None:
    brokers, polls = {name: ModelBroker(name) for name in NAMES}, BrokerPolls()
    receiving = ClusterReceiving(directory_of("broker-0", "broker-1"), cast("BrokerLinks", ModelLinks(brokers)), polls)
    polling = asyncio.create_task(receiving.pop(order(), broker="", poll_s=POLL_S))
    await spin()
    behind, other = brokers["broker-0"], brokers["broker-1"]
    behind.asked.popleft().answer.set_exception(BrokerRefused("behind"))
    await spin()
    other.asked.popleft().answer.set_result([])
    await spin()
    polls.note_ready("broker-1", GROUP, TOPIC)
    await spin()
    assert (len(behind.asked), len(other.asked)) == (0, 1)
    other.asked.popleft().answer.set_result([])
    await spin()
    polls.note_ready("broker-0", GROUP, TOPIC)
    await spin()
    behind.asked.popleft().answer.set_result([MESSAGE])
    assert await polling == [MESSAGE]


@pytest.mark.parametrize("names", [NAMES[:1], NAMES[:2]])
async def test_a_refusal_is_an_error_only_if_nobody_waits_and_nobody_else_is_there(names: tuple[str, ...]) -> None:
    brokers = {name: ModelBroker(name) for name in NAMES}
    receiving = ClusterReceiving(directory_of(*names), cast("BrokerLinks", ModelLinks(brokers)), BrokerPolls())
    asking = asyncio.create_task(receiving.pop(order(), broker="", poll_s=0))
    await spin()
    brokers["broker-0"].asked[0].answer.set_exception(BrokerRefused("behind"))
    await spin()
    if len(names) == 1:
        with pytest.raises(BrokerRefused, match="behind"):
            await asking
    else:
        brokers["broker-1"].asked[0].answer.set_result([])
        assert await asking == []


async def test_what_is_known_of_lines_does_not_grow_without_end() -> None:
    polls = BrokerPolls(states_max=10)
    for number in range(100):
        asked = polls.note_asking(f"g{number}", TOPIC)
        polls.note_empty(f"g{number}", TOPIC, "broker-0", asked)
    assert polls.promising_brokers("g99", TOPIC, NAMES) == ["broker-1", "broker-2"]
    assert polls.promising_brokers("g0", TOPIC, NAMES) == list(NAMES)
    known = [number for number in range(100) if not polls.promising_brokers(f"g{number}", TOPIC, ["broker-0"])]
    assert known == list(range(90, 100))


async def test_a_word_to_a_line_that_was_dropped_meanwhile_still_counts() -> None:
    polls = BrokerPolls()
    number = polls.note_asking(GROUP, TOPIC)
    polls.forget_deleted(group=GROUP)
    polls.note_ready("broker-0", GROUP, TOPIC)
    polls.note_asking(GROUP, TOPIC)
    polls.note_empty(GROUP, TOPIC, "broker-0", number)
    assert polls.promising_brokers(GROUP, TOPIC, ["broker-0"]) == ["broker-0"]


async def spin() -> None:
    for _ in range(6):
        await asyncio.sleep(0)
