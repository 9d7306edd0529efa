"""What clients that pop ask without a claim (200052, 200054, 200055), and the least offsets of groups (308)."""

import asyncio
import time

from ternmq_rpc.remoting.json_dialect import decode_dialect
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded
from tests.support.popping_client import acknowledge, connect_popper, pop, read_popped
from tests.support.remoting_client import RemotingClient
from tests.support.until import until_answered
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def test_a_look_at_messages_claims_none_of_them(server: Embedded) -> None:
    topic = group = "peek-basics"
    look = {"consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32}
    async with await connect_popper(server.remoting) as client:
        assert (await client.call(200052, **look)).code == 17
        for number in range(4):
            await client.send(topic, b"%d" % number, queue_id=number % 2)
        for _ in range(2):
            seen = await client.call(200052, **look)
            assert sorted(record.body for record in decode_records(seen.body)) == [b"0", b"1", b"2", b"3"]
        [first] = decode_records((await client.call(200052, **(look | {"queueId": 1, "maxMsgNums": 1}))).body)
        assert (first.body, first.queue_id) == (b"1", 1)
        for message in read_popped(await pop(client, group, topic)):
            assert (await acknowledge(client, group, message)).code == 0
        nothing = await client.call(200052, **look)
        assert (nothing.code, nothing.remark, nothing.body) == (19, "NO_MESSAGE_IN_QUEUE", b"")
        assert (await client.call(200052, **(look | {"maxMsgNums": 33}))).code == 29
        assert (await client.call(200052, **(look | {"queueId": 99}))).code == 29


async def test_who_asks_for_messages_is_told_when_there_are_some(server: Embedded) -> None:
    topic = group = "notify-basics"
    ask = {"consumerGroup": group, "topic": topic, "queueId": -1, "bornTime": int(time.time() * 1000)}
    async with await connect_popper(server.remoting) as client, await connect_popper(server.remoting) as producer:
        await producer.send(topic, b"x")
        there = await client.call(200054, **ask, pollTime=0)
        assert (there.code, there.fields["hasMsg"], there.fields["pollingFull"]) == (0, "true", "false")
        [message] = read_popped(await pop(client, group, topic))
        assert (await client.call(200054, **ask, pollTime=0)).fields["hasMsg"] == "false"
        assert (await acknowledge(client, group, message)).code == 0
        began = time.monotonic()
        assert (await client.call(200054, **ask, pollTime=300)).fields["hasMsg"] == "false"
        assert time.monotonic() - began >= 0.3
        waiting = asyncio.create_task(client.call(200054, **ask, pollTime=20_000))
        await producer.send(topic, b"y", queue_id=3)
        assert (await waiting).fields["hasMsg"] == "true"
        assert time.monotonic() - began < 15


async def test_pops_that_wait_are_counted(server: Embedded) -> None:
    topic = group = "polling-basics"
    ask = {"consumerGroup": group, "topic": topic, "queueId": -1}
    async with await connect_popper(server.remoting) as client, await connect_popper(server.remoting) as other:
        await client.send(topic, b"x")
        [message] = read_popped(await pop(client, group, topic))
        assert (await acknowledge(client, group, message)).code == 0
        assert (await other.call(200055, **ask)).fields["pollingNum"] == "0"
        waiting = asyncio.create_task(pop(client, group, topic, poll_ms=20_000))

        async def count_waiting() -> object:
            return (await other.call(200055, **ask)).fields["pollingNum"]

        await until_answered(count_waiting, "1")
        await other.send(topic, b"y")
        [message] = read_popped(await waiting)
        assert (await other.call(200055, **ask)).fields["pollingNum"] == "0"
        assert (await acknowledge(client, group, message)).code == 0


async def test_the_least_offsets_of_groups_are_found(remoting: RemotingClient) -> None:
    topic = "corrected-4x"
    for _ in range(5):
        await remoting.send(topic, b"x")
    for group, offset in (("corrected-a", 2), ("corrected-b", 4), ("corrected-c", 1)):
        await remoting.heartbeat("c", consumers={group: [topic]})
        set_offset = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
        assert (await remoting.call(15, **set_offset)).code == 0

    async def ask(**fields: str) -> object:
        return decode_dialect((await remoting.call(308, topic=topic, **fields)).body)

    assert await ask() == {"correctionOffsets": {"0": 1}}
    assert await ask(filterGroups="corrected-c,nobody") == {"correctionOffsets": {"0": 2}}
    behind = await ask(filterGroups="corrected-c", compareGroup="corrected-c")
    assert behind == {"correctionOffsets": {"0": 2**63 - 1}}


async def test_a_half_message_that_was_given_up_stays_so(remoting: RemotingClient) -> None:
    refused = await remoting.call(323, topic="T", msgId="M")
    assert (refused.code, "TRANS_CHECK_MAX_TIME_TOPIC" in refused.remark) == (1, True)
