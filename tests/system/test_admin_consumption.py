"""Our Admin service where it moves groups, finds messages, delivers dead letters again and changes groups."""

import asyncio
import time
from pathlib import Path

import pytest

from ternmq_common.server_settings import ServerSettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, Proto, RawClient, code, duration, local_settings, message, names
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, delete_topic, describe_group
from tests.system.test_offsets import get, pull, update
from tests.system.test_receive_polling import until_known
from tests.system.test_retry_and_dead_letters import dead_letters, handle_of, nack, stored

pytestmark = SERVER_LOOP
HOUR_S = 3600


async def reset(client: RawClient, topic: str, group: str, **fields: Proto) -> admin_pb2.ResetOffsetsResponse:
    answer = await client.admin("ResetOffsets", group=group, topic=topic, **fields)
    assert isinstance(answer, admin_pb2.ResetOffsetsResponse)
    return answer


def moves(answer: admin_pb2.ResetOffsetsResponse) -> list[tuple[int, int, int]]:
    """Queue id, before and after of each move of a reset that succeeded."""
    assert code(answer) == "OK", answer.status.message
    return [(move.queue_id, move.before, move.after) for move in answer.moves]


async def found(client: RawClient, topic: str, key: str, limit: int = 0) -> list[pb.Message]:
    answer = await client.admin("QueryMessages", topic=topic, key=key, limit=limit)
    assert code(answer) == "OK", answer.status.message
    return list(answer.messages)


async def resend(client: RawClient, group: str, *offsets: int, to_topic: str = "") -> list[admin_pb2.ResentDeadLetter]:
    answer = await client.admin("ResendDeadLetters", group=group, offsets=offsets, to_topic=to_topic)
    assert code(answer) == "OK", answer.status.message
    return list(answer.letters)


async def update_group(client: RawClient, **fields: Proto) -> admin_pb2.UpdateGroupResponse:
    answer = await client.admin("UpdateGroup", group=fields)
    assert isinstance(answer, admin_pb2.UpdateGroupResponse)
    return answer


async def bury(client: RawClient, topic: str, group: str, *bodies: bytes, **system: Proto) -> list[str]:
    """Make dead letters of the group of new messages with these bodies; their ids."""
    ids = []
    for body in bodies:
        ids.append((await client.send(topic, body, **system)).entries[0].message_id)
        [received] = (await client.receive(topic, group)).messages
        assert await client.forward_to_dead_letters(topic, group, handle_of(received)) == "OK"
    return ids


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    """Of a server that is started again."""
    return local_settings(tmp_path)


# --- moving a group


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ({"earliest": True}, 0),
        ({"latest": True}, 5),
        ({"offset": 1}, 1),
        ({"offset": -7}, 0),
        ({"offset": 2**62}, 5),
        ({"shift": -2}, 1),
        ({"shift": 1}, 4),
        ({"shift": -9}, 0),
        ({"shift": 9}, 5),
        ({"shift": 0}, 3),
        ({"time": Timestamp()}, 0),
        ({"time": Timestamp(seconds=2**40)}, 5),
    ],
)
async def test_a_group_goes_on_where_it_is_moved_to(
    client: RawClient, topic: str, group: str, target: dict[str, Proto], after: int
) -> None:
    await client.send(topic, *[b"%d" % number for number in range(5)])
    received = (await client.receive(topic, group, batch_size=3)).messages
    await client.ack(topic, group, *map(handle_of, received))
    assert moves(await reset(client, topic, group, **target)) == [(0, 3, after)]
    assert (await get(client, topic, group)).offset == after
    assert (await client.receive(topic, group)).bodies == [b"%d" % number for number in range(after, 5)]


async def test_one_message_is_skipped(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0", b"1", b"2")
    first, *others = (await client.receive(topic, group, batch_size=3)).messages
    assert code(await reset(client, topic, group, skip=3, queue_ids=[0])) == "BAD_REQUEST", "nobody was there yet"
    assert moves(await reset(client, topic, group, skip=0, queue_ids=[0], dry_run=True)) == [(0, 0, 0)]
    assert moves(await reset(client, topic, group, skip=0, queue_ids=[0])) == [(0, 0, 1)]
    await client.ack(topic, group, *map(handle_of, [first, *others]))
    assert (await get(client, topic, group)).offset == 3
    for fields in ({"skip": 0, "broker": "nowhere"}, {"latest": True, "broker": "nowhere"}):
        assert code(await reset(client, topic, group, **fields)) == "BAD_REQUEST"


async def test_a_group_is_moved_to_the_first_message_of_a_time_or_later(
    client: RawClient, topic: str, group: str
) -> None:
    times: list[int] = []
    while len(set(times)) < 3:  # until the clock has gone on twice
        await client.send(topic, b"body")
        sent = (await pull(client, topic, 0)).messages
        times = [each.system_properties.store_timestamp.ToNanoseconds() for each in sent]
    wanted = sorted(set(times))[1]
    at = Timestamp()
    at.FromNanoseconds(wanted)
    await create_group(client, name=group)
    assert moves(await reset(client, topic, group, time=at)) == [(0, -1, times.index(wanted))]


async def test_a_group_that_never_was_in_a_topic_is_moved_too(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group)
    await client.send(topic, b"0", b"1", b"2")
    assert moves(await reset(client, topic, group, shift=2)) == [(0, -1, 2)]
    assert (await client.receive(topic, group)).bodies == [b"2"]


async def test_a_dry_run_tells_and_changes_nothing(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0", b"1")
    first, second = (await client.receive(topic, group)).messages
    await nack(client, topic, group, [first])
    assert moves(await reset(client, topic, group, latest=True, dry_run=True)) == [(0, 1, 2)]
    assert (await get(client, topic, group)).offset == 1
    again = await client.receive(topic, group)
    assert (again.bodies, again.attempts) == ([b"0"], [2])
    await client.ack(topic, group, handle_of(second))
    assert (await get(client, topic, group)).offset == 2


async def test_some_queues_are_moved_and_the_others_left(client: RawClient, new_topic: str, group: str) -> None:
    await client.create_topic(new_topic, queues=4)
    for number in range(4):
        await client.send(new_topic, b"%d" % number)
    received = (await client.receive(new_topic, group)).messages
    await client.ack(new_topic, group, *map(handle_of, received))
    answer = await reset(client, new_topic, group, queue_ids=[2, 0, 2], earliest=True)
    assert moves(answer) == [(0, 1, 0), (2, 1, 0)]
    assert {move.broker for move in answer.moves} == {"broker-0"}
    assert sorted((await client.receive(new_topic, group)).bodies) == [b"0", b"2"]


async def test_retries_are_dropped_when_all_queues_are_moved_and_only_then(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"0")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    await reset(client, topic, group, queue_ids=[0], latest=True)
    again = await client.receive(topic, group)
    assert again.attempts == [2]
    await nack(client, topic, group, again.messages)
    await reset(client, topic, group, latest=True)
    assert (await client.receive(topic, group)).bodies == []
    assert {entry.in_flight for entry in (await describe_group(client, group)).progress} == {0}
    assert await stored(client, f"%RETRY%{group}") == 1


async def test_retries_of_other_topics_and_other_groups_are_kept(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=1)
    for name, owner in ((topic, group), (new_topic, group), (topic, f"{group}-neighbour")):
        await client.send(name, b"0")
        await nack(client, name, owner, (await client.receive(name, owner)).messages[:1])
    await reset(client, topic, group, latest=True)
    assert (await client.receive(topic, group)).bodies == []
    assert (await client.receive(new_topic, group)).attempts == [2]
    assert 2 in (await client.receive(topic, f"{group}-neighbour")).attempts


async def test_handles_from_before_a_reset_settle_nothing(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    [held] = (await client.receive(topic, group)).messages
    await reset(client, topic, group, earliest=True)
    [again] = (await client.receive(topic, group)).messages
    assert again.system_properties.delivery_attempt == 1
    await client.ack(topic, group, handle_of(held))
    assert code(await client.change(topic, group, handle_of(held), 0)) == "INVALID_RECEIPT_HANDLE"
    assert await client.forward_to_dead_letters(topic, group, handle_of(held)) in ("OK", "INVALID_RECEIPT_HANDLE")
    assert (await get(client, topic, group)).offset == 0
    assert await dead_letters(client, group) == []
    await client.ack(topic, group, handle_of(again))
    assert (await get(client, topic, group)).offset == 1


async def test_handles_of_retries_from_before_a_reset_settle_nothing(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    [held] = (await client.receive(topic, group)).messages
    await reset(client, topic, group, earliest=True)
    assert code(await client.change(topic, group, handle_of(held), 0)) == "INVALID_RECEIPT_HANDLE"
    received = await client.receive(topic, group)
    assert (received.bodies, received.attempts) == ([b"0"], [1])


async def test_a_claim_from_before_a_reset_ends_without_a_retry(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    [held] = (await client.receive(topic, group)).messages
    await client.change(topic, group, handle_of(held), 0.1)
    await reset(client, topic, group, latest=True)
    assert (await pull(client, f"%RETRY%{group}", 0, poll_s=0.3)).bodies == []
    assert (await client.receive(topic, group)).bodies == []


async def test_a_reset_wakes_who_waits(client: RawClient, other: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    await client.ack(topic, group, *map(handle_of, (await client.receive(topic, group)).messages))
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    await reset(client, topic, group, earliest=True)
    async with asyncio.timeout(5):
        assert (await waiting).bodies == [b"0"]


async def test_an_ordered_group_is_moved_with_all_that_it_had_open(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, kind=pb.FIFO)
    await create_group(client, name=group, fifo=True)
    for number in range(3):
        await client.send(new_topic, b"%d" % number, message_group="a")
    [held] = (await client.receive(new_topic, group, batch_size=1, attempt_id="x")).messages
    assert moves(await reset(client, new_topic, group, offset=1)) == [(0, 0, 1)]
    received = await client.receive(new_topic, group, attempt_id="x")
    assert (received.bodies, received.attempts) == ([b"1", b"2"], [1, 1])
    await client.ack(new_topic, group, handle_of(held))
    assert (await get(client, new_topic, group)).offset == 1
    await reset(client, new_topic, group, earliest=True)
    assert (await client.receive(new_topic, group)).bodies == [b"0", b"1", b"2"]


async def test_a_reset_that_can_not_be_changes_nothing(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    assert code(await reset(client, topic, group, latest=True)) == "CONSUMER_GROUP_NOT_FOUND"
    await create_group(client, name=group)
    assert code(await reset(client, new_topic, group, latest=True)) == "TOPIC_NOT_FOUND"
    assert code(await reset(client, "a b", group, latest=True)) == "ILLEGAL_TOPIC"
    assert code(await reset(client, topic, group)) == "BAD_REQUEST"
    for queue_ids in ([1], [-1], [0, 1]):
        assert code(await reset(client, topic, group, queue_ids=queue_ids, latest=True)) == "BAD_REQUEST"
    assert code(await get(client, topic, group)) == "OFFSET_NOT_FOUND"


async def test_a_reset_outlives_a_restart(settings: ServerSettings) -> None:
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await client.send("orders", b"0", b"1", b"2")
        first, second, _ = (await client.receive("orders", "g")).messages
        await client.ack("orders", "g", handle_of(second))
        await nack(client, "orders", "g", [first])
        await reset(client, "orders", "g", offset=1)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        received = await client.receive("orders", "g")
        assert (received.bodies, received.attempts) == ([b"1", b"2"], [1, 1])


# --- lag


async def ages(client: RawClient, group: str) -> dict[str, int | None]:
    """Milliseconds by topic; None where everything is finished."""
    progress = (await describe_group(client, group)).progress
    return {
        entry.topic: entry.oldest_age.ToMilliseconds() if entry.HasField("oldest_age") else None for entry in progress
    }


async def test_the_lag_is_the_age_of_the_first_message_that_is_not_finished(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"0")
    await client.send(topic, b"1")
    first, second = (await client.receive(topic, group)).messages
    for lagging in (first, second):
        before = time.time_ns() // 1_000_000
        age = (await ages(client, group))[topic]
        after = time.time_ns() // 1_000_000
        stored_ms = lagging.system_properties.store_timestamp.ToMilliseconds()
        assert age is not None
        assert before - stored_ms <= age <= after - stored_ms
        await client.ack(topic, group, handle_of(lagging))
    assert await ages(client, group) == {topic: None}


async def test_retries_have_a_lag_of_their_own(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    lags = await ages(client, group)
    assert (lags[topic], lags[f"%RETRY%{group}"] is None) == (None, False)
    await client.ack(topic, group, *map(handle_of, (await client.receive(topic, group)).messages))
    assert (await ages(client, group))[f"%RETRY%{group}"] is None


async def test_a_group_whose_open_messages_were_removed_is_described(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0", b"1")
    await client.receive(topic, group)
    await delete_topic(client, topic)
    await client.create_topic(topic)
    assert (await ages(client, group)).keys() == {topic}
    await client.send(topic, b"2")
    assert (await ages(client, group))[topic] is not None


# --- a topic that is deleted under its groups


async def test_retries_of_a_topic_that_was_made_again_are_gone(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"old")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    await delete_topic(client, topic)
    await client.create_topic(topic)
    await client.send(topic, b"new")
    assert (await client.receive(topic, group)).bodies == [b"new"]


async def test_an_open_message_of_a_topic_that_was_deleted_makes_no_retry_and_no_dead_letter(
    client: RawClient, topic: str, group: str
) -> None:
    await create_group(client, name=group, max_attempts=2)
    await client.send(topic, b"0", b"1")
    first, second = (await client.receive(topic, group)).messages
    await delete_topic(client, topic)
    await client.create_topic(topic)
    await nack(client, topic, group, [first])
    assert await client.forward_to_dead_letters(topic, group, handle_of(second)) == "OK"
    assert (await client.receive(topic, group)).bodies == []
    assert await stored(client, f"%RETRY%{group}") == 0
    assert await dead_letters(client, group) == []
    assert {entry.in_flight for entry in (await describe_group(client, group)).progress} == {0}


# --- finding messages


async def test_messages_are_found_by_key_the_newest_first(client: RawClient, new_topic: str) -> None:
    await client.create_topic(new_topic, queues=3)
    for number in range(5):
        await client.send(new_topic, b"%d" % number, keys=["key", f"key-{number}"])
    await client.send(new_topic, b"another", keys=["another"])
    assert [each.body for each in await found(client, new_topic, "key")] == [b"4", b"3", b"2", b"1", b"0"]
    assert [each.body for each in await found(client, new_topic, "key", limit=2)] == [b"4", b"3"]
    assert [each.body for each in await found(client, new_topic, "key-3")] == [b"3"]
    assert await found(client, new_topic, "ke") == []


async def test_a_message_is_found_by_its_id_as_consumers_get_it(
    client: RawClient, server: Embedded, topic: str, group: str
) -> None:
    sent = message(topic, b"0", properties={"color": "red"}, tag="tag", keys=["key"])
    await client.send(topic, b"before")
    await client.call("SendMessage", messages=[sent])
    [shown] = await found(client, topic, sent.system_properties.message_id)
    [received] = (await client.receive(topic, group, tags="tag")).messages
    received.system_properties.ClearField("receipt_handle")
    received.system_properties.ClearField("delivery_attempt")
    assert shown == received
    assert (shown.system_properties.queue_offset, shown.system_properties.store_host) == (1, server.grpc)


async def test_a_key_is_looked_for_in_one_topic(client: RawClient, topic: str, new_topic: str) -> None:
    await client.create_topic(new_topic)
    await client.send(topic, b"0", keys=["key"])
    assert await found(client, new_topic, "key") == []


@pytest.mark.parametrize("limit", [-1, 65, 2**31 - 1])
async def test_a_limit_that_can_not_be_is_made_one_that_can(client: RawClient, topic: str, limit: int) -> None:
    await client.send(topic, *[b"body"] * 70, keys=["key"])
    assert len(await found(client, topic, "key", limit=limit)) == (1 if limit < 0 else 64)


async def test_messages_of_a_topic_that_was_made_again_are_not_found(client: RawClient, topic: str) -> None:
    await client.send(topic, b"old", keys=["key"])
    await delete_topic(client, topic)
    await client.create_topic(topic)
    await client.send(topic, b"new", keys=["key"])
    assert [each.body for each in await found(client, topic, "key")] == [b"new"]


async def test_a_search_that_can_not_be_is_refused(client: RawClient, topic: str, new_topic: str) -> None:
    for name, key, expected in (
        (new_topic, "key", "TOPIC_NOT_FOUND"),
        ("a b", "key", "ILLEGAL_TOPIC"),
        (f"%DLQ%{new_topic}", "key", "TOPIC_NOT_FOUND"),
        (topic, "", "BAD_REQUEST"),
    ):
        assert code(await client.admin("QueryMessages", topic=name, key=key)) == expected


# --- dead letters again


async def test_a_dead_letter_goes_back_to_its_group_alone_as_it_was(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group, max_attempts=2)
    neighbour = f"{group}-neighbour"
    sent = message(topic, b"0", properties={"color": "red"}, tag="tag", keys=["key"])
    await client.call("SendMessage", messages=[sent])
    for _ in range(2):
        received = (await client.receive(topic, group)).messages
        await nack(client, topic, group, received)
    assert (await client.receive(topic, neighbour)).bodies == [b"0"]
    [letter] = await resend(client, group, 0)
    assert (code(letter), letter.offset, letter.topic) == ("OK", 0, topic)
    assert letter.message_id == sent.system_properties.message_id
    [again] = (await client.receive(topic, group)).messages
    assert (again.body, dict(again.user_properties), again.topic.name) == (b"0", {"color": "red"}, topic)
    own, before = again.system_properties, received[0].system_properties
    assert own.delivery_attempt == 1
    assert not own.HasField("dead_letter_queue")
    for same in ("message_id", "tag", "keys", "born_timestamp", "born_host", "message_type", "body_digest"):
        assert getattr(own, same) == getattr(before, same)
    assert (await client.receive(topic, neighbour)).bodies == []
    await client.ack(topic, group, handle_of(again))
    assert (await client.receive(topic, group)).bodies == []


async def test_a_dead_letter_that_was_sent_again_has_all_its_attempts(
    client: RawClient, topic: str, group: str
) -> None:
    await create_group(client, name=group, max_attempts=2)
    await bury(client, topic, group, b"0")
    await resend(client, group, 0)
    for attempt in (1, 2):
        received = await client.receive(topic, group)
        assert received.attempts == [attempt]
        await nack(client, topic, group, received.messages)
    letters = await dead_letters(client, group)
    assert [letter.body for letter in letters] == [b"0", b"0"]
    assert letters[1].user_properties["DLQ_ATTEMPTS"] == "2"
    assert letters[1].system_properties.dead_letter_queue.topic == topic


async def test_a_waiting_poll_gets_a_dead_letter_that_is_sent_again(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await bury(client, topic, group, b"0")
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    await resend(client, group, 0)
    async with asyncio.timeout(5):
        assert (await waiting).bodies == [b"0"]


async def test_a_dead_letter_that_is_not_there_holds_up_no_other(client: RawClient, topic: str, group: str) -> None:
    ids = await bury(client, topic, group, b"0", b"1", b"2")
    letters = await resend(client, group, 2, 3, -1, 2**62, 0)
    assert [letter.offset for letter in letters] == [2, 3, -1, 2**62, 0]
    assert names(letters) == ["OK", *["MESSAGE_NOT_FOUND"] * 3, "OK"]
    assert [letter.message_id for letter in letters] == [ids[2], "", "", "", ids[0]]
    assert sorted((await client.receive(topic, group)).bodies) == [b"0", b"2"]


async def test_dead_letters_of_different_topics_go_back_each_to_its_own(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic)
    await bury(client, topic, group, b"here")
    await bury(client, new_topic, group, b"there")
    assert [letter.topic for letter in await resend(client, group, 0, 1)] == [topic, new_topic]
    assert (await client.receive(topic, group)).bodies == [b"here"]
    assert (await client.receive(new_topic, group)).bodies == [b"there"]


async def test_a_dead_letter_whose_topic_is_gone_is_told_so(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic)
    await bury(client, new_topic, group, b"gone")
    await bury(client, topic, group, b"here")
    await delete_topic(client, new_topic)
    assert names(await resend(client, group, 0, 1)) == ["TOPIC_NOT_FOUND", "OK"]
    assert names(await resend(client, group, 0, to_topic=topic)) == ["OK"]
    assert sorted((await client.receive(topic, group)).bodies) == [b"gone", b"here"]


async def test_a_dead_letter_can_be_sent_to_a_topic_for_all_of_its_groups(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    await bury(client, topic, group, b"0", keys=["key"])
    [letter] = await resend(client, group, 0, to_topic=new_topic)
    assert (code(letter), letter.topic) == ("OK", new_topic)
    for readers in (group, f"{group}-neighbour"):
        received = await client.receive(new_topic, readers)
        assert (received.bodies, received.attempts) == ([b"0"], [1])
        assert received.messages[0].topic.name == new_topic
        assert received.messages[0].user_properties == {}
        assert not received.messages[0].system_properties.HasField("dead_letter_queue")
    assert (await client.receive(topic, group)).bodies == []
    assert [each.body for each in await found(client, new_topic, "key")] == [b"0"]


async def test_a_dead_letter_of_an_ordered_group_goes_to_its_topic_behind_what_is_there(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=8, kind=pb.FIFO)
    await create_group(client, name=group, fifo=True)
    await bury(client, new_topic, group, b"0", message_group="a")
    await client.send(new_topic, b"1", message_group="a")
    [letter] = await resend(client, group, 0)
    assert (code(letter), letter.topic) == ("OK", new_topic)
    received = await client.receive(new_topic, group)
    assert (received.bodies, received.attempts) == ([b"1", b"0"], [1, 1])
    first, second = (each.system_properties for each in received.messages)
    assert (second.message_group, second.queue_id) == ("a", first.queue_id)
    # All of the topic's groups get it.
    neighbours = await client.receive(new_topic, f"{group}-neighbour")
    assert sorted(neighbours.bodies) == [b"0", b"0", b"1"]


@pytest.mark.parametrize(
    ("kind", "system", "expected"),
    [
        (pb.FIFO, {}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        (pb.DELAY, {}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        (pb.TRANSACTION, {}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        (pb.PRIORITY, {}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        (pb.LITE, {}, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
        (pb.NORMAL, {}, "OK"),
    ],
)
async def test_a_dead_letter_must_fit_the_topic_that_it_is_sent_to(
    client: RawClient, topic: str, new_topic: str, group: str, kind: "pb.MessageType", system: Proto, expected: str
) -> None:
    await client.create_topic(new_topic, kind=kind)
    await bury(client, topic, group, b"0", **system)
    assert names(await resend(client, group, 0, to_topic=new_topic)) == [expected]
    assert await stored(client, f"%RETRY%{group}") == 0


async def test_no_dead_letter_is_sent_to_a_topic_that_the_broker_writes(
    client: RawClient, topic: str, group: str
) -> None:
    await bury(client, topic, group, b"0")
    for prefix in ("%RETRY%", "%DLQ%"):
        before = await stored(client, f"{prefix}{group}")
        answer = await client.admin("ResendDeadLetters", group=group, offsets=[0], to_topic=f"{prefix}{group}")
        assert {code(answer), *names(answer.letters)} - {"OK"} == {"ILLEGAL_TOPIC"}
        assert await stored(client, f"{prefix}{group}") == before


async def test_a_resend_that_can_not_be_is_refused_as_a_whole(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await bury(client, topic, f"{group}-there", b"0")
    refusals: list[tuple[dict[str, Proto], str]] = [
        ({"group": group, "offsets": [0]}, "CONSUMER_GROUP_NOT_FOUND"),
        ({"group": f"{group}-there", "offsets": [0] * 1025}, "TOO_MANY_REQUESTS"),
        ({"group": f"{group}-there", "offsets": [0], "to_topic": new_topic}, "TOPIC_NOT_FOUND"),
        ({"group": f"{group}-there", "offsets": [0], "to_topic": "a b"}, "ILLEGAL_TOPIC"),
    ]
    for fields, expected in refusals:
        answer = await client.admin("ResendDeadLetters", **fields)
        assert (code(answer), list(answer.letters)) == (expected, [])
    assert (await client.receive(topic, f"{group}-there")).bodies == []


async def test_dead_letters_that_were_sent_again_outlive_restarts(settings: ServerSettings) -> None:
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await bury(client, "orders", "g", b"0", b"1")
        await resend(client, "g", 0, 1)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        first = await client.receive("orders", "g", batch_size=1, poll_s=15)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        second = await client.receive("orders", "g", poll_s=15)
        assert sorted([*first.bodies, *second.bodies]) == [b"0", b"1"]
        assert [*first.attempts, *second.attempts] == [1, 1]
        assert code(await client.ack("orders", "g", handle_of(first.messages[0]))) == "OK"


# --- the settings of a group

CHANGED: dict[str, Proto] = {
    "max_attempts": 3,
    "retry_backoff": "exponential:2s,1h,3",
    "consume_from": "latest",
    "assignment": "consistent-hash",
    "queue_lock_hold": duration(30),
    "priority_factor": 60,
    "remoting_pop": True,
}


def settings_of(group: admin_pb2.Group) -> dict[str, Proto]:
    return {name: getattr(group, name) for name in CHANGED}


async def test_all_settings_of_a_group_but_its_order_can_be_changed(client: RawClient, group: str) -> None:
    await create_group(client, name=group)
    created = (await describe_group(client, group)).group.created
    answer = await update_group(client, name=group, **CHANGED)
    assert (code(answer), settings_of(answer.group)) == ("OK", CHANGED)
    described = (await describe_group(client, group)).group
    assert (settings_of(described), described.created) == (CHANGED, created)
    assert code(await update_group(client, name=group)) == "OK"
    described = (await describe_group(client, group)).group
    assert (described.max_attempts, described.consume_from, described.assignment) == (17, "auto", "averagely")
    assert (described.priority_factor, described.remoting_pop) == (99, False)
    assert not described.HasField("queue_lock_hold")


@pytest.mark.parametrize("factor", [0, 100])
async def test_a_priority_factor_may_be_anything_of_a_hundred(client: RawClient, group: str, factor: int) -> None:
    assert code(await create_group(client, name=group, priority_factor=factor)) == "OK"
    described = (await describe_group(client, group)).group
    assert (described.HasField("priority_factor"), described.priority_factor) == (True, factor)
    assert code(await create_group(client, name=group, priority_factor=factor)) == "OK"
    refused = await create_group(client, name=group)
    assert (code(refused), f"exists with priority_factor {factor};" in refused.status.message) == ("BAD_REQUEST", True)


async def test_changed_attempts_are_for_messages_that_are_under_way_too(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"0")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    received = await client.receive(topic, group)
    await update_group(client, name=group, max_attempts=2)
    await nack(client, topic, group, received.messages)
    assert [letter.body for letter in await dead_letters(client, group)] == [b"0"]


async def test_clients_learn_of_changed_settings_with_their_next_own(client: RawClient, group: str) -> None:
    told = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}})
    await create_group(client, name=group)
    await client.configure(told)
    await update_group(client, name=group, max_attempts=3, retry_backoff="customized:2s,300ms")
    policy = (await client.configure(told)).settings.backoff_policy
    assert policy.max_attempts == 3
    assert list(policy.customized_backoff.next) == [duration(2), duration(0.3)]
    await update_group(client, name=group, retry_backoff="exponential:2s,1h,3")
    curve = (await client.configure(told)).settings.backoff_policy.exponential_backoff
    assert (curve.initial, curve.max, curve.multiplier) == (duration(2), duration(HOUR_S), 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_attempts": -1},
        {"max_attempts": 1001},
        {"retry_backoff": "linear:1s"},
        {"consume_from": "first"},
        {"assignment": "by-luck"},
        {"queue_lock_hold": duration(0.5)},
        {"priority_factor": -1},
        {"priority_factor": 101},
    ],
)
async def test_settings_that_can_not_be_change_nothing(client: RawClient, group: str, fields: dict[str, Proto]) -> None:
    await create_group(client, name=group, **CHANGED)
    assert code(await update_group(client, name=group, **fields)) == "BAD_REQUEST"
    assert settings_of((await describe_group(client, group)).group) == CHANGED


async def test_settings_of_groups_outlive_a_restart(settings: ServerSettings) -> None:
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await create_group(client, name="made", fifo=True, **CHANGED)
        await create_group(client, name="changed")
        await update_group(client, name="changed", **CHANGED)
        before = list((await client.admin("ListGroups")).groups)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        after = list((await client.admin("ListGroups")).groups)
    assert after == before
    assert [(each.name, each.fifo, settings_of(each)) for each in after] == [
        ("changed", False, CHANGED),
        ("made", True, CHANGED),
    ]


async def test_a_group_that_was_deleted_while_a_poll_waited_can_be_made_again_with_an_order(
    strict: RawClient, strict_server: Embedded, new_topic: str, group: str
) -> None:
    await strict.create_topic(new_topic, queues=1)
    await create_group(strict, name=group)
    async with RawClient(strict_server.grpc) as waiting:
        poll = asyncio.ensure_future(waiting.receive(new_topic, group, poll_s=2))
        await until_known(strict, waiting, group)
        await strict.admin("DeleteGroup", name=group)
        await strict.send(new_topic, b"0")
        await poll
    assert code(await create_group(strict, name=group, fifo=True)) == "OK"
    assert (await strict.receive(new_topic, group)).code in ("OK", "MESSAGE_NOT_FOUND")
    assert await update(strict, new_topic, group, 0) == "OK"
    assert (await strict.receive(new_topic, group)).bodies == [b"0"]
