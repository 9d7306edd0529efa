"""The push consumer against a scripted server: who is called when, and how deliveries are settled."""

import asyncio
import threading
import zlib
from datetime import timedelta

import grpc
import pytest

from ternmq import ConsumeResult, MessageView, PushConsumer, RetryLater, Timing
from ternmq.consuming.listener_calls import Listener
from ternmq.consuming.message_returns import ATTEMPTS
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

FIFO_LATER = pb.Settings(
    subscription=pb.Subscription(fifo=True),
    backoff_policy=pb.RetryPolicy(
        max_attempts=9, customized_backoff=pb.CustomizedBackoff(next=[Duration(seconds=3600)])
    ),
)
SUBSCRIPTIONS = {TOPIC: "*"}
# Retries without waiting: 1 ms is the shortest delay that isn't none.
SOON = pb.CustomizedBackoff(next=[Duration(nanos=1_000_000)])
QUICK = Timing(error_pause_s=0.001)


def ordered(max_attempts: int = 3) -> pb.Settings:
    return pb.Settings(
        subscription=pb.Subscription(fifo=True),
        backoff_policy=pb.RetryPolicy(max_attempts=max_attempts, customized_backoff=SOON),
    )


def acked(server: ScriptedServer) -> set[str]:
    return {entry.message_id for request in server.requests["AckMessage"] for entry in request.entries}


async def test_success_acknowledges(server: ScriptedServer) -> None:
    seen: list[bytes] = []

    async def listener(view: MessageView) -> None:
        seen.append(view.body)

    server.deliver(stored_message(1), stored_message(2))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        await server.asked("AckMessage")
    [receive, *_] = server.requests["ReceiveMessage"]
    assert sorted(seen) == [b"body 1", b"body 2"]
    assert acked(server) == {"id-1", "id-2"}
    assert receive.auto_renew
    assert (receive.message_queue.id, receive.long_polling_timeout.seconds) == (-1, 20)


async def test_acknowledgements_gather_while_one_is_on_its_way(server: ScriptedServer) -> None:
    server.deliver(*map(stored_message, range(30)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, lambda _: None, concurrency=30):
        await server.asked("AckMessage")
    assert acked(server) == {f"id-{number}" for number in range(30)}
    assert len(server.requests["AckMessage"]) < 30


async def fails(view: MessageView) -> ConsumeResult:
    return ConsumeResult.FAILURE


async def raises(view: MessageView) -> None:
    raise RuntimeError("scripted")


@pytest.mark.parametrize("listener", [fails, raises])
async def test_failure_gives_back_with_the_back_off_of_the_attempt(server: ScriptedServer, listener: Listener) -> None:
    policy = pb.RetryPolicy(
        max_attempts=17, customized_backoff=pb.CustomizedBackoff(next=[Duration(seconds=1), Duration(seconds=5)])
    )
    server.told = pb.Settings(backoff_policy=policy)
    server.deliver(stored_message(1, attempt=1), stored_message(2, attempt=2), stored_message(9, attempt=9))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        changes = await server.asked("ChangeInvisibleDuration", 3)
    assert {change.message_id: change.invisible_duration.seconds for change in changes} == {
        "id-1": 1,
        "id-2": 5,
        "id-9": 5,
    }
    assert acked(server) == set()


@pytest.mark.parametrize(
    ("delay_s", "asked_s"),
    [(0, 0.001), (0.0001, 0.001), (0.5, 0.5), (7, 7), (12 * 3600, 12 * 3600)],  # 0 would mean: the group's back-off
)
async def test_a_listener_says_when_it_wants_the_message_again(
    server: ScriptedServer, delay_s: float, asked_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    def listener(_: MessageView) -> None:
        raise RetryLater(timedelta(seconds=delay_s))

    server.deliver(stored_message(1))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        [change] = await server.asked("ChangeInvisibleDuration")
    assert change.invisible_duration.ToTimedelta() == timedelta(seconds=asked_s)
    assert acked(server) == set()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_ordered_message_that_is_wanted_later_is_repeated_here_by_its_attempts(server: ScriptedServer) -> None:
    server.told = ordered(max_attempts=3)
    # The group's own back-off is longer than the test's time.
    server.told.backoff_policy.customized_backoff.CopyFrom(pb.CustomizedBackoff(next=[Duration(seconds=3600)]))
    attempts: list[int] = []

    async def listener(view: MessageView) -> None:
        attempts.append(view.delivery_attempt)
        raise RetryLater(timedelta(0))

    server.deliver(stored_message(1, group="a"))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        await server.asked("ForwardMessageToDeadLetterQueue")
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize("seconds", [-1, 12 * 3600 + 1])
def test_a_delay_that_no_server_takes_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 12 hours"):
        RetryLater(timedelta(seconds=seconds))


async def test_plain_listeners_run_in_threads_and_not_more_than_allowed(server: ScriptedServer) -> None:
    together, apart = threading.Barrier(4), threading.Lock()
    threads: set[str] = set()

    def listener(_: MessageView) -> None:
        together.wait(timeout=30)
        with apart:
            threads.add(threading.current_thread().name)

    server.deliver(*map(stored_message, range(8)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, concurrency=4):
        # What was not begun when it closes is given back.
        await until(lambda: len(acked(server)) == 8)
    assert acked(server) == {f"id-{number}" for number in range(8)}
    assert len(threads) == 4
    assert threading.main_thread().name not in threads


async def test_a_message_group_keeps_its_order_while_others_go_on(server: ScriptedServer) -> None:
    server.told = ordered()
    running: dict[str, int] = {}
    order: dict[str, list[int]] = {"a": [], "b": []}
    b_done, a_done = asyncio.Event(), asyncio.Event()

    async def listener(view: MessageView) -> None:
        group = view.message_group or ""
        running[group] = running.get(group, 0) + 1
        assert running[group] == 1
        if group == "a":
            await b_done.wait()
        order[group].append(view.offset)
        if len(order["b"]) == 5:
            b_done.set()
        if len(order["a"]) == 5:
            a_done.set()
        running[group] -= 1

    server.deliver(*(stored_message(number, group="ab"[number % 2]) for number in range(10)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        await a_done.wait()
    assert order == {"a": [0, 2, 4, 6, 8], "b": [1, 3, 5, 7, 9]}


async def test_an_ordered_message_is_repeated_here_and_holds_up_its_group(server: ScriptedServer) -> None:
    server.told = ordered(max_attempts=5)
    calls: list[tuple[int, int]] = []

    async def listener(view: MessageView) -> ConsumeResult:
        calls.append((view.offset, view.delivery_attempt))
        return ConsumeResult.SUCCESS if view.delivery_attempt == 3 or view.offset == 2 else ConsumeResult.FAILURE

    server.deliver(stored_message(1, group="a"), stored_message(2, group="a"))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        while acked(server) != {"id-1", "id-2"}:
            await server.asked("AckMessage", len(server.requests["AckMessage"]) + 1)
    assert calls == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert server.requests["ChangeInvisibleDuration"] == []


async def test_an_ordered_message_without_attempts_left_is_a_dead_letter(server: ScriptedServer) -> None:
    server.told = ordered(max_attempts=2)
    server.deliver(stored_message(1, group="a"))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, fails):
        [forward] = await server.asked("ForwardMessageToDeadLetterQueue")
    assert (forward.message_id, forward.delivery_attempt, forward.max_delivery_attempts) == ("id-1", 2, 2)


async def test_settling_is_repeated_until_the_server_answers(server: ScriptedServer) -> None:
    server.deliver(stored_message(1))
    busy = rpc.AckMessageResponse(status=pb.Status(code=pb.TOO_MANY_REQUESTS))
    server.script("AckMessage", grpc.StatusCode.UNAVAILABLE, busy)
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, lambda _: None, timing=QUICK):
        requests = await server.asked("AckMessage", 3)
    assert [request.entries[0].message_id for request in requests] == ["id-1"] * 3


async def test_an_expired_delivery_is_not_settled_again(server: ScriptedServer) -> None:
    entry = rpc.AckMessageResultEntry(status=pb.Status(code=pb.INVALID_RECEIPT_HANDLE))
    server.script("AckMessage", rpc.AckMessageResponse(status=entry.status, entries=[entry]))
    server.deliver(stored_message(1))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, lambda _: None, timing=QUICK):
        await server.asked("AckMessage")
    assert len(server.requests["AckMessage"]) == 1


async def test_a_corrupted_message_is_given_back_unseen(server: ScriptedServer) -> None:
    message = stored_message(1)
    message.system_properties.body_digest.CopyFrom(pb.Digest(type=pb.MD5, checksum="00" * 16))
    seen: list[MessageView] = []
    server.deliver(message)
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, seen.append):
        await server.asked("ChangeInvisibleDuration")
    assert seen == []


async def test_a_body_that_would_not_fit_into_memory_does_not_stop_the_consumer(server: ScriptedServer) -> None:
    """It goes the way of every message that fails; those behind it are consumed."""
    deflate = zlib.compressobj(9)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(65)) + deflate.flush()
    poison = stored_message(1, body=bomb)
    poison.system_properties.body_encoding = pb.GZIP
    seen: list[int] = []
    server.deliver(poison, stored_message(2))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, lambda view: seen.append(view.offset)):
        (given_back, *_) = await server.asked("ChangeInvisibleDuration")
        await server.asked("AckMessage")
    assert given_back.message_id == "id-1"
    assert seen == [2]


async def test_the_attempt_id_changes_only_when_messages_came(server: ScriptedServer) -> None:
    server.told = ordered()
    server.end_poll(pb.MESSAGE_NOT_FOUND)
    server.break_poll(stored_message(1, group="a"))
    server.deliver(stored_message(1, group="a"))
    seen: list[int] = []

    async def listener(view: MessageView) -> None:
        seen.append(view.offset)

    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, timing=QUICK):
        requests = await server.asked("ReceiveMessage", 4)
    ids = [request.attempt_id for request in requests[:4]]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert seen == [1]


async def test_a_full_cache_stops_polling(server: ScriptedServer) -> None:
    go_on = asyncio.Event()
    all_started = asyncio.Barrier(5)

    async def listener(_: MessageView) -> None:
        await all_started.wait()
        await go_on.wait()

    server.deliver(*map(stored_message, range(4)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, cached_messages_max=4):
        await all_started.wait()
        [first] = server.requests["ReceiveMessage"]
        go_on.set()
        await server.asked("ReceiveMessage", 2)
    assert first.batch_size == 4


@pytest.mark.parametrize(("options", "asked"), [({"concurrency": 1}, 3), ({}, 32), ({"cached_messages_max": 9}, 9)])
async def test_polls_ask_for_what_there_is_time_for(
    server: ScriptedServer, options: dict[str, int], asked: int
) -> None:
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, fails, **options):  # type: ignore[arg-type]
        [receive] = await server.asked("ReceiveMessage")
    assert receive.batch_size == asked


async def test_polls_of_several_queues_share_the_room(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0, 1, 2))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, fails, timing=Timing(assignment_s=1e6)):
        requests = await server.asked("ReceiveMessage", 3)
    assert [request.batch_size for request in requests] == [20] * 3


async def test_a_poll_asks_for_no_more_than_is_free(server: ScriptedServer) -> None:
    go_on = asyncio.Event()

    async def listener(view: MessageView) -> None:
        if view.offset < 3:
            await go_on.wait()

    server.deliver(*map(stored_message, range(7)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, concurrency=4):
        first, second = await server.asked("ReceiveMessage", 2)
        go_on.set()
    assert first.batch_size == 12
    assert 5 <= second.batch_size <= 9


async def test_message_groups_that_wait_for_their_next_try_do_not_keep_others_from_coming(
    server: ScriptedServer,
) -> None:
    server.told = FIFO_LATER
    server.deliver(*(stored_message(number, group="a") for number in range(20)))
    server.deliver(*(stored_message(number, group="b") for number in range(20, 40)))
    server.deliver(stored_message(40, group="c"))

    async def listener(view: MessageView) -> ConsumeResult:
        return ConsumeResult.SUCCESS if view.message_group == "c" else ConsumeResult.FAILURE

    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, concurrency=1):
        await server.asked("AckMessage")
    assert acked(server) == {"id-40"}


def given_back(server: ScriptedServer) -> dict[str, tuple[float, bool]]:
    """For how many seconds it shall stay hidden, and whether its attempt is not counted."""
    return {
        change.message_id: (change.invisible_duration.seconds + change.invisible_duration.nanos / 1e9, change.suspend)
        for change in server.requests["ChangeInvisibleDuration"]
    }


async def test_closing_ends_what_runs_gives_back_the_rest_at_once_and_says_goodbye_last(
    server: ScriptedServer,
) -> None:
    first_is_in, go_on = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def listener(view: MessageView) -> None:
        first_is_in.set()
        await go_on.wait()
        seen.append(view.offset)

    server.deliver(*map(stored_message, range(5)))
    consumer = PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, concurrency=1)
    await consumer.start()
    await first_is_in.wait()
    closing = asyncio.create_task(consumer.close())
    await server.asked("ChangeInvisibleDuration", 4)
    assert not closing.done()
    go_on.set()
    await closing
    assert seen == [0]
    assert acked(server) == {"id-0"}
    assert given_back(server) == {f"id-{number}": (0.0, True) for number in range(1, 5)}
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_closing_gives_ordered_messages_back_with_the_wait_that_a_failed_one_has_left(
    server: ScriptedServer,
) -> None:
    server.told = FIFO_LATER
    both_are_in, go_on = asyncio.Barrier(3), asyncio.Event()

    async def listener(view: MessageView) -> ConsumeResult:
        await both_are_in.wait()
        if view.message_group == "runs":
            await go_on.wait()
        return ConsumeResult.FAILURE

    groups = ["waits", "runs"]
    server.deliver(*(stored_message(number, group=groups[number % 2]) for number in range(6)))
    consumer = PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener)
    await consumer.start()
    await both_are_in.wait()
    assert consumer._consumption is not None
    parked = consumer._consumption._parked
    await until(lambda: bool(parked))
    closing = asyncio.create_task(consumer.close())
    await server.asked("ChangeInvisibleDuration", 5)
    go_on.set()
    await closing
    told = given_back(server)
    assert {place: told.pop(place)[1] for place in ("id-0", "id-1")} == {"id-0": False, "id-1": False}
    assert told == {f"id-{number}": (0.0, True) for number in range(2, 6)}
    waits = {
        change.message_id: change.invisible_duration.seconds for change in server.requests["ChangeInvisibleDuration"]
    }
    assert waits["id-1"] == 3600
    assert 3000 < waits["id-0"] <= 3600


async def test_closing_gives_up_what_a_server_that_is_away_does_not_take_back(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    first_is_in = asyncio.Event()

    async def listener(_: MessageView) -> None:
        first_is_in.set()
        await asyncio.Event().wait()

    server.script("ChangeInvisibleDuration", *[grpc.StatusCode.UNAVAILABLE] * 4 * ATTEMPTS)
    server.deliver(*map(stored_message, range(5)))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, concurrency=1, drain_timeout=0.01):
        await first_is_in.wait()
    assert "4 messages could not be given back in time; the first failure: " in caplog.text


async def test_closing_does_not_wait_for_a_listener_that_hangs(server: ScriptedServer) -> None:
    hanging = asyncio.Event()

    async def listener(_: MessageView) -> None:
        hanging.set()
        await asyncio.Event().wait()

    server.deliver(stored_message(1))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener, drain_timeout=0.01):
        await hanging.wait()
    assert acked(server) == set()


async def test_polls_follow_the_assignment(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0, 1), grpc.StatusCode.UNAVAILABLE, server.assigned(1, 2))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, fails, timing=Timing(assignment_s=1e6)) as consumer:
        await server.asked("ReceiveMessage", 2)
        await consumer._assign_queues()
        assert {queue.queue_id for queue in consumer._receiving} == {0, 1}
        await consumer._assign_queues()
        assert {queue.queue_id for queue in consumer._receiving} == {1, 2}
        requests = await server.asked("ReceiveMessage", 3)
    assert sorted(request.message_queue.id for request in requests) == [0, 1, 2]


@pytest.mark.parametrize(("listener", "code"), [(lambda _: None, pb.OK), (fails, pb.FAILED_TO_CONSUME_MESSAGE)])
async def test_an_operator_can_verify_a_message(server: ScriptedServer, listener: Listener, code: pb.Code) -> None:
    command = rpc.VerifyMessageCommand(nonce="n", message=stored_message(1))
    async with PushConsumer(server.endpoint, "g", SUBSCRIPTIONS, listener):
        server.commands.put_nowait(rpc.TelemetryCommand(verify_message_command=command))
        _, answer = await server.asked("Telemetry", 2)
    assert (answer.verify_message_result.nonce, answer.status.code) == ("n", code)
    assert server.requests["AckMessage"] == []


async def test_a_consumer_outlives_a_restart_of_its_server(unused_tcp_port: int) -> None:
    async with ScriptedServer(port=unused_tcp_port) as before:
        before.deliver(stored_message(1))
        consumer = PushConsumer(before.endpoint, "g", SUBSCRIPTIONS, lambda _: None, timing=QUICK)
        await consumer.start()
        await before.asked("AckMessage")
    async with ScriptedServer(port=before.port) as after:
        after.deliver(stored_message(2))
        await after.asked("AckMessage")
        await after.asked("Telemetry")
        await consumer.close()
    assert acked(before) == {"id-1"}
    # The first acknowledgement comes again if the server ended before its answer was out.
    assert {"id-2"} <= acked(after) <= {"id-1", "id-2"}
