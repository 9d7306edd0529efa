"""Members that pull go on where an operator moves their group to, whatever they commit until they know."""

import asyncio
import time

import pytest

from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded, RawClient
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
COUNT = 10


async def read_all(client: RemotingClient, client_id: str, group: str, topic: str) -> None:
    """Join, and read and commit all of ten messages."""
    for number in range(COUNT):
        await client.send(topic, b"%d" % number)
    assert (await client.heartbeat(client_id, consumers={group: [topic]})).code == 0
    assert await find_offset(client, group, topic) == 0
    answer = await client.pull(group, topic)
    assert len(decode_records(answer.body)) == COUNT
    await commit(client, group, topic, COUNT)


async def find_offset(client: RemotingClient, group: str, topic: str) -> int:
    """Where the group goes on in queue 0, as a member asks that begins."""
    return int((await client.call(14, consumerGroup=group, topic=topic, queueId=0)).fields["offset"])


async def commit(client: RemotingClient, group: str, topic: str, offset: int) -> None:
    answer = await client.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=offset)
    assert answer.code == 0, answer.remark


async def reset(operator: RawClient, group: str, topic: str) -> None:
    """Move the group to the beginning, as `ternmq group reset` does."""
    answer = await operator.admin("ResetOffsets", group=group, topic=topic, earliest=True)
    assert answer.status.code == 20000, answer.status.message


@pytest.mark.parametrize("tool", ["ternmq", "mqadmin"])
async def test_a_member_is_sent_to_the_new_offset(server: Embedded, tool: str) -> None:
    topic = group = f"reset-online-{tool}"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await read_all(client, "resetting", group, topic)
        if tool == "ternmq":
            await reset(operator, group, topic)
        else:
            moved = await client.call(222, topic=topic, group=group, timestamp=0, isForce=True)
            assert moved.code == 0, moved.remark
        await commit(client, group, topic, COUNT)  # as its timer does
        for _ in range(2):
            told = await client.pull(group, topic, offset=COUNT)
            assert (told.code, told.fields["nextBeginOffset"]) == (21, "0")
        await commit(client, group, topic, COUNT)
        await commit(client, group, topic, 0)
        assert await find_offset(client, group, topic) == 0
        again = await client.pull(group, topic)
        assert [record.body for record in decode_records(again.body)] == [b"%d" % number for number in range(COUNT)]
        await commit(client, group, topic, 4)
        assert await find_offset(client, group, topic) == 4


async def test_a_client_that_just_reads_on_from_there_has_followed(server: Embedded) -> None:
    topic = group = "reset-followed"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await read_all(client, "following", group, topic)
        await reset(operator, group, topic)
        assert (await client.pull(group, topic, offset=COUNT)).code == 21
        assert (await client.pull(group, topic, offset=0)).code == 0
        await commit(client, group, topic, 7)
        assert await find_offset(client, group, topic) == 7


async def test_a_pull_that_waits_ends_so_that_its_member_is_told(server: Embedded) -> None:
    topic = group = "reset-waiting"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await read_all(client, "waiting", group, topic)
        began = time.monotonic()
        waiting = asyncio.create_task(client.pull(group, topic, offset=COUNT, suspend_ms=20_000))
        assert not (await asyncio.wait([waiting], timeout=0.5))[0]
        await reset(operator, group, topic)
        assert (await waiting).code == 19
        assert time.monotonic() - began < 15
        assert (await client.pull(group, topic, offset=COUNT)).code == 21


async def test_a_member_that_comes_later_begins_there_at_once(server: Embedded) -> None:
    topic = group = "reset-offline"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await read_all(client, "leaving", group, topic)
        await client.close()
        await reset(operator, group, topic)
        async with await RemotingClient.connect(server.remoting) as later:
            assert (await later.heartbeat("coming", consumers={group: [topic]})).code == 0
            assert await find_offset(later, group, topic) == 0
            assert (await later.pull(group, topic)).code == 0
            await commit(later, group, topic, COUNT)
            assert await find_offset(later, group, topic) == COUNT
