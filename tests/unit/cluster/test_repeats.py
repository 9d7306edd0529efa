"""Which calls are made again while their broker is away, and what comes of them."""

from typing import TYPE_CHECKING, cast

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.shard.calls import CALLS, ShardCall, Values
from ternmq_common.shard.model import QueueBounds, QueueRef
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable
from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks

QUEUE = QueueRef("orders", "broker-0", 0)
HANDLE = ReceiptHandle("broker-0", 0, 0, 1, 1)
UNASKED = BrokerUnavailable("it was not reached", maybe_done=False)
MAYBE_DONE = BrokerUnavailable("it was lost", maybe_done=True)
REFUSED = BrokerRefused("not now")
FORBIDDEN = MessagingError(definition_pb2.FORBIDDEN, "no")


class OneBroker:
    """All links: to a broker whose calls come out as they are listed."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[tuple[str, Values]] = []

    def require_broker(self, name: str) -> "OneBroker":
        assert name == "broker-0"
        return self

    find_broker = require_broker

    def is_replicated(self, _: str) -> bool:
        return False

    async def ask_broker(self, call: ShardCall, values: Values) -> object:
        self.asked.append((call.name, values))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def over(links: OneBroker) -> RepeatedCalls:
    return RepeatedCalls(cast("BrokerLinks", links))


@pytest.mark.parametrize("error", [UNASKED, MAYBE_DONE])
async def test_a_call_that_a_repetition_does_not_harm_is_made_until_it_is_answered(error: BrokerUnavailable) -> None:
    links = OneBroker(error, error, error, QueueBounds(3, 5))
    assert await over(links).shard_of("broker-0").reading.bounds(QUEUE) == QueueBounds(3, 5)
    assert links.asked == [("bounds", (QUEUE, None, 0))] * 4


async def test_a_call_that_could_be_done_twice_is_made_again_only_if_the_broker_was_not_asked() -> None:
    links = OneBroker(UNASKED, UNASKED, MAYBE_DONE)
    with pytest.raises(BrokerUnavailable, match="it was lost"):
        await over(links).shard_of("broker-0").consuming.change_invisible("g", "orders", HANDLE, 5, counts=True)
    assert len(links.asked) == 3


@pytest.mark.parametrize("error", [REFUSED, FORBIDDEN])
async def test_what_the_broker_answers_is_its_answer(error: MessagingError) -> None:
    links = OneBroker(error)
    with pytest.raises(type(error)):
        await over(links).ask_broker("broker-0", CALLS["bounds"], (QUEUE,))
    assert len(links.asked) == 1


async def test_who_calls_decides_about_calls_that_are_never_repeated() -> None:
    links = OneBroker(UNASKED)
    with pytest.raises(BrokerUnavailable):
        await over(links).shard_of("broker-0").consuming.leave("g", "c")
    assert len(links.asked) == 1
