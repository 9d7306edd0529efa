"""Messages that a group failed on: again after a while, each time later, and at last a dead letter."""

import time

import pytest

from ternmq_common.shard.property_text import read_properties
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded, RawClient
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def pull_one(
    client: RemotingClient, group: str, topic: str, *, offset: int = 0, wait_ms: int = 0
) -> MessageRecord:
    answer = await client.pull(group, topic, offset=offset, suspend_ms=wait_ms)
    assert answer.code == 0, (answer.code, answer.remark)
    return decode_records(answer.body)[0]


async def test_a_message_that_is_sent_back_comes_again_with_its_origin(remoting: RemotingClient) -> None:
    group, retries = "back-4x", "%RETRY%back-4x"
    await remoting.send("back-topic", b"body", properties={"UNIQ_KEY": "BACK1", "TAGS": "t", "own": "kept"}, h=5)
    await remoting.heartbeat("back", consumers={group: ["back-topic"]})
    first = await pull_one(remoting, group, "back-topic")
    began = time.time()
    sent = await remoting.call(
        36, offset=first.log_offset, group=group, delayLevel=1, originTopic="back-topic", maxReconsumeTimes=16
    )
    assert (sent.code, sent.body) == (0, b"")
    assert (await remoting.pull(group, retries)).code == 19
    again = await pull_one(remoting, group, retries, wait_ms=15_000)
    assert time.time() - began > 0.9
    assert (again.topic, again.body, again.flag, again.reconsume_times) == (retries, b"body", 5, 1)
    assert again.born_ms == first.born_ms
    pairs = read_properties(again.properties)
    assert (pairs["RETRY_TOPIC"], pairs["DELAY"], pairs["own"]) == ("back-topic", "1", "kept")
    assert (pairs["UNIQ_KEY"], pairs["TAGS"], pairs["WAIT"]) == ("BACK1", "t", "false")
    # Sent back again, it keeps its first topic and id.
    assert (await remoting.call(36, offset=again.log_offset, group=group, delayLevel=1)).code == 0
    third = await pull_one(remoting, group, retries, offset=1, wait_ms=15_000)
    later = read_properties(third.properties)
    assert (third.reconsume_times, later["RETRY_TOPIC"]) == (2, "back-topic")
    assert later["ORIGIN_MESSAGE_ID"] == pairs["ORIGIN_MESSAGE_ID"]


async def test_without_a_level_the_wait_grows_with_each_failure(server: Embedded) -> None:
    group = "ladder-4x"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await client.send("ladder-topic", b"body", properties={"UNIQ_KEY": "LADDER1"})
        await client.heartbeat("ladder", consumers={group: ["ladder-topic"]})
        first = await pull_one(client, group, "ladder-topic")
        before_ms = time.time() * 1000
        assert (await client.call(36, offset=first.log_offset, group=group, delayLevel=0)).code == 0
        listed = await operator.admin("ListTimers", topic=f"%RETRY%{group}")
        [timer] = listed.timers
        wait_ms = timer.due.ToMilliseconds() - before_ms
        assert 9_900 < wait_ms < 12_000  # level 3


@pytest.mark.parametrize(("level", "retries_max", "reason"), [(-1, 16, "forwarded"), (0, 0, "attempts")])
async def test_after_the_last_try_it_is_a_dead_letter(
    server: Embedded, level: int, retries_max: int, reason: str
) -> None:
    topic, group = f"dead-topic-{reason}", f"dead-4x-{reason}"
    async with await RemotingClient.connect(server.remoting) as client, RawClient(server.grpc) as operator:
        await client.send(topic, b"body", properties={"UNIQ_KEY": f"DEAD{reason}"})
        await client.heartbeat(f"dead-{reason}", consumers={group: [topic]})
        first = await pull_one(client, group, topic)
        fields = {"offset": first.log_offset, "group": group, "delayLevel": level, "maxReconsumeTimes": retries_max}
        assert (await client.call(36, **fields)).code == 0
        [letter] = decode_records((await client.pull(group, f"%DLQ%{group}", sysFlag=4)).body)
        pairs = read_properties(letter.properties)
        assert (letter.body, letter.reconsume_times, pairs["DELAY"]) == (b"body", 1, "-1")
        assert (pairs["DLQ_ORIGIN_TOPIC"], pairs["DLQ_REASON"], pairs["DLQ_ATTEMPTS"]) == (topic, reason, "1")
        answer = await operator.admin("ResendDeadLetters", group=group, offsets=[0])
        assert [each.message_id for each in answer.letters] == [f"DEAD{reason}"]
        revived = await pull_one(client, group, f"%RETRY%{group}")
        assert (revived.body, revived.reconsume_times) == (b"body", 0)
        assert read_properties(revived.properties)["RETRY_TOPIC"] == topic


async def test_what_is_not_there_or_not_a_member_s_to_read_is_refused(remoting: RemotingClient) -> None:
    missing = await remoting.call(36, offset=12345, group="missing-4x", delayLevel=0)
    assert (missing.code, missing.remark) == (1, "look message by offset failed, 12345")


async def test_a_consumer_that_can_t_send_back_sends_to_its_retry_queue(remoting: RemotingClient) -> None:
    group, retries = "fallback-4x", "%RETRY%fallback-4x"
    properties = {"UNIQ_KEY": "FALL1", "RETRY_TOPIC": "fallback-topic", "ORIGIN_MESSAGE_ID": "AB", "DELAY": "1"}
    await remoting.heartbeat("fallback", consumers={group: ["fallback-topic"]})
    sent = await remoting.send(retries, b"later", properties=properties, j=1, l=16)
    assert sent.code == 0
    again = await pull_one(remoting, group, retries, wait_ms=15_000)
    pairs = read_properties(again.properties)
    assert (again.reconsume_times, pairs["RETRY_TOPIC"], pairs["ORIGIN_MESSAGE_ID"]) == (1, "fallback-topic", "AB")
    # An ordered consumer gives up: more failures than it wants retries.
    properties["UNIQ_KEY"] = "FALL2"
    assert (await remoting.send(retries, b"dead", properties=properties, j=4, l=3)).code == 0
    [letter] = decode_records((await remoting.pull(group, f"%DLQ%{group}", sysFlag=4)).body)
    pairs = read_properties(letter.properties)
    assert (letter.body, letter.reconsume_times) == (b"dead", 4)
    assert (pairs["DLQ_ORIGIN_TOPIC"], pairs["DLQ_ATTEMPTS"]) == ("fallback-topic", "4")
