"""Messages that settle themselves, and those that can't be settled so."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message, MessageView, Producer, PullConsumer, PushConsumer, ReceivedMessage, SimpleConsumer
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, local_settings
from tests.unit.client.pull_support import CALM, LONG_S, numbered, queue
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

SUBSCRIPTIONS = {TOPIC: "*"}
A_MINUTE = timedelta(minutes=1)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path)) as running:
        yield running


async def test_what_is_acked_is_gone_and_what_is_nacked_comes_again_at_once(broker: Embedded) -> None:
    async with (
        Producer(broker.grpc) as producer,
        SimpleConsumer(broker.grpc, "g", SUBSCRIPTIONS, await_duration=timedelta(seconds=20)) as consumer,
    ):
        await producer.send(Message(TOPIC, b"first"))
        [first] = await consumer.receive()
        await first.ack()
        await producer.send(Message(TOPIC, b"second"))
        [second] = await consumer.receive()
        await second.nack()
        [again] = await consumer.receive()
        assert (again.body, again.delivery_attempt) == (b"second", 2)
        await again.ack()
        with pytest.raises(ternmq.BadRequest, match="INVALID_RECEIPT_HANDLE"):
            await again.nack()


async def test_a_blocking_message_settles_itself_without_await(broker: Embedded) -> None:
    def use() -> None:
        with (
            ternmq.blocking.Producer(broker.grpc) as producer,
            ternmq.blocking.SimpleConsumer(
                broker.grpc, "g", SUBSCRIPTIONS, await_duration=timedelta(seconds=20)
            ) as consumer,
        ):
            producer.send(Message(TOPIC, b"x"))
            [view] = consumer.receive()
            view.nack()
            [again] = consumer.receive()
            assert (again.body, again.delivery_attempt) == (b"x", 2)
            again.ack()
            with pytest.raises(ternmq.BadRequest, match="INVALID_RECEIPT_HANDLE"):
                again.nack()

    await asyncio.to_thread(use)


async def test_a_nack_hides_for_its_delay_and_renews_the_receipt_handle(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        [view] = await consumer.receive()
        await view.nack(A_MINUTE)
        await view.ack()
    [change] = server.requests["ChangeInvisibleDuration"]
    [ack] = server.requests["AckMessage"]
    assert (change.message_id, change.invisible_duration.seconds) == ("id-1", 60)
    assert [entry.receipt_handle for entry in ack.entries] == ["handle-1'"]


async def test_a_message_outlives_its_consumer_without_being_settled(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        [view] = await consumer.receive()
    with pytest.raises(ternmq.NotRunning, match="SimpleConsumer was closed"):
        await view.ack()
    assert not server.requests["AckMessage"]


async def test_a_pickled_message_says_who_can_settle_it(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        [view] = await consumer.receive()
        copy = pickle.loads(pickle.dumps(view))
        assert isinstance(copy, ReceivedMessage)
        for settle in (copy.ack, copy.nack):
            with pytest.raises(ternmq.BadRequest, match="this copy of id-1 has no consumer: give it to `ack`"):
                await settle()
        await consumer.ack(copy)
    [request] = server.requests["AckMessage"]
    assert [entry.receipt_handle for entry in request.entries] == ["handle-1"]


async def test_a_pickled_blocking_message_says_who_can_settle_it(server: ScriptedServer) -> None:
    def use() -> None:
        with ternmq.blocking.SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
            [view] = consumer.receive()
            copy = pickle.loads(pickle.dumps(view))
            assert isinstance(copy, ternmq.blocking.ReceivedMessage)
            assert copy.body == view.body
            for settle in (copy.ack, copy.nack):
                with pytest.raises(ternmq.BadRequest, match="this copy of id-1 has no consumer"):
                    settle()
            consumer.ack(copy)

    server.deliver(stored_message(1))
    await asyncio.to_thread(use)
    assert len(server.requests["AckMessage"]) == 1


@pytest.mark.parametrize("call", ["ack", "nack"])
async def test_a_listeners_message_says_that_the_result_settles_it(server: ScriptedServer, call: str) -> None:
    said: list[str] = []

    async def listener(view: MessageView) -> None:
        with pytest.raises(ternmq.BadRequest) as refused:
            getattr(view, call)(*([A_MINUTE] if call == "nack" else []))
        said.append(refused.value.message)

    server.deliver(stored_message(1))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        await server.asked("AckMessage")
    assert f"id-1 has no {call}(): the result of the listener settles it" in said[0]
    assert not server.requests["ChangeInvisibleDuration"]


async def test_a_pulled_message_says_that_a_commit_is_what_counts(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(0), *numbered(1))
    async with PullConsumer(server.endpoint, "g", SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        [view] = await consumer.poll(timeout=LONG_S)
        for settle in ("ack", "nack"):
            with pytest.raises(ternmq.BadRequest, match="a PullConsumer commits how far it has come"):
                await getattr(view, settle)()


@pytest.mark.parametrize("kind", [ReceivedMessage, ternmq.blocking.ReceivedMessage])
def test_a_received_message_is_a_message_view(kind: Callable[..., MessageView]) -> None:
    view = kind(pb.Message(body=b"x"), broker="b", endpoints=ternmq.connections.endpoints.Endpoints.parse("127.0.0.1"))
    assert isinstance(view, MessageView)
    assert not hasattr(view, "__dict__")
