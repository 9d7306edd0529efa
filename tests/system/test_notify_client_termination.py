"""NotifyClientTermination: a client says good-bye (`overview.md, Heartbeats and termination`)."""

import asyncio

from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, Received, code, receive_request
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def terminate(client: RawClient, group: str | None = None) -> str:
    named = None if group is None else {"name": group}
    return code(await client.call("NotifyClientTermination", group=named))


async def test_a_producer_may_leave_with_or_without_a_group(client: RawClient) -> None:
    for group in (None, ""):
        await client.configure(pb.Settings(client_type=pb.PRODUCER, publishing={}))
        assert await terminate(client, group) == "OK"


async def test_a_consumer_leaves_its_group(client: RawClient, group: str) -> None:
    await client.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))
    assert await terminate(client, group) == "OK"
    described = await client.admin("DescribeGroup", name=group)
    assert list(described.client_ids) == []


async def test_a_second_good_bye_is_not_recognized(client: RawClient, group: str) -> None:
    await client.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))
    assert await terminate(client, group) == "OK"
    assert await terminate(client, group) == "UNRECOGNIZED_CLIENT_TYPE"


async def test_a_client_that_nobody_knows_is_not_recognized(client: RawClient, group: str) -> None:
    assert await terminate(client, group) == "UNRECOGNIZED_CLIENT_TYPE"


async def test_an_illegal_group_is_refused_and_the_client_forgotten_all_the_same(client: RawClient, group: str) -> None:
    await client.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))
    assert await terminate(client, "a b") == "ILLEGAL_CONSUMER_GROUP"
    assert await terminate(client, group) == "UNRECOGNIZED_CLIENT_TYPE"


async def test_a_waiting_poll_gets_what_another_client_leaves_behind(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1")
    await client.receive(topic, group, auto_renew=True, invisible_s=None)
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    assert await terminate(client, group) == "OK"
    assert (await waiting).bodies == [b"1"]


async def test_a_good_bye_leaves_a_simple_consumers_messages_hidden(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"1")
    assert (await client.receive(topic, group, invisible_s=60)).bodies == [b"1"]
    assert await terminate(client, group) == "OK"
    assert (await other.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


async def test_a_poll_that_was_waiting_at_the_good_bye_keeps_nothing(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    request = receive_request(topic, group, poll_s=15, invisible_s=None, auto_renew=True)
    waiting = client.stream("ReceiveMessage", request)
    while await terminate(client, group) != "OK":  # until the poll has made the client known
        pass
    await other.send(topic, b"1")
    received = Received()
    async for item in waiting:
        received.add(item)
    assert (received.code, received.bodies) == ("MESSAGE_NOT_FOUND", [])
    taken = await other.receive(topic, group)
    assert (taken.bodies, taken.attempts) == ([b"1"], [1])
