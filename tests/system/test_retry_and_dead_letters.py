"""What becomes of messages that a consumer does not acknowledge: retries (`consuming.md, Retries`), then dead letters
(`consuming.md, Dead letters`)."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_common.limits import HOUR_MS
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, RawClient, code, local_settings, message
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group
from tests.system.test_offsets import get, pull, query

pytestmark = SERVER_LOOP
OWN_PROPERTIES = {"color": "red"}


def handle_of(received: pb.Message) -> str:
    return received.system_properties.receipt_handle


async def nack(client: RawClient, topic: str, group: str, messages: Iterable[pb.Message]) -> None:
    """Give messages back, to be delivered again at once."""
    for received in messages:
        assert code(await client.change(topic, group, handle_of(received), 0)) == "OK"


async def terminate(client: RawClient, group: str) -> None:
    assert code(await client.call("NotifyClientTermination", group={"name": group})) == "OK"


async def stored(client: RawClient, topic: str) -> int:
    """How many messages the one queue of that topic was ever given."""
    return (await query(client, topic, pb.END)).offset


async def dead_letters(client: RawClient, group: str, *, poll_s: float = 0.0) -> list[pb.Message]:
    """The group's dead letters; with `poll_s` it waits for the first, and is no poll of the group."""
    return (await pull(client, f"%DLQ%{group}", 0, poll_s=poll_s)).messages


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    """Of a server that is started again."""
    return local_settings(tmp_path)


# --- retries


async def test_a_retry_is_the_message_as_it_was_and_says_where_its_copy_is(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    sent = message(new_topic, b"1", properties=OWN_PROPERTIES, tag="tag", keys=["key", "other"])
    await client.send(new_topic, b"somewhere else")
    await client.call("SendMessage", messages=[sent])
    first = (await client.receive(new_topic, group, tags="tag")).messages
    await nack(client, new_topic, group, first)
    [again] = (await client.receive(new_topic, group, tags="tag")).messages
    assert again.topic.name == new_topic
    assert (again.body, dict(again.user_properties)) == (first[0].body, OWN_PROPERTIES)
    own, before = again.system_properties, first[0].system_properties
    for same in ("message_id", "tag", "keys", "born_timestamp", "born_host", "message_type", "body_digest"):
        assert getattr(own, same) == getattr(before, same)
    assert (own.queue_id, own.queue_offset, own.delivery_attempt) == (0, 0, 2)
    assert own.store_timestamp.ToNanoseconds() >= before.store_timestamp.ToNanoseconds()
    assert not own.HasField("dead_letter_queue")


async def test_the_retries_of_one_topic_are_not_for_another(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=1)
    for name in (topic, new_topic):
        await client.send(name, name.encode())
        await nack(client, name, group, (await client.receive(name, group)).messages)
    assert await stored(client, f"%RETRY%{group}") == 2
    for name in (topic, new_topic):
        received = await client.receive(name, group)
        assert (received.bodies, received.attempts) == ([name.encode()], [2])


async def test_neither_new_messages_nor_retries_wait_for_all_of_the_others(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, *[b"retry"] * 32)
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    await client.send(topic, *[b"new"] * 32)
    assert set((await client.receive(topic, group, batch_size=8)).bodies) == {b"new", b"retry"}


async def test_of_many_failures_at_once_each_message_comes_again_once(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, *[b"%d" % number for number in range(64)])
    held = [*(await client.receive(topic, group)).messages, *(await client.receive(topic, group)).messages]
    await asyncio.gather(*(nack(client, topic, group, [each]) for each in held))
    again = [*(await client.receive(topic, group)).messages, *(await client.receive(topic, group)).messages]
    assert sorted(int(each.body) for each in again) == list(range(64))
    assert {each.system_properties.delivery_attempt for each in again} == {2}
    assert await stored(client, f"%RETRY%{group}") == 64


async def test_what_a_push_consumer_leaves_behind_is_copied_when_it_fails_again(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1")
    await client.receive(topic, group, auto_renew=True, invisible_s=None)
    await terminate(client, group)
    received = await other.receive(topic, group)
    assert received.attempts == [2]
    await nack(other, topic, group, received.messages)
    assert await stored(client, f"%RETRY%{group}") == 1
    assert (await other.receive(topic, group)).attempts == [3]


async def test_a_copy_that_has_become_old_is_replaced_before_retention_can_remove_it(settings: ServerSettings) -> None:
    settings = replace(settings, retention_ms=20 * HOUR_MS, test_clock=True)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.send("orders", b"1")
        await nack(client, "orders", "g", (await client.receive("orders", "g")).messages)
        held = (await client.receive("orders", "g", invisible_s=12 * 3600)).messages
        await client.advance(10 * 3600 + 1)
        await nack(client, "orders", "g", held)
        assert await stored(client, "%RETRY%g") == 2
        received = await client.receive("orders", "g")
        assert (received.bodies, received.attempts) == ([b"1"], [3])
        assert received.messages[0].system_properties.queue_offset == 1


# --- a push consumer that names no time


async def push_consumer(client: RawClient, group: str, backoff: str) -> None:
    await create_group(client, name=group, retry_backoff=backoff)
    await client.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))


async def test_a_message_that_a_push_consumer_gives_back_waits_as_the_groups_backoff_says(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await push_consumer(client, group, "customized:100ms,1h")
    await client.send(topic, b"1")
    held = await client.receive(topic, group, auto_renew=True, invisible_s=None)
    await nack(client, topic, group, held.messages)
    again = await client.receive(topic, group, auto_renew=True, invisible_s=None, poll_s=15)
    assert again.attempts == [2]
    await nack(client, topic, group, again.messages)
    assert (await other.receive(topic, group, poll_s=0.3)).code == "MESSAGE_NOT_FOUND"


async def test_a_push_consumer_that_names_a_time_gets_that(client: RawClient, topic: str, group: str) -> None:
    await push_consumer(client, group, "customized:1h")
    await client.send(topic, b"1")
    [held] = (await client.receive(topic, group, auto_renew=True, invisible_s=None)).messages
    await client.change(topic, group, handle_of(held), 0.05)
    assert (await client.receive(topic, group, poll_s=15)).attempts == [2]


async def test_a_push_consumer_that_suspends_a_message_has_it_shown_at_once(
    client: RawClient, topic: str, group: str
) -> None:
    await push_consumer(client, group, "customized:1h")
    await client.send(topic, b"1")
    [held] = (await client.receive(topic, group, auto_renew=True, invisible_s=None)).messages
    await client.change(topic, group, handle_of(held), 0, suspend=True)
    assert (await client.receive(topic, group)).attempts == [1]


async def test_a_simple_consumer_has_its_message_shown_at_once(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group, retry_backoff="customized:1h")
    await client.configure(pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription={"group": {"name": group}}))
    await client.send(topic, b"1")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    assert (await client.receive(topic, group)).attempts == [2]


# --- dead letters


async def test_a_last_attempt_whose_consumer_leaves_is_no_more_delivered(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await create_group(client, name=group, max_attempts=1)
    await client.send(topic, b"1")
    assert (await client.receive(topic, group, auto_renew=True, invisible_s=None)).attempts == [1]
    await terminate(client, group)
    assert (await other.receive(topic, group)).attempts == []


async def test_a_last_attempt_can_be_acknowledged_after_the_good_bye(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group, max_attempts=1)
    await client.send(topic, b"1")
    [held] = (await client.receive(topic, group, auto_renew=True, invisible_s=None)).messages
    await terminate(client, group)
    assert code(await client.ack(topic, group, handle_of(held))) == "OK"
    assert (await get(client, topic, group)).offset == 1
    assert await dead_letters(client, group) == []


async def test_a_last_attempt_whose_consumer_left_without_a_last_word_is_a_dead_letter(
    timed: RawClient, new_topic: str, group: str
) -> None:
    await timed.create_topic(new_topic)
    await create_group(timed, name=group, max_attempts=1)
    await timed.send(new_topic, b"1")
    await timed.receive(new_topic, group, auto_renew=True, invisible_s=None)
    await terminate(timed, group)
    await timed.advance(10)
    assert [letter.body for letter in await dead_letters(timed, group, poll_s=15)] == [b"1"]
    assert (await timed.receive(new_topic, group)).bodies == []


async def test_a_dead_letter_is_the_message_with_where_it_came_from(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group, max_attempts=2)
    sent = message(topic, b"1", properties=OWN_PROPERTIES, tag="tag", keys=["key"])
    await client.call("SendMessage", messages=[sent])
    for _ in range(2):
        received = (await client.receive(topic, group)).messages
        await nack(client, topic, group, received)
    [letter] = await dead_letters(client, group)
    assert letter.body == b"1"
    own, before = letter.system_properties, received[0].system_properties
    for same in ("message_id", "tag", "keys", "born_timestamp", "born_host", "message_type", "body_digest"):
        assert getattr(own, same) == getattr(before, same)
    assert (own.dead_letter_queue.topic, own.dead_letter_queue.message_id) == (topic, own.message_id)
    assert letter.user_properties == {
        **OWN_PROPERTIES,
        "DLQ_ORIGIN_TOPIC": topic,
        "DLQ_ORIGIN_MESSAGE_ID": own.message_id,
        "DLQ_ATTEMPTS": "2",
        "DLQ_REASON": "attempts",
    }
    assert (own.queue_id, own.queue_offset) == (0, 0)


async def test_dead_letters_are_a_topic_like_any_other(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await create_group(client, name=group, max_attempts=1)
    letters, readers = f"%DLQ%{group}", f"{group}-readers"
    waiting = asyncio.ensure_future(other.receive(letters, readers, poll_s=15))
    await client.send(topic, b"1")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    received = await waiting
    assert (received.bodies, received.attempts) == ([b"1"], [1])
    assert received.messages[0].topic.name == letters
    await nack(client, letters, readers, received.messages)
    again = await client.receive(letters, readers)
    assert (again.bodies, again.attempts) == ([b"1"], [2])
    assert code(await client.ack(letters, readers, handle_of(again.messages[0]))) == "OK"
    route = await client.call("QueryRoute", topic={"name": letters})
    assert [queue.id for queue in route.message_queues] == [0]
    asked = rpc.QueryAssignmentRequest(topic={"name": letters}, group={"name": readers})
    assert [each.message_queue.id for each in (await client.call("QueryAssignment", asked)).assignments] == [-1]


async def test_a_dead_letter_that_can_not_be_consumed_either_is_a_dead_letter_of_its_readers(
    client: RawClient, topic: str, group: str
) -> None:
    readers = f"{group}-readers"
    for name in (group, readers):
        await create_group(client, name=name, max_attempts=1)
    await client.send(topic, b"1")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    await nack(client, f"%DLQ%{group}", readers, (await client.receive(f"%DLQ%{group}", readers)).messages)
    [letter] = await dead_letters(client, readers)
    assert letter.system_properties.dead_letter_queue.topic == f"%DLQ%{group}"
    assert letter.user_properties["DLQ_ORIGIN_TOPIC"] == f"%DLQ%{group}"


# --- dead letters at the consumer's wish


async def test_a_forwarded_message_is_a_dead_letter_once_however_often_it_is_forwarded(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1", b"2")
    given_up, kept = (await client.receive(topic, group)).messages
    for _ in range(3):
        assert await client.forward_to_dead_letters(topic, group, handle_of(given_up)) == "OK"
    [letter] = await dead_letters(client, group)
    assert (letter.body, letter.user_properties["DLQ_REASON"]) == (b"1", "forwarded")
    assert letter.user_properties["DLQ_ATTEMPTS"] == "1"
    assert letter.system_properties.dead_letter_queue.topic == topic
    assert (await client.receive(topic, group)).bodies == []
    await client.ack(topic, group, handle_of(kept))
    assert (await get(client, topic, group)).offset == 2


async def test_a_retry_that_is_forwarded_says_how_many_attempts_it_had(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1")
    await nack(client, topic, group, (await client.receive(topic, group)).messages)
    [again] = (await client.receive(topic, group)).messages
    assert await client.forward_to_dead_letters(topic, group, handle_of(again)) == "OK"
    [letter] = await dead_letters(client, group)
    assert (letter.user_properties["DLQ_ATTEMPTS"], letter.user_properties["DLQ_REASON"]) == ("2", "forwarded")
    assert letter.system_properties.dead_letter_queue.topic == topic


@pytest.mark.parametrize("handle", ["", "garbage"])
async def test_what_has_no_handle_can_not_be_forwarded(client: RawClient, topic: str, group: str, handle: str) -> None:
    assert await client.forward_to_dead_letters(topic, group, handle) == "INVALID_RECEIPT_HANDLE"


async def test_names_are_checked_when_forwarding(client: RawClient, topic: str, group: str) -> None:
    assert await client.forward_to_dead_letters("a b", group, "handle") == "ILLEGAL_TOPIC"
    assert await client.forward_to_dead_letters(topic, "a b", "handle") == "ILLEGAL_CONSUMER_GROUP"


# --- topics of the broker


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DLQ%"])
async def test_nobody_sends_to_a_topic_that_the_broker_writes(client: RawClient, group: str, prefix: str) -> None:
    for _ in range(2):  # of a group that is not there, then of one that is
        assert code(await client.call("SendMessage", messages=[message(f"{prefix}{group}")])) == "ILLEGAL_TOPIC"
        await create_group(client, name=group)
    assert await stored(client, f"{prefix}{group}") == 0


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DLQ%"])
async def test_a_group_that_is_not_there_has_no_topics(client: RawClient, group: str, prefix: str) -> None:
    assert code(await query(client, f"{prefix}{group}", pb.END)) == "TOPIC_NOT_FOUND"


# --- restart


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_claim_that_ends_while_the_server_is_away_is_dealt_with_when_it_is_back(
    settings: ServerSettings, attempts: int
) -> None:
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await create_group(client, name="g", max_attempts=attempts)
        await client.send("orders", b"1")
        [held] = (await client.receive("orders", "g")).messages
        await client.change("orders", "g", handle_of(held), 0.5)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        if attempts == 1:
            assert [letter.body for letter in await dead_letters(client, "g", poll_s=15)] == [b"1"]
            assert (await client.receive("orders", "g")).bodies == []
        else:
            assert (await client.receive("orders", "g", poll_s=15)).attempts == [2]


# --- how far a group is


async def test_the_retry_queue_is_one_row_of_a_groups_progress(client: RawClient, topic: str, group: str) -> None:
    other_topic = await client.create_topic(f"{topic}-other")
    for name in (topic, other_topic):
        await client.send(name, b"1")
        await nack(client, name, group, (await client.receive(name, group)).messages)
    described = await client.admin("DescribeGroup", name=group)
    [row] = [row for row in described.progress if row.topic == f"%RETRY%{group}"]
    assert (row.queue_id, row.in_flight, row.max_offset - row.cursor) == (0, 2, 0)
