"""What operators' tools see of topics, groups and brokers."""

import json
from typing import Any

from ternmq_rpc.remoting.json_dialect import MessageQueueKey, decode_dialect
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
Content = Any
"""What a body holds: tests compare it."""


async def fill(client: RemotingClient, topic: str, *, messages: int = 3) -> tuple[str, MessageQueueKey]:
    """Send messages to queue 0, and have the group `topic-group` read the first; return it, and the queue."""
    for _ in range(messages):
        await client.send(topic, b"x", properties={"TAGS": "tag"})
    group = f"{topic}-group"
    await client.heartbeat(f"{topic}-client", consumers={group: [topic]})
    assert (await client.pull(group, topic)).code == 0
    assert (await client.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=1)).code == 0
    [broker] = json.loads((await client.call(304)).body)["topicList"][1:]
    return group, MessageQueueKey(topic, broker, 0)


def read(body: bytes) -> Content:
    """Return a body's content."""
    return decode_dialect(body)


async def test_a_topic_has_the_offsets_of_its_queues(remoting: RemotingClient) -> None:
    _, queue = await fill(remoting, "stats-4x")
    stats = read((await remoting.call(202, topic="stats-4x")).body)
    found = stats["offsetTable"]
    assert len(found) == 4
    assert (found[queue]["minOffset"], found[queue]["maxOffset"]) == (0, 3)
    assert found[queue]["lastUpdateTimestamp"] > 1_700_000_000_000
    assert found[queue._replace(queue_id=1)] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert (await remoting.call(202, topic="missing-stats-4x")).code == 17


async def test_the_topic_of_traces_is_shown_and_stays(remoting: RemotingClient) -> None:
    name = "RMQ_SYS_TRACE_TOPIC"
    assert (await remoting.send(name, b"trace", properties={"KEYS": "traced"})).code == 0
    assert len(read((await remoting.call(202, topic=name)).body)["offsetTable"]) > 0
    assert read((await remoting.call(351, topic=name)).body)["topicName"] == name
    assert read((await remoting.call(300, topic=name)).body).keys() == {"groupList"}  # with groups of other tests
    assert (await remoting.call(215, topic=name)).code == 29
    assert name in read((await remoting.call(206)).body)["topicList"]


async def test_a_group_has_its_place_in_each_queue(remoting: RemotingClient) -> None:
    group, queue = await fill(remoting, "places-4x")
    stats = read((await remoting.call(208, consumerGroup=group)).body)["offsetTable"]
    assert (stats[queue]["brokerOffset"], stats[queue]["consumerOffset"]) == (3, 1)
    assert stats[queue]["lastTimestamp"] > 1_700_000_000_000
    empty = {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0}
    assert [stats[queue._replace(queue_id=number)] for number in range(1, 4)] == [empty] * 3
    named = read((await remoting.call(208, consumerGroup=group, topic="places-4x")).body)["offsetTable"]
    assert {each.topic for each in named} == {"places-4x"}
    every = read((await remoting.call(317, isOrder=False)).body)
    [found] = [each[group] for each in every["consumeStatsList"] if group in each]
    assert any(queue in each["offsetTable"] for each in found)
    assert every["totalDiff"] >= 2
    offsets = read((await remoting.call(43)).body)["offsetTable"]
    assert offsets[f"places-4x@{group}"]["0"] == 1
    spans = read((await remoting.call(303, topic="places-4x", group=group)).body)["consumeTimeSpanSet"]
    [span] = [each for each in spans if each["messageQueue"]["queueId"] == 0]
    assert 0 < span["minTimeStamp"] <= span["consumeTimeStamp"] <= span["maxTimeStamp"]
    assert (await remoting.call(208, consumerGroup="nobody-places-4x")).code == 26


async def test_a_queue_has_entries(remoting: RemotingClient) -> None:
    group, _ = await fill(remoting, "entries-4x")
    found = read((await remoting.call(321, topic="entries-4x", queueId=0, index=1, count=10, consumerGroup=group)).body)
    assert (found["minQueueIndex"], found["maxQueueIndex"], len(found["queueData"])) == (0, 3, 2)
    assert found["queueData"][0]["tagsCode"] == 114586  # "tag".hashCode() of Java
    assert (found["subscriptionData"]["topic"], found["filterData"]) == ("entries-4x", "null")
    assert {each["eval"] for each in found["queueData"]} == {False}
    unknown = await remoting.call(321, topic="entries-4x", queueId=0, index=0, count=1, consumerGroup="nobody")
    assert read(unknown.body)["filterData"] == "nobody@entries-4x is not online!"


async def test_a_broker_has_what_tools_read(remoting: RemotingClient) -> None:
    table = read((await remoting.call(28)).body)["table"]
    assert {"brokerVersionDesc", "brokerActive", "getTransferedTps", "timerCongestNum"} <= set(table)
    for name in ("putTps", "getTransferredTps", "getTotalTps"):
        assert len([float(each) for each in table[name].split()]) == 3
    assert float(table["putMessageAverageSize"]) >= 0
    settings = (await remoting.call(26)).body.decode().splitlines()
    pairs = dict(line.split("=", 1) for line in settings)
    assert (pairs["brokerId"], pairs["filterServerNums"], pairs["maxMessageSize"]) == ("0", "0", "4194304")
    assert pairs["messageDelayLevel"].startswith("1s 5s 10s 30s 1m ")
    assert (await remoting.call(25, b"a=b")).code == 1
    assert read((await remoting.call(907)).body)["master"] is True
    assert read((await remoting.call(45)).body)["offsetTable"] == {}
    for code in (306, 316, 329):
        assert (await remoting.call(code)).code == 0


async def test_a_broker_says_what_only_tools_of_release_4_read_to_them_alone(remoting: RemotingClient) -> None:
    remoting.version = 513
    assert "getTransferedTps" not in read((await remoting.call(28)).body)["table"]
    assert b"filterServerNums" not in (await remoting.call(26)).body


async def test_reads_of_old_messages_are_not_limited(remoting: RemotingClient) -> None:
    found = read((await remoting.call(2003)).body)
    assert (found["runtimeTable"], found["configTable"], found["globalColdReadThreshold"]) == ({}, {}, 2**63 - 1)
    assert (await remoting.call(2002, b"group-4x")).code == 0
    assert (await remoting.call(2001, b"group-4x=1")).code == 3


async def test_figures_that_nobody_counted_are_refused(remoting: RemotingClient) -> None:
    assert (await remoting.call(315, statsName="TOPIC_PUT_NUMS", statsKey="never-4x")).code == 1
    assert (await remoting.call(315, statsName="ANYTHING", statsKey="never-4x")).code == 1
