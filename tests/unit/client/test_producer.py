"""The producer against a scripted server: what it sends, what it repeats, what it reports."""

import asyncio
import gzip
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

import ternmq
from ternmq import Message, Producer, Timing
from ternmq.errors import TransportError
from ternmq.producing.published_topics import PublishedTopics
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer, sent


async def test_a_sent_message_has_all_that_the_user_gave_it(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        receipt = await producer.send(Message(TOPIC, b"body", tag="t", keys=("k1", "k2"), properties={"a": "b"}))
    [request] = server.requests["SendMessage"]
    [message] = request.messages
    system = message.system_properties
    assert (message.topic.name, message.body, dict(message.user_properties)) == (TOPIC, b"body", {"a": "b"})
    assert (system.tag, list(system.keys), system.message_type) == ("t", ["k1", "k2"], pb.NORMAL)
    assert system.body_encoding == pb.IDENTITY
    assert system.born_timestamp.seconds > 0
    assert receipt == ternmq.SendReceipt(message_id=system.message_id, topic=TOPIC, offset=1)


@pytest.mark.parametrize(
    "first",
    [
        sent(pb.TOO_MANY_REQUESTS),
        sent(pb.INTERNAL_SERVER_ERROR),
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
    ],
)
async def test_a_passing_failure_is_repeated_with_the_same_id(
    server: ScriptedServer, first: rpc.SendMessageResponse | grpc.StatusCode
) -> None:
    server.script("SendMessage", first)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        receipt = await producer.send(Message(TOPIC, b"body"))
    ids = [request.messages[0].system_properties.message_id for request in server.requests["SendMessage"]]
    queues = [request.messages[0].system_properties.queue_id for request in server.requests["SendMessage"]]
    assert ids == [receipt.message_id] * 2
    assert queues[0] != queues[1]


async def test_a_producer_stays_away_as_long_as_the_server_asks(server: ScriptedServer) -> None:
    hint = pb.Status(code=pb.TOO_MANY_REQUESTS, message="too much; try again in 700 ms")
    server.script("SendMessage", rpc.SendMessageResponse(status=hint))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        began = time.monotonic()
        await producer.send(Message(TOPIC, b"body"))
        assert time.monotonic() - began >= 0.7
    assert len(server.requests["SendMessage"]) == 2


@pytest.mark.parametrize("code", [pb.MESSAGE_BODY_TOO_LARGE, pb.TOPIC_NOT_FOUND, pb.UNAUTHORIZED, pb.FORBIDDEN])
async def test_a_refusal_is_not_repeated(server: ScriptedServer, code: pb.Code) -> None:
    server.script("SendMessage", sent(code))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.ClientError) as refused:
            await producer.send(Message(TOPIC, b"body"))
    assert refused.value.code == code
    assert len(server.requests["SendMessage"]) == 1


async def test_attempts_end(server: ScriptedServer) -> None:
    server.script("SendMessage", *[sent(pb.TOO_MANY_REQUESTS)] * 3)
    async with Producer(server.endpoint, topics=[TOPIC], max_attempts=3) as producer:
        with pytest.raises(ternmq.TooManyRequests):
            await producer.send(Message(TOPIC, b"body"))
    assert len(server.requests["SendMessage"]) == 3


async def test_a_server_that_cannot_be_reached_counts_for_no_attempt(server: ScriptedServer) -> None:
    busy = sent(pb.TOO_MANY_REQUESTS)
    away = [*[grpc.StatusCode.UNAVAILABLE] * 3, sent(pb.HA_NOT_AVAILABLE), grpc.StatusCode.CANCELLED]
    server.script("SendMessage", busy, *away, busy)
    async with Producer(server.endpoint, topics=[TOPIC], max_attempts=3) as producer:
        assert (await producer.send(Message(TOPIC, b"body"))).offset == 1
    assert len(server.requests["SendMessage"]) == 8


async def test_what_may_be_stored_twice_is_not_repeated_where_that_is_not_wanted(server: ScriptedServer) -> None:
    server.script("SendMessage", *[grpc.StatusCode.UNAVAILABLE] * 1000)
    async with Producer(server.endpoint, topics=[TOPIC], max_attempts=1) as producer:
        with pytest.raises(ternmq.ConnectionFailed):
            await producer.send(Message(TOPIC, b"body"))
    assert len(server.requests["SendMessage"]) == 1
    async with Producer(server.endpoint, topics=[TOPIC], max_attempts=3) as producer:
        with pytest.raises(ternmq.ConnectionFailed):
            await producer.begin_transaction().send(Message(TOPIC, b"body"))
    assert len(server.requests["SendMessage"]) == 1 + 3


async def test_a_server_that_stays_away_uses_up_the_time(server: ScriptedServer) -> None:
    server.script("SendMessage", *[grpc.StatusCode.UNAVAILABLE] * 1000)
    async with Producer(server.endpoint, topics=[TOPIC], delivery_timeout=1.0) as producer:
        # The second if the time is over while the server answers.
        with pytest.raises((ternmq.ConnectionFailed, ternmq.DeadlineExceeded)):
            await producer.send(Message(TOPIC, b"body"))
    assert len(server.requests["SendMessage"]) > 3
    with pytest.raises(ValueError, match="delivery_timeout=0 must be more than 0"):
        Producer(server.endpoint, delivery_timeout=0)


async def test_a_route_that_does_not_come_in_time_is_an_error_with_the_last_reason(server: ScriptedServer) -> None:
    async def never(_: rpc.QueryRouteRequest) -> rpc.QueryRouteResponse:
        await asyncio.Event().wait()
        return rpc.QueryRouteResponse()

    async with Producer(server.endpoint, delivery_timeout=1.0) as producer:
        server.script("QueryRoute", grpc.StatusCode.UNAVAILABLE, never)
        with pytest.raises(ternmq.ConnectionFailed, match="QueryRoute: UNAVAILABLE"):
            await producer.send(Message(TOPIC, b"body"))
        server.script("QueryRoute", never)
        with pytest.raises(ternmq.DeadlineExceeded, match="no route of invoices in time"):
            await producer.send(Message("invoices", b"body"))


async def test_a_send_outlives_a_restart_of_its_server(unused_tcp_port: int) -> None:
    """Also one to a topic whose route isn't known yet."""
    async with ScriptedServer(port=unused_tcp_port) as before:
        producer = await Producer(before.endpoint, topics=[TOPIC]).start()
    messages = [Message(TOPIC, b"x"), Message("invoices", b"x"), Message(TOPIC, b"x", message_group="g")]
    with pytest.raises(ternmq.ConnectionFailed):  # so it is away, and each send begins by failing
        await producer.recall_handle(TOPIC, "handle")
    sends = [asyncio.create_task(producer.send(message)) for message in messages]
    await asyncio.sleep(0)
    async with ScriptedServer(port=before.port) as after:
        receipts = await asyncio.gather(*sends)
        await producer.close()
    stored = {request.messages[0].system_properties.message_id for request in after.requests["SendMessage"]}
    assert {receipt.message_id for receipt in receipts} <= stored


async def test_requests_behind_one_that_used_up_its_time_are_not_sent(server: ScriptedServer) -> None:
    async def never(_: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.script("SendMessage", never)
    async with Producer(server.endpoint, topics=[TOPIC], delivery_timeout=1.0) as producer:
        with pytest.raises(ternmq.SendManyError, match="1001 of 1001 messages failed") as failed:
            await producer.send_many([Message(TOPIC, b"x")] * 1001)
    assert {len(request.messages) for request in server.requests["SendMessage"]} == {1000}
    assert all(isinstance(outcome, ternmq.DeadlineExceeded) for outcome in failed.value.outcomes)


class BegunSends:
    """The attempts of a producer in the order in which it began them.

    What arrives together at a server of grpc.aio may be handled in another order than it was sent.
    """

    def __init__(self, producer: Producer) -> None:
        self._call = producer._attempts._call
        self._bodies: list[bytes] = []
        self._are_stored: list[bool] = []
        producer._attempts._call = self

    async def __call__(self, endpoints: Any, method: Any, request: Any, timeout_s: float = 0.0) -> Any:  # noqa: ANN401
        place = len(self._bodies)
        [message] = rpc.SendMessageRequest.FromString(request.SerializeToString()).messages
        self._bodies.append(message.body)
        self._are_stored.append(False)
        response = await self._call(endpoints, method, request, timeout_s=timeout_s)
        self._are_stored[place] = response.status.code == pb.OK
        return response

    @property
    def stored(self) -> list[bytes]:
        return [body for body, is_stored in zip(self._bodies, self._are_stored, strict=True) if is_stored]


ORDERED = pytest.mark.parametrize("order", [{"message_group": "g"}, {"lite_topic": "g"}], ids=["group", "lite"])


@ORDERED
@pytest.mark.parametrize(("at_first", "failures"), [(10, 10), (1, 6)], ids=["together", "behind-one"])
async def test_repeated_sends_keep_the_order_of_their_message_group(
    server: ScriptedServer, at_first: int, failures: int, order: dict[str, Any]
) -> None:
    """Those that failed together, and those that are begun while one is being repeated."""
    server.script("SendMessage", *[sent(pb.HA_NOT_AVAILABLE)] * failures)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        begun = BegunSends(producer)
        messages = [Message(TOPIC, b"%d" % number, **order) for number in range(20)]
        sends = [asyncio.create_task(producer.send(message)) for message in messages[:at_first]]
        await server.asked("SendMessage", at_first + 1)  # so the first one is being repeated
        sends += [asyncio.create_task(producer.send(message)) for message in messages[at_first:]]
        await asyncio.gather(*sends)
    assert begun.stored == [message.body for message in messages]


@ORDERED
async def test_sends_that_wait_for_a_route_keep_the_order_of_their_message_group(
    server: ScriptedServer, order: dict[str, Any]
) -> None:
    """The first one to a topic also tells the server of it, and was passed by all others."""
    async with Producer(server.endpoint) as producer:
        begun = BegunSends(producer)
        messages = [Message(TOPIC, b"%d" % number, **order) for number in range(20)]
        await asyncio.gather(*map(producer.send, messages))
    assert begun.stored == [message.body for message in messages]


@ORDERED
async def test_without_a_connection_one_send_of_a_message_group_is_under_way(
    server: ScriptedServer, order: dict[str, Any]
) -> None:
    """gRPC sends what waited for the connection in any order."""
    called: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def answer_when_allowed(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        if request.messages[0].topic.name == TOPIC:
            allowed = asyncio.Event()
            called.put_nowait(allowed)
            await allowed.wait()
        return server._default_SendMessage(request)

    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        server.script("SendMessage", *[answer_when_allowed] * 4)
        is_connected, producer._attempts._is_connected = producer._attempts._is_connected, lambda _: False
        sends = [asyncio.create_task(producer.send(Message(TOPIC, b"x", **order))) for _ in range(3)]
        allowed = await called.get()
        await producer.send(Message("invoices", b"x"))
        assert called.empty()
        producer._attempts._is_connected = is_connected
        allowed.set()
        others = [await called.get() for _ in range(2)]
        for other in others:
            other.set()
        await asyncio.gather(*sends)


async def test_closing_does_not_wait_for_longer_than_a_send_may_take(server: ScriptedServer) -> None:
    server.script("SendMessage", *[grpc.StatusCode.UNAVAILABLE] * 1000)
    producer = await Producer(server.endpoint, topics=[TOPIC], delivery_timeout=0.5).start()
    sending = asyncio.create_task(producer.send(Message(TOPIC, b"x")))
    await server.asked("SendMessage")
    await producer.close()
    assert sending.done()
    # The end may come between two attempts, or within one.
    assert isinstance(sending.exception(), TransportError)


async def test_many_messages_are_one_request(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        receipts = await producer.send_many(Message(TOPIC, b"%d" % number) for number in range(100))
    [request] = server.requests["SendMessage"]
    assert [message.body for message in request.messages] == [b"%d" % number for number in range(100)]
    assert [receipt.offset for receipt in receipts] == list(range(1, 101))


async def test_receipts_are_in_the_order_of_the_call_whatever_the_topics(server: ScriptedServer) -> None:
    messages = [Message(("odd", "even")[number % 2], b"%d" % number) for number in range(20)]
    async with Producer(server.endpoint) as producer:
        receipts = await producer.send_many(messages)
    assert [receipt.topic for receipt in receipts] == [message.topic for message in messages]
    assert sorted(len(request.messages) for request in server.requests["SendMessage"]) == [10, 10]


async def test_one_entry_for_a_whole_batch_means_all_of_it(server: ScriptedServer) -> None:
    entry = rpc.SendResultEntry(status=OK, message_id="AB" * 28, offset=40)
    server.script("SendMessage", rpc.SendMessageResponse(status=OK, entries=[entry]))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        receipts = await producer.send_many(Message(TOPIC, b"%d" % number) for number in range(3))
    [request] = server.requests["SendMessage"]
    assert [receipt.offset for receipt in receipts] == [40, 41, 42]
    assert [receipt.message_id for receipt in receipts] == [
        message.system_properties.message_id for message in request.messages
    ]


def partly(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
    """The second message meets a busy server, the third is refused."""
    codes = [pb.OK, pb.TOO_MANY_REQUESTS, pb.ILLEGAL_MESSAGE_TAG]
    entries = [
        rpc.SendResultEntry(status=pb.Status(code=code), message_id=message.system_properties.message_id, offset=7)
        for code, message in zip(codes, request.messages, strict=True)
    ]
    return rpc.SendMessageResponse(status=pb.Status(code=pb.MULTIPLE_RESULTS), entries=entries)


async def test_only_the_failed_part_is_repeated_and_every_message_has_its_outcome(server: ScriptedServer) -> None:
    server.script("SendMessage", partly)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.SendManyError) as failed:
            await producer.send_many(Message(TOPIC, b"%d" % number) for number in range(3))
    assert [[message.body for message in request.messages] for request in server.requests["SendMessage"]] == [
        [b"0", b"1", b"2"],
        [b"1"],
    ]
    stored, repeated, refused = failed.value.outcomes
    assert isinstance(stored, ternmq.SendReceipt)
    assert isinstance(repeated, ternmq.SendReceipt)
    assert isinstance(refused, ternmq.BadRequest)


@ORDERED
async def test_ordered_messages_of_a_partly_stored_request_are_not_repeated(
    server: ScriptedServer, order: dict[str, Any]
) -> None:
    server.script("SendMessage", partly)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.SendManyError):
            await producer.send_many(Message(TOPIC, b"%d" % number, **order) for number in range(3))
    assert len(server.requests["SendMessage"]) == 1


@ORDERED
async def test_a_message_group_stays_on_its_queue(server: ScriptedServer, order: dict[str, Any]) -> None:
    server.script("SendMessage", sent(pb.TOO_MANY_REQUESTS))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        for _ in range(3):
            await producer.send(Message(TOPIC, b"x", **order))
    queues = {request.messages[0].system_properties.queue_id for request in server.requests["SendMessage"]}
    assert len(queues) == 1


async def test_delays_and_priorities_reach_the_server(server: ScriptedServer) -> None:
    moment = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        await producer.send(Message(TOPIC, b"x", delivery_timestamp=moment))
        await producer.send(Message(TOPIC, b"x", delivery_timestamp=int(moment.timestamp() * 1000)))
        await producer.send(Message(TOPIC, b"x", priority=7))
    first, second, third = (request.messages[0].system_properties for request in server.requests["SendMessage"])
    assert first.delivery_timestamp == second.delivery_timestamp
    assert (first.delivery_timestamp.seconds, first.delivery_timestamp.nanos) == (1_893_553_445, 678_000_000)
    assert (first.message_type, third.message_type, third.priority) == (pb.DELAY, pb.PRIORITY, 7)


async def test_a_delay_counts_from_the_sending_whatever_the_attempts(server: ScriptedServer) -> None:
    message = Message(TOPIC, b"x", delay=timedelta(hours=1))
    server.script("SendMessage", sent(pb.TOO_MANY_REQUESTS))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        began_ns = time.time_ns()
        receipt = await producer.send(message)
        first, second = (request.messages[0].system_properties for request in server.requests["SendMessage"])
        await producer.send(message)
    third = server.requests["SendMessage"][2].messages[0].system_properties
    assert (first.message_type, first.message_id) == (pb.DELAY, receipt.message_id)
    assert first.delivery_timestamp == second.delivery_timestamp
    assert third.delivery_timestamp.ToNanoseconds() > first.delivery_timestamp.ToNanoseconds()
    assert began_ns <= first.delivery_timestamp.ToNanoseconds() - 3600 * 10**9 <= third.born_timestamp.ToNanoseconds()
    assert receipt.recall_handle == f"handle of {receipt.message_id}"


async def test_a_delay_level_is_the_property_of_4x(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        await producer.send(Message(TOPIC, b"x", properties={"a": "b"}, delay_level=3))
    [message] = server.requests["SendMessage"][0].messages
    assert dict(message.user_properties) == {"a": "b", "DELAY": "3"}
    assert message.system_properties.message_type == pb.DELAY
    assert not message.system_properties.HasField("delivery_timestamp")


async def test_long_bodies_are_compressed_when_asked_for(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC], compress_from_bytes=100) as producer:
        await producer.send_many([Message(TOPIC, b"x" * 99), Message(TOPIC, b"x" * 100)])
    short, long = server.requests["SendMessage"][0].messages
    assert (short.body, short.system_properties.body_encoding) == (b"x" * 99, pb.IDENTITY)
    assert (gzip.decompress(long.body), long.system_properties.body_encoding) == (b"x" * 100, pb.GZIP)


async def test_a_body_above_the_limit_of_the_server_is_not_sent(server: ScriptedServer) -> None:
    server.told = pb.Settings(publishing=pb.Publishing(max_body_size=1000))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.PayloadTooLarge):
            await producer.send(Message(TOPIC, b"x" * 1001))
    assert server.requests["SendMessage"] == []


async def test_an_endpoint_that_fails_is_left_alone_until_its_heartbeat(server: ScriptedServer) -> None:
    async with ScriptedServer(queues=1) as other:
        server.queues, server.brokers = 1, {"broker-a": server.port, "broker-b": other.port}
        other.script("SendMessage", grpc.StatusCode.UNAVAILABLE)
        async with Producer(server.endpoint, topics=[TOPIC], timing=Timing(heartbeat_s=1e6)) as producer:
            for _ in range(6):
                await producer.send(Message(TOPIC, b"x"))
            assert len(other.requests["SendMessage"]) == 1
            await producer._send_heartbeats()
            for _ in range(2):
                await producer.send(Message(TOPIC, b"x"))
            assert len(other.requests["SendMessage"]) == 2


async def test_a_new_topic_is_told_to_the_server(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        await producer.send(Message("invoices", b"x"))
        await server.asked("Telemetry", 2)
    told = [topic.name for topic in server.requests["Telemetry"][-1].settings.publishing.topics]
    assert told == ["invoices", TOPIC]


def told_topics(server: ScriptedServer) -> list[str]:
    """Those of the last settings."""
    return [topic.name for topic in server.requests["Telemetry"][-1].settings.publishing.topics]


async def test_settings_name_no_more_topics_than_servers_take(server: ScriptedServer) -> None:
    producer = Producer(server.endpoint, topics=["named"])
    producer._topics = PublishedTopics(["named"], settings_max=3)
    async with producer:
        for topic in ("a", "b", "c", "d", "a"):
            await producer.send(Message(topic, b"body"))
        assert told_topics(server) == ["a", "b", "named"]
        told = len(server.requests["Telemetry"])
        for topic in ("c", "d", "named", "a", "d"):
            async with producer.begin_transaction() as transaction:
                await transaction.send(Message(topic, b"body"))
        # Of whom the server asks how a transaction ends, it must know.
        assert told_topics(server) == ["a", "d", "named"]
        assert len(server.requests["Telemetry"]) == told + 3


async def test_a_producer_of_an_unknown_topic_does_not_start(server: ScriptedServer) -> None:
    status = pb.Status(code=pb.TOPIC_NOT_FOUND, message="no such topic")
    server.script("QueryRoute", rpc.QueryRouteResponse(status=status))
    with pytest.raises(ternmq.NotFound, match="no such topic"):
        await Producer(server.endpoint, topics=[TOPIC]).start()


async def test_a_server_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    with pytest.raises(ternmq.ConnectionFailed, match=f"127.0.0.1:{unused_tcp_port}"):
        await Producer(f"127.0.0.1:{unused_tcp_port}", topics=[TOPIC]).start()


async def test_closing_waits_for_a_send_in_flight(server: ScriptedServer) -> None:
    server.script("SendMessage", sent(pb.TOO_MANY_REQUESTS), sent(pb.TOO_MANY_REQUESTS))
    producer = await Producer(server.endpoint, topics=[TOPIC]).start()
    sending = asyncio.create_task(producer.send(Message(TOPIC, b"x")))
    await server.asked("SendMessage")
    await producer.close()
    assert (await sending).offset == 1
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_a_closed_producer_says_so(server: ScriptedServer) -> None:
    producer = Producer(server.endpoint, topics=[TOPIC])
    with pytest.raises(ternmq.NotRunning, match="was not started"):
        await producer.send(Message(TOPIC, b"x"))
    async with producer:
        pass
    await producer.close()
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await producer.send(Message(TOPIC, b"x"))
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await producer.start()


async def test_a_recall_needs_the_handle_of_a_delayed_message(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        receipt = await producer.send(Message(TOPIC, b"x"))
        with pytest.raises(ternmq.BadRequest, match="isn't a delayed message"):
            await producer.recall(receipt)
        await producer.recall(receipt._replace(recall_handle="handle"))
    [request] = server.requests["RecallMessage"]
    assert (request.topic.name, request.recall_handle) == (TOPIC, "handle")


async def test_a_recall_by_a_stored_handle_says_which_message_it_was(server: ScriptedServer) -> None:
    async with Producer(server.endpoint) as producer:
        assert await producer.recall_handle(TOPIC, "handle") == "id of handle"
        late = pb.Status(code=pb.BAD_REQUEST, message="it was delivered already")
        server.script("RecallMessage", rpc.RecallMessageResponse(status=late))
        with pytest.raises(ternmq.BadRequest, match="it was delivered already"):
            await producer.recall_handle(TOPIC, "handle")


async def test_requests_are_signed(server: ScriptedServer) -> None:
    credentials = ternmq.Credentials("key", "secret", session_token="token")
    async with Producer(server.endpoint, topics=[TOPIC], credentials=credentials) as producer:
        await producer.send(Message(TOPIC, b"x"))
    for name in ("QueryRoute", "Telemetry", "SendMessage", "NotifyClientTermination"):
        metadata = server.metadata[name][0]
        assert metadata["authorization"].startswith("MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, ")
        assert metadata["x-mq-session-token"] == "token"
        assert metadata["x-mq-client-id"] == producer.client_id
        assert metadata["x-mq-language"] == "PYTHON"
    assert "secret" not in repr(credentials)
