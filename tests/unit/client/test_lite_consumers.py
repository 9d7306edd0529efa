"""Consumers of lite topics against a scripted server: what they tell it, what they refuse, how they settle."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

import ternmq
import ternmq.blocking
from ternmq import LiteBegin, LitePushConsumer, LiteSimpleConsumer, MessageView, Suspend, Tail, Timing
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

QUICK = Timing(error_pause_s=0.001)
Told = list[tuple["pb.LiteSubscriptionAction", list[str]]]


def told(server: ScriptedServer) -> Told:
    return [(request.action, list(request.lite_topic_set)) for request in server.requests["SyncLiteSubscription"]]


def refusal(code: pb.Code) -> rpc.SyncLiteSubscriptionResponse:
    return rpc.SyncLiteSubscriptionResponse(status=pb.Status(code=code, message="scripted"))


def dropped(name: str) -> rpc.TelemetryCommand:
    return rpc.TelemetryCommand(notify_unsubscribe_lite_command=rpc.NotifyUnsubscribeLiteCommand(lite_topic=name))


def quota_of(quota: int, bytes_max: int = 64) -> pb.Settings:
    return pb.Settings(
        subscription=pb.Subscription(lite_subscription_quota=quota, max_lite_topic_size=bytes_max),
        backoff_policy=pb.RetryPolicy(
            max_attempts=3, customized_backoff=pb.CustomizedBackoff(next=[Duration(nanos=1_000_000)])
        ),
    )


def simple(server: ScriptedServer, **options: Any) -> LiteSimpleConsumer:  # noqa: ANN401 - of any client
    return LiteSimpleConsumer(server.endpoint, "g", TOPIC, **options)


def nothing(_: MessageView) -> None: ...


# --- what servers are told


@pytest.mark.parametrize("kind", [pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER])
async def test_the_settings_name_the_topic_and_the_start_tells_that_nothing_is_subscribed(
    server: ScriptedServer, kind: "pb.ClientType"
) -> None:
    pushed = LitePushConsumer(server.endpoint, "g", TOPIC, nothing)
    async with pushed if kind == pb.LITE_PUSH_CONSUMER else simple(server) as consumer:
        assert consumer.lite_topics == frozenset()
    settings = server.requests["Telemetry"][0].settings
    [subscription] = settings.subscription.subscriptions
    assert (settings.client_type, subscription.topic.name, subscription.expression.expression) == (kind, TOPIC, "*")
    [first, *_] = server.requests["SyncLiteSubscription"]
    assert (first.topic.name, first.group.name) == (TOPIC, "g")
    assert told(server) == [(pb.COMPLETE_ADD, [])]
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_changes_are_told_as_they_are_made(server: ScriptedServer) -> None:
    async with simple(server, lite_topics=["a", "b"]) as consumer:
        assert consumer.lite_topics == {"a", "b"}
        await consumer.subscribe_lite("c")
        await consumer.unsubscribe_lite("a")
        assert consumer.lite_topics == {"b", "c"}
    assert told(server) == [
        (pb.COMPLETE_ADD, []),
        (pb.PARTIAL_ADD, ["a", "b"]),
        (pb.PARTIAL_ADD, ["c"]),
        (pb.PARTIAL_REMOVE, ["a"]),
    ]


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("earliest", pb.OffsetOption(policy=pb.OffsetOption.MIN)),
        ("latest", pb.OffsetOption(policy=pb.OffsetOption.MAX)),
        (0, pb.OffsetOption(offset=0)),
        (17, pb.OffsetOption(offset=17)),
        (Tail(3), pb.OffsetOption(tail_n=3)),
        (datetime(2030, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC), pb.OffsetOption(timestamp=1_893_553_445_678)),
        (datetime(1969, 1, 1, tzinfo=UTC), pb.OffsetOption(timestamp=0)),
    ],
)
async def test_a_subscription_says_where_to_begin(
    server: ScriptedServer, begin: LiteBegin, expected: pb.OffsetOption
) -> None:
    async with simple(server) as consumer:
        await consumer.subscribe_lite("a", begin)
        await consumer.subscribe_lite("a")
    _, first, second = server.requests["SyncLiteSubscription"]
    assert first.offset_option == expected
    assert first.offset_option.WhichOneof("offset_type")
    assert not second.HasField("offset_option")


@pytest.mark.parametrize("begin", [-1, True, "newest", 1 << 63, 1.5, datetime(2030, 1, 1)])  # noqa: DTZ001
async def test_a_begin_that_is_none_is_refused(server: ScriptedServer, begin: Any) -> None:  # noqa: ANN401
    async with simple(server) as consumer:
        with pytest.raises(ValueError, match=r"begin|time zone"):
            await consumer.subscribe_lite("a", begin)
        assert consumer.lite_topics == frozenset()
    with pytest.raises(ValueError, match="must not be negative"):
        Tail(-1)


async def test_all_is_told_again_and_again(server: ScriptedServer) -> None:
    async with simple(server, lite_topics=["b", "a"], timing=Timing(lite_sync_s=0.001)):
        await server.asked("SyncLiteSubscription", 4)
    assert told(server)[2:4] == [(pb.COMPLETE_ADD, ["a", "b"])] * 2


async def test_a_server_that_takes_the_settings_anew_is_told_at_once(unused_tcp_port: int) -> None:
    async with ScriptedServer(port=unused_tcp_port) as before:
        consumer = await simple(before, lite_topics=["a"]).start()
        await consumer.subscribe_lite("b")
    busy = refusal(pb.HA_NOT_AVAILABLE)
    async with ScriptedServer(port=before.port) as after:
        after.script("SyncLiteSubscription", busy)  # its brokers may come later than it does
        await after.asked("SyncLiteSubscription", 2)
        await consumer.close()
    assert told(after) == [(pb.COMPLETE_ADD, ["a", "b"])] * 2


async def test_an_older_word_is_never_the_last(server: ScriptedServer) -> None:
    """What tells all that is subscribed must not arrive behind what adds to it."""
    go_on = asyncio.Event()

    async def slow(_: rpc.SyncLiteSubscriptionRequest) -> rpc.SyncLiteSubscriptionResponse:
        await go_on.wait()
        return rpc.SyncLiteSubscriptionResponse(status=pb.Status(code=pb.OK))

    async with simple(server, lite_topics=["a"]) as consumer:
        server.script("SyncLiteSubscription", slow)
        await consumer._schedule_full_sync()
        await server.asked("SyncLiteSubscription", 3)
        adding = asyncio.create_task(consumer.subscribe_lite("b"))
        await asyncio.sleep(0)
        assert len(server.requests["SyncLiteSubscription"]) == 3
        go_on.set()
        await adding
    assert told(server)[2:] == [(pb.COMPLETE_ADD, ["a"]), (pb.PARTIAL_ADD, ["b"])]


async def test_every_server_of_the_route_is_told_and_one_that_is_away_when_it_is_back(
    server: ScriptedServer, unused_tcp_port: int
) -> None:
    server.brokers = {"broker-a": server.port, "broker-b": unused_tcp_port}
    async with simple(server) as consumer:
        await consumer.subscribe_lite("a")
        with pytest.raises(ternmq.ConnectionFailed):
            await consumer.subscribe_lite("b", "earliest")  # which a later word would not say
        assert consumer.lite_topics == {"a"}
        async with ScriptedServer(port=unused_tcp_port) as late:
            await late.asked("SyncLiteSubscription")
            await consumer.close()
    assert told(late)[0] == (pb.COMPLETE_ADD, ["a"])


async def test_a_server_that_is_away_adds_nothing(server: ScriptedServer) -> None:
    async with simple(server) as consumer:
        server.script("SyncLiteSubscription", grpc.StatusCode.UNAVAILABLE)
        with pytest.raises(ternmq.ConnectionFailed):
            await consumer.subscribe_lite("a")
        assert consumer.lite_topics == frozenset()
        # It may have it nevertheless.
        await server.asked("SyncLiteSubscription", 3)
    assert told(server)[-1] == (pb.COMPLETE_ADD, [])


async def test_nothing_is_told_behind_the_goodbye(server: ScriptedServer) -> None:
    order: list[str] = []

    async def slow(_: rpc.SyncLiteSubscriptionRequest) -> rpc.SyncLiteSubscriptionResponse:
        await asyncio.sleep(0)
        order.append("told")
        return rpc.SyncLiteSubscriptionResponse(status=pb.Status(code=pb.OK))

    def goodbye(_: rpc.NotifyClientTerminationRequest) -> rpc.NotifyClientTerminationResponse:
        order.append("goodbye")
        return rpc.NotifyClientTerminationResponse(status=pb.Status(code=pb.OK))

    consumer = await simple(server).start()
    server.script("SyncLiteSubscription", *[slow] * 100)
    server.script("NotifyClientTermination", goodbye)
    adding = [asyncio.create_task(consumer.subscribe_lite(f"n{number}")) for number in range(5)]
    await server.asked("SyncLiteSubscription", 2)
    await consumer.close()
    outcomes = await asyncio.gather(*adding, return_exceptions=True)
    assert order[-1] == "goodbye"
    assert order.count("told") == outcomes.count(None)
    assert all(outcome is None or isinstance(outcome, ternmq.NotRunning) for outcome in outcomes)
    with pytest.raises(ternmq.NotRunning):
        await consumer.subscribe_lite("a")


# --- what is refused


@pytest.mark.parametrize("name", ["", " ", "a b", "a%b", "ä", "a.b", "x" * 65, "\ud800", "\n"])
async def test_a_name_that_no_lite_topic_has_is_refused_here(server: ScriptedServer, name: str) -> None:
    async with simple(server) as consumer:
        for call in (consumer.subscribe_lite, consumer.unsubscribe_lite):
            with pytest.raises(ternmq.BadRequest) as refused:
                await call(name)
            assert refused.value.code == pb.ILLEGAL_LITE_TOPIC
    with pytest.raises(ternmq.BadRequest):
        simple(server, lite_topics=[name])
    assert told(server) == [(pb.COMPLETE_ADD, [])]


def test_names_that_are_one_string_are_not_taken_apart() -> None:
    with pytest.raises(TypeError, match="lite_topics is a list of names"):
        LiteSimpleConsumer("127.0.0.1:1", "g", TOPIC, lite_topics="abc")


async def test_the_quota_and_the_length_of_names_are_those_that_the_server_tells(server: ScriptedServer) -> None:
    server.told = quota_of(2, bytes_max=5)
    async with simple(server, lite_topics=["a"]) as consumer:
        await consumer.subscribe_lite("b")
        await consumer.subscribe_lite("b")
        with pytest.raises(ternmq.LiteSubscriptionQuotaExceeded):
            await consumer.subscribe_lite("c")
        with pytest.raises(ternmq.BadRequest, match="1 to 5 letters"):
            await consumer.subscribe_lite("longer")
        await consumer.unsubscribe_lite("a")
        await consumer.subscribe_lite("c")
        assert consumer.lite_topics == {"b", "c"}
    with pytest.raises(ternmq.LiteSubscriptionQuotaExceeded):
        await simple(server, lite_topics=["a", "b", "c"]).start()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, ternmq.LiteSubscriptionQuotaExceeded),
        (pb.ILLEGAL_LITE_TOPIC, ternmq.BadRequest),
        (pb.TOO_MANY_REQUESTS, ternmq.TooManyRequests),
    ],
)
async def test_what_the_server_refuses_is_not_subscribed(
    server: ScriptedServer, code: pb.Code, error: type[ternmq.ClientError]
) -> None:
    async with simple(server, lite_topics=["a"]) as consumer:
        for number, name in enumerate(("a", "b")):
            server.script("SyncLiteSubscription", refusal(code))
            with pytest.raises(error):
                await consumer.subscribe_lite(name)
            await server.asked("SyncLiteSubscription", 4 + 2 * number)  # another server might have taken it
        assert consumer.lite_topics == {"a"}
    assert told(server)[-1] == (pb.COMPLETE_ADD, ["a"])


# --- what the server drops


class Dropped(ternmq.Hooks):
    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def lite_topic_dropped(self, client_id: str, group: str, lite_topic: str) -> None:
        self.heard.append((client_id, group, lite_topic))


async def test_what_the_server_drops_is_dropped_and_told_to_the_hooks(server: ScriptedServer) -> None:
    hook = Dropped()
    async with simple(server, lite_topics=["a", "b"], hooks=[hook]) as consumer:
        for name in ("a", "unknown"):
            server.commands.put_nowait(dropped(name))
        server.commands.put_nowait(dropped("b"))
        await until(lambda: not consumer.lite_topics)
        await consumer.subscribe_lite("a")
        assert consumer.lite_topics == {"a"}
    assert hook.heard == [(consumer.client_id, "g", "a"), (consumer.client_id, "g", "b")]


async def test_what_is_dropped_before_its_addition_is_answered_stays_dropped(server: ScriptedServer) -> None:
    hook = Dropped()

    async def taken_over(_: rpc.SyncLiteSubscriptionRequest) -> rpc.SyncLiteSubscriptionResponse:
        server.commands.put_nowait(dropped("a"))
        await until(lambda: bool(hook.heard))
        return rpc.SyncLiteSubscriptionResponse(status=pb.Status(code=pb.OK))

    async with simple(server, hooks=[hook]) as consumer:
        server.script("SyncLiteSubscription", taken_over)
        await consumer.subscribe_lite("a")
        assert consumer.lite_topics == frozenset()


# --- settling


async def test_a_simple_consumer_settles_with_the_lite_topic(server: ScriptedServer) -> None:
    server.deliver(*(stored_message(number, lite_topic="ab"[number]) for number in range(2)))
    async with simple(server, lite_topics=["a", "b"]) as consumer:
        first, second = await consumer.receive()
        assert (first.lite_topic, second.lite_topic) == ("a", "b")
        await consumer.ack([first])
        await second.nack(timedelta(seconds=5))
    [ack] = server.requests["AckMessage"]
    [change] = server.requests["ChangeInvisibleDuration"]
    assert (ack.entries[0].lite_topic, change.lite_topic, change.suspend) == ("a", "b", False)


async def test_a_lite_topic_keeps_its_order_while_others_go_on(server: ScriptedServer) -> None:
    server.told = quota_of(10)
    order: dict[str, list[int]] = {"a": [], "b": []}
    b_done = asyncio.Event()

    async def listener(view: MessageView) -> None:
        assert view.lite_topic is not None
        if view.lite_topic == "a":
            await b_done.wait()
            if view.offset == 2 and view.delivery_attempt < 3:
                raise RuntimeError("scripted")
        order[view.lite_topic].append(view.offset)
        if len(order["b"]) == 5:
            b_done.set()

    server.deliver(*(stored_message(number, lite_topic="ab"[number % 2]) for number in range(10)))
    async with LitePushConsumer(server.endpoint, "g", TOPIC, listener, lite_topics=["a", "b"]):
        await until(lambda: acked(server) == {f"id-{number}" for number in range(10)})
    assert order == {"a": [0, 2, 4, 6, 8], "b": [1, 3, 5, 7, 9]}
    assert {entry.lite_topic for request in server.requests["AckMessage"] for entry in request.entries} == {"a", "b"}
    assert server.requests["ChangeInvisibleDuration"] == []


def acked(server: ScriptedServer) -> set[str]:
    return {entry.message_id for request in server.requests["AckMessage"] for entry in request.entries}


async def test_the_last_attempt_is_forwarded_with_the_lite_topic(server: ScriptedServer) -> None:
    server.told = quota_of(10)

    def listener(_: MessageView) -> None:
        raise RuntimeError("scripted")

    server.deliver(stored_message(1, lite_topic="a"))
    async with LitePushConsumer(server.endpoint, "g", TOPIC, listener, lite_topics=["a"]):
        [forward] = await server.asked("ForwardMessageToDeadLetterQueue")
    assert (forward.lite_topic, forward.delivery_attempt) == ("a", 3)


async def test_a_suspended_lite_topic_gives_back_all_of_it_that_is_here(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str | None, int]] = []

    async def listener(view: MessageView) -> None:
        seen.append((view.lite_topic, view.offset))
        if view.lite_topic == "a" and view.offset == 2:
            raise Suspend(timedelta(seconds=60))

    server.deliver(*(stored_message(number, lite_topic="ab"[number % 2]) for number in range(8)))
    async with LitePushConsumer(server.endpoint, "g", TOPIC, listener, lite_topics=["a", "b"]):
        changes = await server.asked("ChangeInvisibleDuration", 3)
        await until(lambda: len(acked(server)) == 5)
        server.deliver(stored_message(2, lite_topic="a", attempt=1), stored_message(8, lite_topic="a"))
        await server.asked("ChangeInvisibleDuration", 5)
    given_back = [
        (change.message_id, change.lite_topic, change.invisible_duration.seconds, change.suspend) for change in changes
    ]
    assert given_back[:3] == [(f"id-{number}", "a", 60, True) for number in (2, 4, 6)]
    assert [change.message_id for change in changes[3:]] == ["id-2", "id-8"]
    assert acked(server) == {"id-0", "id-1", "id-3", "id-5", "id-7"}
    assert ("a", 4) not in seen
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(milliseconds=49), timedelta(hours=12, seconds=1)])
def test_a_suspension_has_its_limits(delay: timedelta) -> None:
    with pytest.raises(ValueError, match="from 50 ms to 12 hours"):
        Suspend(delay)


async def test_other_listeners_can_not_suspend(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    def listener(_: MessageView) -> None:
        raise Suspend(timedelta(seconds=60))

    server.deliver(stored_message(1))
    async with ternmq.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener):
        [change] = await server.asked("ChangeInvisibleDuration")
    assert (change.invisible_duration.seconds, change.suspend) == (1, False)
    assert "the listener failed" in caplog.text


@pytest.mark.parametrize("by_server", [True, False])
async def test_what_was_not_begun_of_a_lite_topic_that_is_left_goes_back(
    server: ScriptedServer, by_server: bool
) -> None:
    """Also what failed and waits for its next try: others would wait for it as long."""
    server.told = quota_of(10)
    server.told.backoff_policy.customized_backoff.CopyFrom(pb.CustomizedBackoff(next=[Duration(seconds=3600)]))
    both_are_in, go_on = asyncio.Barrier(3), asyncio.Event()
    seen: list[int] = []

    async def listener(view: MessageView) -> None:
        seen.append(view.offset)
        if view.lite_topic != "stays":
            await both_are_in.wait()
            if view.lite_topic == "runs":
                await go_on.wait()
            raise RuntimeError("scripted")

    names = ["waits", "runs", "stays"]
    server.deliver(*(stored_message(number, lite_topic=names[number % 3]) for number in range(9)))
    async with LitePushConsumer(server.endpoint, "g", TOPIC, listener, lite_topics=names) as consumer:
        await both_are_in.wait()
        consumption = consumer._consumption
        assert consumption is not None
        await until(lambda: bool(consumption._parked) and len(acked(server)) == 3)
        for name in ("waits", "runs"):
            if by_server:
                server.commands.put_nowait(dropped(name))
            else:
                await consumer.unsubscribe_lite(name)
        await server.asked("ChangeInvisibleDuration", 5)
        go_on.set()
        changes = await server.asked("ChangeInvisibleDuration", 6)
        await until(lambda: not consumption.messages)
        assert consumption.free_messages == consumption._lanes_max
        server.deliver(stored_message(10, lite_topic="stays"))
        await until(lambda: len(acked(server)) == 4)
    back = {change.message_id: (round(change.invisible_duration.seconds, -2), change.suspend) for change in changes}
    assert back == {
        "id-0": (3600, False),
        "id-1": (3600, False),
        **{f"id-{number}": (0, True) for number in (3, 4, 6, 7)},
    }
    assert sorted(seen) == [0, 1, 2, 5, 8, 10]


async def test_closing_gives_back_what_was_not_begun(server: ScriptedServer) -> None:
    is_in, go_on = asyncio.Event(), asyncio.Event()

    async def listener(_: MessageView) -> None:
        is_in.set()
        await go_on.wait()

    server.deliver(*(stored_message(number, lite_topic="a") for number in range(3)))
    consumer = await LitePushConsumer(server.endpoint, "g", TOPIC, listener, lite_topics=["a"]).start()
    await is_in.wait()
    closing = asyncio.create_task(consumer.close())
    changes = await server.asked("ChangeInvisibleDuration", 2)
    go_on.set()
    await closing
    assert {(change.message_id, change.lite_topic, change.suspend) for change in changes} == {
        ("id-1", "a", True),
        ("id-2", "a", True),
    }
    assert acked(server) == {"id-0"}


# --- without async


async def test_the_blocking_ones_do_the_same(server: ScriptedServer) -> None:
    seen = threading.Event()

    def use() -> None:
        with ternmq.blocking.LiteSimpleConsumer(server.endpoint, "g", TOPIC, lite_topics=["a"]) as consumer:
            [view] = consumer.receive(1)
            view.ack()
            consumer.subscribe_lite("b", Tail(2))
            consumer.unsubscribe_lite("a")
            assert consumer.lite_topics == {"b"}
        with ternmq.blocking.LitePushConsumer(server.endpoint, "g", TOPIC, lambda _: seen.set()) as pushed:
            pushed.subscribe_lite("a")
            assert seen.wait(timeout=60)

    server.deliver(stored_message(1, lite_topic="a"))
    using = asyncio.create_task(asyncio.to_thread(use))
    await server.asked("AckMessage")
    server.deliver(stored_message(2, lite_topic="a"))
    await using
    await until(lambda: acked(server) == {"id-1", "id-2"})
