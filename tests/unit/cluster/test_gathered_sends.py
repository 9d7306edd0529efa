"""Sends of one turn share a call, and each hears of its own end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import AppendedMessage, AppendOutcome, AppendRequests, NewMessage, QueueRef
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable, LateAnswer, ResultCallback
from ternmq_proxy.message_service.cluster.gathered_sends import GatheredSends
from tests.support.message_service_conformance import message

Ended = tuple[int, Exception | None]
WELL = pb.OK


class Brokers:
    """Stands for links and routes: what was asked of whom, what is answered, and who failed or worked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.answer: list[AppendOutcome] | Exception | None = None
        self.fails_at_once = False
        self.alone: list[QueueRef] = []
        self.alone_fails: Exception | None = None
        self.failed: list[str] = []
        self.worked: list[str] = []

    def require_broker(self, name: str) -> "Broker":
        return Broker(self, name)

    def send_failed(self, name: str) -> None:
        self.failed.append(name)

    def send_worked(self, name: str) -> None:
        self.worked.append(name)

    async def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> list[AppendedMessage]:
        self.alone.append(queue)
        if self.alone_fails is not None:
            raise self.alone_fails
        return [AppendedMessage(each.message_id, 70 + number) for number, each in enumerate(messages)]


class Broker:
    def __init__(self, brokers: Brokers, name: str) -> None:
        self._brokers, self._name = brokers, name

    def append_each_nowait(self, requests: AppendRequests, heard: ResultCallback) -> None:
        self._brokers.asked.append((self._name, len(requests)))
        answer = self._brokers.answer
        if isinstance(answer, Exception):
            if self._brokers.fails_at_once:
                raise answer
            heard(None, answer)
        else:
            heard([AppendOutcome(number, WELL) for number in range(len(requests))] if answer is None else answer, None)


class Sends:
    """Sends of one turn, and what they heard."""

    def __init__(self, brokers: Brokers) -> None:
        links: Any = brokers
        self._sends = GatheredSends(links, links, brokers.append)
        self.ended: list[asyncio.Future[Ended]] = []

    def send(self, broker: str = "broker-0", size: int = 1) -> None:
        heard: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.ended.append(heard)
        self._sends.append_nowait(
            QueueRef("orders", broker, 0), [message(b"x" * size)], lambda *ended: heard.set_result(ended)
        )

    async def all(self) -> list[Ended]:
        return list(await asyncio.gather(*self.ended))


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def sends(brokers: Brokers) -> Sends:
    return Sends(brokers)


async def test_those_of_a_turn_are_one_call_for_each_broker(brokers: Brokers, sends: Sends) -> None:
    for broker in ("broker-0", "broker-1", "broker-0"):
        sends.send(broker)
    assert await sends.all() == [(0, None), (0, None), (1, None)]
    assert brokers.asked == [("broker-0", 2), ("broker-1", 1)]
    assert set(brokers.worked) == {"broker-0", "broker-1"}
    sends.send()
    assert (await sends.all())[-1] == (0, None)
    assert brokers.asked[-1] == ("broker-0", 1)


async def test_large_ones_do_not_wait_for_others(brokers: Brokers, sends: Sends) -> None:
    for _ in range(5):
        sends.send(size=200_000)
    await sends.all()
    assert brokers.asked == [("broker-0", 2), ("broker-0", 2), ("broker-0", 1)]


async def test_each_hears_its_own_error(brokers: Brokers, sends: Sends) -> None:
    brokers.answer = [AppendOutcome(5, WELL), AppendOutcome(0, pb.TOO_MANY_REQUESTS, "slower")]
    sends.send()
    sends.send()
    first, (_, error) = await sends.all()
    assert first == (5, None)
    assert isinstance(error, MessagingError)
    assert (error.code, error.message) == (pb.TOO_MANY_REQUESTS, "slower")
    assert brokers.failed == []


async def test_a_broker_that_could_not_store_is_set_aside(brokers: Brokers, sends: Sends) -> None:
    brokers.answer = [AppendOutcome(0, pb.INTERNAL_SERVER_ERROR, "the disk is gone")]
    sends.send()
    ((_, error),) = await sends.all()
    assert isinstance(error, MessagingError)
    assert brokers.failed == ["broker-0"]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        BrokerUnavailable("away", maybe_done=False),
        [AppendOutcome(0, pb.HA_NOT_AVAILABLE, "not now"), AppendOutcome(0, pb.HA_NOT_AVAILABLE, "not now")],
    ],
)
async def test_what_was_not_begun_goes_its_own_way(
    brokers: Brokers, sends: Sends, answer: BrokerUnavailable | list[AppendOutcome], at_once: bool
) -> None:
    brokers.answer, brokers.fails_at_once = answer, at_once
    sends.send()
    sends.send()
    assert await sends.all() == [(70, None), (70, None)]
    assert len(brokers.alone) == 2
    brokers.alone_fails = MessagingError(pb.HA_NOT_AVAILABLE, "no broker is there")
    sends.send()
    sends.send()
    assert (await sends.all())[2:] == [(0, brokers.alone_fails)] * 2


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "error", [BrokerUnavailable("lost", maybe_done=True), LateAnswer("broker-0"), ZeroDivisionError("a defect")]
)
async def test_what_may_be_stored_is_not_sent_again(
    brokers: Brokers, sends: Sends, error: Exception, at_once: bool
) -> None:
    brokers.answer, brokers.fails_at_once = error, at_once
    sends.send()
    sends.send()
    assert await sends.all() == [(0, error)] * 2
    assert brokers.alone == []


async def test_an_answer_that_lacks_outcomes_is_a_defect(brokers: Brokers, sends: Sends) -> None:
    brokers.answer = [AppendOutcome(0, WELL)]
    sends.send()
    sends.send()
    assert [type(error) for _, error in await sends.all()] == [ValueError] * 2
