"""The broker for FastStream: on a real server, and with its test broker."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import pytest
from faststream import AckPolicy, Context, Depends, FastStream
from faststream.exceptions import FeatureNotSupportedException, IncorrectState, StopConsume
from faststream.specification import AsyncAPI
from pydantic import BaseModel, ValidationError

import ternmq
from ternmq import blocking
from ternmq.integrations.faststream import TernmqBroker, TernmqMessage, TernmqRouter, TestTernmqBroker
from ternmq.testing import Stack
from tests.support.until import until, until_late

TIMEOUT_S = 60.0


BodyT = TypeVar("BodyT")


class Order(BaseModel):
    number: int


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


@pytest.fixture
def broker(stack: Stack) -> TernmqBroker:
    return TernmqBroker(stack.endpoint)


@pytest.fixture
def topic(stack: Stack) -> str:
    return stack.fresh_name()


async def heard(queue: "asyncio.Queue[BodyT]") -> BodyT:
    async with asyncio.timeout(TIMEOUT_S):
        return await queue.get()


async def test_a_handler_gets_what_was_published_as_its_type(broker: TernmqBroker, topic: str) -> None:
    orders: asyncio.Queue[tuple[Order, TernmqMessage]] = asyncio.Queue()

    @broker.subscriber(topic, group=topic)
    async def handle(order: Order, message: Annotated[TernmqMessage, Context()]) -> None:
        orders.put_nowait((order, message))

    async with broker:
        await broker.start()
        receipt = await broker.publish(
            Order(number=7), topic, headers={"region": "eu"}, tag="t", keys=["k"], correlation_id="c-1"
        )
        order, message = await heard(orders)
    view = message.raw_message.view
    assert order == Order(number=7)
    assert (message.headers["region"], message.correlation_id, message.message_id) == ("eu", "c-1", receipt.message_id)
    assert (view.tag, view.keys, view.properties["content-type"]) == ("t", ("k",), "application/json")


@pytest.mark.parametrize("sent", ["text", b"bytes \x00", {"a": [1]}, 7, None], ids=str)
async def test_what_is_sent_is_what_is_handled(broker: TernmqBroker, topic: str, sent: object) -> None:
    bodies: asyncio.Queue[object] = asyncio.Queue()

    @broker.subscriber(topic, group=topic)
    async def handle(body: Any) -> None:  # noqa: ANN401 - that it is left as it is
        bodies.put_nowait(body)

    async with broker:
        await broker.start()
        await broker.publish(sent, topic)
        assert await heard(bodies) == sent


async def test_what_a_handler_returns_is_published(broker: TernmqBroker, topic: str) -> None:
    bills: asyncio.Queue[tuple[int, str, str]] = asyncio.Queue()

    @broker.subscriber(topic, group="billing")
    @broker.publisher(f"{topic}-bills", headers={"kind": "bill"}, tag="new")
    async def bill(order: Order) -> int:
        return order.number * 2

    @broker.subscriber(f"{topic}-bills", group="printing", filter_by="new")
    async def print_out(amount: int, message: Annotated[TernmqMessage, Context()]) -> None:
        bills.put_nowait((amount, message.headers["kind"], message.correlation_id))

    async with broker:
        await broker.start()
        await broker.publish(Order(number=21), topic, correlation_id="same")
        assert await heard(bills) == (42, "bill", "same")


async def test_a_delay_is_kept_by_the_server(broker: TernmqBroker, stack: Stack, topic: str) -> None:
    stack.create_topic(topic, type="delay")
    bodies: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(topic, group=topic)
    async def handle(body: str) -> None:
        bodies.put_nowait(body)

    async with broker:
        await broker.start()
        await broker.publish("later", topic, delay=timedelta(hours=2))
        await broker.publish("soon", topic, delay=timedelta(0))
        assert await heard(bodies) == "soon"
        stack.advance(timedelta(hours=2))
        assert await heard(bodies) == "later"


async def failing_attempts(broker: TernmqBroker, stack: Stack, topic: str, policy: AckPolicy | None) -> list[int]:
    """The attempts of a message whose handler fails, until another one that was sent behind it was delivered."""
    attempts: list[int] = []
    after: asyncio.Event = asyncio.Event()
    options: dict[str, Any] = {} if policy is None else {"ack_policy": policy}

    @broker.subscriber(topic, group=topic, **options)
    async def handle(body: str, message: Annotated[TernmqMessage, Context()]) -> None:
        if body == "after":
            after.set()
            await message.ack()
            return
        attempts.append(message.raw_message.view.delivery_attempt)
        if policy is not AckPolicy.MANUAL:
            raise ValueError("not this one")

    async with broker, asyncio.timeout(TIMEOUT_S):
        await broker.start()
        await broker.publish("bad", topic)
        await until(lambda: bool(attempts))
        await until_late(stack, 60, lambda: len(attempts) >= 3 or not stack_has_open(stack, topic))
        await broker.publish("after", topic)
        await after.wait()
    return attempts


def stack_has_open(stack: Stack, group: str) -> bool:
    """Whether a delivery of the group isn't settled."""
    with blocking.Admin(stack.endpoint) as admin:
        return any(progress.committed < progress.max_offset for progress in admin.describe_group(group).progress)


@pytest.mark.parametrize("policy", [None, AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL])
async def test_what_was_not_acknowledged_is_delivered_again(
    broker: TernmqBroker, stack: Stack, topic: str, policy: AckPolicy | None
) -> None:
    assert await failing_attempts(broker, stack, topic, policy) == [1, 2, 3]


@pytest.mark.parametrize("policy", [AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR])
async def test_what_failed_is_dropped_where_that_is_wanted(
    broker: TernmqBroker, stack: Stack, topic: str, policy: AckPolicy
) -> None:
    assert await failing_attempts(broker, stack, topic, policy) == [1]


def test_a_policy_that_can_not_be_kept_is_refused(broker: TernmqBroker) -> None:
    with pytest.raises(FeatureNotSupportedException, match="ACK_FIRST"):
        broker.subscriber("orders", group="billing", ack_policy=AckPolicy.ACK_FIRST)


async def test_a_handler_that_stops_consuming_ends_its_subscriber(broker: TernmqBroker, topic: str) -> None:
    handled: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(topic, group=topic, max_workers=1)
    async def handle(body: str) -> None:
        handled.put_nowait(body)
        raise StopConsume

    async with broker:
        await broker.start()
        await broker.publish("first", topic)
        assert await heard(handled) == "first"
        [subscriber] = broker.subscribers
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not subscriber.running)
        await broker.publish("second", topic)
    assert handled.empty()


async def test_stopping_waits_for_the_handler_that_runs(broker: TernmqBroker, topic: str) -> None:
    began, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @broker.subscriber(topic, group=topic)
    async def handle(body: str) -> None:
        began.set()
        await go_on.wait()
        ended.set()

    await broker.start()
    await broker.publish("x", topic)
    async with asyncio.timeout(TIMEOUT_S):
        await began.wait()
        stopping = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        go_on.set()
        await stopping
    assert ended.is_set()
    with pytest.raises(IncorrectState, match="isn't connected"):
        await broker.publish("x", topic)


async def test_a_router_brings_its_prefix_and_the_app_runs_it(stack: Stack, topic: str) -> None:
    router = TernmqRouter(prefix=f"{topic}-")
    seen: asyncio.Queue[str] = asyncio.Queue()

    @router.subscriber("in", group="g")
    @router.publisher("out")
    async def pass_on(body: str) -> str:
        return body + "!"

    @router.subscriber("out", group="g")
    async def see(body: str) -> None:
        seen.put_nowait(body)

    broker = TernmqBroker(stack.endpoint, routers=[router])
    app = FastStream(broker)
    await app.start()
    await broker.publish("hello", f"{topic}-in")
    assert await heard(seen) == "hello!"
    await app.stop()


@pytest.mark.parametrize("call", ["request", "get_one"])
async def test_what_is_not_there_says_so(broker: TernmqBroker, call: str) -> None:
    target: Any = broker if call == "request" else broker.subscriber("orders", group="g")
    with pytest.raises(FeatureNotSupportedException, match="TernMQ"):
        await getattr(target, call)()


async def test_the_test_broker_needs_no_server_and_keeps_to_groups() -> None:
    broker = TernmqBroker("127.0.0.1:1")
    calls: list[str] = []

    def dependency() -> str:
        return "injected"

    @broker.subscriber("orders", group="one")
    @broker.publisher("bills")
    async def first(order: Order, injected: Annotated[str, Depends(dependency)]) -> int:
        calls.append(f"first {injected}")
        return order.number

    @broker.subscriber("orders", group="one")
    async def same_group(order: Order) -> None:
        calls.append("same group")

    @broker.subscriber("orders", group="two")
    async def other_group(order: Order) -> None:
        calls.append("other group")

    async with TestTernmqBroker(broker) as testing:
        receipt = await testing.publish({"number": 3}, "orders", tag="t")
        with pytest.raises(ValidationError):
            await testing.publish({"number": "three"}, "orders")
    assert isinstance(receipt, ternmq.SendReceipt)
    assert len(calls) == 2
    assert "other group" in calls


async def test_the_test_broker_records_what_was_published() -> None:
    broker = TernmqBroker("127.0.0.1:1")

    publisher = broker.publisher("bills")

    @broker.subscriber("orders", group="one")
    @publisher
    async def bill(order: Order) -> int:
        return order.number * 2

    async with TestTernmqBroker(broker) as testing:
        await testing.publish({"number": 3}, "orders")
        assert bill.mock is not None
        bill.mock.assert_called_once_with({"number": 3})
        assert publisher.mock is not None
        publisher.mock.assert_called_once_with(6)


def test_asyncapi_documents_topics() -> None:
    broker = TernmqBroker("127.0.0.1:8081", logger=logging.getLogger("test"))

    @broker.subscriber("orders", group="billing")
    @broker.publisher("bills")
    async def bill(order: Order) -> int:
        return order.number

    document = AsyncAPI(broker, schema_version="3.0.0").to_specification().to_jsonable()
    assert {channel["address"] for channel in document["channels"].values()} == {"orders", "bills"}
