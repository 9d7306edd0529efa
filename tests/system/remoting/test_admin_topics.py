"""Topics and groups, made and looked at with the requests of mqadmin."""

import asyncio
import json
from typing import Any

import pytest

from ternmq_rpc.remoting.commands import Command
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.support.until import until_answered
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def put_topic(client: RemotingClient, name: str, queues: int = 8, **fields: object) -> Command:
    """Make a topic as updateTopic does."""
    header = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    return await client.call(17, **(header | fields))


async def test_a_topic_without_a_type_takes_all_types(remoting: RemotingClient) -> None:
    assert (await put_topic(remoting, "made-4x")).code == 0
    made = json.loads((await remoting.call(351, topic="made-4x")).body)
    assert made == {
        "attributes": {"message.type": "MIXED"},
        "order": False,
        "perm": 6,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "made-4x",
        "topicSysFlag": 0,
        "writeQueueNums": 8,
    }
    [queues] = json.loads((await remoting.call(105, topic="made-4x")).body)["queueDatas"]
    assert queues["writeQueueNums"] == 8
    assert (await put_topic(remoting, "made-4x", 12, perm=4)).code == 0
    changed = json.loads((await remoting.call(351, topic="made-4x")).body)
    assert (changed["perm"], changed["readQueueNums"]) == (4, 12)


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
async def test_a_topic_has_the_type_of_its_attribute(remoting: RemotingClient, kind: str) -> None:
    name = f"typed-4x-{kind}"
    assert (await put_topic(remoting, name, attributes=f"+message.type={kind}")).code == 0
    made = json.loads((await remoting.call(351, topic=name)).body)
    assert (made["attributes"], made["order"]) == ({"message.type": kind}, kind == "FIFO")
    refused = await put_topic(remoting, name, attributes="+message.type=MIXED")
    assert (refused.code, "keeps its type" in refused.remark) == (29, True)
    assert (await put_topic(remoting, name)).code == 0


@pytest.mark.parametrize(
    "wanted",
    [
        {"topic": "TBW102"},
        {"topic": "no spaces"},
        {"perm": 8},
        {"attributes": "+message.type=NOTHING"},
        {"attributes": "+other=1"},
        {"readQueueNums": 0, "writeQueueNums": 0},
        {"topic": "%RETRY%group-4x"},
    ],
)
async def test_a_topic_that_cannot_be_is_refused(remoting: RemotingClient, wanted: dict[str, object]) -> None:
    refused = await put_topic(remoting, **({"name": "refused-4x"} | _named(wanted)))
    assert (refused.code, bool(refused.remark)) == (29, True)


def _named(wanted: dict[str, object]) -> dict[str, Any]:
    return {"name" if name == "topic" else name: value for name, value in wanted.items()}


async def test_topics_are_made_in_one_request_listed_and_deleted(remoting: RemotingClient) -> None:
    topics = [
        {"topicName": f"several-4x-{number}", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "attributes": {}}
        for number in range(3)
    ]
    assert (await remoting.call(18, json.dumps({"topicConfigList": topics}).encode())).code == 0
    listed = await remoting.call(21)
    table = json.loads(listed.body)["topicConfigTable"]
    assert int(listed.fields["totalTopicNum"]) == len(table)
    assert table["several-4x-1"]["readQueueNums"] == 2
    paged: list[str] = []
    for first in range(0, len(table), 5):
        page = await remoting.call(21, topicSeq=first, maxTopicNum=5)
        paged += json.loads(page.body)["topicConfigTable"]
    assert sorted(paged) == sorted(table)
    assert (await remoting.call(215, topic="several-4x-1")).code == 0
    assert (await remoting.call(215, topic="several-4x-1")).code == 0
    assert (await remoting.call(351, topic="several-4x-1")).code == 17
    assert (await remoting.call(215, topic="SELF_TEST_TOPIC")).code == 29
    assert "SELF_TEST_TOPIC" in json.loads((await remoting.call(305)).body)["topicList"]


async def test_a_group_is_made_changed_and_deleted(remoting: RemotingClient) -> None:
    group = {"groupName": "made-4x-group", "retryMaxTimes": 3, "consumeBroadcastEnable": False}
    assert (await remoting.call(200, json.dumps(group).encode())).code == 0
    made = json.loads((await remoting.call(352, group="made-4x-group")).body)
    assert (made["retryMaxTimes"], made["consumeMessageOrderly"], made["consumeEnable"]) == (3, False, True)
    assert made["groupRetryPolicy"]["type"] == "CUSTOMIZED"
    curve = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 4000, "multiplier": 2}}
    changed = {"groupConfigList": [{**group, "consumeMessageOrderly": True, "groupRetryPolicy": curve}]}
    assert (await remoting.call(225, json.dumps(changed).encode())).code == 0
    listed = json.loads((await remoting.call(201)).body)["subscriptionGroupTable"]["made-4x-group"]
    assert (listed["consumeMessageOrderly"], listed["groupRetryPolicy"]) == (True, curve)
    place = {"group": "made-4x-group", "topic": "any"}
    assert json.loads((await remoting.call(353, **place)).body) == {**place, "readable": True}
    assert (await remoting.call(353, **place, readable=False)).code == 29
    disabled = await remoting.call(200, json.dumps({**group, "consumeEnable": False}).encode())
    assert (disabled.code, "can't be disabled" in disabled.remark) == (29, True)
    assert (await remoting.call(207, groupName="made-4x-group")).code == 0
    assert (await remoting.call(207, groupName="made-4x-group")).code == 0
    assert (await remoting.call(352, group="made-4x-group")).code == 26


async def test_groups_topics_and_clients_know_of_each_other(remoting: RemotingClient) -> None:
    await remoting.send("read-4x", b"x")
    await remoting.heartbeat("reader-4x", consumers={"read-4x-group": ["read-4x"]}, expression="a || b")
    await remoting.heartbeat("reader-4x", consumers={"read-4x-group": ["read-4x"]}, producers=("read-4x-producer",))
    assert json.loads((await remoting.call(300, topic="read-4x")).body) == {"groupList": ["read-4x-group"]}
    assert json.loads((await remoting.call(343, group="read-4x-group")).body)["topicList"] == ["read-4x"]
    subscribed = json.loads((await remoting.call(345, group="read-4x-group", topic="read-4x")).body)
    assert subscribed["subscriptionData"]["topic"] == "read-4x"
    consumers = json.loads((await remoting.call(203, consumerGroup="read-4x-group")).body)
    [connection] = consumers["connectionSet"]
    assert (connection["clientId"], connection["language"], connection["version"]) == ("reader-4x", "JAVA", 409)
    assert consumers["messageModel"] == "CLUSTERING"
    assert (consumers["consumeType"], consumers["consumeFromWhere"]) == (
        "CONSUME_PASSIVELY",
        "CONSUME_FROM_FIRST_OFFSET",
    )
    assert set(consumers["subscriptionTable"]) == {"read-4x", "%RETRY%read-4x-group"}
    producers = json.loads((await remoting.call(204, producerGroup="read-4x-producer")).body)
    assert [each["clientId"] for each in producers["connectionSet"]] == ["reader-4x"]
    [producer] = json.loads((await remoting.call(328)).body)["data"]["read-4x-producer"]
    assert (producer["clientId"], producer["remoteIP"][0]) == ("reader-4x", "/")
    assert (await remoting.call(203, consumerGroup="nobody-4x-group")).code == 206
    assert (await remoting.call(204, producerGroup="nobody-4x-producer")).code == 1


async def test_a_list_of_topics_is_made_whole_though_its_client_goes(server: Embedded) -> None:
    names = {f"gone-4x-{number}" for number in range(20)}
    listed = [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in sorted(names)]
    async with await RemotingClient.connect(server.remoting) as client:
        call = asyncio.create_task(client.call(18, json.dumps({"topicConfigList": listed}).encode()))

        async def find_first() -> object:
            return (await client.call(351, topic="gone-4x-0")).code

        await until_answered(find_first, 0)
        call.cancel()
    async with await RemotingClient.connect(server.remoting) as other:

        async def count_made() -> object:
            return len(names & set(json.loads((await other.call(206)).body)["topicList"]))

        await until_answered(count_made, len(names))
