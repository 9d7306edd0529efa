"""Acknowledgements of one turn share a call, and each hears what became of its own messages."""

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any, cast

import pytest

from ternmq_common.event_loop.turn_end import turn_end
from ternmq_common.shard.calls import CALLS, ShardCall
from ternmq_common.shard.model import SettleOutcome
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.message_service.cluster.broker_links.calls import LateAnswer, ResultCallback
from ternmq_proxy.message_service.cluster.gathered_acknowledgements import GatheredAcknowledgements
from ternmq_runtime.observability import tracing

Ended = tuple[list[SettleOutcome] | None, Exception | None]
DONE, STALE, EXPIRED = SettleOutcome.DONE, SettleOutcome.STALE, SettleOutcome.EXPIRED


def outcome_of(handle: ReceiptHandle) -> SettleOutcome:
    return (DONE, STALE, EXPIRED)[handle.queue_offset % 3]


class Traced:
    """A span of a trace that is recorded."""

    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Brokers:
    """Stands for `RepeatedCalls`: what was asked, and what is answered to it, later than in this turn."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, list[int]]] = []
        self.fails: Exception | None = None
        self.forgets = 0
        self.traces: list[str] = []

    def ask_nowait(
        self, broker: str, call: ShardCall, values: tuple[str, str, Sequence[ReceiptHandle]], heard: ResultCallback
    ) -> None:
        assert call is CALLS["acknowledge"]
        self.traces.append(tracing.current_traceparent())
        group, topic, handles = values
        self.asked.append((broker, group, topic, [handle.queue_offset for handle in handles]))
        outcomes = [outcome_of(handle) for handle in handles][self.forgets :]
        result = (None, self.fails) if self.fails is not None else (outcomes, None)
        asyncio.get_running_loop().call_soon(heard, *result)


class Acknowledgements:
    """Those of one turn, and what they heard."""

    def __init__(self, brokers: Brokers, handles_max: int = 256) -> None:
        repeats: Any = brokers
        self._gathered = GatheredAcknowledgements(repeats, handles_max)
        self.ended: list[asyncio.Future[Ended]] = []

    def acknowledge(self, *offsets: int, broker: str = "broker-0", group: str = "g", topic: str = "orders") -> None:
        heard: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.ended.append(heard)
        handles = [ReceiptHandle(broker, 0, offset, 1, 0) for offset in offsets]
        self._gathered.acknowledge_nowait(broker, group, topic, handles, lambda *ended: heard.set_result(ended))

    async def all(self) -> list[Ended]:
        ended, self.ended = self.ended, []
        return list(await asyncio.gather(*ended))


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def acknowledgements(brokers: Brokers) -> Acknowledgements:
    return Acknowledgements(brokers)


async def test_those_of_a_turn_are_one_call_for_each_broker_group_and_topic(
    brokers: Brokers, acknowledgements: Acknowledgements
) -> None:
    acknowledgements.acknowledge(0)
    acknowledgements.acknowledge(2, 1)
    acknowledgements.acknowledge(3, broker="broker-1")
    acknowledgements.acknowledge(4, group="h")
    acknowledgements.acknowledge(5, topic="payments")
    acknowledgements.acknowledge(6)
    assert await acknowledgements.all() == [
        ([DONE], None),
        ([EXPIRED, STALE], None),
        ([DONE], None),
        ([STALE], None),
        ([EXPIRED], None),
        ([DONE], None),
    ]
    assert brokers.asked == [
        ("broker-0", "g", "orders", [0, 2, 1, 6]),
        ("broker-1", "g", "orders", [3]),
        ("broker-0", "h", "orders", [4]),
        ("broker-0", "g", "payments", [5]),
    ]
    acknowledgements.acknowledge(7)
    assert await acknowledgements.all() == [([STALE], None)]


async def test_many_do_not_wait_for_others(brokers: Brokers) -> None:
    acknowledgements = Acknowledgements(brokers, handles_max=3)
    for offset in range(7):
        acknowledgements.acknowledge(offset)
    assert len(await acknowledgements.all()) == 7
    assert [offsets for *_, offsets in brokers.asked] == [[0, 1, 2], [3, 4, 5], [6]]


async def test_an_error_of_the_call_is_everybodys(brokers: Brokers, acknowledgements: Acknowledgements) -> None:
    brokers.fails = LateAnswer("broker-0")
    acknowledgements.acknowledge(0)
    acknowledgements.acknowledge(1, 2)
    assert await acknowledgements.all() == [(None, brokers.fails)] * 2


async def test_a_broker_that_leaves_out_one_has_said_nothing_of_any(
    brokers: Brokers, acknowledgements: Acknowledgements
) -> None:
    brokers.forgets = 1
    acknowledgements.acknowledge(0)
    acknowledgements.acknowledge(1)
    for outcomes, error in await acknowledgements.all():
        assert outcomes is None
        assert isinstance(error, ValueError)


async def test_one_that_is_traced_goes_alone_and_gives_its_trace_to_no_other(
    brokers: Brokers, acknowledgements: Acknowledgements
) -> None:
    traced, span = copy_context(), cast("tracing.ActiveSpan", Traced())
    traced.run(tracing._current.set, span)
    traced.run(acknowledgements.acknowledge, 0)
    # The end of this turn goes on in the context of this call.
    traced.run(turn_end().add_work, lambda: None)
    acknowledgements.acknowledge(1)
    acknowledgements.acknowledge(2)
    await acknowledgements.all()
    assert [offsets for *_, offsets in brokers.asked] == [[0], [1, 2]]
    assert brokers.traces == [Traced.traceparent, ""]
