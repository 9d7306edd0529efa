"""Clients that pop (200050 and on): what they get, how they settle it, and whom they share a group with."""

import base64
import json
import time

from ternmq_rpc.remoting.json_dialect import decode_dialect
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded, RawClient
from tests.support.popping_client import Popped, acknowledge, connect_popper, pop, read_popped, set_mode, settle
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def connect(server: Embedded) -> RemotingClient:
    return await connect_popper(server.remoting)


async def ask_assignment(client: RemotingClient, group: str, topic: str, client_id: str) -> object:
    body = {
        "topic": topic,
        "consumerGroup": group,
        "clientId": client_id,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }
    answer = await client.call(400, json.dumps(body).encode())
    assert answer.code == 0, answer.remark
    content = decode_dialect(answer.body)
    assert isinstance(content, dict)
    return content.get("messageQueueAssignments")


def bodies(messages: list[Popped]) -> list[bytes]:
    return sorted(message.record.body for message in messages)


async def test_a_popped_message_is_hidden_until_its_time_and_finished_by_an_acknowledgement(server: Embedded) -> None:
    topic = group = "pop-basics"
    async with await connect(server) as client:
        for number in range(8):
            await client.send(topic, b"%d" % number, queue_id=number % 4)
        first = read_popped(await pop(client, group, topic, invisible_ms=11_000))
        assert bodies(first) == [b"%d" % number for number in range(8)]
        assert {message.record.reconsume_times for message in first} == {0}
        empty = await pop(client, group, topic)
        assert (empty.code, empty.fields["restNum"], empty.fields["popTime"]) == (210, "0", "0")
        for message in first[1:]:
            assert (await acknowledge(client, group, message)).code == 0
        again = await acknowledge(client, group, first[1])
        assert again.code == 0, again.remark
        [left] = read_popped(await pop(client, group, topic, poll_ms=20_000))
        assert (left.record.body, left.record.reconsume_times) == (first[0].record.body, 1)
        assert (await acknowledge(client, group, first[0])).code == 208
        assert (await acknowledge(client, group, left)).code == 0
        assert (await pop(client, group, topic)).code == 210


async def test_a_waiting_pop_gets_what_arrives(server: Embedded) -> None:
    topic = group = "pop-waits"
    async with await connect(server) as client, await connect(server) as producer:
        await producer.send(topic, b"before", properties={"TAGS": "red"})
        [before] = read_popped(await pop(client, group, topic, exp="red || blue"))
        assert (await acknowledge(client, group, before)).code == 0
        began = time.monotonic()
        assert (await pop(client, group, topic, poll_ms=300)).code == 210
        assert time.monotonic() - began >= 0.3
        waiting = pop(client, group, topic, poll_ms=20_000, exp="red || blue")
        await producer.send(topic, b"green", properties={"TAGS": "green"})
        await producer.send(topic, b"blue", properties={"TAGS": "blue"})
        assert bodies(read_popped(await waiting)) == [b"blue"]


async def test_a_client_that_went_away_takes_no_messages(server: Embedded) -> None:
    topic = group = "pop-gone"
    async with await connect(server) as producer, await connect(server) as other:
        await producer.send(topic, b"first")
        async with await connect(server) as gone:
            [first] = read_popped(await pop(gone, group, topic))
            assert (await acknowledge(gone, group, first)).code == 0
            await gone.send_oneway(
                200050,
                consumerGroup=group,
                topic=topic,
                queueId=-1,
                maxMsgNums=32,
                invisibleTime=60_000,
                pollTime=20_000,
            )
            assert (await pop(gone, group, topic, poll_ms=100)).code == 210  # so that the other one waits
        await producer.send(topic, b"second")
        assert bodies(read_popped(await pop(other, group, topic, poll_ms=10_000))) == [b"second"]


async def test_a_changed_time_makes_a_new_checkpoint(server: Embedded) -> None:
    topic = group = "pop-changes"
    async with await connect(server) as client:
        await client.send(topic, b"x")
        [message] = read_popped(await pop(client, group, topic))
        changed = await settle(client, 200053, group, message, invisibleTime=700)
        assert (changed.code, changed.fields["invisibleTime"]) == (0, "700")
        assert (await settle(client, 200053, group, message, invisibleTime=700)).code == 208
        times = f"{changed.fields['popTime']} 700 {changed.fields['reviveQid']}"
        renewed = message._replace(checkpoint=f"0 {times} 0 broker-0 {message.parts[6]} {message.parts[7]}")
        changed = await settle(client, 200053, group, renewed, invisibleTime=300)
        assert changed.code == 0
        [again] = read_popped(await pop(client, group, topic, poll_ms=10_000))
        assert again.record.reconsume_times == 1
        assert (await acknowledge(client, group, again)).code == 0


async def test_a_batch_of_acknowledgements_names_messages_by_bits(server: Embedded) -> None:
    topic = group = "pop-batches"
    async with await connect(server) as client:
        for number in range(12):
            await client.send(topic, b"%d" % number, queue_id=2)
        messages = read_popped(await pop(client, group, topic, invisible_ms=10_000))
        first, popped_ms, invisible_ms, revive = (int(part) for part in messages[0].parts[:4])
        bits = sum(1 << int(message.parts[7]) - first for message in messages if message.record.body != b"5")
        entry = {
            "c": group,
            "t": topic,
            "r": "0",
            "so": first,
            "q": 2,
            "rq": revive,
            "pt": popped_ms,
            "it": invisible_ms,
            "b": base64.b64encode(bits.to_bytes(2, "little")).decode(),
        }
        body = json.dumps({"brokerName": "broker-0", "acks": [entry]}).encode()
        assert (await client.call(200151, body)).code == 0
        left = read_popped(await pop(client, group, topic, poll_ms=20_000))
        assert bodies(left) == [b"5"]


async def test_requests_that_can_not_be_are_refused(server: Embedded) -> None:
    topic = group = "pop-refusals"
    async with await connect(server) as client:
        await client.send(topic, b"x")
        assert (await pop(client, group, topic, batch=33)).code == 29
        assert (await pop(client, group, topic, order=True)).code == 13
        assert (await pop(client, group, "pop-no-topic")).code == 17
        [message] = read_popped(await pop(client, group, topic))
        for part, value, code in ((6, "77", 29), (7, "77", 208)):
            parts = [*message.parts[:part], value, *message.parts[part + 1 :]]
            assert (await acknowledge(client, group, message._replace(checkpoint=" ".join(parts)))).code == code
        assert (await acknowledge(client, group, message._replace(checkpoint="0 x y 0 0 b 0 0"))).code == 13
        assert (await acknowledge(client, group, message)).code == 0


async def test_a_message_that_fails_too_often_is_a_dead_letter(server: Embedded) -> None:
    topic = group = "pop-letters"
    async with await connect(server) as client, RawClient(server.grpc) as operator:
        answer = await client.call(200, json.dumps({"groupName": group, "retryMaxTimes": 2}).encode())
        assert answer.code == 0, answer.remark
        await client.send(topic, b"poison")
        await client.send(topic, b"good")
        for times in range(3):
            messages = read_popped(await pop(client, group, topic, poll_ms=10_000))
            [poison] = [message for message in messages if message.record.body == b"poison"]
            assert poison.record.reconsume_times == times
            for message in messages:
                if message is not poison:
                    assert (await acknowledge(client, group, message)).code == 0
            assert (await settle(client, 200053, group, poison, invisibleTime=100)).code == 0
        letters = await operator.receive(f"%DLQ%{group}", "pop-undertaker", poll_s=10)
        assert [letter.body for letter in letters.messages] == [b"poison"]


async def test_a_fifo_group_pops_each_message_group_in_order(server: Embedded) -> None:
    topic = group = "pop-order"
    kind = {"topic": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "attributes": "+message.type=FIFO"}
    async with await connect(server) as client, RawClient(server.grpc) as operator:
        assert (await client.call(17, **kind)).code == 0
        answer = await client.call(200, json.dumps({"groupName": group, "consumeMessageOrderly": True}).encode())
        assert answer.code == 0, answer.remark
        assert (await set_mode(client, group, topic, "POP")).code == 0
        assert (await client.heartbeat("pop-order", consumers={group: [topic]})).code == 0
        for number in range(6):
            properties = {"__SHARDINGKEY": f"key-{number % 2}"}
            await client.send(topic, b"%d-%d" % (number % 2, number), properties=properties, queue_id=0)
        seen: dict[bytes, list[bytes]] = {}
        failed = False
        for _ in range(20):
            answer = await pop(client, group, topic, batch=1, poll_ms=2000, order=True)
            if answer.code != 0:
                break
            assert answer.fields["reviveQid"] == "999"
            for message in read_popped(answer):
                if message.record.body == b"0-2" and not failed:
                    failed = True
                    assert (await settle(client, 200053, group, message, invisibleTime=200)).code == 0
                    continue
                seen.setdefault(message.record.body[:1], []).append(message.record.body)
                assert (await acknowledge(client, group, message)).code == 0
        assert seen == {b"0": [b"0-0", b"0-2", b"0-4"], b"1": [b"1-1", b"1-3", b"1-5"]}
        described = await operator.admin("DescribeGroup", name=group)
        assert ([each.client_id for each in described.members], [*described.inconsistencies]) == (["pop-order"], [])


async def test_the_way_of_a_group_decides_what_its_members_are_assigned(server: Embedded) -> None:
    topic = group = "pop-assigned"
    retries = f"%RETRY%{group}"
    async with await connect(server) as one, await connect(server) as two:
        await one.send(topic, b"x", d=4)
        for client, client_id in ((one, "pop-one"), (two, "pop-two")):
            assert (await client.heartbeat(client_id, consumers={group: [topic]})).code == 0
        shares = [
            await ask_assignment(client, group, topic, name) for client, name in ((one, "pop-one"), (two, "pop-two"))
        ]
        queue = {"brokerName": "broker-0", "topic": topic}
        assert shares == [
            [{"messageQueue": {**queue, "queueId": number}, "mode": "PULL"} for number in numbers]
            for numbers in ((0, 1), (2, 3))
        ]
        [retry_share] = [
            share for name in ("pop-one", "pop-two") if (share := await ask_assignment(one, group, retries, name))
        ]
        assert retry_share == [
            {"messageQueue": {"brokerName": "broker-0", "queueId": 0, "topic": retries}, "mode": "PULL"}
        ]
        assert await ask_assignment(one, group, "pop-no-topic", "pop-one") is None

        while not two.pushed.empty():
            two.pushed.get_nowait()
        assert (await set_mode(one, group, topic, "POP")).code == 0
        assert (await set_mode(one, group, retries, "POP")).code == 16
        assert (await two.pushed.get()).code == 40
        assert (await pop(one, group, topic)).code == 16  # the members are not asked yet, and pull
        for client, client_id in ((one, "pop-one"), (two, "pop-two")):
            share = await ask_assignment(client, group, topic, client_id)
            assert share == [{"messageQueue": {**queue, "queueId": -1}, "mode": "POP"}]
            assert await ask_assignment(client, group, retries, client_id) == []
        listed = await one.call(38, consumerGroup=group)
        assert json.loads(listed.body) == {"consumerIdList": ["pop-one", "pop-two"]}
        assert bodies(read_popped(await pop(two, group, topic))) == [b"x"]
        refused = await one.pull(group, topic)
        assert (refused.code, "setClientRebalance(false)" in str(refused.remark)) == (16, True)
        assert (await one.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=0)).code == 16

        assert (await set_mode(one, group, topic, "PULL")).code == 0
        assert (await ask_assignment(one, group, topic, "pop-one")) == shares[0]
        assert (await pop(two, group, topic)).code == 16
        assert (await one.pull(group, topic)).code == 0


async def test_members_of_a_group_that_pops_may_come_by_either_protocol(server: Embedded) -> None:
    topic = group = "pop-shared"
    async with await connect(server) as client, await RemotingClient.connect(server.remoting) as old:
        assert (await set_mode(client, group, topic, "POP")).code == 0
        for number in range(4):
            await client.send(topic, b"%d" % number)
        refused = await old.heartbeat("pop-old", consumers={group: [topic]})
        assert (refused.code, "RocketMQ 5" in str(refused.remark)) == (16, True)
        assert (await client.heartbeat("pop-new", consumers={group: [topic]})).code == 0
        async with RawClient(server.grpc) as other:
            [mine] = read_popped(await pop(client, group, topic, batch=1, invisible_ms=10_000))
            received = await other.receive(topic, group, poll_s=5)
            assert len(received.messages) == 3
            await other.ack(topic, group, *(each.system_properties.receipt_handle for each in received.messages))
            again = await other.receive(topic, group, poll_s=20)
            assert [each.body for each in again.messages] == [mine.record.body]
            assert again.messages[0].system_properties.delivery_attempt == 2
            assert (await acknowledge(client, group, mine)).code == 208
            await other.ack(topic, group, again.messages[0].system_properties.receipt_handle)
            # It can't pull while others pop.
            assert (await set_mode(client, group, topic, "PULL")).code == 0
            assert await ask_assignment(client, group, topic, "pop-new") == []
            refused = await client.heartbeat("pop-new", consumers={group: [topic]})
            assert (refused.code, "stop all gRPC consumers" in str(refused.remark)) == (16, True)
            await other.call("NotifyClientTermination", group={"name": group})
            assert (await client.heartbeat("pop-new", consumers={group: [topic]})).code == 0
            assert (await client.pull(group, topic)).code == 0


async def test_messages_that_were_sent_back_are_popped_from_the_retry_topic(server: Embedded) -> None:
    topic = group = "pop-sent-back"
    async with await connect(server) as client:
        await client.send(topic, b"x")
        assert (await client.heartbeat("pop-back", consumers={group: [topic]})).code == 0
        assert (await client.call(14, consumerGroup=group, topic=f"%RETRY%{group}", queueId=0)).code == 0
        [record] = decode_records((await client.pull(group, topic)).body)
        assert (await client.call(36, offset=record.log_offset, group=group, delayLevel=1)).code == 0
        assert (await client.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=1)).code == 0
        assert (await set_mode(client, group, topic, "POP")).code == 0
        assert (await client.heartbeat("pop-back", consumers={group: [topic]})).code == 0
        [message] = read_popped(await pop(client, group, topic, poll_ms=10_000))
        assert (message.record.topic, message.record.reconsume_times) == (f"%RETRY%{group}_{topic}", 1)
        assert message.record.body == b"x"
        changed = await settle(client, 200053, group, message, invisibleTime=300)
        assert changed.code == 0, changed.remark
        [again] = read_popped(await pop(client, group, topic, poll_ms=10_000))
        assert again.record.reconsume_times == 2
        assert (await acknowledge(client, group, again)).code == 0
        assert (await pop(client, group, topic)).code == 210
