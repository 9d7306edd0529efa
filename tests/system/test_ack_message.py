"""AckMessage: a consumer is done with messages (`consuming.md, Acknowledgement`)."""

from collections.abc import Callable

import pytest

from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code, names
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def handles(client: RawClient, topic: str, group: str, count: int) -> list[str]:
    """The handles of `count` fresh messages, in order."""
    await client.send(topic, *[str(number).encode() for number in range(count)])
    received = await client.receive(topic, group)
    return [got.system_properties.receipt_handle for got in received.messages]


async def left(client: RawClient, topic: str, group: str, *open_handles: str) -> list[bytes]:
    """What is left of the group's messages once those of the open handles are shown again."""
    for handle in open_handles:
        await client.change(topic, group, handle, 0)
    return (await client.receive(topic, group)).bodies


async def test_each_entry_is_answered_in_order_with_what_it_named(client: RawClient, topic: str, group: str) -> None:
    first, second = await handles(client, topic, group, 2)
    entries = [rpc.AckMessageEntry(message_id="b", receipt_handle=second)]
    entries += [rpc.AckMessageEntry(message_id="a", receipt_handle=first)]
    answer = await client.call("AckMessage", group={"name": group}, topic={"name": topic}, entries=entries)
    assert (code(answer), names(answer.entries)) == ("OK", ["OK", "OK"])
    assert [(entry.message_id, entry.receipt_handle) for entry in answer.entries] == [("b", second), ("a", first)]


async def test_an_acknowledged_message_does_not_come_again_and_its_neighbours_do(
    client: RawClient, topic: str, group: str
) -> None:
    given = await handles(client, topic, group, 3)
    await client.ack(topic, group, given[1])
    assert await left(client, topic, group, given[0], given[2]) == [b"0", b"2"]


async def test_a_second_acknowledgement_is_fine(client: RawClient, topic: str, group: str) -> None:
    [handle] = await handles(client, topic, group, 1)
    for _ in range(2):
        assert code(await client.ack(topic, group, handle)) == "OK"
    assert names((await client.ack(topic, group, handle, handle)).entries) == ["OK", "OK"]


async def test_entries_of_different_outcome_are_multiple_results(client: RawClient, topic: str, group: str) -> None:
    [handle] = await handles(client, topic, group, 1)
    answer = await client.ack(topic, group, handle, "garbage")
    assert code(answer) == "MULTIPLE_RESULTS"
    assert names(answer.entries) == ["OK", "INVALID_RECEIPT_HANDLE"]


async def test_entries_of_the_same_error_have_it_in_common(client: RawClient, topic: str, group: str) -> None:
    answer = await client.ack(topic, group, "garbage", "")
    assert code(answer) == "INVALID_RECEIPT_HANDLE"
    assert names(answer.entries) == ["INVALID_RECEIPT_HANDLE"] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda handle: handle[:-1],
        lambda handle: handle + "A",
        lambda handle: "1" + handle[1:],
        lambda handle: handle + "\x00ä",
        str.swapcase,
    ],
)
async def test_a_handle_that_was_garbled_is_invalid(
    client: RawClient, topic: str, group: str, change: Callable[[str], str]
) -> None:
    [handle] = await handles(client, topic, group, 1)
    assert names((await client.ack(topic, group, change(handle))).entries) == ["INVALID_RECEIPT_HANDLE"]
    assert await left(client, topic, group, handle) == [b"0"]


async def test_a_handle_settles_nothing_for_another_topic_or_group(
    client: RawClient, topic: str, new_topic: str, group: str
) -> None:
    [handle] = await handles(client, topic, group, 1)
    assert names((await client.ack(new_topic, group, handle)).entries) == ["INVALID_RECEIPT_HANDLE"]
    assert names((await client.ack(topic, "stranger", handle)).entries) == ["INVALID_RECEIPT_HANDLE"]
    assert await left(client, topic, group, handle) == [b"0"]


async def test_a_handle_whose_time_has_passed_is_invalid_for_all(client: RawClient, topic: str, group: str) -> None:
    [handle] = await handles(client, topic, group, 1)
    late = (await client.change(topic, group, handle, 0.05)).receipt_handle
    [again] = (await client.receive(topic, group, poll_s=15)).messages
    assert names((await client.ack(topic, group, late)).entries) == ["INVALID_RECEIPT_HANDLE"]
    assert code(await client.change(topic, group, late, 30)) == "INVALID_RECEIPT_HANDLE"
    assert await client.forward_to_dead_letters(topic, group, late) == "INVALID_RECEIPT_HANDLE"
    assert code(await client.ack(topic, group, again.system_properties.receipt_handle)) == "OK"


async def test_a_handle_that_was_replaced_is_fine_and_settles_nothing(
    client: RawClient, topic: str, group: str
) -> None:
    [handle] = await handles(client, topic, group, 1)
    replaced = (await client.change(topic, group, handle, 30)).receipt_handle
    assert replaced != handle
    assert names((await client.ack(topic, group, handle)).entries) == ["OK"]
    assert await left(client, topic, group, replaced) == [b"0"]


async def test_a_request_without_entries_is_a_bad_request(client: RawClient, topic: str, group: str) -> None:
    assert code(await client.ack(topic, group)) == "BAD_REQUEST"


@pytest.mark.parametrize("name", ["", "a b", "TBW102"])
async def test_an_illegal_topic_is_refused_as_a_whole(client: RawClient, group: str, name: str) -> None:
    answer = await client.ack(name, group, "handle")
    assert (code(answer), list(answer.entries)) == ("ILLEGAL_TOPIC", [])


@pytest.mark.parametrize("name", ["", "a b", "CID_RMQ_SYS_mine"])
async def test_an_illegal_group_is_refused_as_a_whole(client: RawClient, topic: str, name: str) -> None:
    answer = await client.ack(topic, name, "handle")
    assert (code(answer), list(answer.entries)) == ("ILLEGAL_CONSUMER_GROUP", [])


async def test_any_client_may_acknowledge_what_another_received(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    [handle] = await handles(client, topic, group, 1)
    assert code(await other.ack(topic, group, handle)) == "OK"
    assert await left(client, topic, group, handle) == []
