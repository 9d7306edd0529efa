"""Routes, sends, heartbeats, pulls and offsets, in the order in which clients need them."""

import asyncio
import json
import time
from contextlib import AsyncExitStack, suppress

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_rpc.remoting.message_records import BatchPart, decode_records, encode_batch
from tests.support.embedded import Embedded, RawClient
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def test_a_topic_is_created_by_its_first_message_with_the_queues_that_its_producer_wants(
    server: Embedded,
) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        missing = await client.call(105, topic="created-4x")
        template = await client.call(105, topic="TBW102")
        assert missing.code == 17
        [queues] = json.loads(template.body)["queueDatas"]
        assert (queues["perm"], queues["readQueueNums"]) == (7, 8)
        sent = await client.send("created-4x", b"first", queue_id=3)
        assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (0, "3", "0")
        assert (sent.fields["MSG_REGION"], sent.fields["TRACE_ON"]) == ("DefaultRegion", "true")
        route = json.loads((await client.call(105, topic="created-4x")).body)
        [queues] = route["queueDatas"]
        assert (queues["perm"], queues["readQueueNums"], queues["writeQueueNums"]) == (6, 4, 4)
        [broker] = route["brokerDatas"]
        assert broker["brokerAddrs"] == {"0": server.remoting}
        assert (await client.send("created-4x", b"x", queue_id=4)).code == 29


async def test_a_message_is_pulled_as_it_was_sent(remoting: RemotingClient) -> None:
    properties = {"UNIQ_KEY": "AB12", "TAGS": "tag", "KEYS": "k1 k2", "own": "value", "WAIT": "true", "BUYER_ID": "b"}
    await remoting.send("pulled-4x", b"body", properties=properties, h=7, g=1234567890123)
    await remoting.heartbeat("c1", consumers={"pulled-4x-group": ["pulled-4x"]})
    pulled = await remoting.pull("pulled-4x-group", "pulled-4x")
    assert (pulled.code, pulled.fields["nextBeginOffset"], pulled.fields["maxOffset"]) == (0, "1", "1")
    [record] = decode_records(pulled.body)
    assert (record.topic, record.body, record.flag, record.born_ms) == ("pulled-4x", b"body", 7, 1234567890123)
    pairs = dict(pair.split("\x01") for pair in record.properties.split("\x02") if pair)
    expected = {**properties, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    del expected["WAIT"]
    assert pairs == expected


async def test_a_batch_is_stored_in_order(remoting: RemotingClient) -> None:
    parts = [BatchPart(number, b"%d" % number, f"UNIQ_KEY\x01B{number}") for number in range(3)]
    await remoting.send("batch-4x", b"before")
    sent = await remoting.call(320, encode_batch(parts), a="PG", b="batch-4x", e=0, m=True)
    assert (sent.code, sent.fields["queueOffset"], len(sent.fields["msgId"].split(","))) == (0, "1", 3)
    await remoting.heartbeat("c1", consumers={"batch-4x-group": ["batch-4x"]})
    records = decode_records((await remoting.pull("batch-4x-group", "batch-4x", offset=1)).body)
    assert [(record.body, record.flag, record.queue_offset) for record in records] == [
        (b"0", 0, 1),
        (b"1", 1, 2),
        (b"2", 2, 3),
    ]


async def test_a_pull_waits_for_a_message_that_its_filter_takes(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send("waiting-4x", b"first")
        await client.heartbeat("c1", consumers={"waiting-4x-group": ["waiting-4x"]}, expression="wanted")
        async with await RemotingClient.connect(server.remoting) as puller:
            before = await puller.pull("waiting-4x-group", "waiting-4x")
            assert (before.code, before.fields["nextBeginOffset"]) == (20, "1")
            began = time.monotonic()
            waiting = puller.pull("waiting-4x-group", "waiting-4x", offset=1, suspend_ms=20_000)
            pulling = asyncio.ensure_future(waiting)
            await client.send("waiting-4x", b"other", properties={"TAGS": "unwanted"})
            await client.send("waiting-4x", b"taken", properties={"TAGS": "wanted"})
            answer = await pulling
            assert [record.body for record in decode_records(answer.body)] == [b"taken"]
            assert time.monotonic() - began < 20


async def test_a_connection_pulls_on_and_on(remoting: RemotingClient) -> None:
    for _ in range(10):
        await remoting.send("on-and-on-4x", b"x")
    await remoting.heartbeat("on-and-on", consumers={"on-and-on-group": ["on-and-on-4x"]})
    for offset in range(10):
        assert (await remoting.pull("on-and-on-group", "on-and-on-4x", offset=offset, maxMsgNums=1)).code == 0


@pytest.mark.parametrize(("offset", "code", "following"), [(0, 0, "2"), (2, 19, "2"), (5, 21, "2"), (-1, 21, "0")])
async def test_an_offset_outside_of_the_queue_is_moved(
    remoting: RemotingClient, offset: int, code: int, following: str
) -> None:
    topic = f"moved-4x-{offset}"
    for _ in range(2):
        await remoting.send(topic, b"x")
    await remoting.heartbeat("c1", consumers={f"{topic}-group": [topic]})
    pulled = await remoting.pull(f"{topic}-group", topic, offset=offset)
    assert (pulled.code, pulled.fields["nextBeginOffset"]) == (code, following)


async def test_members_hear_of_each_other_and_offsets_are_kept(server: Embedded) -> None:
    consumers = {"members-4x": ["members-topic"]}
    async with (
        await RemotingClient.connect(server.remoting) as one,
        await RemotingClient.connect(server.remoting) as two,
    ):
        assert (await one.call(38, consumerGroup="members-4x")).code == 1
        await one.heartbeat("one", consumers=consumers)
        assert (await one.pushed.get()).code == 40
        await two.heartbeat("two", consumers=consumers)
        assert (await one.pushed.get()).fields == {"consumerGroup": "members-4x"}
        listed = await two.call(38, consumerGroup="members-4x")
        assert json.loads(listed.body) == {"consumerIdList": ["one", "two"]}
        await one.send("members-topic", b"x")
        queue = {"consumerGroup": "members-4x", "topic": "members-topic", "queueId": 0}
        assert (await one.call(14, **queue)).fields["offset"] == "0"
        assert (await one.call(15, **queue, commitOffset=1)).code == 0
        assert (await two.call(14, **queue)).fields["offset"] == "1"
        await two.close()
        assert (await one.pushed.get()).code == 40
        assert json.loads((await one.call(38, consumerGroup="members-4x")).body) == {"consumerIdList": ["one"]}


async def test_a_group_set_to_begin_at_the_earliest_message_does_so_behind_a_purge(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        for _ in range(3):
            await client.send("purged-4x", b"gone")
        await operator.create_group("earliest-4x", consume_from="earliest")
        await operator.create_group("usual-4x")
        answer = await operator.admin("PurgeTopic", name="purged-4x")
        assert answer.status.code == pb.OK
        queue = {"topic": "purged-4x", "queueId": 0}
        found = await client.call(14, consumerGroup="earliest-4x", **queue)
        assert (found.code, found.fields["offset"]) == (0, "3")
        # Its clients decide: those of 4.x begin at the end.
        assert (await client.call(14, consumerGroup="usual-4x", **queue)).code == 22


@pytest.mark.parametrize("name", ["line\nbreak", "x" * 1_000, "\u00e9" * 600])
async def test_a_producer_group_has_a_name_that_can_be_printed(server: Embedded, name: str) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        refused = await client.heartbeat("named-4x", producers=(name,))
        assert (refused.code, "the name of a producer group" in refused.remark) == (1, True)
        assert (await client.heartbeat("named-4x", producers=("of any % characters",))).code == 0


async def test_unknown_requests_are_refused(remoting: RemotingClient) -> None:
    answer = await remoting.call(4242)
    assert (answer.code, answer.remark) == (3, " request type 4242 not supported")
    assert (await remoting.call(15, consumerGroup="nobody-4x", topic="t", queueId=0, commitOffset=0)).code == 26
    assert (await remoting.call(34, b"no json")).code == 1


async def test_pulls_go_on_however_many_there_were(remoting: RemotingClient) -> None:
    await remoting.send("often-4x", bytes(100_000))
    await remoting.heartbeat("c1", consumers={"often-4x-group": ["often-4x"]})
    for _ in range(200):
        assert (await remoting.pull("often-4x-group", "often-4x")).code == 0


async def test_a_heartbeat_that_names_too_much_is_refused_before_it_is_read(remoting: RemotingClient) -> None:
    groups = await remoting.heartbeat("greedy", consumers={f"greedy-{number}": [] for number in range(257)})
    assert (groups.code, groups.remark) == (2, "the client is in more than 256 groups")
    topics = await remoting.heartbeat("greedy", consumers={"greedy-0": [f"t{number}" for number in range(1024)]})
    assert (topics.code, topics.remark) == (2, "the group subscribes to more than 1024 topics")
    assert (await remoting.call(38, consumerGroup="greedy-0")).code != 0
    assert (await remoting.call(34, b" " * (1 << 20) + b"{}")).code == 1


async def test_members_hear_once_of_changes_that_come_together(server: Embedded) -> None:
    consumers = {"together-group": ["together-topic"]}
    async with await RemotingClient.connect(server.remoting) as first, AsyncExitStack() as stack:
        await first.heartbeat("first", consumers=consumers)
        assert (await first.pushed.get()).code == 40
        for number in range(10):
            member = await stack.enter_async_context(await RemotingClient.connect(server.remoting))
            await member.heartbeat(f"together-{number}", consumers=consumers)
        assert 1 <= await count_pushed(first) < 10


async def count_pushed(client: RemotingClient) -> int:
    """How often the client is told within a second that members changed."""
    count = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while True:
                assert (await client.pushed.get()).code == 40
                count += 1
    return count
