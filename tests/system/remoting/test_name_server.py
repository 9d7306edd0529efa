"""What operators' tools ask a name server."""

import json

import pytest

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


async def test_lists_have_topics_with_those_of_groups_and_the_system(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send("listed-4x", b"x")
        await client.heartbeat("c1", consumers={"listed-4x-group": ["listed-4x"]})
        names = json.loads((await client.call(206)).body)["topicList"]
        assert {"listed-4x", "%RETRY%listed-4x-group", "TBW102", "SELF_TEST_TOPIC", "DefaultCluster"} <= set(names)
        assert json.loads((await client.call(224, cluster="DefaultCluster")).body)["topicList"] == names
        assert json.loads((await client.call(224, cluster="another")).body)["topicList"] == []
        for name in names:
            assert (await client.call(105, topic=name)).code == 0, name
        for code in (311, 312, 313):
            assert json.loads((await client.call(code)).body) == {"topicList": []}


@pytest.mark.parametrize("code", [103, 104, 322, 904])
async def test_brokers_of_others_are_told_why_they_cannot_register(server: Embedded, code: int) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        refused = await client.call(code, brokerName="b", brokerAddr="127.0.0.1:1", clusterName="c", brokerId=0)
        assert refused.code == 1
        assert "brokers of RocketMQ can't register here" in refused.remark


async def test_the_configuration_is_read_and_never_kept(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send("configured-4x", b"x")
        [broker] = json.loads((await client.call(304)).body)["topicList"][1:]
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "configured-4x"}
        assert (await client.call(101, **order)).code == 22
        assert (await client.call(219, namespace="nothing")).code == 22
        assert (await client.call(100, **order, value=f"{broker}:4")).code == 0
        assert (await client.call(100, **order, value=f"{broker}:2")).code == 1
        assert (await client.call(102, **order)).code == 0
        settings = await client.call(319)
        assert f"listenPort={server.remoting.rpartition(':')[2]}" in settings.body.decode().splitlines()
        assert (await client.call(318, b"a=b")).code == 1


async def test_an_embedded_broker_keeps_its_permission(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        for code in (205, 327):
            refused = await client.call(code, brokerName="broker-a")
            assert (refused.code, "its own and only broker" in refused.remark) == (29, True)
        assert (await client.call(216, topic="never-there-4x")).code == 0
        assert (await client.call(217, topic="never-there-4x")).code == 1
