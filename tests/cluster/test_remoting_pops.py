"""Groups that pop over remoting in a cluster: any proxy serves the messages of any broker; resets are known to all."""

from collections import Counter

import pytest

from tests.cluster.test_remoting_groups import members_of
from tests.cluster.watching import eventually
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.popping_client import Popped, acknowledge, connect_popper, pop, read_popped, set_mode, settle
from tests.support.remoting_client import RemotingClient

pytestmark = [pytest.mark.cluster]
COUNT = 20


async def test_a_message_is_settled_at_another_proxy_than_it_was_popped(cluster: ClusterProcesses, topic: str) -> None:
    first, second = cluster.proxies
    group = f"{topic}-pops"
    async with await connect_popper(first.remoting) as one, await connect_popper(second.remoting) as two:
        for number in range(COUNT):
            sent = await one.send(topic, b"%d" % number, n=f"broker-{number % 2}")
            assert sent.code == 0, sent.remark
        assert (await set_mode(one, group, topic, "POP")).code == 0

        async def has_joined() -> bool:  # as soon as that proxy knows the way of the group
            answer = await two.heartbeat("two", consumers={group: [topic]})
            return answer.code == 0 and (await two.pull(group, topic, bname="broker-0")).code == 16

        await eventually(has_joined, within_s=10, what="the group pops at the second proxy")
        assert (await one.heartbeat("one", consumers={group: [topic]})).code == 0
        assert await members_of(one, group) == await members_of(two, group) == ["one", "two"]
        popped: list[Popped] = []
        while len(popped) < COUNT:
            answer = await pop(two, group, topic, bname="broker-0", batch=8, poll_ms=5000)
            popped += read_popped(answer)
        assert Counter(message.record.body for message in popped) == Counter(b"%d" % n for n in range(COUNT))
        assert {message.parts[5] for message in popped} == {"broker-0", "broker-1"}
        for message in popped[2:]:
            assert (await acknowledge(one, group, message)).code == 0
        assert (await settle(one, 200053, group, popped[0], invisibleTime=500)).code == 0
        assert (await acknowledge(one, group, popped[1])).code == 0
        [again] = read_popped(await pop(one, group, topic, bname="broker-1", poll_ms=15_000))
        assert (again.record.body, again.record.reconsume_times) == (popped[0].record.body, 1)
        assert (await acknowledge(two, group, again)).code == 0
        assert (await pop(two, group, topic, bname="broker-1")).code == 210


async def test_a_reset_at_one_proxy_reaches_members_at_the_other(cluster: ClusterProcesses, topic: str) -> None:
    first, second = cluster.proxies
    group, queue = f"{topic}-moved", {"topic": topic, "queueId": 0, "bname": "broker-1"}
    async with RawClient(first.grpc) as operator, await RemotingClient.connect(second.remoting) as client:
        await operator.create_topic(topic, queues=1)
        for number in range(COUNT):
            assert (await client.send(topic, b"%d" % number, n="broker-1")).code == 0
        assert (await client.heartbeat("moved", consumers={group: [topic]})).code == 0
        assert (await client.pull(group, topic, bname="broker-1")).code == 0
        assert (await client.call(15, consumerGroup=group, commitOffset=COUNT, **queue)).code == 0
        async with await RemotingClient.connect(first.remoting) as tool:
            moved = await tool.call(222, topic=topic, group=group, timestamp=0, isForce=True)
            assert moved.code == 0, moved.remark
        told = await client.pull(group, topic, offset=COUNT, bname="broker-1")
        assert (told.code, told.fields["nextBeginOffset"]) == (21, "0")
        assert (await client.call(15, consumerGroup=group, commitOffset=COUNT, **queue)).code == 0
        assert (await client.call(14, consumerGroup=group, **queue)).fields["offset"] == "0"
        assert (await client.pull(group, topic, bname="broker-1")).code == 0
