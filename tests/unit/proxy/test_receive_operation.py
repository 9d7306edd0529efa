"""Receives, and subscriptions of lite topics, called with plain values, whatever front has read them."""

import pytest

from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import ALL_TEXT, FilterText
from ternmq_common.shard.model import ConsumerGroup, LiteAction, LiteOffset
from ternmq_proxy.call import Call
from ternmq_proxy.operations.lite_subscriptions import LitePosition, sync_lite_topics
from ternmq_proxy.operations.receive import NOTHING_NEW, ReceivedMessages, ReceiveRequest, receive_messages
from ternmq_proxy.operations.received_messages import acknowledge_messages
from ternmq_proxy.services import Services
from tests.support.operations import Stack, body_of

CALL = Call(client_id="client", peer="127.0.0.1:9")
GROUP, TOPIC = "readers", "orders"
LITE_GROUP, LITE_TOPIC = "lite-readers", "lite"


@pytest.fixture(autouse=True)
async def topic(stack: Stack) -> None:
    await stack.create_topic(TOPIC)


def request(
    *,
    batch: int = 32,
    invisible_ms: int = 60_000,
    filter_: FilterText = ALL_TEXT,
    poll_s: float = 0.0,
    auto_renew: bool = False,
) -> ReceiveRequest:
    return ReceiveRequest(
        group=GROUP,
        topic=TOPIC,
        batch=batch,
        invisible_ms=invisible_ms,
        filter=filter_,
        poll_s=poll_s,
        auto_renew=auto_renew,
    )


def bodies(received: ReceivedMessages) -> list[bytes]:
    return [body_of(delivery.message) for delivery in received.deliveries]


async def test_messages_come_with_handles_that_acknowledge_them(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a", b"b")
    received = await receive_messages(request(), CALL, services)
    assert (bodies(received), received.problem) == ([b"a", b"b"], None)
    receipts = [(handle.decode(), "") for handle in received.encode_handles()]
    assert await acknowledge_messages(GROUP, TOPIC, receipts, CALL, services) == [None, None]


async def test_nothing_is_a_problem_that_says_so(services: Services) -> None:
    received = await receive_messages(request(), CALL, services)
    assert (received.deliveries, received.encode_handles(), received.problem) == ([], [], NOTHING_NEW)


@pytest.mark.parametrize("written", [FilterText("paid"), FilterText("TAGS = 'paid'", is_sql=True)])
async def test_the_filter_decides_what_comes(stack: Stack, services: Services, written: FilterText) -> None:
    await stack.store(TOPIC, b"a")
    await stack.store(TOPIC, b"b", tag="paid")
    assert bodies(await receive_messages(request(filter_=written), CALL, services)) == [b"b"]


async def test_what_is_released_comes_again_as_if_it_had_not_come(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    await (await receive_messages(request(), CALL, services)).release()
    [again] = (await receive_messages(request(), CALL, services)).deliveries
    assert again.attempt == 1


async def test_what_is_returned_later_waits_as_the_backoff_says_and_counts(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    await (await receive_messages(request(), CALL, services)).return_later()
    assert (await receive_messages(request(), CALL, services)).problem is NOTHING_NEW
    stack.clock.advance_by(3_600_000)
    [again] = (await receive_messages(request(poll_s=5.0), CALL, services)).deliveries
    assert again.attempt == 2


async def test_messages_that_are_renewed_are_held_for_the_client(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    await receive_messages(request(invisible_ms=0, auto_renew=True), CALL, services)
    stack.clock.advance_by(3_600_000)
    await services.renewal.renew_claims()
    assert (await receive_messages(request(), CALL, services)).problem is NOTHING_NEW


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (request(batch=-1), "BAD_REQUEST"),
        (request(invisible_ms=1), "ILLEGAL_INVISIBLE_TIME"),
        (request(filter_=FilterText("a =", is_sql=True)), "ILLEGAL_FILTER_EXPRESSION"),
        (ReceiveRequest(group="a b", topic=TOPIC, batch=1, invisible_ms=60_000), "ILLEGAL_CONSUMER_GROUP"),
        (ReceiveRequest(group=GROUP, topic="a b", batch=1, invisible_ms=60_000), "ILLEGAL_TOPIC"),
        (ReceiveRequest(group=GROUP, topic=TOPIC, batch=1, invisible_ms=60_000, attempt_id="\n"), "BAD_REQUEST"),
    ],
)
async def test_values_are_checked(services: Services, wrong: ReceiveRequest, code: str) -> None:
    with pytest.raises(MessagingError, match=code):
        await receive_messages(wrong, CALL, services)


async def sync(services: Services, action: LiteAction | int, *names: str, begin: LitePosition | None = None) -> None:
    await sync_lite_topics(LITE_GROUP, LITE_TOPIC, action, names, CALL, services, position=begin)


@pytest.fixture
async def lite(stack: Stack) -> None:
    await stack.create_topic(LITE_TOPIC, kind=MessageType.LITE)
    await stack.create_group(ConsumerGroup(name=LITE_GROUP, lite=LiteGroup(LITE_TOPIC)))


@pytest.mark.usefixtures("lite")
async def test_subscriptions_of_lite_topics_are_checked(services: Services) -> None:
    with pytest.raises(MessagingError, match="BAD_REQUEST: action 9 is none"):
        await sync(services, 9, "a")
    with pytest.raises(MessagingError, match="ILLEGAL_OFFSET: tail_n is -1"):
        await sync(services, LiteAction.PARTIAL_ADD, "a", begin=LitePosition(LiteOffset.TAIL, -1))
    with pytest.raises(MessagingError, match="ILLEGAL_LITE_TOPIC"):
        await sync(services, LiteAction.PARTIAL_ADD, "")
    with pytest.raises(MessagingError, match=r"ILLEGAL_TOPIC: .* is no lite group"):
        await sync_of_a_group_that_is_not_lite(services)
    await sync(services, LiteAction.PARTIAL_ADD, "a", begin=LitePosition(LiteOffset.FIRST))


async def sync_of_a_group_that_is_not_lite(services: Services) -> None:
    await services.catalog.create_group(ConsumerGroup(name=GROUP))
    await sync_lite_topics(GROUP, LITE_TOPIC, LiteAction.COMPLETE_ADD, (), CALL, services)
