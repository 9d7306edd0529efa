"""What a broker that is there anew hears again of what its last seconds acknowledged."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from ternmq_common.shard.calls import CALLS, ShardCall, Values
from ternmq_common.shard.model import SettleOutcome
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable
from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls, RepeatTiming

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks

ACKNOWLEDGE = CALLS["acknowledge"]


class OneLink:
    """All links: to a broker that takes everything while it is connected."""

    def __init__(self) -> None:
        self.is_connected = True
        self.is_there = True
        self.told: list[Values] = []
        self.link = self

    def find_broker(self, _: str) -> "OneLink | None":
        return self if self.is_there else None

    def require_broker(self, _: str) -> "OneLink":
        return self

    def is_replicated(self, _: str) -> bool:
        return True

    async def ask_broker(self, _: ShardCall, values: Values) -> list[SettleOutcome]:
        if not self.is_connected:
            raise BrokerUnavailable("it is away", maybe_done=True)
        return [SettleOutcome.DONE for _ in values[2]]

    def ask_nowait(self, call: ShardCall, values: Values, heard: Any) -> None:  # noqa: ANN401 - `Heard`
        del call
        heard([SettleOutcome.DONE for _ in values[2]], None)

    def notify_broker(self, call: ShardCall, values: Values) -> None:
        assert call is ACKNOWLEDGE
        self.told.append(values)


@pytest.fixture
def links() -> OneLink:
    return OneLink()


@pytest.fixture
def repeats(links: OneLink, clock: list[float]) -> RepeatedCalls:
    return RepeatedCalls(cast("BrokerLinks", links), seconds=lambda: clock[0])


@pytest.fixture
def clock() -> list[float]:
    """What the monotonic clock says; a test sets it."""
    return [1000.0]


def handle(offset: int) -> ReceiptHandle:
    return ReceiptHandle("broker-0", 0, offset, 1, 1)


async def acknowledge(repeats: RepeatedCalls, *offsets: int, group: str = "g") -> None:
    await repeats.ask_broker("broker-0", ACKNOWLEDGE, (group, "orders", [handle(offset) for offset in offsets]))


async def test_what_the_last_seconds_acknowledged_is_said_again_to_who_is_there_anew(
    repeats: RepeatedCalls, links: OneLink, clock: list[float]
) -> None:
    await acknowledge(repeats, 1)
    clock[0] += 5
    await acknowledge(repeats, 2, 3)
    heard: list[object] = []
    repeats.ask_nowait("broker-0", ACKNOWLEDGE, ("g", "orders", [handle(4)]), lambda *answer: heard.append(answer))
    await acknowledge(repeats, 9, group="another")
    links.is_connected = False
    repeats.link_changed("broker-0")
    assert not links.told
    clock[0] += 10  # however long it is away
    links.is_connected = True
    repeats.link_changed("broker-0")
    assert links.told == [("g", "orders", [handle(2), handle(3), handle(4)]), ("another", "orders", [handle(9)])]
    assert heard == [([SettleOutcome.DONE], None)]


async def test_what_was_not_answered_is_left_to_who_asked(links: OneLink) -> None:
    repeats = RepeatedCalls(cast("BrokerLinks", links), timing=RepeatTiming(repeat_s=0.01, replicated_s=0.01))
    links.is_connected = False
    with pytest.raises(BrokerUnavailable):
        await acknowledge(repeats, 1)
    links.is_connected = True
    repeats.link_changed("broker-0")
    assert not links.told


async def test_what_was_long_ago_was_delivered_again_by_now(
    repeats: RepeatedCalls, links: OneLink, clock: list[float]
) -> None:
    await acknowledge(repeats, 1)
    clock[0] += 61
    repeats.link_changed("broker-0")
    assert not links.told


async def test_a_broker_that_is_no_more_leaves_nothing(repeats: RepeatedCalls, links: OneLink) -> None:
    await acknowledge(repeats, 1)
    links.is_there = False
    repeats.link_changed("broker-0")
    links.is_there = True
    repeats.link_changed("broker-0")
    assert not links.told


async def test_it_has_a_limit_and_comes_in_calls_of_a_thousand(repeats: RepeatedCalls, links: OneLink) -> None:
    for first in range(0, 101_000, 500):
        await acknowledge(repeats, *range(first, first + 500))
    repeats.link_changed("broker-0")
    assert {len(values[2]) for values in links.told} == {1000}
    offsets = [each.queue_offset for values in links.told for each in values[2]]
    assert offsets == list(range(1000, 101_000))
