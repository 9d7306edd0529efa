"""Queues that clients lock to consume them in order, and groups whose queues the broker guards."""

import asyncio
import json

from ternmq_common.shard.property_text import read_properties
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded, RawClient, duration
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def test_a_queue_is_locked_by_one_client_whatever_connection_it_has(server: Embedded) -> None:
    first, second = ("locked-4x", "broker-a", 0), ("locked-4x", "broker-a", 1)
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send("locked-4x", b"x")
        await client.heartbeat("one", consumers={"lock-group": ["locked-4x"]})
        assert await client.lock("lock-group", "one", first, second) == [first, second]
        assert await client.lock("lock-group", "two", first) == []
    async with await RemotingClient.connect(server.remoting) as client:
        assert await client.lock("lock-group", "two", first) == []
        assert await client.lock("lock-group", "one", first) == [first]
        await client.lock("lock-group", "one", first, code=42)
        assert await client.lock("lock-group", "two", first, second) == [first]
        assert (await client.call(41, b'{"consumerGroup": "lock-group", "mqSet": []}')).code == 1


async def test_nobody_locks_what_is_not_there(remoting: RemotingClient) -> None:
    await remoting.send("lockable-4x", b"x")
    await remoting.heartbeat("one", consumers={"lockable-group": ["lockable-4x"]})
    wanted = [("lockable-4x", "b", 4), ("lockable-4x", "b", -1), ("unlockable-4x", "b", 0), ("lockable-4x", "b", 3)]
    assert await remoting.lock("lockable-group", "one", *wanted) == wanted[3:]
    assert await remoting.lock("lockable-group", "one", ("%RETRY%lockable-group", "b", 0))
    queues = [{"topic": "lockable-4x", "brokerName": "b", "queueId": 0}]
    body = {"consumerGroup": "no-such-group-4x", "clientId": "one", "mqSet": queues}
    assert (await remoting.call(41, json.dumps(body).encode())).code == 26
    many = [{"topic": f"t{number}", "brokerName": "b", "queueId": 0} for number in range(257)]
    assert "257 topics" in (await remoting.call(41, json.dumps(body | {"mqSet": many}).encode())).remark


async def test_what_an_ordered_consumer_gives_up_is_a_dead_letter(remoting: RemotingClient) -> None:
    group = "given-up-4x"
    await remoting.send("given-up-topic", b"x")
    await remoting.heartbeat("given-up", consumers={group: ["given-up-topic"]})
    await remoting.lock(group, "given-up", ("given-up-topic", "b", 0))
    properties = {"UNIQ_KEY": "GIVEN1", "RETRY_TOPIC": "given-up-topic", "DELAY": "1"}
    assert (await remoting.send(f"%RETRY%{group}", b"x", properties=properties, j=1, l=16)).code == 0
    [letter] = decode_records((await remoting.pull(group, f"%DLQ%{group}", sysFlag=4)).body)
    assert read_properties(letter.properties)["DLQ_ORIGIN_TOPIC"] == "given-up-topic"


class Member:
    """A consumer that pulls the queue, and commits only what it was asked to; `seen` is what it was handed."""

    def __init__(self, client: RemotingClient, group: str, topic: str) -> None:
        self.client, self.group, self.topic = client, group, topic
        self.seen: list[bytes] = []
        self.offset = 0

    async def pull(self, *, suspend_ms: int = 0) -> list[bytes]:
        answer = await self.client.pull(
            self.group, self.topic, offset=self.offset, maxMsgNums=10, suspend_ms=suspend_ms
        )
        records = decode_records(answer.body)
        if answer.code in (0, 20):
            self.offset = int(answer.fields["nextBeginOffset"])
        self.seen += [record.body for record in records]
        return [record.body for record in records]

    async def commit(self) -> int:
        header = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0, "commitOffset": self.offset}
        return int((await self.client.call(15, **header)).code)


async def _rebalance_while_messages_are_out(server: Embedded, group: str) -> tuple[list[bytes], list[bytes]]:
    """Let a second member take the queue over while the first still has messages that are not committed; return what
    each was handed, the first until it gave the queue up."""
    topic = f"{group}-topic"
    async with (
        await RemotingClient.connect(server.remoting) as one,
        await RemotingClient.connect(server.remoting) as two,
    ):
        await one.send(topic, b"0")
        await one.heartbeat(f"{group}-one", consumers={group: [topic]})
        await two.heartbeat(f"{group}-two", consumers={group: [topic]})
        for number in range(1, 20):
            await one.send(topic, b"%d" % number)
        first, second = Member(one, group, topic), Member(two, group, topic)
        await first.pull()
        # The second rebalances first: it believes that the queue is its own, and reads from the committed offset.
        await second.pull()
        # The first finishes what it has, commits, and gives the queue up.
        await first.commit()
        await one.call(35, clientID=f"{group}-one", consumerGroup=group)
        async with asyncio.timeout(30):
            while len(set(first.seen + second.seen)) < 20:
                await second.pull(suspend_ms=1000)
        await second.commit()
        return first.seen, second.seen


async def test_with_the_queue_lock_nothing_is_consumed_twice_in_a_rebalance(server: Embedded) -> None:
    group = "guarded-4x"
    async with RawClient(server.grpc) as operator:
        await operator.create_group(group, queue_lock_hold=duration(30))
    first, second = await _rebalance_while_messages_are_out(server, group)
    assert len(first + second) == 20
    assert sorted(first + second, key=int) == [b"%d" % number for number in range(20)]


async def test_without_it_messages_are_consumed_twice(server: Embedded) -> None:
    first, second = await _rebalance_while_messages_are_out(server, "unguarded-4x")
    assert set(first + second) == {b"%d" % number for number in range(20)}
    assert len(first + second) > 20
