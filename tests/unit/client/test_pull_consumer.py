"""The pull consumer against a scripted server: what is pulled, and how it is handed out."""

import asyncio
import logging
from collections.abc import AsyncIterator

import grpc
import pytest

import ternmq
from ternmq import PullConsumer, SqlFilter, Timing
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.pull_support import (
    CALM,
    GROUP,
    LONG_S,
    NEVER_S,
    SUBSCRIPTIONS,
    commits,
    numbered,
    pulls,
    queue,
    taken,
    taken_bodies,
)
from tests.unit.client.queue_model import pulled
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message


@pytest.fixture
async def single() -> AsyncIterator[ScriptedServer]:
    """A server whose topic has one queue."""
    async with ScriptedServer(queues=1) as running:
        yield running


async def test_a_pull_asks_for_what_the_user_wants(single: ScriptedServer) -> None:
    single.model.append(queue(), b"0", b"1", tag="paid")
    wanted = {TOPIC: SqlFilter("paid")}
    async with PullConsumer(single.endpoint, GROUP, wanted, start_from="earliest", timing=CALM) as consumer:
        views = await taken(consumer, 2)
    [request, *_] = single.requests["PullMessage"]
    assert [(view.body, view.offset, view.queue_id, view.topic) for view in views] == [
        (b"0", 0, 0, TOPIC),
        (b"1", 1, 0, TOPIC),
    ]
    assert (request.group.name, request.message_queue.topic.name, request.message_queue.id) == (GROUP, TOPIC, 0)
    assert (request.offset, request.batch_size, request.long_polling_timeout.seconds) == (0, 32, 20)
    assert (request.filter_expression.type, request.filter_expression.expression) == (pb.SQL, "paid")


async def test_the_server_knows_a_pull_consumer_and_its_subscriptions(single: ScriptedServer) -> None:
    timing = Timing(heartbeat_s=0.001)
    async with PullConsumer(single.endpoint, GROUP, {TOPIC: "a || b"}, timing=timing):
        [heartbeat, *_] = await single.asked("Heartbeat")
    settings = single.requests["Telemetry"][0].settings
    [subscription] = settings.subscription.subscriptions
    assert (settings.client_type, settings.subscription.group.name) == (pb.PULL_CONSUMER, GROUP)
    assert (subscription.topic.name, subscription.expression.expression) == (TOPIC, "a || b")
    assert (heartbeat.client_type, heartbeat.group.name) == (pb.PULL_CONSUMER, GROUP)


async def test_batch_and_poll_time_are_those_that_the_server_told(single: ScriptedServer) -> None:
    single.told.subscription.receive_batch_size = 7
    single.told.subscription.long_polling_timeout.FromMilliseconds(4_000)
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM):
        [request] = await single.asked("PullMessage")
    assert (request.batch_size, request.long_polling_timeout.seconds) == (7, 4)


async def test_a_message_that_was_pulled_has_no_receipt_handle(single: ScriptedServer) -> None:
    single.model.append(queue(), b"0")
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        [view] = await taken(consumer, 1)
    assert (view.receipt_handle, view.delivery_attempt, view.intact) == ("", 1, True)


async def test_all_queues_are_read_each_in_its_order(server: ScriptedServer) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(50))
    async with PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        views = await taken(consumer, 200)
        assert consumer.assignment() == [queue(queue_id) for queue_id in range(4)]
    for queue_id in range(4):
        assert [view.offset for view in views if view.queue_id == queue_id] == list(range(50))


async def test_queues_take_turns(server: ScriptedServer) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(3))
    async with PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        await server.asked("PullMessage", 8)  # the second pull of each waits, so the first was accepted
        assert {(await anext(consumer)).queue_id for _ in range(4)} == {0, 1, 2, 3}


async def test_a_poll_takes_no_more_than_it_is_asked_to_and_ends_with_what_there_is(single: ScriptedServer) -> None:
    single.model.append(queue(), *numbered(5))
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        assert [view.offset for view in await consumer.poll(3, timeout=LONG_S)] == [0, 1, 2]
        assert [view.offset for view in await consumer.poll(3, timeout=LONG_S)] == [3, 4]
        assert await consumer.poll(3, timeout=0) == []


async def test_a_poll_without_time_takes_what_is_there(single: ScriptedServer) -> None:
    single.model.append(queue(), b"0")
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        await single.asked("PullMessage", 2)
        assert len(await consumer.poll(timeout=0)) == 1


async def test_an_iteration_goes_on_with_what_arrives_and_ends_with_the_consumer(single: ScriptedServer) -> None:
    consumer = await PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM).start()
    seen: list[bytes] = []

    async def read() -> None:
        async for view in consumer:
            seen.append(view.body)
            single.model.append(queue(), b"second") if len(seen) == 1 else second.set()

    second = asyncio.Event()
    reading = asyncio.create_task(read())
    single.model.append(queue(), b"first")
    await second.wait()
    await consumer.close()
    await reading
    assert seen == [b"first", b"second"]


async def test_a_poll_that_waits_is_ended_by_close(single: ScriptedServer) -> None:
    consumer = await PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM).start()
    polling = asyncio.create_task(consumer.poll(timeout=LONG_S))
    await single.asked("PullMessage")
    await consumer.close()
    with pytest.raises(ternmq.NotRunning, match="closed"):
        await polling
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await consumer.poll()


async def test_a_consumer_that_was_not_started_has_nothing_to_iterate(single: ScriptedServer) -> None:
    consumer = PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS)
    with pytest.raises(ternmq.NotRunning, match="was not started"):
        await anext(consumer)


@pytest.mark.parametrize("by_iteration", [True, False])
@pytest.mark.parametrize("just_woken", [True, False])
async def test_a_cancelled_caller_has_taken_nothing(
    single: ScriptedServer, by_iteration: bool, just_woken: bool
) -> None:
    class Cancel(ternmq.Hooks):
        """Cancels the caller just before the messages are there for it, or when it is about to wake up with them."""

        def delivered(self, client_id: str, group: str, views: object) -> None:
            if just_woken:
                asyncio.get_running_loop().call_soon(waiting.cancel)
            else:
                waiting.cancel()

    hooks = [Cancel()]
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM, hooks=hooks) as consumer:
        waiting = asyncio.ensure_future(anext(consumer) if by_iteration else consumer.poll(timeout=LONG_S))
        await single.asked("PullMessage")
        single.model.append(queue(), b"0", b"1")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [view.offset for view in await taken(consumer, 2)] == [0, 1]


async def test_an_error_is_followed_by_a_pause_and_another_pull(single: ScriptedServer) -> None:
    single.model.append(queue(), b"0")
    single.script("PullMessage", grpc.StatusCode.UNAVAILABLE, pulled(pb.TOO_MANY_REQUESTS), [], pulled(pb.FORBIDDEN))
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        assert await taken_bodies(consumer, 1) == [b"0"]
    assert pulls(single)[:5] == [0] * 5


@pytest.mark.parametrize(
    "answer",
    [
        grpc.StatusCode.UNAVAILABLE,
        pulled(pb.INTERNAL_ERROR),
        pulled(pb.MESSAGE_NOT_FOUND, next_offset=5),
        pulled(pb.MESSAGE_NOT_FOUND),
        pulled(pb.OK),
        pulled(pb.MESSAGE_NOT_FOUND, next_offset=2),
        pulled(pb.ILLEGAL_OFFSET, next_offset=3),
    ],
)
async def test_an_answer_that_brings_nothing_on_is_not_asked_for_again_at_once(
    single: ScriptedServer, answer: grpc.StatusCode | list[object]
) -> None:
    single.model.append(queue(), *numbered(5))
    single.script("PullMessage", answer)
    timing = Timing(assignment_s=NEVER_S, heartbeat_s=0.001, error_pause_s=NEVER_S)
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=timing):
        await single.asked("PullMessage")
        await single.asked("Heartbeat", len(single.requests["Heartbeat"]) + 10)
        assert pulls(single) == [5]


async def test_messages_that_came_before_a_break_are_handed_out_and_not_pulled_again(single: ScriptedServer) -> None:
    single.model.append(queue(), b"0", b"1", b"2")
    single.script("PullMessage", [*pulled(pb.OK, stored_message(0), stored_message(1)), grpc.StatusCode.UNAVAILABLE])
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        assert [view.offset for view in await taken(consumer, 3)] == [0, 1, 2]
    assert pulls(single)[:2] == [0, 2]


async def test_what_a_filter_leaves_out_is_passed_over_and_committed(single: ScriptedServer) -> None:
    single.model.append(queue(), *numbered(100), tag="other")
    async with PullConsumer(single.endpoint, GROUP, {TOPIC: "a"}, start_from="earliest", timing=CALM) as consumer:
        single.model.append(queue(), b"wanted", tag="a")
        single.model.append(queue(), b"unwanted", tag="other")
        assert await taken_bodies(consumer, 1) == [b"wanted"]
        while await consumer.position(queue()) < 102:
            await single.asked("PullMessage", len(pulls(single)) + 1)
    assert commits(single)[-1] == (0, 102)


async def test_what_retention_removed_is_passed_over_and_said(
    single: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    single.model.append(queue(), *numbered(10))
    single.model.remove_before(queue(), 7)
    single.model.committed[GROUP, queue()] = 2
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM) as consumer:
        assert await taken_bodies(consumer, 3) == numbered(3, start=7)
    assert f"{TOPIC}/broker-a/0 goes on at 7, not at 2, as the server says" in caplog.text


async def test_an_offset_outside_of_the_queue_starts_again_by_the_policy(
    single: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    single.model.append(queue(), *numbered(3))
    single.model.committed[GROUP, queue()] = 100
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM) as consumer:
        assert await taken_bodies(consumer, 3) == numbered(3)
        await consumer.commit()
    assert commits(single) == [(0, 3)]
    assert "has no offset 100: going on at 0" in caplog.text


async def test_a_server_may_set_a_queue_back(single: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    single.model.append(queue(), *numbered(5))
    single.model.committed[GROUP, queue()] = 4
    single.script("PullMessage", pulled(pb.MESSAGE_NOT_FOUND, next_offset=2))
    async with PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM) as consumer:
        assert [view.offset for view in await taken(consumer, 3)] == [2, 3, 4]
    assert "is set back from 4 to 2 by the server" in caplog.text


async def test_no_more_messages_are_buffered_than_allowed(single: ScriptedServer) -> None:
    single.model.append(queue(), *numbered(20))
    consumer = PullConsumer(
        single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", buffered_messages_max=6, timing=CALM
    )
    async with consumer:
        for start in range(20):
            [view] = await taken(consumer, 1)
            assert view.offset == start
            assert consumer._buffer.queues[queue()].buffered_messages <= 6
    assert max(request.batch_size for request in single.requests["PullMessage"]) == 6


async def test_a_full_buffer_stops_the_pulls_until_something_is_taken(single: ScriptedServer) -> None:
    timing = Timing(assignment_s=NEVER_S, heartbeat_s=0.001)
    single.model.append(queue(), *(b"x" * 60 for _ in range(64)))
    consumer = PullConsumer(
        single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", buffered_bytes_max=60 * 32, timing=timing
    )
    async with consumer:
        await single.asked("PullMessage")
        await single.asked("Heartbeat", len(single.requests["Heartbeat"]) + 10)
        assert pulls(single) == [0]
        await taken(consumer, 1)
        await single.asked("PullMessage", 2)
        assert len(await taken(consumer, 63)) == 63


async def test_the_buffer_is_shared_out_among_the_queues(server: ScriptedServer) -> None:
    async with PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, buffered_messages_max=12, timing=CALM):
        requests = await server.asked("PullMessage", 4)
    assert [request.batch_size for request in requests] == [3] * 4


async def test_hooks_see_what_was_pulled(single: ScriptedServer) -> None:
    class Count(ternmq.Hooks):
        def delivered(self, client_id: str, group: str, views: object) -> None:
            assert isinstance(views, list)
            seen.append((client_id, group, len(views)))

    seen: list[tuple[str, str, int]] = []
    single.model.append(queue(), b"0", b"1")
    hooks = [Count()]
    consumer = PullConsumer(single.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM, hooks=hooks)
    async with consumer:
        await taken(consumer, 2)
    assert seen == [(consumer.client_id, GROUP, 2)]


async def test_a_consumer_outlives_a_restart_of_its_server(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with ScriptedServer(queues=1, port=unused_tcp_port) as before:
        before.model.append(queue(), b"0")
        consumer = PullConsumer(before.endpoint, GROUP, SUBSCRIPTIONS, start_from="earliest", timing=CALM)
        await consumer.start()
        assert await taken_bodies(consumer, 1) == [b"0"]
    async with ScriptedServer(queues=1, port=before.port) as after:
        after.model.append(queue(), b"0", b"1")
        assert await taken_bodies(consumer, 1) == [b"1"]
        await after.asked("Telemetry")
        await consumer.close()
    assert caplog.records == []


async def test_closing_cuts_the_polls_and_says_goodbye(server: ScriptedServer) -> None:
    async with PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, timing=CALM) as consumer:
        await server.asked("PullMessage", 4)
    await consumer.close()
    [goodbye] = server.requests["NotifyClientTermination"]
    assert goodbye.group.name == GROUP


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_from": "somewhere"},
        {"buffered_messages_max": 0},
        {"buffered_bytes_max": 0},
        {"auto_commit_interval": 0.0},
        {"broadcasting": True},
        {"offsets_file": "offsets.json"},
    ],
)
def test_arguments_are_checked_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)) if "start_from" not in wrong else "somewhere"):
        PullConsumer("127.0.0.1:8081", GROUP, SUBSCRIPTIONS, **wrong)  # type: ignore[arg-type]
