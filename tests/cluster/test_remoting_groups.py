"""Groups of 4.x consumers in a cluster: members are the same at all proxies, and kills lose nothing."""

import asyncio
import json
import time
from collections.abc import Awaitable
from typing import TypeVar

import pytest

import ternmq
from tests.cluster.remoting_kills import killed_group
from tests.cluster.watching import eventually
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.remoting_client import RemotingClient
from tests.support.remoting_consumer import RemotingConsumer

SENT_BETWEEN_KILLS = 200
JOINS = 27
T = TypeVar("T")
pytestmark = [pytest.mark.cluster]


async def members_of(client: RemotingClient, group: str) -> list[str]:
    answer = await client.call(38, consumerGroup=group)
    return list(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []


async def is_alone(client: RemotingClient, group: str) -> bool:
    return len(await members_of(client, group)) == 1


async def pushed_within(client: RemotingClient, seconds: float) -> bool:
    """Whether the client is told within that time that members changed."""
    try:
        async with asyncio.timeout(seconds):
            return (await client.pushed.get()).code == 40
    except TimeoutError:
        return False


def forget_pushed(client: RemotingClient) -> None:
    while not client.pushed.empty():
        client.pushed.get_nowait()


async def test_members_and_locks_are_those_of_all_proxies(cluster: ClusterProcesses, topic: str) -> None:
    first, second = cluster.proxies
    group, consumers = f"{topic}-group", {f"{topic}-group": [topic]}
    queues = [(topic, broker.name, 0) for broker in cluster.brokers]
    async with await RemotingClient.connect(first.remoting) as one, RawClient(first.grpc) as popper:
        async with await RemotingClient.connect(second.remoting) as two:
            await one.send(topic, b"x", bname="broker-0")
            await one.heartbeat("one", consumers=consumers)
            forget_pushed(one)
            await two.heartbeat("two", consumers=consumers)
            assert await pushed_within(one, 30)
            assert await members_of(one, group) == await members_of(two, group) == ["one", "two"]
            assert await two.lock(group, "two", *queues) == queues
            # A pull at a proxy that had no heartbeat of the group.
            async with await RemotingClient.connect(second.remoting) as three:
                assert (await three.pull(group, topic, bname="broker-0")).code in (0, 19)
            assert (await popper.receive(topic, group)).code == "FORBIDDEN"
            forget_pushed(one)
            forget_pushed(two)
            second.kill9()
        # It comes back in time: nobody hears of it.
        async with await RemotingClient.connect(first.remoting) as two:
            await two.heartbeat("two", consumers=consumers)
            assert not await pushed_within(one, 4)
            assert await members_of(one, group) == ["one", "two"]
            assert await one.lock(group, "one", *queues) == []
            assert await two.lock(group, "two", *queues) == queues
        assert await pushed_within(one, 30)
        second.start()
        async with await RemotingClient.connect(second.remoting) as two:
            await two.heartbeat("two", consumers=consumers)
            assert await pushed_within(one, 30)
            forget_pushed(one)
            second.kill9()
            # It does not come back. Each broker notices by itself, and each says so.
            assert await pushed_within(one, 30)
            await eventually(lambda: is_alone(one, group), within_s=30, what="one member is left")
    second.start()


async def test_operators_see_who_reads_which_queue_at_any_proxy(cluster: ClusterProcesses, topic: str) -> None:
    first, second = cluster.proxies
    group, consumers = f"{topic}-shown", {f"{topic}-shown": [topic]}
    async with RawClient(first.grpc) as operator:
        await operator.create_topic(topic, queues=1)
    async with await RemotingClient.connect(first.remoting) as one:
        async with await RemotingClient.connect(second.remoting) as two:
            await one.heartbeat("one", consumers=consumers)
            await two.heartbeat("two", consumers=consumers)
            assert (await one.pull(group, topic, bname="broker-1")).code == 19
            assert (await two.pull(group, topic, bname="broker-0")).code == 19
            assert await two.lock(group, "two", (topic, "broker-0", 0)) == [(topic, "broker-0", 0)]
            for proxy in (first, second):
                async with ternmq.Admin(proxy.grpc) as admin:
                    found = await admin.describe_group(group)
                readers = {row.broker: row.reader.client_id for row in found.progress if row.reader is not None}
                assert readers == {"broker-0": "two", "broker-1": "one"}
                locks = {row.broker: row.lock.client_id for row in found.progress if row.lock is not None}
                assert locks == {"broker-0": "two"}
                members = {each.client_id: (each.protocol, each.proxy) for each in found.members}
                assert members == {"one": ("remoting", first.name), "two": ("remoting", second.name)}
                assert all(each.address.startswith("127.0.0.1:") for each in found.members)

        async def two_is_gone() -> bool:
            async with ternmq.Admin(first.grpc) as admin:
                found = await admin.describe_group(group)
            readers = [row.reader.client_id for row in found.progress if row.reader is not None]
            return [each.client_id for each in found.members] == readers == ["one"]

        await eventually(two_is_gone, within_s=30, what="a member that left reads no queue")


async def test_of_two_that_join_at_once_in_different_ways_one_is_refused(cluster: ClusterProcesses, topic: str) -> None:
    first, second = cluster.proxies
    joined = {"pulls": 0, "pops": 0}
    async with RawClient(first.grpc) as operator:
        await operator.create_topic(topic, queues=1)
        for number in range(JOINS):
            await operator.create_group(f"{topic}-{number}")
    for number in range(JOINS):
        group = f"{topic}-{number}"
        # Each comes first sometimes, by some milliseconds.
        head_start_s = (number % 9 - 4) * 0.001
        async with await RemotingClient.connect(first.remoting) as puller, RawClient(second.grpc) as popper:
            await popper.call("QueryRoute", topic={"name": topic})  # it is connected
            beat, received = await asyncio.gather(
                _after(head_start_s, puller.heartbeat(f"p{number}", consumers={group: [topic]})),
                _after(-head_start_s, popper.receive(topic, group)),
            )
            pulls, pops = beat.code == 0, received.code != "FORBIDDEN"
            assert pulls is not pops, f"{number}: {beat.code} {beat.remark}; {received.status}"
            joined["pulls" if pulls else "pops"] += 1
            if pulls:
                assert received.status is not None
                assert "stop all remoting consumers" in received.status.message
                assert (await popper.receive(topic, group)).code == "FORBIDDEN"
            else:
                assert "stop all gRPC consumers" in beat.remark
                assert (await puller.heartbeat(f"p{number}", consumers={group: [topic]})).code == 16
    print(f"of {JOINS} groups, joined in both ways at once: {joined}")
    assert all(joined.values())


async def _after(seconds: float, work: Awaitable[T]) -> T:
    await asyncio.sleep(max(0.0, seconds))
    return await work


async def test_a_rebalance_of_16_members_settles_before_they_look_again(cluster: ClusterProcesses, topic: str) -> None:
    async with RawClient(cluster.proxies[0].grpc) as operator:
        await operator.create_topic(topic, queues=32)
    doors = [proxy.remoting for proxy in cluster.proxies]
    members: list[RemotingConsumer] = []
    try:
        for number in range(16):
            turned = doors[number % 2 :] + doors[: number % 2]
            members.append(RemotingConsumer(turned, f"m{number:02}", f"{topic}-g", topic, lambda _: True))
        began = time.monotonic()

        async def settled() -> bool:
            shares = [{queue for queue in member.assigned if queue[0] == topic} for member in members]
            return all(len(share) == 4 for share in shares) and len(set().union(*shares)) == 64

        await eventually(settled, within_s=30, what="16 members share 64 queues")
        took_s = time.monotonic() - began
        print(f"16 members over 64 queues settled {took_s:.2f} s after all began to join")
        assert took_s < 3  # for a busy machine; 0.2 s otherwise
        members.append(RemotingConsumer(doors, "m16", f"{topic}-g", topic, lambda _: True))
        await eventually(lambda: _has_queues(members[-1]), within_s=30, what="one more has queues")
        await members.pop().kill()
        began = time.monotonic()
        await eventually(settled, within_s=30, what="the others share them again")
        assert time.monotonic() - began < 10
        print(f"settled {time.monotonic() - began:.2f} s after one was killed")
    finally:
        await asyncio.gather(*(member.kill() for member in members))


async def _has_queues(member: RemotingConsumer) -> bool:
    return bool(member.assigned)


@pytest.mark.parametrize("pops", [False, True], ids=["pulls", "pops"])
async def test_kills_lose_no_message(cluster: ClusterProcesses, topic: str, pops: bool) -> None:
    async with killed_group(cluster, topic, pops=pops) as group:
        for process in (cluster.proxies[0], cluster.brokers[0], cluster.proxies[1], cluster.brokers[1]):
            await group.wait_for_sent(SENT_BETWEEN_KILLS)
            process.kill9()
            await group.replace_member(-1)
            await asyncio.to_thread(process.start)
        await group.wait_for_sent(SENT_BETWEEN_KILLS)
        account = await group.finish()
    print(account)
    assert account.lost == account.skipped == 0
    assert account.failed
