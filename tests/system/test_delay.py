"""Timed messages: delivery times, good and bad, and the delay levels of 4.x (`sending.md, Timed messages`)."""

import base64
from pathlib import Path

import pytest

from ternmq_broker.timers import TimerDelivery
from ternmq_common.errors import MessagingError
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings, message, moment, names
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0
HOUR_MS = 3_600_000
CLASSIC_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
LAST_SECOND = 253_402_300_799


async def send(client: RawClient, *messages: pb.Message) -> rpc.SendMessageResponse:
    answer = await client.call("SendMessage", messages=messages)
    assert isinstance(answer, rpc.SendMessageResponse)
    return answer


async def in_s(client: RawClient, seconds: float) -> Timestamp:
    """So many seconds from now, by the server's clock."""
    return moment(await client.server_ms() + round(seconds * 1000))


def recalled(handle: str) -> tuple[str, str, int, str]:
    """Which message the recall handle names: topic, broker, time in milliseconds and message id."""
    text = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode()
    version, topic, broker, due, message_id, tag = text.split(" ")
    assert (version, len(tag)) == ("v2", 20)
    return topic, broker, int(due), message_id


async def arrived(client: RawClient, topic: str, group: str) -> list[pb.Message]:
    """What is there, or comes when the server is through with what is due; acknowledged."""
    messages = (await client.receive(topic, group, poll_s=POLL_S)).messages
    await client.ack(topic, group, *(each.system_properties.receipt_handle for each in messages))
    return messages


async def nothing_is_there(client: RawClient, topic: str, group: str) -> bool:
    return (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


# --- on time


async def test_a_delivered_message_has_the_fields_that_consumers_know(
    timed: RawClient, reminders: str, group: str
) -> None:
    await timed.send(reminders, b"first", delivery_timestamp=await in_s(timed, 1))
    await timed.advance(1)
    assert [each.body for each in await arrived(timed, reminders, group)] == [b"first"]
    now = await timed.server_ms()
    due = Timestamp(seconds=now // 1000 + 60, nanos=123_456_789)
    sent = message(reminders, b"tea", properties={"k": "v"}, tag="t", keys=["a", "b c"], delivery_timestamp=due)
    await send(timed, sent)
    await timed.advance(61)
    [got] = await arrived(timed, reminders, group)
    properties = got.system_properties
    assert (got.body, dict(got.user_properties)) == (b"tea", {"k": "v"})
    assert (properties.tag, list(properties.keys)) == ("t", ["a", "b c"])
    assert properties.message_id == sent.system_properties.message_id
    assert properties.message_type == pb.DELAY
    assert properties.delivery_timestamp == due
    assert (properties.queue_id, properties.queue_offset, properties.delivery_attempt) == (0, 1, 1)
    assert now <= properties.born_timestamp.ToMilliseconds() < properties.store_timestamp.ToMilliseconds()
    assert properties.store_timestamp.ToMilliseconds() >= due.seconds * 1000 + 123


async def test_the_entry_of_a_timed_message_has_a_recall_handle(timed: RawClient, reminders: str) -> None:
    due = await in_s(timed, 60)
    due.nanos += 999_999  # less than a millisecond counts for nothing
    answer = await timed.send(reminders, b"tea", message_id="tea", delivery_timestamp=due)
    [entry] = answer.entries
    assert (code(entry), entry.message_id, entry.transaction_id) == ("OK", "tea", "tea")
    assert recalled(entry.recall_handle) == (
        reminders,
        "broker-0",
        due.seconds * 1000 + -(-due.nanos // 1_000_000),
        "tea",
    )


async def test_a_time_that_is_past_means_now_and_has_no_recall_handle(
    timed: RawClient, reminders: str, group: str
) -> None:
    due = await in_s(timed, -1)
    for offset in range(2):
        [entry] = (await timed.send(reminders, b"late", delivery_timestamp=due)).entries
        assert (entry.offset, entry.recall_handle) == (offset, "")
        [late] = await arrived(timed, reminders, group)
        assert late.system_properties.message_type == pb.DELAY
        assert late.system_properties.delivery_timestamp == due


@pytest.mark.parametrize(
    "due",
    [
        Timestamp(seconds=-1),
        Timestamp(seconds=-(2**62)),
        Timestamp(seconds=-(2**63), nanos=-(2**31)),
        Timestamp(seconds=1, nanos=-1),
        Timestamp(seconds=1, nanos=2**31 - 1),
        Timestamp(),
    ],
    ids=repr,
)
async def test_a_time_that_no_calendar_has_breaks_no_consumer(
    timed: RawClient, reminders: str, group: str, due: Timestamp
) -> None:
    [entry] = (await timed.send(reminders, b"body", delivery_timestamp=due)).entries
    assert entry.recall_handle == ""
    [got] = await arrived(timed, reminders, group)
    delivered = got.system_properties.delivery_timestamp
    assert 0 <= delivered.seconds <= LAST_SECOND
    assert 0 <= delivered.nanos < 1_000_000_000


async def test_nanoseconds_beyond_a_second_count(timed: RawClient, reminders: str, group: str) -> None:
    now = await timed.server_ms()
    due = Timestamp(seconds=now // 1000 + 60, nanos=2**31 - 1)
    [entry] = (await timed.send(reminders, b"body", delivery_timestamp=due)).entries
    assert recalled(entry.recall_handle)[2] == due.seconds * 1000 + 2148
    await timed.advance(64)
    [got] = await arrived(timed, reminders, group)
    assert got.system_properties.delivery_timestamp == moment(due.seconds * 1000 + 2148)


async def test_the_limit_counts_from_the_servers_time(timed: RawClient, reminders: str) -> None:
    now = await timed.advance(HOUR_MS / 1000)
    for ahead_ms, expected in ((24 * HOUR_MS - 60_000, "OK"), (24 * HOUR_MS + 60_000, "ILLEGAL_DELIVERY_TIME")):
        assert code(await send(timed, message(reminders, delivery_timestamp=moment(now + ahead_ms)))) == expected


async def test_a_priority_beside_a_delivery_time_is_dropped(timed: RawClient, reminders: str, group: str) -> None:
    await timed.send(reminders, b"body", delivery_timestamp=await in_s(timed, 5), priority=3)
    await timed.advance(5)
    [got] = await arrived(timed, reminders, group)
    assert not got.system_properties.HasField("priority")


# --- several in a request


async def test_several_messages_get_an_entry_each_in_their_order(timed: RawClient, reminders: str, group: str) -> None:
    times = [await in_s(timed, seconds) for seconds in (20, -1, 10, -2)]
    sent = [message(reminders, b"%d" % number, delivery_timestamp=due) for number, due in enumerate(times)]
    answer = await send(timed, *sent)
    assert code(answer) == "OK"
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]
    assert [bool(entry.recall_handle) for entry in answer.entries] == [True, False, True, False]
    assert [answer.entries[1].offset, answer.entries[3].offset] == [0, 1]
    assert [each.body for each in await arrived(timed, reminders, group)] == [b"1", b"3"]
    for body in (b"2", b"0"):
        await timed.advance(10)
        assert [each.body for each in await arrived(timed, reminders, group)] == [body]


async def test_what_waits_may_be_refused_where_what_is_due_is_stored(
    timed: RawClient, reminders: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(timers: TimerDelivery, *_: object) -> None:
        raise MessagingError(pb.HA_NOT_AVAILABLE, "no replica")

    monkeypatch.setattr(TimerDelivery, "store_timers", refuse)
    sent = [message(reminders, delivery_timestamp=await in_s(timed, seconds)) for seconds in (60, -1, 60)]
    answer = await send(timed, *sent)
    assert code(answer) == "MULTIPLE_RESULTS"
    assert names(answer.entries) == ["HA_NOT_AVAILABLE", "OK", "HA_NOT_AVAILABLE"]
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]
    assert len(await arrived(timed, reminders, group)) == 1


# --- levels


@pytest.mark.parametrize(
    ("level", "seconds"),
    [*((str(number), seconds) for number, seconds in enumerate(CLASSIC_S, 1)), ("19", 7200), ("9" * 18, 7200)],
)
async def test_a_level_stands_for_a_delivery_time(timed: RawClient, reminders: str, level: str, seconds: int) -> None:
    before = await timed.server_ms()
    answer = await send(timed, message(reminders, properties={"DELAY": level}))
    assert code(answer) == "OK"
    due_ms = recalled(answer.entries[0].recall_handle)[2]
    assert before <= due_ms - seconds * 1000 <= await timed.server_ms()


async def test_a_level_is_taken_out_of_the_properties(timed: RawClient, reminders: str, group: str) -> None:
    answer = await send(timed, message(reminders, properties={"DELAY": "3", "k": "v"}))
    assert await nothing_is_there(timed, reminders, group)
    await timed.advance(10)
    [got] = await arrived(timed, reminders, group)
    assert dict(got.user_properties) == {"k": "v"}
    assert got.system_properties.message_type == pb.DELAY
    due_ms = recalled(answer.entries[0].recall_handle)[2]
    assert got.system_properties.delivery_timestamp == moment(due_ms)


@pytest.mark.parametrize("level", ["0", "000"])
async def test_level_0_is_now(timed: RawClient, reminders: str, group: str, level: str) -> None:
    answer = await send(timed, message(reminders, properties={"DELAY": level}))
    assert (code(answer), answer.entries[0].recall_handle) == ("OK", "")
    [got] = await arrived(timed, reminders, group)
    assert got.system_properties.message_type == pb.DELAY
    assert not got.user_properties


@pytest.mark.parametrize(
    "level", ["", "x", "-1", "+1", "1.5", " 1", "1 ", "0x1", "1_0", "\u0663", "1" * 19, "1" * 9000]
)
async def test_what_is_no_number_is_no_level(timed: RawClient, reminders: str, level: str) -> None:
    answer = await send(timed, message(reminders, properties={"DELAY": level}))
    assert code(answer) == "ILLEGAL_MESSAGE_PROPERTY_KEY"
    assert "a level is a decimal number" in answer.status.message


@pytest.mark.parametrize(
    "fields",
    [
        {"delivery_timestamp": Timestamp(seconds=1)},
        {"message_group": "g"},
        {"priority": 1},
        {"lite_topic": "l"},
        {"message_type": pb.TRANSACTION},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_level_goes_with_nothing_else_that_makes_a_type(
    timed: RawClient, reminders: str, fields: dict[str, Proto]
) -> None:
    answer = await send(timed, message(reminders, properties={"DELAY": "1"}, **fields))
    assert code(answer) == "ILLEGAL_MESSAGE_PROPERTY_KEY"


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO, pb.TRANSACTION, pb.PRIORITY])
async def test_a_level_means_nothing_on_topics_of_other_types(
    timed: RawClient, new_topic: str, kind: "pb.MessageType"
) -> None:
    await timed.create_topic(new_topic, kind=kind)
    assert code(await send(timed, message(new_topic, properties={"DELAY": "1"}))) == "ILLEGAL_MESSAGE_PROPERTY_KEY"


async def test_an_empty_message_group_does_not_keep_a_level_from_counting(timed: RawClient, reminders: str) -> None:
    answer = await send(timed, message(reminders, properties={"DELAY": "1"}, message_group=""))
    assert (code(answer), bool(answer.entries[0].recall_handle)) == ("OK", True)


async def test_a_level_counts_no_property_and_beats_no_earlier_rule(timed: RawClient, reminders: str) -> None:
    full = {f"k{number}": "v" for number in range(128)}
    assert code(await send(timed, message(reminders, properties=full | {"DELAY": "1"}))) == "OK"
    assert code(await send(timed, message(reminders, b"", properties={"DELAY": "x"}))) == "MESSAGE_BODY_EMPTY"


async def test_operators_choose_what_levels_stand_for(tmp_path: Path, group: str) -> None:
    settings = local_settings(tmp_path, test_clock=True, delay_levels="2m 3h", delay_max_ms=2 * HOUR_MS)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("reminders", kind=pb.DELAY)
        before = await client.server_ms()
        answer = await send(client, message("reminders", properties={"DELAY": "1"}))
        due_ms = recalled(answer.entries[0].recall_handle)[2]
        assert before <= due_ms - 120_000 <= await client.server_ms()
        # A level is a delivery time as any other, within the same limit.
        answer = await send(client, message("reminders", properties={"DELAY": "2"}))
        assert code(answer) == "ILLEGAL_DELIVERY_TIME"


# --- topics that are not there


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"delivery_timestamp": Timestamp(seconds=1)}, "delay"),
        ({"message_type": pb.TRANSACTION}, "transaction"),
        ({"message_group": "g"}, "fifo"),
        ({"priority": 1}, "priority"),
    ],
)
async def test_a_missing_topic_is_made_by_its_first_message_and_not_for_messages_of_which_it_would_refuse_some(
    timed: RawClient, new_topic: str, fields: dict[str, Proto], kind: str
) -> None:
    answer = await send(timed, message(new_topic), message(new_topic, **fields))
    assert code(answer) == "TOPIC_NOT_FOUND"
    assert f"ternmq topic create {new_topic} --type {kind}`" in answer.status.message
    assert code(await send(timed, message(new_topic, **fields))) == "OK"
    described = await timed.admin("DescribeTopic", name=new_topic)
    assert (pb.MessageType.Name(described.topic.type), described.topic.queues) == (kind.upper(), 8)
    assert code(await send(timed, message(new_topic))) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert code(await send(timed, message(f"{new_topic}-2"))) == "OK"
    assert code(await send(timed, message(f"{new_topic}-2", **fields))) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
