"""ChangeInvisibleDuration: more time for a message, or giving it back (`consuming.md, Invisible durations`)."""

import pytest

from ternmq_common.limits import HOUR_MS
from tests.support.embedded import Embedded, RawClient, code
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
TWELVE_HOURS_S = 12 * HOUR_MS / 1000


async def received(client: RawClient, topic: str, group: str) -> str:
    """The handle of a fresh message."""
    await client.send(topic, b"body")
    [got] = (await client.receive(topic, group)).messages
    return got.system_properties.receipt_handle


async def test_zero_shows_the_message_at_once(client: RawClient, topic: str, group: str) -> None:
    handle = await received(client, topic, group)
    answer = await client.change(topic, group, handle, 0)
    assert code(answer) == "OK"
    assert answer.receipt_handle
    assert (await client.receive(topic, group)).attempts == [2]


async def test_the_message_stays_hidden_under_a_new_handle(client: RawClient, topic: str, group: str) -> None:
    handle = await received(client, topic, group)
    answer = await client.change(topic, group, handle, 30)
    assert code(answer) == "OK"
    assert answer.receipt_handle not in ("", handle)
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
    assert code(await client.change(topic, group, answer.receipt_handle, 30)) == "OK"


@pytest.mark.parametrize(
    ("invisible_s", "expected"),
    [
        (-1, "ILLEGAL_INVISIBLE_TIME"),
        (-0.001, "ILLEGAL_INVISIBLE_TIME"),
        (0, "OK"),
        (TWELVE_HOURS_S, "OK"),
        (TWELVE_HOURS_S + 0.001, "ILLEGAL_INVISIBLE_TIME"),
        (-(2.0**62), "ILLEGAL_INVISIBLE_TIME"),
        (2.0**62, "ILLEGAL_INVISIBLE_TIME"),
    ],
)
async def test_duration(client: RawClient, topic: str, group: str, invisible_s: float, expected: str) -> None:
    handle = await received(client, topic, group)
    assert code(await client.change(topic, group, handle, invisible_s)) == expected


async def test_an_attempt_that_was_suspended_does_not_count(client: RawClient, topic: str, group: str) -> None:
    handle = await received(client, topic, group)
    assert code(await client.change(topic, group, handle, 0, suspend=True)) == "OK"
    again = await client.receive(topic, group)
    assert again.attempts == [1]
    await client.change(topic, group, again.messages[0].system_properties.receipt_handle, 0, suspend=False)
    assert (await client.receive(topic, group)).attempts == [2]


async def test_a_handle_can_be_used_once(client: RawClient, topic: str, group: str) -> None:
    handle = await received(client, topic, group)
    assert code(await client.change(topic, group, handle, 30)) == "OK"
    assert code(await client.change(topic, group, handle, 0)) == "INVALID_RECEIPT_HANDLE"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


async def test_an_acknowledged_message_is_not_shown_again(client: RawClient, topic: str, group: str) -> None:
    handle = await received(client, topic, group)
    await client.ack(topic, group, handle)
    assert code(await client.change(topic, group, handle, 0)) == "INVALID_RECEIPT_HANDLE"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize("handle", ["", "garbage", "1garbage", "1" + "A" * 40])
async def test_a_handle_that_does_not_parse_is_invalid(client: RawClient, topic: str, group: str, handle: str) -> None:
    assert code(await client.change(topic, group, handle, 30)) == "INVALID_RECEIPT_HANDLE"


async def test_a_handle_changes_nothing_for_another_topic_or_group(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    handle = await received(client, topic, group)
    assert code(await client.change(new_topic, group, handle, 0)) == "INVALID_RECEIPT_HANDLE"
    assert code(await client.change(topic, "stranger", handle, 0)) == "INVALID_RECEIPT_HANDLE"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


async def test_every_error_echoes_the_handle_of_the_request(
    client: RawClient, server: Embedded, topic: str, group: str
) -> None:
    async with RawClient(server.grpc, metadata=()) as nobody:
        answers = {
            "INVALID_RECEIPT_HANDLE": await client.change(topic, group, "mine", 30),
            "ILLEGAL_INVISIBLE_TIME": await client.change(topic, group, "mine", -1),
            "ILLEGAL_TOPIC": await client.change("a b", group, "mine", 30),
            "ILLEGAL_CONSUMER_GROUP": await client.change(topic, "a b", "mine", 30),
            "CLIENT_ID_REQUIRED": await nobody.change(topic, group, "mine", 30),
        }
    for expected, answer in answers.items():
        assert (code(answer), answer.receipt_handle) == (expected, "mine")


async def test_a_change_ends_auto_renewal_and_another_client_can_have_the_message(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"body")
    [held] = (await client.receive(topic, group, auto_renew=True, invisible_s=None)).messages
    await client.change(topic, group, held.system_properties.receipt_handle, 0)
    assert (await other.receive(topic, group)).attempts == [2]
