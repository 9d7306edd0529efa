"""A group pulls or pops: members of the other way are refused, and it changes its way without losing anything."""

import json
import time
from collections import Counter

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded, RawClient, Received
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def join(client: RemotingClient, client_id: str, group: str, topic: str) -> None:
    answer = await client.heartbeat(client_id, consumers={group: [topic]})
    assert answer.code == 0, answer.remark


async def begin(client: RemotingClient, group: str, topic: str) -> int:
    """Where the group goes on in queue 0, as its members ask when they get the queue."""
    answer = await client.call(14, consumerGroup=group, topic=topic, queueId=0)
    return int(answer.fields["offset"]) if answer.code == 0 else 0


async def pull_all(client: RemotingClient, group: str, topic: str, *, commit: bool = True) -> list[MessageRecord]:
    records: list[MessageRecord] = []
    offset = await begin(client, group, topic)
    while (answer := await client.pull(group, topic, offset=offset)).code == 0:
        records += decode_records(answer.body)
        offset = int(answer.fields["nextBeginOffset"])
    if commit:
        await client.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=offset)
    return records


async def pop(client: RawClient, group: str, topic: str, *, poll_s: float = 0.0) -> Received:
    return await client.receive(topic, group, poll_s=poll_s)


async def acknowledge(client: RawClient, group: str, topic: str, messages: list[pb.Message]) -> None:
    await client.ack(topic, group, *(message.system_properties.receipt_handle for message in messages))


async def terminate(client: RawClient, group: str) -> None:
    await client.call("NotifyClientTermination", group={"name": group})


async def test_members_of_the_other_way_are_refused(server: Embedded) -> None:
    group, topic = "one-way-4x", "one-way-topic"
    async with RawClient(server.grpc) as popper, RawClient(server.grpc) as late:
        async with await RemotingClient.connect(server.remoting) as puller:
            await puller.send(topic, b"first")
            await join(puller, "one-way", group, topic)
            refused = await pop(popper, group, topic)
            assert refused.code == "FORBIDDEN"
            assert refused.status is not None
            assert "stop all remoting consumers" in refused.status.message
        assert [message.body for message in (await pop(popper, group, topic, poll_s=5)).messages] == [b"first"]
        async with await RemotingClient.connect(server.remoting) as puller:
            answer = await puller.heartbeat("one-way", consumers={group: [topic], "other-way-4x": [topic]})
            assert (answer.code, "stop all gRPC consumers" in str(answer.remark)) == (16, True)
            assert (await puller.call(38, consumerGroup=group)).code == 1
            assert (await puller.call(38, consumerGroup="other-way-4x")).code == 0
            await terminate(popper, group)
            await join(puller, "one-way", group, topic)
            assert (await pop(late, group, topic)).code == "FORBIDDEN"


async def test_a_group_goes_from_pulling_to_popping_with_its_retries(server: Embedded) -> None:
    group, topic = "to-pops-4x", "to-pops-topic"
    async with await RemotingClient.connect(server.remoting) as puller:
        for number in range(6):
            await puller.send(topic, b"%d" % number)
        await join(puller, "to-pops", group, topic)
        assert await begin(puller, group, f"%RETRY%{group}") == 0
        records = await pull_all(puller, group, topic)
        for record, level in zip(records[:3], (1, 1, 2), strict=True):
            assert (await puller.call(36, offset=record.log_offset, group=group, delayLevel=level)).code == 0
        await puller.send(topic, b"new")
    seen: Counter[bytes] = Counter()
    began = time.monotonic()
    async with RawClient(server.grpc) as popper:
        while len(seen) < 4 and time.monotonic() - began < 20:
            received = await pop(popper, group, topic, poll_s=8)
            for message in received.messages:
                seen[message.body] += 1
                if message.body == b"0":
                    assert message.system_properties.delivery_attempt == 2
            await acknowledge(popper, group, topic, received.messages)
        assert seen == {b"0": 1, b"1": 1, b"2": 1, b"new": 1}
        assert not (await pop(popper, group, topic)).messages
    # The poll was woken when the retry came, not at its end.
    assert time.monotonic() - began < 9


async def test_a_fifo_group_that_pops_goes_on_with_what_was_sent_back(server: Embedded) -> None:
    group, topic = "fifo-pops-4x", "fifo-pops-topic"
    async with await RemotingClient.connect(server.remoting) as puller:
        settings = {"groupName": group, "consumeMessageOrderly": True, "retryMaxTimes": 3}
        assert (await puller.call(200, json.dumps(settings).encode())).code == 0
        for number in range(3):
            await puller.send(topic, b"%d" % number, properties={"__SHARDINGKEY": "key"})
        await join(puller, "fifo-pops", group, topic)
        assert await begin(puller, group, f"%RETRY%{group}") == 0
        records = await pull_all(puller, group, topic)
        for record in records[:2]:
            assert (await puller.call(36, offset=record.log_offset, group=group, delayLevel=1)).code == 0
        await puller.send(topic, b"new", properties={"__SHARDINGKEY": "key"})
    attempts: dict[bytes, list[int]] = {b"0": [], b"1": [], b"new": []}
    async with RawClient(server.grpc) as popper:
        began = time.monotonic()
        while sum(map(len, attempts.values())) < 4 and time.monotonic() - began < 20:
            received = await pop(popper, group, topic, poll_s=8)
            for message in received.messages:
                attempts[message.body].append(message.system_properties.delivery_attempt)
                if attempts[message.body] == [2] and message.body == b"1":
                    await popper.change(topic, group, message.system_properties.receipt_handle, 0)
                else:
                    await acknowledge(popper, group, topic, [message])
        assert attempts == {b"0": [2], b"1": [2, 3], b"new": [1]}
        assert not (await pop(popper, group, topic)).messages
        assert await lags(popper, group) == {topic: (0, 0), f"%RETRY%{group}": (0, 0)}


async def test_a_group_goes_from_popping_to_pulling_with_what_is_in_flight(server: Embedded) -> None:
    group, topic = "to-pulls-4x", "to-pulls-topic"
    retries = f"%RETRY%{group}"
    async with await RemotingClient.connect(server.remoting) as puller, RawClient(server.grpc) as popper:
        for number in range(10):
            await puller.send(topic, b"%d" % number)
        first = (await pop(popper, group, topic)).messages
        done = [message for message in first if message.body in (b"0", b"1", b"5")]
        await acknowledge(popper, group, topic, done)
        failed = [message for message in first if message.body in (b"2", b"3")]
        for message in failed:
            await popper.change(topic, group, message.system_properties.receipt_handle, 0)
        again = (await pop(popper, group, topic)).messages
        assert {message.body for message in again} == {b"2", b"3"}
        await acknowledge(popper, group, topic, [message for message in again if message.body == b"2"])
        await terminate(popper, group)
        await join(puller, "to-pulls", group, topic)
        seen = Counter(record.body for record in await pull_all(puller, group, topic))
        seen += Counter(record.body for record in await pull_all(puller, group, retries))
        # 5 was finished before 4, so it comes again: once.
        assert seen == Counter({b"%d" % number: 1 for number in range(3, 10)})
        assert not await pull_all(puller, group, topic)
        assert not await pull_all(puller, group, retries)
        await puller.close()
        assert not (await pop(popper, group, topic)).messages


async def lags(operator: RawClient, group: str) -> dict[str, tuple[int, int]]:
    """Of each topic of the group, how many messages wait, and how many are in flight."""
    answer = await operator.admin("DescribeGroup", name=group)
    return {row.topic: (row.max_offset - row.cursor, row.in_flight) for row in answer.progress}


async def test_what_waits_for_a_retry_is_described_for_both_ways(server: Embedded) -> None:
    group, topic = "described-4x", "described-topic"
    retries = f"%RETRY%{group}"
    async with RawClient(server.grpc) as popper:
        async with await RemotingClient.connect(server.remoting) as puller:
            await puller.send(topic, b"x")
            await join(puller, "described", group, topic)
            await begin(puller, group, retries)
            [record] = await pull_all(puller, group, topic)
            assert (await puller.call(36, offset=record.log_offset, group=group, delayLevel=1)).code == 0
            await puller.pull(group, retries, suspend_ms=15_000)
            assert await lags(popper, group) == {topic: (0, 0), retries: (1, 0)}
        received = await pop(popper, group, topic)
        assert await lags(popper, group) == {topic: (0, 0), retries: (0, 1)}
        await acknowledge(popper, group, topic, received.messages)
        assert await lags(popper, group) == {topic: (0, 0), retries: (0, 0)}
