"""What operators' tools ask a name server."""

import json

import pytest

from ternmq_proxy.fronts.remoting.handlers.admin.unserved import UNSERVED_HANDLERS
from ternmq_rpc.remoting.json_dialect import decode_dialect
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def test_the_cluster_has_its_brokers_at_the_address_of_the_proxy(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        cluster = await client.call(106)
        assert b'"brokerAddrs":{0:' in cluster.body
        found = decode_dialect(cluster.body)
        assert isinstance(found, dict)
        [[broker]] = found["clusterAddrTable"].values()
        assert found["brokerAddrTable"][broker]["brokerAddrs"] == {"0": server.remoting}
        member_group = await client.call(901, clusterName="DefaultCluster", brokerName=broker)
        assert decode_dialect(member_group.body) == {
            "brokerMemberGroup": {
                "brokerAddrs": {"0": server.remoting},
                "brokerName": broker,
                "cluster": "DefaultCluster",
            }
        }
        system = json.loads((await client.call(304)).body)
        assert system == {"brokerAddr": server.remoting, "topicList": ["DefaultCluster", broker]}


async def test_lists_have_topics_with_those_of_groups_and_the_system(remoting: RemotingClient) -> None:
    await remoting.send("listed-4x", b"x")
    await remoting.heartbeat("c1", consumers={"listed-4x-group": ["listed-4x"]})
    names = json.loads((await remoting.call(206)).body)["topicList"]
    expected = {"listed-4x", "%RETRY%listed-4x-group", "TBW102", "SELF_TEST_TOPIC", "DefaultCluster"}
    assert expected <= set(names)
    assert json.loads((await remoting.call(224, cluster="DefaultCluster")).body)["topicList"] == names
    assert json.loads((await remoting.call(224, cluster="another")).body)["topicList"] == []
    for name in expected:  # others are of other tests, which may have closed or deleted them
        assert (await remoting.call(105, topic=name)).code == 0, name
    for code in (311, 312, 313):
        assert json.loads((await remoting.call(code)).body) == {"topicList": []}


async def test_a_probe_of_a_broker_is_a_message_to_the_topic_of_its_name(remoting: RemotingClient) -> None:
    [broker] = json.loads((await remoting.call(304)).body)["topicList"][1:]
    for _ in range(2):
        route = decode_dialect((await remoting.call(105, topic=broker)).body)
        assert isinstance(route, dict)
        assert [each["perm"] for each in route["queueDatas"]] == [6]
        assert (await remoting.send(broker, b"probe")).code == 0


@pytest.mark.parametrize("code", [103, 104, 322, 904])
async def test_brokers_of_others_are_told_why_they_cannot_register(remoting: RemotingClient, code: int) -> None:
    refused = await remoting.call(code, brokerName="b", brokerAddr="127.0.0.1:1", clusterName="c", brokerId=0)
    assert refused.code == 1
    assert "brokers of RocketMQ can't register here" in refused.remark


async def test_values_are_kept_until_they_are_deleted(remoting: RemotingClient) -> None:
    space = {"namespace": "values-4x"}
    assert (await remoting.call(101, **space, key="one")).code == 22
    assert (await remoting.call(219, **space)).code == 22
    for key, value in (("one", "1"), ("two", "zwei, 二"), ("one", "2")):
        assert (await remoting.call(100, **space, key=key, value=value)).code == 0
    assert (await remoting.call(101, **space, key="one")).fields["value"] == "2"
    assert json.loads((await remoting.call(219, **space)).body) == {"table": {"one": "2", "two": "zwei, 二"}}
    for _ in range(2):
        assert (await remoting.call(102, **space, key="one")).code == 0
    assert (await remoting.call(101, **space, key="one")).code == 22
    assert json.loads((await remoting.call(219, **space)).body) == {"table": {"two": "zwei, 二"}}


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [
        ("namespace", "n" * 300, "longer than 256 bytes"),
        ("key", "a\nb", "control character"),
        ("value", "v" * 8193, "longer than 8192 characters"),
        ("value", "a\x00b", "control character"),
    ],
)
async def test_values_that_cannot_be_kept_are_refused(server: Embedded, field: str, text: str, reason: str) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        refused = await client.call(100, **({"namespace": "n", "key": "k", "value": "v"} | {field: text}))
        assert (refused.code, reason in refused.remark) == (29, True), refused.remark


async def test_the_queues_of_fifo_topics_are_values_that_cannot_be_changed(remoting: RemotingClient) -> None:
    fifo, other = "ordered-value-4x", "plain-value-4x"
    [broker] = json.loads((await remoting.call(304)).body)["topicList"][1:]
    attributes = {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "attributes": "+message.type=FIFO"}
    assert (await remoting.call(17, topic=fifo, **attributes)).code == 0
    order = {"namespace": "ORDER_TOPIC_CONFIG"}
    assert (await remoting.call(101, **order, key=fifo)).fields["value"] == f"{broker}:2"
    assert (await remoting.call(100, **order, key=fifo, value=f"{broker}:2")).code == 0
    refused = await remoting.call(100, **order, key=fifo, value=f"{broker}:4")
    assert (refused.code, refused.remark) == (
        1,
        f"the queues of the FIFO topic {fifo} are {broker}:2, and no others",
    )
    assert (await remoting.call(100, **order, key=other, value="b:4")).code == 0
    table = json.loads((await remoting.call(219, **order)).body)["table"]
    assert (table[fifo], table[other]) == (f"{broker}:2", "b:4")
    assert (await remoting.call(102, **order, key=other)).code == 0
    assert (await remoting.call(102, **order, key=fifo)).code == 0
    assert other not in json.loads((await remoting.call(219, **order)).body)["table"]


async def test_settings_of_the_name_server_are_read_and_not_changed(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        settings = await client.call(319)
        assert f"listenPort={server.remoting.rpartition(':')[2]}" in settings.body.decode().splitlines()
        assert (await client.call(318, b"a=b")).code == 1


async def test_the_route_of_a_missing_topic_is_refused_as_by_others(remoting: RemotingClient) -> None:
    refused = await remoting.call(105, topic="never-there-4x")
    text, advice = refused.remark.splitlines()
    assert (refused.code, text) == (17, "No topic route info in name server for the topic: never-there-4x")
    assert advice.startswith("See https://rocketmq.apache.org/")


@pytest.mark.parametrize(("code", "expected"), [(code, 1 if code == 1007 else 3) for code in UNSERVED_HANDLERS])
async def test_what_has_no_meaning_here_is_refused_in_words(remoting: RemotingClient, code: int, expected: int) -> None:
    refused = await remoting.call(code)
    assert (refused.code, len(refused.remark) > 20, "request type" in refused.remark) == (expected, True, False)


async def test_pops_leave_nothing_to_roll_back(remoting: RemotingClient) -> None:
    assert (await remoting.call(200056)).code == 0


async def test_an_embedded_broker_keeps_its_permission(remoting: RemotingClient) -> None:
    for code in (205, 327):
        refused = await remoting.call(code, brokerName="broker-a")
        assert (refused.code, "its own and only broker" in refused.remark) == (29, True)
    assert (await remoting.call(216, topic="never-there-4x")).code == 0
    assert (await remoting.call(217, topic="never-there-4x")).code == 1
