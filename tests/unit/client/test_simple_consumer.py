"""The simple consumer against a scripted server."""

import asyncio
from datetime import timedelta

import grpc
import pytest

import ternmq
from ternmq import SimpleConsumer, SqlFilter
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

SUBSCRIPTIONS = {TOPIC: "a || b"}


async def test_a_receive_asks_for_what_the_user_wants(server: ScriptedServer) -> None:
    server.deliver(stored_message(1), stored_message(2))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        views = await consumer.receive(max_messages=16, invisible_duration=timedelta(seconds=45))
    [request] = server.requests["ReceiveMessage"]
    assert [view.body for view in views] == [b"body 1", b"body 2"]
    assert (request.group.name, request.message_queue.topic.name, request.batch_size) == ("g", TOPIC, 16)
    assert (request.filter_expression.type, request.filter_expression.expression) == (pb.TAG, "a || b")
    assert (request.invisible_duration.seconds, request.long_polling_timeout.seconds) == (45, 15)
    assert not request.auto_renew


async def test_an_empty_poll_is_an_empty_list(server: ScriptedServer) -> None:
    server.end_poll(pb.MESSAGE_NOT_FOUND)
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        assert await consumer.receive() == []


async def test_a_refused_poll_is_a_typed_error(server: ScriptedServer) -> None:
    server.end_poll(pb.ILLEGAL_INVISIBLE_TIME)
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        with pytest.raises(ternmq.BadRequest, match="ILLEGAL_INVISIBLE_TIME: scripted"):
            await consumer.receive()


async def test_messages_that_came_before_a_break_are_not_lost(server: ScriptedServer) -> None:
    server.break_poll(stored_message(1))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        assert [view.message_id for view in await consumer.receive()] == ["id-1"]


async def test_subscriptions_are_told_and_polled_in_turn(server: ScriptedServer) -> None:
    for _ in range(4):
        server.end_poll(pb.MESSAGE_NOT_FOUND)
    subscriptions: dict[str, str | SqlFilter] = {"orders": "*", "invoices": SqlFilter("amount > 5")}
    async with SimpleConsumer(server.endpoint, "g", subscriptions) as consumer:
        for _ in range(4):
            await consumer.receive()
    told = server.requests["Telemetry"][0].settings.subscription
    assert {entry.topic.name: entry.expression.type for entry in told.subscriptions} == {
        "orders": pb.TAG,
        "invoices": pb.SQL,
    }
    polled = [request.message_queue.topic.name for request in server.requests["ReceiveMessage"]]
    assert polled == ["orders", "invoices"] * 2


async def test_many_acknowledgements_are_one_request(server: ScriptedServer) -> None:
    server.deliver(*map(stored_message, range(20)))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await consumer.ack(await consumer.receive())
    [request] = server.requests["AckMessage"]
    assert [entry.receipt_handle for entry in request.entries] == [f"handle-{number}" for number in range(20)]


async def test_refused_acknowledgements_are_told_one_by_one(server: ScriptedServer) -> None:
    def first_only(request: rpc.AckMessageRequest) -> rpc.AckMessageResponse:
        codes = [pb.OK, pb.INVALID_RECEIPT_HANDLE]
        entries = [rpc.AckMessageResultEntry(status=pb.Status(code=code)) for code in codes]
        return rpc.AckMessageResponse(status=pb.Status(code=pb.MULTIPLE_RESULTS), entries=entries)

    server.deliver(stored_message(1), stored_message(2))
    server.script("AckMessage", first_only)
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        views = await consumer.receive()
        with pytest.raises(ternmq.AckError) as failed:
            await consumer.ack(views)
    [(view, error)] = failed.value.refused
    assert (view, error.code) == (views[1], pb.INVALID_RECEIPT_HANDLE)


async def test_an_acknowledgement_that_broke_is_repeated(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    server.script("AckMessage", grpc.StatusCode.UNAVAILABLE)
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        await consumer.ack((await consumer.receive())[0])
    assert len(server.requests["AckMessage"]) == 2


async def test_a_changed_duration_renews_the_receipt_handle(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        [view] = await consumer.receive()
        await consumer.change_invisible_duration(view, timedelta(milliseconds=2500))
        await consumer.ack(view)
    [change] = server.requests["ChangeInvisibleDuration"]
    assert (change.invisible_duration.seconds, change.invisible_duration.nanos) == (2, 500_000_000)
    assert server.requests["AckMessage"][0].entries[0].receipt_handle == "handle-1'"


async def test_a_refused_change_keeps_the_receipt_handle(server: ScriptedServer) -> None:
    status = pb.Status(code=pb.INVALID_RECEIPT_HANDLE)
    server.deliver(stored_message(1))
    server.script("ChangeInvisibleDuration", rpc.ChangeInvisibleDurationResponse(status=status, receipt_handle="other"))
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        [view] = await consumer.receive()
        with pytest.raises(ternmq.BadRequest):
            await consumer.change_invisible_duration(view, timedelta(seconds=1))
    assert view.receipt_handle == "handle-1"


async def test_closing_ends_a_poll(server: ScriptedServer) -> None:
    consumer = await SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS).start()
    polling = asyncio.create_task(consumer.receive())
    await server.asked("ReceiveMessage")
    await consumer.close()
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await polling
    assert server.requests["NotifyClientTermination"][0].group.name == "g"


async def test_a_cancelled_receive_is_cancelled(server: ScriptedServer) -> None:
    async with SimpleConsumer(server.endpoint, "g", SUBSCRIPTIONS) as consumer:
        polling = asyncio.create_task(consumer.receive())
        await server.asked("ReceiveMessage")
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling


@pytest.mark.parametrize(
    ("group", "subscriptions"), [("no spaces", {TOPIC: "*"}), ("g", {"no spaces": "*"}), ("g", {})]
)
def test_names_are_checked_at_once(group: str, subscriptions: dict[str, str]) -> None:
    with pytest.raises(ternmq.BadRequest):
        SimpleConsumer("127.0.0.1:8081", group, subscriptions)
