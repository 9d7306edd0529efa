"""Telemetry: settings of clients and the answers to them (`overview.md, Settings`)."""

import asyncio

import grpc
import grpc.aio
import pytest

from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.catalog.catalog import Catalog
from tests.support.embedded import Embedded, RawClient, Received
from tests.support.lite import make_lite_group, make_lite_topic
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
COMMON = pb.Settings(
    access_point={"scheme": pb.IPv4, "addresses": [{"host": "10.1.2.3", "port": 8081}]},
    request_timeout=Duration(seconds=3),
    user_agent={"language": pb.RUST, "version": "5.0", "platform": "Linux", "hostname": "host"},
    client_properties={"zone": "a"},
)
STEPS_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


def producer(**publishing: object) -> pb.Settings:
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=publishing)
    settings.MergeFrom(COMMON)
    return settings


def consumer(group: str, kind: "pb.ClientType" = pb.PUSH_CONSUMER, **subscription: object) -> pb.Settings:
    settings = pb.Settings(client_type=kind, subscription={"group": {"name": group}, **subscription})
    settings.MergeFrom(COMMON)
    return settings


def filtered(kind: "pb.FilterType", expression: str) -> dict[str, object]:
    return {"topic": {"name": "orders"}, "expression": {"type": kind, "expression": expression}}


async def refusal(client: RawClient, settings: pb.Settings) -> grpc.StatusCode:
    """The gRPC status that ends the stream after these settings."""
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=settings))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    return ended.value.code()


async def test_headers_come_before_any_command(client: RawClient) -> None:
    stream = client.telemetry()
    async with asyncio.timeout(5):
        await stream.initial_metadata()
    stream.cancel()


async def test_a_producer_is_answered_field_by_field(client: RawClient) -> None:
    topics = [{"name": "orders", "resource_namespace": "tenant"}, {"name": "payments"}]
    sent = producer(topics=topics, max_body_size=134217728, validate_message_type=False)
    sent.metric.on = True
    answer = await client.configure(sent)
    assert answer.status.code == pb.OK
    settings = answer.settings
    assert settings.publishing.topics == sent.publishing.topics
    assert settings.publishing.max_body_size == 4194304
    assert settings.publishing.validate_message_type
    policy = settings.backoff_policy
    assert policy.max_attempts == 3
    assert policy.exponential_backoff.initial == Duration(nanos=10_000_000)
    assert policy.exponential_backoff.max == Duration(seconds=1)
    assert policy.exponential_backoff.multiplier == 2
    assert settings.HasField("metric")
    assert not settings.metric.on
    for echoed in ("client_type", "access_point", "request_timeout", "user_agent", "client_properties"):
        assert getattr(settings, echoed) == getattr(sent, echoed)


@pytest.mark.parametrize(
    "kind",
    [pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER, pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER],
)
async def test_a_consumer_of_any_kind_is_answered_field_by_field(
    client: RawClient, group: str, kind: "pb.ClientType"
) -> None:
    entry = filtered(pb.TAG, "a || b")
    if kind in (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
        topic = await make_lite_topic(client)
        group = await make_lite_group(client, topic)
        entry["topic"] = {"name": topic}
    sent = consumer(group, kind, subscriptions=[entry], fifo=True, long_polling_timeout=Duration(seconds=40))
    answer = await client.configure(sent)
    assert answer.status.code == pb.OK
    subscription = answer.settings.subscription
    assert subscription.group == sent.subscription.group
    assert subscription.subscriptions == sent.subscription.subscriptions
    assert subscription.HasField("fifo")
    assert not subscription.fifo
    assert subscription.receive_batch_size == 32
    assert subscription.long_polling_timeout == Duration(seconds=20)
    assert (subscription.lite_subscription_quota, subscription.max_lite_topic_size) == (2000, 64)
    policy = answer.settings.backoff_policy
    assert policy.max_attempts == 17
    assert [step.seconds for step in policy.customized_backoff.next] == STEPS_S
    assert answer.settings.HasField("metric")
    for echoed in ("client_type", "access_point", "request_timeout", "user_agent", "client_properties"):
        assert getattr(answer.settings, echoed) == getattr(sent, echoed)


async def test_a_groups_own_order_and_attempts_are_told(client: RawClient, group: str) -> None:
    await client.admin("CreateGroup", group={"name": group, "fifo": True, "max_attempts": 4})
    answer = await client.configure(consumer(group))
    assert answer.settings.subscription.fifo
    assert answer.settings.backoff_policy.max_attempts == 4


async def test_fields_that_the_server_does_not_know_are_echoed(client: RawClient) -> None:
    unknown = b"\xfa\x07\x03new"  # field 127, "new"
    stream = client.telemetry()
    settings = producer().SerializeToString() + unknown
    await stream.write(b"\x12" + len(settings).to_bytes(1, "little") + settings)
    answer = await stream.read()
    assert unknown in answer.settings.SerializeToString()
    stream.cancel()


async def test_settings_are_answered_each_time_that_they_come(client: RawClient, group: str) -> None:
    stream = client.telemetry()
    for settings in (producer(), consumer(group), producer()):
        await stream.write(rpc.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert (answer.status.code, answer.settings.WhichOneof("pub_sub")) == (pb.OK, settings.WhichOneof("pub_sub"))
    stream.cancel()


@pytest.mark.parametrize(
    "settings",
    [producer(), producer(topics=[{"name": "never-made"}]), pb.Settings(publishing={})],
    ids=["no topics", "unknown topic", "no client type"],
)
async def test_what_a_producer_may_leave_open_is_accepted(client: RawClient, settings: pb.Settings) -> None:
    assert (await client.configure(settings)).status.code == pb.OK


@pytest.mark.parametrize(
    "entry",
    [
        filtered(pb.TAG, "*"),
        filtered(pb.TAG, ""),
        filtered(pb.FILTER_TYPE_UNSPECIFIED, "*"),
        filtered(pb.SQL, "a > 1"),
        filtered(pb.SQL, "no syntax at all ("),
        {"topic": {"name": "a b"}},
    ],
)
async def test_what_is_not_looked_at_in_a_subscription_is_accepted(
    client: RawClient, group: str, entry: dict[str, object]
) -> None:
    assert (await client.configure(consumer(group, subscriptions=[entry]))).status.code == pb.OK


@pytest.mark.parametrize(
    "settings",
    [
        pb.Settings(client_type=pb.PRODUCER),
        producer(topics=[{"name": "a b"}]),
        producer(topics=[{"name": "orders"}, {"name": ""}]),
        producer(topics=[{"name": "TBW102"}]),
        consumer(""),
        consumer("a b"),
        consumer("CID_RMQ_SYS_mine"),
        consumer("g", subscriptions=[filtered(pb.TAG, "||")]),
        consumer("g", subscriptions=[filtered(pb.SQL, " ")]),
        consumer("g", pb.PRODUCER),
        consumer("g", pb.CLIENT_TYPE_UNSPECIFIED),
    ],
    ids=[
        *("neither", "illegal topic", "blank topic", "system topic", "blank group", "illegal group", "reserved group"),
        *("no tag", "empty SQL", "producer subscribes", "nobody subscribes"),
    ],
)
async def test_settings_that_can_not_be_end_the_stream(client: RawClient, settings: pb.Settings) -> None:
    assert await refusal(client, settings) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_missing_group_ends_the_stream_without_auto_create(strict: RawClient, group: str) -> None:
    assert await refusal(strict, consumer(group)) is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_text_of_a_refusal_begins_with_its_code(strict: RawClient, group: str) -> None:
    """For clients that have an error for each; gRPC has no status for most of them."""
    stream = strict.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=consumer(group)))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stream.read()
    assert (refused.value.details() or "").startswith("CONSUMER_GROUP_NOT_FOUND: ")


async def test_a_missing_group_is_made(client: RawClient, topic: str, group: str) -> None:
    await client.configure(consumer(group, subscriptions=[{"topic": {"name": topic}}]))
    described = await client.admin("DescribeGroup", name=group)
    assert described.status.code == pb.OK
    assert list(described.client_ids) == [client.client_id]


@pytest.mark.parametrize("metadata", [(), (("x-mq-client-id", ""),)])
async def test_without_a_client_id_one_status_comes_and_the_stream_ends_well(
    server: Embedded, metadata: tuple[tuple[str, str], ...]
) -> None:
    async with RawClient(server.grpc, metadata=metadata) as nobody:
        stream = nobody.telemetry()
        await stream.write(rpc.TelemetryCommand(settings=producer()))
        answers = [answer async for answer in stream]
    assert [pb.Code.Name(answer.status.code) for answer in answers] == ["CLIENT_ID_REQUIRED"]
    assert not answers[0].HasField("settings")


async def test_commands_that_ask_for_nothing_are_passed_over(client: RawClient) -> None:
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand())
    await stream.write(rpc.TelemetryCommand(thread_stack_trace={"nonce": "unknown"}))
    await stream.write(rpc.TelemetryCommand(verify_message_result={"nonce": "unknown"}))
    await stream.write(rpc.TelemetryCommand(settings=producer()))
    await stream.done_writing()
    answers = [answer async for answer in stream]
    assert [answer.settings.client_type for answer in answers] == [pb.PRODUCER]


async def test_any_language_is_welcome(server: Embedded) -> None:
    metadata = (("x-mq-client-id", "c"), ("x-mq-language", "klingon"))
    async with RawClient(server.grpc, metadata=metadata) as client:
        assert (await client.configure(producer(topics=[{"name": "orders"}]))).status.code == pb.OK


async def test_a_half_closed_stream_ends_well(client: RawClient) -> None:
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=producer()))
    await stream.done_writing()
    async for _ in stream:
        pass
    assert await stream.code() is grpc.StatusCode.OK


async def test_an_error_that_nobody_foresaw_ends_the_stream_with_a_number_for_the_log(
    client: RawClient, group: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(catalog: Catalog, name: str, topics: list[str]) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Catalog, "ensure_subscribed_group", broken)
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=consumer(group)))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    assert ended.value.code() is grpc.StatusCode.INTERNAL
    number = ended.value.details().split()[-1]
    assert f"Telemetry failed unexpectedly, error {number}" in caplog.text


async def test_a_stream_that_breaks_off_harms_nobody(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=consumer(group)))
    await stream.read()
    await client.send(topic, b"1")
    held: Received = await client.receive(topic, group, auto_renew=True, invisible_s=None)
    stream.cancel()
    await client.channel.close()
    # The client may be back in a moment, so what it holds stays hidden.
    assert held.bodies == [b"1"]
    assert (await other.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
    assert (await other.configure(consumer(group))).status.code == pb.OK
