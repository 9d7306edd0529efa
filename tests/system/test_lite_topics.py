"""Lite topics: sent, subscribed, received in order, settled, suspended, taken over, dropped when nobody uses them."""

import asyncio
import re

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from ternmq_common.limits import LITE_QUOTA_SLACK
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, RawClient, code, duration, message
from tests.support.lite import LiteReader, in_journal, make_lite_group, make_lite_topic
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0


@pytest_asyncio.fixture(loop_scope="session")
async def lite_topic(client: RawClient) -> str:
    return await make_lite_topic(client)


@pytest_asyncio.fixture(loop_scope="session")
async def reader(client: RawClient, lite_topic: str) -> LiteReader:
    return LiteReader(client, lite_topic, await make_lite_group(client, lite_topic))


async def send(client: RawClient, topic: str, name: str, *bodies: bytes) -> rpc.SendMessageResponse:
    return await client.send(topic, *bodies, lite_topic=name)


def bodies(taken: "list[tuple[str, bytes]]", name: str) -> list[bytes]:
    return [body for lite_topic, body in taken if lite_topic == name]


# --- what operators see


async def test_totals_and_lag_are_those_of_all_lite_topics(client: RawClient, reader: LiteReader) -> None:
    names = ("taken", "untouched", "unwanted")
    for number, name in enumerate(names, start=1):
        await send(client, reader.topic, name, *(b"%d" % each for each in range(number * 2)))
    described = await client.admin("DescribeTopic", name=reader.topic)
    assert (described.lite_topics, described.lite_messages) == (3, 12)
    await reader.subscribe("taken", "untouched")
    assert await lag(client, reader.group) == 6, "nobody of the group subscribes the others"
    received = await reader.receive(poll_s=POLL_S, batch_size=1)
    await reader.ack(received.messages)
    assert await lag(client, reader.group) == 5
    everything = await make_lite_group(client, reader.topic, wildcard=True)
    every = LiteReader(client, reader.topic, everything)
    assert code(await every.sync(pb.COMPLETE_ADD)) == "OK"
    assert await lag(client, everything) == 12


async def lag(client: RawClient, group: str) -> int:
    described = await client.admin("DescribeGroup", name=group)
    return sum(row.max_offset - row.cursor + row.in_flight for row in described.progress)


async def test_messages_of_lite_topics_are_found_by_key_and_by_id(client: RawClient, lite_topic: str) -> None:
    for name in ("a", "b"):
        await client.send(lite_topic, name.encode(), lite_topic=name, keys=["order-1"])
    sent = await client.send(lite_topic, b"c", lite_topic="a", keys=["order-2"])
    found = await client.admin("QueryMessages", topic=lite_topic, key="order-1")
    assert [(each.body, each.system_properties.lite_topic) for each in found.messages] == [(b"b", "b"), (b"a", "a")]
    assert {each.topic.name for each in found.messages} == {lite_topic}
    [by_id] = (await client.admin("QueryMessages", topic=lite_topic, key=sent.entries[0].message_id)).messages
    assert by_id.body == b"c"


# --- sending and receiving


async def test_what_is_sent_to_a_lite_topic_comes_to_who_subscribes_it(reader: LiteReader) -> None:
    await reader.subscribe("a")
    sent = await send(reader.client, reader.topic, "a", b"1", b"2")
    received = await reader.receive(poll_s=POLL_S)
    assert received.bodies == [b"1", b"2"]
    first = received.messages[0]
    assert (first.topic.name, first.system_properties.lite_topic) == (reader.topic, "a")
    assert first.system_properties.message_type == pb.LITE
    assert (first.system_properties.queue_id, first.system_properties.queue_offset) == (0, sent.entries[0].offset)
    assert received.attempts == [1, 1]
    assert await reader.ack(received.messages) == ["OK", "OK"]
    assert (await reader.receive()).code == "MESSAGE_NOT_FOUND"


async def test_messages_that_were_sent_before_anybody_subscribed_come_too(reader: LiteReader) -> None:
    await send(reader.client, reader.topic, "a", b"1", b"2")
    await reader.subscribe("a")
    assert await reader.taken(2) == [("a", b"1"), ("a", b"2")]


async def test_a_message_that_is_hidden_holds_up_its_lite_topic_alone(timed: RawClient) -> None:
    topic = await make_lite_topic(timed)
    reader = LiteReader(timed, topic, await make_lite_group(timed, topic))
    await reader.subscribe("a", "b")
    await send(timed, topic, "a", b"1", b"2")
    received = await reader.receive(batch_size=1)
    assert code(await reader.change(received.messages[0], 60)) == "OK"
    await send(timed, topic, "b", b"x")
    assert await reader.taken(1) == [("b", b"x")]
    assert (await reader.receive()).code == "MESSAGE_NOT_FOUND"
    await timed.advance(61)
    again = await reader.receive(poll_s=POLL_S)
    assert (again.bodies, again.attempts) == ([b"1", b"2"], [2, 1])


async def test_the_last_attempt_makes_a_dead_letter_and_the_next_message_follows(timed: RawClient) -> None:
    topic = await make_lite_topic(timed)
    reader = LiteReader(timed, topic, await make_lite_group(timed, topic, settings={"max_attempts": 2}))
    await reader.subscribe("a")
    await send(timed, topic, "a", b"1", b"2")
    for attempt in (1, 2):
        received = await reader.receive(batch_size=1, invisible_s=10, poll_s=POLL_S)
        assert (received.bodies, received.attempts) == ([b"1"], [attempt])
        await timed.advance(11)
    assert await reader.taken(1) == [("a", b"2")]
    letters = await timed.receive(f"%DLQ%{reader.group}", f"{reader.group}-dead", poll_s=POLL_S)
    assert letters.bodies == [b"1"]
    [letter] = letters.messages
    assert letter.system_properties.dead_letter_queue.topic == topic


async def test_a_dead_letter_that_is_resent_comes_to_its_lite_topic_again(reader: LiteReader) -> None:
    await reader.subscribe("a")
    await send(reader.client, reader.topic, "a", b"1")
    [received] = (await reader.receive()).messages
    assert code(await reader.dead_letter(received)) == "OK"
    answer = await reader.client.admin("ResendDeadLetters", group=reader.group, offsets=[0])
    assert [pb.Code.Name(letter.status.code) for letter in answer.letters] == ["OK"]
    assert await reader.taken(1) == [("a", b"1")]


async def test_a_handle_settles_nothing_of_another_lite_topic(reader: LiteReader) -> None:
    await reader.subscribe("a")
    await send(reader.client, reader.topic, "a", b"1")
    [received] = (await reader.receive()).messages
    handle = received.system_properties.receipt_handle
    received.system_properties.lite_topic = "b"
    assert await reader.ack([received]) == ["INVALID_RECEIPT_HANDLE"]
    for name in ("b", "", "a b", "a.a"):
        received.system_properties.receipt_handle = handle.removesuffix("a") + name
        for said in ("a", "b", ""):
            received.system_properties.lite_topic = said
            assert await reader.ack([received]) == ["INVALID_RECEIPT_HANDLE"]
    received.system_properties.receipt_handle = handle
    received.system_properties.lite_topic = "a"
    assert await reader.ack([received]) == ["OK"]


async def test_a_client_that_does_not_repeat_the_lite_topic_settles_its_messages(reader: LiteReader) -> None:
    await reader.subscribe("a")
    await send(reader.client, reader.topic, "a", b"1", b"2")
    [first, second] = (await reader.receive()).messages
    for received in (first, second):
        received.system_properties.ClearField("lite_topic")
    assert await reader.ack([second]) == ["OK"]
    assert code(await reader.change(first, 0)) == "OK"
    assert (await reader.receive()).bodies == [b"1"]
    assert await reader.ack([second]) == ["OK"]


async def test_a_message_is_given_up_by_its_handle_alone(reader: LiteReader) -> None:
    await reader.subscribe("a")
    await send(reader.client, reader.topic, "a", b"1", b"2")
    [received] = (await reader.receive(batch_size=1)).messages
    received.system_properties.ClearField("lite_topic")
    assert code(await reader.dead_letter(received)) == "OK"
    assert await reader.taken(1) == [("a", b"2")]
    letters = await reader.client.receive(f"%DLQ%{reader.group}", f"{reader.group}-dead", poll_s=POLL_S)
    assert letters.bodies == [b"1"]


async def test_a_second_acknowledgement_is_fine(server: Embedded, reader: LiteReader) -> None:
    await reader.subscribe("a")
    await send(reader.client, reader.topic, "a", b"1")
    received = await reader.receive()
    assert await reader.ack(received.messages) == ["OK"]
    await in_journal(reader, "a", server.settings.data_dir)
    assert await reader.ack(received.messages) == ["OK"]
    await send(reader.client, reader.topic, "a", b"2")
    assert await reader.ack(received.messages) == ["OK"]
    assert await reader.taken(1) == [("a", b"2")]


async def test_what_a_group_finished_does_not_come_again_after_it_rested(server: Embedded, reader: LiteReader) -> None:
    await reader.subscribe("a")
    for number in range(4):
        await send(reader.client, reader.topic, "a", b"%d" % number)
        assert await reader.taken(1) == [("a", b"%d" % number)]
        if number % 2:
            await in_journal(reader, "a", server.settings.data_dir)


async def test_messages_of_an_answer_that_nobody_reads_are_there_again(reader: LiteReader) -> None:
    await reader.subscribe("a")
    poll = asyncio.create_task(reader.receive(poll_s=POLL_S))
    await reader.receive()  # the server has the other call too
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await send(reader.client, reader.topic, "a", b"1")
    assert await reader.taken(1) == [("a", b"1")]


# --- subscriptions


async def test_the_complete_set_replaces_what_was_subscribed(reader: LiteReader) -> None:
    await reader.subscribe("a", "b")
    assert code(await reader.sync(pb.COMPLETE_ADD, "b", "c")) == "OK"
    for name in ("a", "b", "c"):
        await send(reader.client, reader.topic, name, name.encode())
    assert sorted(await reader.taken(2)) == [("b", b"b"), ("c", b"c")]
    assert (await reader.receive()).code == "MESSAGE_NOT_FOUND"
    assert code(await reader.sync(pb.COMPLETE_REMOVE)) == "OK"
    await send(reader.client, reader.topic, "b", b"b2")
    assert (await reader.receive(poll_s=0.2)).code == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ({}, [b"0", b"1", b"2"], [b"3"]),
        ({"policy": pb.OffsetOption.LAST}, [b"0", b"1", b"2"], [b"3"]),
        ({"policy": pb.OffsetOption.MIN}, [b"0", b"1", b"2"], [b"0", b"1", b"2", b"3"]),
        ({"policy": pb.OffsetOption.MAX}, [], []),
        ({"offset": 1}, [b"1", b"2"], [b"1", b"2", b"3"]),
        ({"offset": 9}, [], []),
        ({"tail_n": 1}, [b"2"], [b"3"]),
        ({"tail_n": 9}, [b"0", b"1", b"2"], [b"0", b"1", b"2", b"3"]),
        ({"timestamp": 1}, [b"0", b"1", b"2"], [b"0", b"1", b"2", b"3"]),
        ({"timestamp": 1 << 60}, [], []),
    ],
)
async def test_an_offset_option_says_where_the_group_is(
    reader: LiteReader, option: dict[str, int], first: list[bytes], second: list[bytes]
) -> None:
    await send(reader.client, reader.topic, "a", b"0", b"1", b"2")
    await reader.subscribe("a", **option)
    assert bodies(await reader.taken(len(first)), "a") == first
    await reader.unsubscribe("a")
    await send(reader.client, reader.topic, "a", b"3")
    await reader.subscribe("a", **option)
    assert bodies(await reader.taken(len(second)), "a") == second
    assert (await reader.receive()).code == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize("option", [{"offset": -1}, {"tail_n": -1}, {"timestamp": -1}])
async def test_an_offset_option_that_no_queue_has_is_refused(reader: LiteReader, option: dict[str, int]) -> None:
    assert code(await reader.sync(pb.PARTIAL_ADD, "a", **option)) == "ILLEGAL_OFFSET"


async def test_a_group_that_begins_with_the_latest_gets_what_is_sent_after_it_subscribed(client: RawClient) -> None:
    topic = await make_lite_topic(client)
    group = await make_lite_group(client, topic, settings={"consume_from": "latest"})
    reader = LiteReader(client, topic, group)
    await send(client, topic, "a", b"before")
    await reader.subscribe("a", "b")
    await send(client, topic, "a", b"after")
    await send(client, topic, "b", b"new")
    assert sorted(await reader.taken(2)) == [("a", b"after"), ("b", b"new")]


@pytest.mark.parametrize("name", ["", " ", "x" * 65, "a b", "a%b", "ä", "a.b", "a$b", "\n"])
async def test_names_that_no_lite_topic_has_are_refused(reader: LiteReader, name: str) -> None:
    assert code(await reader.sync(pb.PARTIAL_ADD, name)) == "ILLEGAL_LITE_TOPIC"


async def test_more_than_the_quota_and_its_slack_is_refused_and_changes_nothing(client: RawClient) -> None:
    topic = await make_lite_topic(client)
    reader = LiteReader(client, topic, await make_lite_group(client, topic, quota=2))
    most = 2 + LITE_QUOTA_SLACK
    await reader.subscribe(*(f"n{number}" for number in range(most)))
    for action in (pb.PARTIAL_ADD, pb.COMPLETE_ADD):
        answer = await reader.sync(action, *(f"m{number}" for number in range(most + 1)))
        assert code(answer) == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    assert code(await reader.sync(pb.PARTIAL_ADD, "one-more")) == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    await send(client, topic, "n7", b"1")
    assert await reader.taken(1) == [("n7", b"1")]


async def test_the_settings_tell_the_quota(client: RawClient, lite_topic: str) -> None:
    group = await make_lite_group(client, lite_topic, quota=7)
    subscription = (await client.configure(settings(group, lite_topic))).settings.subscription
    assert (subscription.lite_subscription_quota, subscription.max_lite_topic_size) == (7, 64)


def settings(group: str, topic: str, kind: "pb.ClientType" = pb.LITE_PUSH_CONSUMER) -> pb.Settings:
    entry = {"topic": {"name": topic}, "expression": {"type": pb.TAG, "expression": "*"}}
    return pb.Settings(client_type=kind, subscription={"group": {"name": group}, "subscriptions": [entry]})


async def test_how_to_make_a_missing_lite_group_is_said(client: RawClient, reader: LiteReader) -> None:
    absent = f"{reader.group}-absent"
    said = f"make it with `ternmq group create {absent} --lite-bind {reader.topic}`"
    assert said in (await LiteReader(client, reader.topic, absent).sync(pb.PARTIAL_ADD, "a")).status.message
    status = (await client.receive(reader.topic, absent)).status
    assert status is not None
    assert said in status.message
    for kind in (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
        with pytest.raises(grpc.aio.AioRpcError, match=re.escape(said)):
            await client.configure(settings(absent, reader.topic, kind))


async def test_topic_and_group_must_belong_together(client: RawClient, reader: LiteReader, new_topic: str) -> None:
    elsewhere = await make_lite_topic(client)
    assert code(await LiteReader(client, elsewhere, reader.group).sync(pb.PARTIAL_ADD, "a")) == "ILLEGAL_TOPIC"
    plain = await client.create_group(f"{reader.group}-plain")
    assert code(await LiteReader(client, reader.topic, plain).sync(pb.PARTIAL_ADD, "a")) == "ILLEGAL_TOPIC"
    absent = f"{reader.group}-absent"
    assert code(await LiteReader(client, reader.topic, absent).sync(pb.PARTIAL_ADD, "a")) == "CONSUMER_GROUP_NOT_FOUND"
    assert (await client.receive(reader.topic, plain)).code == "ILLEGAL_TOPIC"
    assert (await client.receive(reader.topic, absent)).code == "CONSUMER_GROUP_NOT_FOUND"
    await client.create_topic(new_topic)
    assert (await client.receive(new_topic, reader.group)).code == "ILLEGAL_TOPIC"
    assert (await reader.receive(filter_expression={"expression": "tag"})).code == "ILLEGAL_FILTER_EXPRESSION"


async def test_lite_consumers_alone_read_with_lite_groups(client: RawClient, reader: LiteReader) -> None:
    for kind in (pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER):
        assert await refused(client, settings(reader.group, reader.topic, kind))
    plain = await client.create_group(f"{reader.group}-plain")
    for kind in (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
        assert await refused(client, settings(plain, reader.topic, kind))
        assert await refused(client, settings(f"{plain}-absent", reader.topic, kind))
        assert await refused(client, settings(reader.group, f"{reader.topic}-other", kind))
        assert (await client.configure(settings(reader.group, reader.topic, kind))).status.code == pb.OK


async def refused(client: RawClient, sent: pb.Settings) -> bool:
    """Whether gRPC's INVALID_ARGUMENT ends the stream."""
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=sent))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stream.read()
    return error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_client_that_says_good_bye_subscribes_nothing_any_more(reader: LiteReader, other: RawClient) -> None:
    second = LiteReader(other, reader.topic, reader.group)
    await other.configure(settings(reader.group, reader.topic))
    await second.subscribe("a")
    assert code(await other.call("NotifyClientTermination", group={"name": reader.group})) == "OK"
    await send(reader.client, reader.topic, "a", b"1")
    assert (await second.receive(poll_s=0.2)).code == "MESSAGE_NOT_FOUND"
    await reader.subscribe("a")
    assert await reader.taken(1) == [("a", b"1")]


# --- exclusive, wildcard


async def test_who_subscribes_last_has_an_exclusive_lite_topic_and_who_had_it_is_told(
    client: RawClient, other: RawClient, lite_topic: str
) -> None:
    group = await make_lite_group(client, lite_topic, exclusive=True)
    first, second = LiteReader(client, lite_topic, group), LiteReader(other, lite_topic, group)
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=settings(group, lite_topic)))
    assert (await stream.read()).status.code == pb.OK
    await first.subscribe("a", "b")
    await second.subscribe("a")
    told = await stream.read()
    assert told.notify_unsubscribe_lite_command.lite_topic == "a"
    await send(client, lite_topic, "a", b"1")
    await send(client, lite_topic, "b", b"2")
    assert await first.taken(1) == [("b", b"2")]
    assert (await first.receive()).code == "MESSAGE_NOT_FOUND"
    assert await second.taken(1) == [("a", b"1")]
    # What it says of all that it subscribes takes nothing back, and it is told once more.
    assert code(await first.sync(pb.COMPLETE_ADD, "a", "b")) == "OK"
    assert (await stream.read()).notify_unsubscribe_lite_command.lite_topic == "a"
    await send(client, lite_topic, "a", b"3")
    assert await second.taken(1) == [("a", b"3")]
    stream.cancel()


@pytest.mark.parametrize(("resets", "expected"), [(False, [b"2"]), (True, [b"1", b"2"])])
async def test_where_the_group_was_may_be_forgotten_when_a_lite_topic_is_taken(
    client: RawClient, other: RawClient, lite_topic: str, resets: bool, expected: list[bytes]
) -> None:
    group = await make_lite_group(client, lite_topic, exclusive=True, resets_when_taken=resets)
    first, second = LiteReader(client, lite_topic, group), LiteReader(other, lite_topic, group)
    await first.subscribe("a")
    await send(client, lite_topic, "a", b"1")
    assert await first.taken(1) == [("a", b"1")]
    await second.subscribe("a")
    await send(client, lite_topic, "a", b"2")
    assert bodies(await second.taken(len(expected)), "a") == expected


@pytest.mark.parametrize(("resets", "expected"), [(False, [b"2"]), (True, [b"1", b"2"])])
async def test_where_the_group_was_may_be_forgotten_with_a_subscription(
    client: RawClient, lite_topic: str, resets: bool, expected: list[bytes]
) -> None:
    reader = LiteReader(client, lite_topic, await make_lite_group(client, lite_topic, resets_when_unsubscribed=resets))
    await reader.subscribe("a")
    await send(client, lite_topic, "a", b"1")
    assert await reader.taken(1) == [("a", b"1")]
    await reader.unsubscribe("a")
    await send(client, lite_topic, "a", b"2")
    await reader.subscribe("a")
    assert bodies(await reader.taken(len(expected)), "a") == expected


# --- the end of lite topics


async def test_a_lite_topic_that_nobody_sends_to_is_dropped_and_its_subscribers_are_told(
    timed: RawClient, movable_server: Embedded
) -> None:
    topic = await make_lite_topic(timed, ttl_s=900)
    group = await make_lite_group(timed, topic)
    reader = LiteReader(timed, topic, group)
    stream = timed.telemetry(timeout_s=None)
    await stream.write(rpc.TelemetryCommand(settings=settings(group, topic)))
    assert (await stream.read()).status.code == pb.OK
    await reader.subscribe("a", "b")
    await send(timed, topic, "a", b"old")
    assert await reader.taken(1) == [("a", b"old")]
    await in_journal(reader, "a", movable_server.settings.data_dir)
    await timed.advance(800)
    await send(timed, topic, "b", b"young")
    await timed.advance(200)
    told = await asyncio.wait_for(stream.read(), 150)
    assert told.notify_unsubscribe_lite_command.lite_topic == "a"
    await reader.subscribe("a")
    await send(timed, topic, "a", b"new")
    assert sorted(await reader.taken(2)) == [("a", b"new"), ("b", b"young")]
    stream.cancel()


# --- what other calls make of them


async def test_a_message_without_a_lite_topic_does_not_belong_to_a_lite_topic(
    client: RawClient, lite_topic: str
) -> None:
    request = rpc.SendMessageRequest(messages=[message(lite_topic)])
    assert code(await client.call("SendMessage", request)) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


async def test_messages_of_several_lite_topics_may_be_sent_together(reader: LiteReader) -> None:
    await reader.subscribe("a", "b")
    sent = [message(reader.topic, b"%d" % number, lite_topic="ab"[number % 2]) for number in range(6)]
    answer = await reader.client.call("SendMessage", messages=sent)
    assert code(answer) == "OK"
    first = [entry.offset for entry in answer.entries[:2]]
    assert [entry.offset for entry in answer.entries] == [offset + number for number in range(3) for offset in first]
    taken = await reader.taken(6)
    assert (bodies(taken, "a"), bodies(taken, "b")) == ([b"0", b"2", b"4"], [b"1", b"3", b"5"])


async def test_a_lite_topic_has_a_ttl_and_neither_a_retention_nor_a_purge(client: RawClient, lite_topic: str) -> None:
    assert code(await client.admin("UpdateTopic", name=lite_topic, retention=duration(3600))) == "BAD_REQUEST"
    assert code(await client.admin("PurgeTopic", name=lite_topic)) == "BAD_REQUEST"
    made = admin_pb2.Topic(name=f"{lite_topic}-2", type=pb.LITE, retention=duration(3600))
    assert code(await client.admin("CreateTopic", topic=made)) == "BAD_REQUEST"


async def test_operators_move_no_lite_group(reader: LiteReader) -> None:
    answer = await reader.client.admin("ResetOffsets", group=reader.group, topic=reader.topic, earliest=True)
    assert (code(answer), "lite topics" in answer.status.message) == ("BAD_REQUEST", True)
