"""DescribeMessage, ListTimers, GetHistory and what a topic holds: what operators see of what is stored."""

import asyncio

import pytest

from ternmq_broker.inspecting.broker_history import BROKER_SERIES
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.server.front_history import SERIES
from ternmq_runtime.observability.history_rings import LARGEST, UNITS
from tests.support.embedded import Proto, RawClient, Received, code, moment
from tests.support.lite import LiteReader, make_lite_group, make_lite_topic
from tests.support.until import until_answered
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def described(client: RawClient, topic: str, offset: int, **fields: Proto) -> admin_pb2.DescribeMessageResponse:
    answer = await client.admin("DescribeMessage", topic=topic, offset=offset, **fields)
    assert isinstance(answer, admin_pb2.DescribeMessageResponse)
    return answer


async def standing(client: RawClient, topic: str, offset: int, group: str) -> admin_pb2.Standing:
    answer = await described(client, topic, offset)
    assert code(answer) == "OK", answer.status.message
    (found,) = [each for each in answer.standings if each.group == group]
    return found


def handles(received: Received) -> list[str]:
    return [each.system_properties.receipt_handle for each in received.messages]


# --- one message


async def test_a_message_is_described_with_the_groups_that_have_its_topic(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"first", b"second", tag="t")
    answer = await described(client, topic, 0)
    assert (answer.message.body, answer.message.system_properties.tag, answer.broker) == (b"first", "t", "broker-0")
    assert list(answer.standings) == []
    received = await client.receive(topic, group, batch_size=1)
    held = await standing(client, topic, 0, group)
    assert (held.state, held.attempts) == (admin_pb2.HELD, 1)
    assert held.until.ToMilliseconds() > await client.server_ms()
    assert (await standing(client, topic, 1, group)).state == admin_pb2.AHEAD
    await client.ack(topic, group, *handles(received))
    assert (await standing(client, topic, 0, group)).state == admin_pb2.FINISHED
    assert not held.HasField("dead_letter_offset")


async def test_a_dead_letter_is_named_by_its_offset(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"alive", b"dead")
    received = await client.receive(topic, group)
    handle = handles(received)[1]
    assert await client.forward_to_dead_letters(topic, group, handle, max_delivery_attempts=1) == "OK"
    dead = await standing(client, topic, 1, group)
    assert (dead.state, dead.dead_letter_offset) == (admin_pb2.DEAD, 0)
    letter = await described(client, f"%DLQ%{group}", dead.dead_letter_offset)
    assert letter.message.body == b"dead"


@pytest.mark.parametrize("fields", [{"offset": 5}, {"offset": -1}, {"offset": 0, "queue_id": 1}, {"queue_id": -1}])
async def test_what_is_not_there_is_not_found(client: RawClient, topic: str, fields: dict[str, Proto]) -> None:
    await client.send(topic, b"only")
    assert code(await client.admin("DescribeMessage", topic=topic, **fields)) == "MESSAGE_NOT_FOUND"


async def test_a_broker_that_has_no_part_of_the_topic_is_refused(client: RawClient, topic: str) -> None:
    await client.send(topic, b"only")
    assert code(await described(client, topic, 0, broker="broker-9")) == "BAD_REQUEST"
    assert code(await described(client, topic, 0, broker="broker-0")) == "OK"


async def test_a_message_of_a_lite_topic_stands_with_its_lite_group(client: RawClient, topic: str) -> None:
    lite = await make_lite_topic(client)
    reader = LiteReader(client, lite, await make_lite_group(client, lite))
    await client.send(lite, b"1", b"2", lite_topic="a")
    await reader.subscribe("a")
    taken = await reader.receive(poll_s=10)
    # A lite topic begins behind all that a server dropped before.
    first = taken.messages[0].system_properties.queue_offset
    answer = await described(client, lite, first, lite_topic="a")
    assert (answer.message.body, answer.message.topic.name) == (b"1", lite)
    assert [(each.group, each.state) for each in answer.standings] == [(reader.group, admin_pb2.HELD)]
    await reader.ack(taken.messages)
    answer = await described(client, lite, first + 1, lite_topic="a")
    assert [each.state for each in answer.standings] == [admin_pb2.FINISHED]
    assert code(await described(client, lite, first + 2, lite_topic="a")) == "MESSAGE_NOT_FOUND"
    assert code(await described(client, lite, first, lite_topic="a", queue_id=1)) == "MESSAGE_NOT_FOUND"
    assert code(await described(client, topic, 0, lite_topic="a")) == "BAD_REQUEST"


# --- timed messages


async def timers(client: RawClient, topic: str, *, limit: int = 0) -> list[admin_pb2.Timer]:
    found: list[admin_pb2.Timer] = []
    request = admin_pb2.ListTimersRequest(topic=topic, limit=limit)
    while True:
        answer = await client.admin("ListTimers", request)
        assert code(answer) == "OK", answer.status.message
        found += answer.timers
        if not answer.next_page:
            return found
        request.page = answer.next_page


async def test_what_waits_is_listed_by_its_time_and_recalled_by_its_handle(timed: RawClient, reminders: str) -> None:
    now_ms = await timed.server_ms()
    for minutes in (30, 10, 20, 40, 50):
        due = moment(now_ms + 60_000 * minutes)
        sent = await timed.send(reminders, b"body", delivery_timestamp=due, tag=f"in-{minutes}", keys=["k"])
        assert code(sent) == "OK"
    for limit in (0, 1, 2, 1000):
        found = await timers(timed, reminders, limit=limit)
        assert [each.tag for each in found] == ["in-10", "in-20", "in-30", "in-40", "in-50"]
    first = found[0]
    assert (first.due.ToMilliseconds(), list(first.keys), first.broker) == (now_ms + 600_000, ["k"], "broker-0")
    assert first.bytes > 0
    recall = rpc.RecallMessageRequest(topic={"name": reminders}, recall_handle=first.recall_handle)
    assert (await timed.call("RecallMessage", recall)).message_id == first.message_id
    await timed.advance(1500)

    async def tags() -> list[str]:
        return [each.tag for each in await timers(timed, reminders)]

    async with asyncio.timeout(10):
        await until_answered(tags, ["in-30", "in-40", "in-50"])


async def test_a_page_that_was_never_given_is_refused(timed: RawClient, reminders: str) -> None:
    for page in ("x", "1-", "-", "1-1@", "\x00"):
        assert code(await timed.admin("ListTimers", topic=reminders, page=page)) == "BAD_REQUEST"


# --- what a topic holds, and the last hours


async def test_a_topic_tells_what_it_holds_to_who_wants_to_know(client: RawClient, topic: str, group: str) -> None:
    before_ms = await client.server_ms()
    await client.send(topic, *[b"x" * 1000] * 20)
    await client.receive(topic, group, batch_size=1)
    short = await client.admin("DescribeTopic", name=topic)
    assert not short.queues[0].HasField("bytes")
    assert not short.HasField("messages_in")
    answer = await client.admin("DescribeTopic", name=topic, contents=True)
    assert list(answer.groups) == [group]
    assert 20_000 < answer.queues[0].bytes < 40_000
    assert before_ms <= answer.queues[0].oldest.ToMilliseconds() <= await client.server_ms()
    assert answer.HasField("messages_in")
    assert answer.HasField("messages_out")


async def test_an_empty_topic_has_no_oldest_message(client: RawClient, topic: str) -> None:
    answer = await client.admin("DescribeTopic", name=topic, contents=True)
    (queue,) = answer.queues
    assert (queue.bytes, queue.HasField("oldest")) == (0, False)


async def test_the_last_hours_are_those_of_something_that_is_there(client: RawClient, topic: str, group: str) -> None:
    await client.create_group(group)
    for request in (
        admin_pb2.GetHistoryRequest(),
        admin_pb2.GetHistoryRequest(topic=topic),
        admin_pb2.GetHistoryRequest(group=group),
    ):
        answer = await client.admin("GetHistory", request)
        assert code(answer) == "OK"
        assert answer.step.ToMilliseconds() == 10_000
        assert all(len(each.values) == 2160 and each.unit for each in answer.series)
    assert code(await client.admin("GetHistory", group="nobody")) == "CONSUMER_GROUP_NOT_FOUND"


async def test_every_series_has_a_unit() -> None:
    known = {*BROKER_SERIES, *SERIES, "in", "out", "acknowledged", "lag", "oldest"}
    assert known == UNITS.keys()
    assert known >= LARGEST
