"""The published admin service on topics, groups and progress (`admin.md, The published service`)."""

import json
from typing import Any

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import PUBLISHED, Embedded, RawClient, code, moment
from tests.support.lite import LiteReader, make_lite_group, make_lite_topic
from tests.system.conftest import SERVER_LOOP
from tests.system.test_retry_and_dead_letters import nack

pytestmark = SERVER_LOOP
NOT_SERVED = ["DeleteSubscription", "PrintThreadStackTrace", "VerifyMessage"]
WITH_STATUS = sorted(method.name for method in PUBLISHED.methods if method.name != "ChangeLogLevel")
GARBAGE_TOPIC = {"name": "no\ttopic"}
HOUR_MS = 3_600_000


def asked(name: str, **fields: Any) -> Any:  # noqa: ANN401 - of the call's own type
    return getattr(published, PUBLISHED.methods_by_name[name].input_type.name)(**fields)


async def told(client: RawClient, name: str, **fields: Any) -> Any:  # noqa: ANN401 - of the call's own type
    """The answer to a call that must succeed."""
    answer = await client.published(name, asked(name, **fields))
    assert code(answer) == "OK", answer.status.message
    return answer


async def refused(client: RawClient, name: str, **fields: Any) -> str:  # noqa: ANN401
    """The code of a call that must not."""
    answer = await client.published(name, asked(name, **fields))
    assert answer.status.message
    return code(answer)


# --- every call


@pytest.mark.parametrize("name", [name for name in WITH_STATUS if name != "GetProxyRuntimeStats"])
async def test_an_empty_request_is_answered_with_what_is_wrong(client: RawClient, name: str) -> None:
    assert await refused(client, name) in {
        "BAD_REQUEST",
        "ILLEGAL_TOPIC",
        "ILLEGAL_CONSUMER_GROUP",
        "NOT_IMPLEMENTED",
    }


@pytest.mark.parametrize("name", WITH_STATUS)
async def test_a_client_id_is_not_needed(server: Embedded, name: str) -> None:
    async with RawClient(server.grpc, metadata=()) as nobody:
        assert code(await nobody.published(name, asked(name))) != "CLIENT_ID_REQUIRED"


@pytest.mark.parametrize(
    "name", [name for name in WITH_STATUS if name not in NOT_SERVED and hasattr(asked(name), "topic")]
)
async def test_topics_that_are_none_or_not_there_are_refused(strict: RawClient, group: str, name: str) -> None:
    fields: dict[str, Any] = {"group": {"name": group}} if hasattr(asked(name), "group") else {}
    if name == "AdminSendMessage":
        fields["body"] = b"x"
    if name == "ResetGroupOffset":
        fields["reset_timestamp"] = moment(0)
    if fields.get("group"):
        await strict.create_group(group)
    assert await refused(strict, name, topic=GARBAGE_TOPIC, **fields) == "ILLEGAL_TOPIC"
    assert await refused(strict, name, topic={"name": "nothing-there"}, **fields) == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize(
    "name", [name for name in WITH_STATUS if name not in NOT_SERVED and hasattr(asked(name), "group")]
)
async def test_groups_that_are_none_or_not_there_are_refused(client: RawClient, group: str, name: str) -> None:
    assert await refused(client, name, group={"name": "no group"}) == "ILLEGAL_CONSUMER_GROUP"
    assert await refused(client, name, group={"name": group}) == "CONSUMER_GROUP_NOT_FOUND"


@pytest.mark.parametrize("name", NOT_SERVED)
async def test_what_nothing_here_can_carry_out_is_not_implemented_and_says_why(client: RawClient, name: str) -> None:
    answer = await client.published(name, asked(name))
    assert code(answer) == "NOT_IMPLEMENTED"
    assert name in answer.status.message


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("DescribeGroupAccumulation", {"lite_topic": "l"}),
        ("ListConsumerConnection", {"liteTopic": "l"}),
    ],
)
async def test_lite_topics_are_read_by_lite_groups_alone(
    client: RawClient, group: str, name: str, fields: dict[str, str]
) -> None:
    await client.create_group(group)
    assert await refused(client, name, group={"name": group}, **fields) == "BAD_REQUEST"


async def test_what_a_lite_group_has_to_do_in_a_lite_topic_and_who_reads_it(client: RawClient) -> None:
    reader = await lite_reader(client)
    await reader.subscribe("a")
    await client.send(reader.topic, b"1", b"2", b"3", lite_topic="a")
    await reader.receive(batch_size=1)
    by_name = {"group": {"name": reader.group}}
    answer = await told(client, "DescribeGroupAccumulation", lite_topic="a", **by_name)
    for shown in (answer.accumulation, answer.lite_topic_accumulation["a"]):
        assert (shown.inflight_messages, shown.ready_messages, shown.accumulation) == (1, 2, 3)
    together = await told(client, "DescribeGroupAccumulation", **by_name)
    assert together.accumulation.accumulation == 3
    found = await told(client, "ListConsumerConnection", liteTopic="a", **by_name)
    assert [each.client_id for each in found.client_info] == [client.client_id]
    assert not (await told(client, "ListConsumerConnection", liteTopic="b", **by_name)).client_info


async def lite_reader(client: RawClient) -> LiteReader:
    topic = await make_lite_topic(client)
    return LiteReader(client, topic, await make_lite_group(client, topic))


# --- topics


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO, pb.DELAY])
async def test_a_topic_is_described_by_its_type_and_its_making(
    client: RawClient, new_topic: str, kind: "pb.MessageType"
) -> None:
    before_ms = await client.server_ms()
    await client.create_topic(new_topic, kind=kind)
    answer = await told(client, "DescribeTopicStatus", topic={"name": new_topic}, deployment_name="ignored")
    assert answer.topic_message_type == kind
    assert before_ms <= answer.create_timestamp.ToMilliseconds() <= await client.server_ms()
    assert not answer.HasField("description")
    assert not answer.tags


async def test_of_a_mixed_topic_no_one_type_is_told(client: RawClient, new_topic: str) -> None:
    topic = admin_pb2.Topic(name=new_topic, mixed=True)
    assert code(await client.admin("CreateTopic", topic=topic)) == "OK"
    answer = await told(client, "DescribeTopicStatus", topic={"name": new_topic})
    assert answer.topic_message_type == pb.MESSAGE_TYPE_UNSPECIFIED


async def test_a_route_is_told_as_json_in_rocketmqs_form(client: RawClient, server: Embedded, new_topic: str) -> None:
    await client.create_topic(new_topic, queues=3)
    answer = await told(client, "GetTopicRoute", topic={"name": new_topic})
    broker = server.settings.broker_name
    assert json.loads(answer.topic_route_data) == {
        "brokerDatas": [{"brokerName": broker, "brokerAddrs": {"0": server.grpc}}],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": broker, "perm": 6, "readQueueNums": 3, "topicSysFlag": 0, "writeQueueNums": 3}],
    }


@pytest.mark.parametrize(("permission", "perm"), [(pb.READ, 4), (pb.WRITE, 2)])
async def test_a_route_says_what_is_permitted(
    client: RawClient, topic: str, permission: "pb.Permission", perm: int
) -> None:
    await client.update_topic(topic, permission=permission)
    answer = await told(client, "GetTopicRoute", topic={"name": topic})
    assert [queue["perm"] for queue in json.loads(answer.topic_route_data)["queueDatas"]] == [perm]


async def test_a_topic_that_nobody_may_use_has_no_route(client: RawClient, topic: str) -> None:
    await client.update_topic(topic, permission=pb.NONE)
    assert await refused(client, "GetTopicRoute", topic={"name": topic}) == "FORBIDDEN"


async def test_a_topic_that_its_first_message_would_make_has_no_route_yet(client: RawClient, new_topic: str) -> None:
    assert await refused(client, "GetTopicRoute", topic={"name": new_topic}) == "TOPIC_NOT_FOUND"
    assert code(await client.call("QueryRoute", topic={"name": new_topic})) == "OK"


# --- what a group has to do


async def test_what_is_in_flight_and_what_is_ready_is_told_by_topic_and_together(
    client: RawClient, group: str, new_topic: str
) -> None:
    one, two = f"{new_topic}-1", f"{new_topic}-2"
    for name, bodies in ((one, 5), (two, 2)):
        await client.create_topic(name)
        assert not (await client.receive(name, group)).messages
        await client.send(name, *(b"body" for _ in range(bodies)))
    received = await client.receive(one, group, batch_size=3)
    handles = [each.system_properties.receipt_handle for each in received.messages]
    await client.ack(one, group, handles[0])
    answer = await told(client, "DescribeGroupAccumulation", group={"name": group})
    figures = {
        name: (each.inflight_messages, each.ready_messages, each.accumulation)
        for name, each in answer.topic_accumulation.items()
    }
    assert figures == {one: (2, 2, 4), two: (0, 2, 2)}
    total = answer.accumulation
    assert (total.inflight_messages, total.ready_messages, total.accumulation) == (2, 4, 6)
    assert 0 <= total.deliver_delay_time.ToMilliseconds() < HOUR_MS
    assert total.last_consume_timestamp == 0
    of_one = await told(client, "DescribeGroupAccumulation", group={"name": group}, topics=[{"name": two}])
    assert list(of_one.topic_accumulation) == [two]
    assert of_one.accumulation.accumulation == 2


async def test_what_waits_for_a_retry_is_of_the_group_and_of_no_topic(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"one")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    answer = await told(client, "DescribeGroupAccumulation", group={"name": group})
    by_topic = {name: each.accumulation for name, each in answer.topic_accumulation.items()}
    assert by_topic == {topic: 0, f"%RETRY%{group}": 1}
    assert answer.accumulation.accumulation == 1
    of_topic = await told(client, "DescribeGroupAccumulation", group={"name": group}, topics=[{"name": topic}])
    assert of_topic.accumulation.accumulation == 0
    spans = (await told(client, "QueryTimeSpan", group={"name": group})).queue_time_span_list
    assert [span.message_queue.topic.name for span in spans] == [topic]


async def test_of_more_topics_than_an_answer_may_have_those_with_the_most_are_told(
    brief: RawClient, group: str, new_topic: str
) -> None:
    await brief.create_group(group)
    topics = [await brief.create_topic(f"{new_topic}-{number}") for number in range(3)]
    for number, name in enumerate(topics, 1):
        await brief.send(name, *(b"body" for _ in range(number)))
    named = [{"name": name} for name in topics]
    answer = await told(brief, "DescribeGroupAccumulation", group={"name": group}, topics=named)
    assert list(answer.topic_accumulation) == topics[-1:]
    assert answer.accumulation.accumulation == 6
    assert "only" in answer.status.message


async def test_times_of_more_queues_than_may_be_asked_for_are_refused(
    brief: RawClient, group: str, new_topic: str
) -> None:
    await brief.create_topic(new_topic, queues=2)
    await brief.create_group(group)
    for _ in range(2):
        await brief.send(new_topic, b"body")
    fields = {"group": {"name": group}, "topics": [{"name": new_topic}]}
    assert await refused(brief, "QueryTimeSpan", **fields) == "BAD_REQUEST"


async def test_a_group_that_has_finished_everything_has_no_delay(client: RawClient, topic: str, group: str) -> None:
    await client.create_group(group)
    await client.send(topic, b"one")
    received = await client.receive(topic, group)
    await client.ack(topic, group, received.messages[0].system_properties.receipt_handle)
    answer = await told(client, "DescribeGroupAccumulation", group={"name": group})
    assert answer.accumulation.accumulation == 0
    assert not answer.accumulation.HasField("deliver_delay_time")


@pytest.mark.parametrize("name", ["DescribeGroupAccumulation", "QueryTimeSpan"])
async def test_each_topic_that_is_named_must_be_there(client: RawClient, topic: str, group: str, name: str) -> None:
    await client.create_group(group)
    missing = [{"name": topic}, {"name": "nothing-there"}]
    assert await refused(client, name, group={"name": group}, topics=missing) == "TOPIC_NOT_FOUND"
    assert await refused(client, name, group={"name": group}, topics=[GARBAGE_TOPIC]) == "ILLEGAL_TOPIC"
    many = [{"name": topic}] * 1025
    assert await refused(client, name, group={"name": group}, topics=many) == "TOO_MANY_REQUESTS"


async def test_time_spans_are_those_of_the_messages_that_a_queue_holds(timed: RawClient, group: str) -> None:
    topic = await timed.create_topic(f"spans-{group}")
    await timed.create_group(group)
    stored_ms: list[int] = []
    for body in (b"first", b"second", b"third"):
        await timed.send(topic, body)
        stored_ms.append(await _stored_ms(timed, topic, body, len(stored_ms)))
        await timed.advance(5)
    received = await timed.receive(topic, group, batch_size=2, invisible_s=3600.0)
    for each in received.messages:
        await timed.ack(topic, group, each.system_properties.receipt_handle)
    (span,) = (await told(timed, "QueryTimeSpan", group={"name": group})).queue_time_span_list
    assert (span.message_queue.topic.name, span.message_queue.id) == (topic, 0)
    assert [span.min_timestamp, span.consume_timestamp, span.max_timestamp] == stored_ms
    assert 5000 <= span.delay_time_ms < HOUR_MS
    (named,) = (
        await told(timed, "QueryTimeSpan", group={"name": group}, topics=[{"name": topic}])
    ).queue_time_span_list
    assert named.max_timestamp == span.max_timestamp


async def _stored_ms(client: RawClient, topic: str, body: bytes, queue_offset: int) -> int:
    request = rpc.PullMessageRequest(message_queue={"topic": {"name": topic}}, offset=queue_offset, batch_size=1)
    items = [item async for item in client.stream("PullMessage", request)]
    (message,) = [item.message for item in items if item.WhichOneof("content") == "message"]
    assert message.body == body
    milliseconds: int = message.system_properties.store_timestamp.ToMilliseconds()
    return milliseconds


async def test_a_group_that_was_never_there_has_consumed_nothing(client: RawClient, topic: str, group: str) -> None:
    await client.create_group(group)
    await client.send(topic, b"one")
    answer = await told(client, "QueryTimeSpan", group={"name": group}, topics=[{"name": topic}])
    (span,) = answer.queue_time_span_list
    assert span.consume_timestamp == 0
    assert span.min_timestamp == span.max_timestamp > 0


# --- resetting


async def test_a_group_goes_on_at_a_time(timed: RawClient, group: str) -> None:
    topic = await timed.create_topic(f"reset-{group}")
    await timed.create_group(group)
    await timed.send(topic, b"old")
    between_ms = await timed.advance(10)
    await timed.advance(10)
    await timed.send(topic, b"new")
    names = {"group": {"name": group}, "topic": {"name": topic}}
    await told(timed, "ResetGroupOffset", reset_timestamp=moment(between_ms), **names)
    assert (await timed.receive(topic, group)).bodies == [b"new"]
    await told(timed, "ResetGroupOffset", reset_timestamp=moment(0), **names)
    assert (await timed.receive(topic, group)).bodies == [b"old", b"new"]


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63)])
async def test_times_that_no_calendar_has_are_before_or_after_everything(
    client: RawClient, topic: str, group: str, seconds: int
) -> None:
    await client.create_group(group)
    await client.send(topic, b"one")
    names = {"group": {"name": group}, "topic": {"name": topic}}
    await told(client, "ResetGroupOffset", reset_timestamp={"seconds": seconds}, **names)
    assert (await client.receive(topic, group)).bodies == ([b"one"] if seconds < 0 else [])


async def test_a_reset_without_a_time_is_refused_and_moves_nothing(client: RawClient, topic: str, group: str) -> None:
    await client.create_group(group)
    await client.send(topic, b"one")
    names = {"group": {"name": group}, "topic": {"name": topic}}
    assert await refused(client, "ResetGroupOffset", **names) == "BAD_REQUEST"
    assert (await client.receive(topic, group)).bodies == [b"one"]
