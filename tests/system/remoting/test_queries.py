"""Messages are found by key, by id and by offset id; message traces are stored and read as any others."""

import json
import time

import pytest

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import decode_offset_id
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
ALWAYS = {"beginTimestamp": 0, "endTimestamp": 2**63 - 1}
TRACES = "RMQ_SYS_TRACE_TOPIC"


def bodies(answer: Command) -> list[bytes]:
    return sorted(record.body for record in decode_records(answer.body))


async def send_keyed(client: RemotingClient, topic: str, number: int, keys: str) -> Command:
    return await client.send(topic, b"%d" % number, properties={"UNIQ_KEY": f"{topic}-{number}", "KEYS": keys})


async def test_messages_are_found_by_each_of_their_keys_and_by_their_id(remoting: RemotingClient) -> None:
    for number, keys in enumerate(("red green", "red", "blue")):
        await send_keyed(remoting, "keyed-4x", number, keys)
    query = {"topic": "keyed-4x", "maxNum": 64, **ALWAYS}
    assert bodies(await remoting.call(12, **query, key="red")) == [b"0", b"1"]
    assert bodies(await remoting.call(12, **query, key="green")) == [b"0"]
    assert bodies(await remoting.call(12, **query, key="keyed-4x-2")) == [b"2"]
    for by_id in ({"_UNIQUE_KEY_QUERY": True}, {"indexType": "U"}):
        found = await remoting.call(12, **query, **by_id, key="keyed-4x-1")
        assert bodies(found) == [b"1"]
        assert (await remoting.call(12, **query, **by_id, key="red")).code == 22
    [record] = decode_records(found.body)
    assert (record.topic, record.queue_id, record.queue_offset) == ("keyed-4x", 0, 1)
    assert found.fields["indexLastUpdateTimestamp"] == str(record.stored_ms)
    assert found.fields["indexLastUpdatePhyoffset"] == str(record.log_offset)


async def test_times_and_the_greatest_number_limit_what_is_found(remoting: RemotingClient) -> None:
    for number in range(3):
        await send_keyed(remoting, "limited-4x", number, "k")
    query = {"topic": "limited-4x", "key": "k"}
    records = decode_records((await remoting.call(12, **query, maxNum=64, **ALWAYS)).body)
    assert len(records) == 3
    newest = decode_records((await remoting.call(12, **query, maxNum=1, **ALWAYS)).body)
    assert [record.body for record in newest] == [b"2"]
    at = records[0].stored_ms
    span = {"beginTimestamp": min(record.stored_ms for record in records), "endTimestamp": at}
    assert len(decode_records((await remoting.call(12, **query, maxNum=64, **span)).body)) == 3
    late = int(time.time() * 1000) + 1000
    assert (await remoting.call(12, **query, maxNum=64, beginTimestamp=late, endTimestamp=late)).code == 22
    assert (await remoting.call(12, **query, maxNum=64, beginTimestamp=0, endTimestamp=1)).code == 22


@pytest.mark.parametrize(("topic", "key"), [("queried-4x", "other"), ("missing-4x", "k")])
async def test_what_is_not_there_is_not_found(remoting: RemotingClient, topic: str, key: str) -> None:
    await send_keyed(remoting, "queried-4x", 0, "k")
    answer = await remoting.call(12, topic=topic, key=key, maxNum=64, **ALWAYS)
    assert (answer.code, answer.body) == (22, b"")


async def test_hidden_messages_are_not_found(remoting: RemotingClient) -> None:
    half = {"UNIQ_KEY": "half-id", "KEYS": "k", "TRAN_MSG": "true", "PGROUP": "PG"}
    sent = await remoting.send("hidden-4x", b"half", properties=half)
    later = {"UNIQ_KEY": "later-id", "KEYS": "k", "TIMER_DELAY_SEC": "3600"}
    await remoting.send("hidden-4x", b"later", properties=later)
    for key in ("k", "half-id", "later-id"):
        assert (await remoting.call(12, topic="hidden-4x", key=key, maxNum=64, **ALWAYS)).code == 22
    _, number = decode_offset_id(sent.fields["msgId"])
    assert (await remoting.call(33, offset=number)).code == 1


async def test_a_message_is_seen_by_the_number_in_its_offset_id(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        sent = await client.send("viewed-4x", b"viewed", queue_id=1, properties={"UNIQ_KEY": "V1", "own": "value"})
        host, number = decode_offset_id(sent.fields["msgId"])
        assert (host.address, host.port) == (bytes((127, 0, 0, 1)), int(server.remoting.rpartition(":")[2]))
        for fields in ({}, {"topic": "viewed-4x"}):
            [record] = decode_records((await client.call(33, offset=number, **fields)).body)
            assert (record.topic, record.body, record.queue_id, record.log_offset) == (
                "viewed-4x",
                b"viewed",
                1,
                number,
            )
            assert "own\x01value" in record.properties
        for wrong in (number + 1, number + (1 << 48), 1, -1, 2**63 - 1):
            answer = await client.call(33, offset=wrong)
            assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {wrong}")


async def test_message_traces_are_sent_found_and_pulled(remoting: RemotingClient) -> None:
    route = await remoting.call(105, topic=TRACES)
    assert json.loads(route.body)["queueDatas"]
    trace = b"Pub\x011\x01region\x01group\x01topic\x02"
    sent = await remoting.send(TRACES, trace, queue_id=0, properties={"UNIQ_KEY": "T1", "KEYS": "traced-id traced-key"})
    assert sent.code == 0, sent.remark
    found = await remoting.call(12, topic=TRACES, key="traced-id", maxNum=64, **ALWAYS)
    assert bodies(found) == [trace]
    await remoting.heartbeat("tracer-4x", consumers={"tracers-4x": [TRACES]})
    queue = {"topic": TRACES, "queueId": 0}
    end = int((await remoting.call(30, **queue)).fields["offset"])
    pulled: list[MessageRecord] = []
    while len(pulled) < end:
        answer = await remoting.pull("tracers-4x", TRACES, offset=len(pulled))
        assert answer.code == 0, answer.remark
        pulled += decode_records(answer.body)
    assert trace in [record.body for record in pulled]
    assert (await remoting.call(15, **queue, consumerGroup="tracers-4x", commitOffset=end)).code == 0
    assert (await remoting.call(14, **queue, consumerGroup="tracers-4x")).fields["offset"] == str(end)
    for system in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"):
        assert (await remoting.send(system, b"x")).code in (16, 29)
        assert (await remoting.pull("tracers-4x", system, sysFlag=4, subscription="*")).code == 29
