"""A group that is deleted stays deleted: its receipt handles, its members and its dead letters."""

from collections.abc import Awaitable, Callable

import grpc
import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, code
from tests.system.conftest import SERVER_LOOP
from tests.system.test_retry_and_dead_letters import dead_letters, handle_of

pytestmark = SERVER_LOOP
Settle = Callable[[RawClient, str, str, str], Awaitable[str]]


async def delete(client: RawClient, group: str, *, with_dead_letters: bool = False) -> None:
    assert code(await client.admin("DeleteGroup", name=group, with_dead_letters=with_dead_letters)) == "OK"


async def create_again(client: RawClient, group: str, **settings: object) -> None:
    await delete(client, group)
    await client.create_group(group, **settings)


async def acknowledge(client: RawClient, topic: str, group: str, handle: str) -> str:
    return code((await client.ack(topic, group, handle)).entries[0])


async def give_back(client: RawClient, topic: str, group: str, handle: str) -> str:
    return code(await client.change(topic, group, handle, 0))


async def dead_letter(client: RawClient, topic: str, group: str, handle: str) -> str:
    return await client.forward_to_dead_letters(topic, group, handle)


async def heartbeat(client: RawClient, group: str) -> str:
    return code(await client.call("Heartbeat", client_type=pb.SIMPLE_CONSUMER, group={"name": group}))


async def in_flight(client: RawClient, group: str) -> int:
    described = await client.admin("DescribeGroup", name=group)
    return sum(progress.in_flight for progress in described.progress)


@pytest.mark.parametrize("settle", [acknowledge, give_back, dead_letter])
@pytest.mark.parametrize("fifo", [False, True], ids=["plain", "fifo"])
async def test_a_receipt_handle_of_a_deleted_group_settles_nothing_of_the_next_one(
    client: RawClient, topic: str, group: str, settle: Settle, fifo: bool
) -> None:
    await client.send(topic, b"0")
    await client.create_group(group, fifo=fifo, consume_from="earliest")
    [before] = (await client.receive(topic, group)).messages
    await create_again(client, group, fifo=fifo, consume_from="earliest")
    [after] = (await client.receive(topic, group)).messages
    assert (after.body, handle_of(after) != handle_of(before)) == (b"0", True)
    await settle(client, topic, group, handle_of(before))
    assert await in_flight(client, group) == 1, "its consumer has it still"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
    assert await dead_letters(client, group) == []
    assert await acknowledge(client, topic, group, handle_of(after)) == "OK"


@pytest.mark.parametrize("settle", [acknowledge, give_back, dead_letter])
async def test_nor_does_one_of_a_retry(client: RawClient, topic: str, group: str, settle: Settle) -> None:
    await client.create_group(group, consume_from="earliest", retry_backoff="customized:10ms")
    await client.send(topic, b"0")
    handles = []
    for _ in range(2):
        [first] = (await client.receive(topic, group)).messages
        assert await give_back(client, topic, group, handle_of(first)) == "OK"
        [again] = (await client.receive(topic, group, poll_s=5.0)).messages
        assert again.system_properties.delivery_attempt == 2
        handles.append(handle_of(again))
        if len(handles) == 1:
            await create_again(client, group, consume_from="earliest", retry_backoff="customized:10ms")
    await settle(client, topic, group, handles[0])
    assert await in_flight(client, group) == 1, "its consumer has it still"
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
    assert await dead_letters(client, group) == []
    assert await acknowledge(client, topic, group, handles[1]) == "OK"


async def test_members_of_a_deleted_group_do_not_create_it_again(
    client: RawClient, other: RawClient, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_group(group, max_attempts=3)
    await client.send(topic, b"0")
    [message] = (await client.receive(topic, group)).messages
    await delete(other, group)
    for _ in range(2):
        assert (await client.receive(topic, group)).code == "CONSUMER_GROUP_NOT_FOUND"
        assert await heartbeat(client, group) == "CONSUMER_GROUP_NOT_FOUND"
        assert await dead_letter(client, topic, group, handle_of(message)) == "CONSUMER_GROUP_NOT_FOUND"
    settings = pb.Settings(
        client_type=pb.SIMPLE_CONSUMER,
        subscription={"group": {"name": group}, "subscriptions": [{"topic": {"name": topic}}]},
    )
    with pytest.raises(grpc.aio.AioRpcError, match="CONSUMER_GROUP_NOT_FOUND"):
        await client.configure(settings)
    listed = await other.admin("ListGroups", search=group)
    assert list(listed.groups) == []
    said = [record.getMessage() for record in caplog.records if "was deleted while" in record.getMessage()]
    assert len(said) == 1
    assert group in said[0]
    assert client.client_id in said[0]

    await other.create_group(group, max_attempts=3)
    assert (await client.receive(topic, group)).code in ("OK", "MESSAGE_NOT_FOUND")
    described = await other.admin("DescribeGroup", name=group)
    assert described.group.max_attempts == 3


async def test_a_client_that_was_no_member_creates_the_group_by_use(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"0")
    await client.receive(topic, group)
    await delete(client, group)
    assert (await other.receive(topic, group)).attempts == [1]
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND", "it is a member of the new one"


@pytest.mark.parametrize("with_dead_letters", [False, True], ids=["kept", "deleted"])
async def test_dead_letters_of_a_deleted_group_stay_unless_they_are_deleted_too(
    client: RawClient, topic: str, group: str, with_dead_letters: bool
) -> None:
    await client.send(topic, b"0")
    [message] = (await client.receive(topic, group)).messages
    assert await dead_letter(client, topic, group, handle_of(message)) == "OK"
    await delete(client, group, with_dead_letters=with_dead_letters)
    await client.create_group(group)
    bodies = [letter.body for letter in await dead_letters(client, group)]
    assert bodies == ([] if with_dead_letters else [b"0"])
