"""Half messages of remoting clients: how they end, and how their producers are asked."""

import asyncio
from typing import NamedTuple

from ternmq_rpc.remoting.message_ids import decode_offset_id
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP
from tests.system.remoting.test_delays import pairs_of

pytestmark = SERVER_LOOP
COMMIT, ROLLBACK = 8, 12


class Half(NamedTuple):
    """A half message, as the answer to its send names it."""

    message_id: str
    queue_offset: int
    number: int
    queue_id: int


async def send_half(client: RemotingClient, topic: str, message_id: str, **properties: str) -> Half:
    pairs = {"UNIQ_KEY": message_id, "TRAN_MSG": "true", "PGROUP": "PG", **properties}
    sent = await client.send(topic, b"half", queue_id=2, properties=pairs, f=4)
    assert sent.code == 0, sent.remark
    _, number = decode_offset_id(sent.fields["msgId"])
    assert sent.fields["transactionId"] == message_id
    return Half(message_id, int(sent.fields["queueOffset"]), number, int(sent.fields["queueId"]))


def ending(half: Half, decision: int = COMMIT, **changed: object) -> dict[str, object]:
    """The fields of 37."""
    fields: dict[str, object] = {
        "producerGroup": "PG",
        "tranStateTableOffset": half.queue_offset,
        "commitLogOffset": half.number,
        "commitOrRollback": decision,
        "fromTransactionCheck": False,
        "msgId": half.message_id,
        "transactionId": half.message_id,
    }
    return fields | changed


async def pull_all(client: RemotingClient, topic: str, queue_id: int = 2) -> list[MessageRecord]:
    group = f"{topic}-readers"
    await client.heartbeat(f"{topic}-reader", consumers={group: [topic]})
    return decode_records((await client.pull(group, topic, queue_id=queue_id)).body)


async def test_a_commit_shows_the_message_once_in_the_queue_that_its_producer_chose(server: Embedded) -> None:
    async with (
        await RemotingClient.connect(server.remoting) as client,
        await RemotingClient.connect(server.remoting) as other,
    ):
        half = await send_half(client, "committed-4x", "C1", KEYS="k")
        assert half.queue_id == 2
        assert await pull_all(client, "committed-4x") == []
        assert [(await each.call(37, **ending(half))).code for each in (client, other, client)] == [0, 0, 0]
        [record] = await pull_all(client, "committed-4x")
        assert (record.body, record.topic, record.queue_id, record.system_flag) == (b"half", "committed-4x", 2, 8)
        assert record.half_offset == half.number
        [viewed] = decode_records((await other.call(33, offset=record.log_offset)).body)
        assert (viewed.half_offset, viewed.log_offset) == (half.number, record.log_offset)
        expected = {"UNIQ_KEY": "C1", "KEYS": "k", "TRAN_MSG": "true", "PGROUP": "PG"}
        assert expected.items() <= pairs_of(record).items()
        assert (pairs_of(record)["REAL_TOPIC"], pairs_of(record)["REAL_QID"]) == ("committed-4x", "2")
        contradicting = await client.call(37, **ending(half, ROLLBACK))
        assert (contradicting.code, "contradicts" in contradicting.remark) == (1, True)


async def test_a_rollback_hides_the_message_for_good(remoting: RemotingClient) -> None:
    half = await send_half(remoting, "rolled-4x", "R1")
    await remoting.send_oneway(37, **ending(half, ROLLBACK))
    assert (await remoting.call(37, **ending(half, ROLLBACK))).code == 0
    assert (await remoting.call(37, **ending(half))).code == 1
    assert await pull_all(remoting, "rolled-4x") == []


async def test_what_an_end_says_of_its_half_message_must_be_right(remoting: RemotingClient) -> None:
    half = await send_half(remoting, "wrong-4x", "W1", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    stored = await remoting.send("wrong-4x", b"ordinary", queue_id=1, properties={"UNIQ_KEY": "W2"})
    _, ordinary = decode_offset_id(stored.fields["msgId"])
    refusals = [
        (ending(half, producerGroup="other"), "The producer group wrong"),
        (ending(half, tranStateTableOffset=half.queue_offset + 1), "The transaction state table offset wrong"),
        (ending(half, commitLogOffset=half.number + 1), "Find prepared transaction message failed"),
        (ending(half, commitLogOffset=-5), "Find prepared transaction message failed"),
        (ending(half, msgId="W9", transactionId="W9"), "Find prepared transaction message failed"),
        (ending(half, msgId="W2", commitLogOffset=ordinary), "Find prepared transaction message failed"),
    ]
    for fields, remark in refusals:
        answer = await remoting.call(37, **fields)
        assert (answer.code, answer.remark) == (1, remark)
    assert (await remoting.call(37, **ending(half, 5))).code == 1
    assert (await remoting.call(37, **ending(half, 0))).code == 0
    assert await pull_all(remoting, "wrong-4x") == []
    assert (await remoting.call(37, **ending(half))).code == 0


async def test_a_producer_that_decides_after_its_time_without_checks_waits_for_a_check(
    remoting: RemotingClient,
) -> None:
    pairs = {"UNIQ_KEY": "L1", "TRAN_MSG": "true", "PGROUP": "PG", "CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
    sent = await remoting.send("late-4x", b"half", queue_id=2, properties=pairs, g=1_600_000_000_000)
    half = Half("L1", int(sent.fields["queueOffset"]), decode_offset_id(sent.fields["msgId"])[1], 2)
    assert (await remoting.call(37, **ending(half))).code == 604
    assert (await remoting.call(37, **ending(half, fromTransactionCheck=True))).code == 0
    assert (await remoting.call(37, **ending(half))).code == 0
    assert len(await pull_all(remoting, "late-4x")) == 1


async def test_a_member_of_the_group_is_asked_and_decides(server: Embedded) -> None:
    async with (
        await RemotingClient.connect(server.remoting) as sender,
        await RemotingClient.connect(server.remoting) as member,
        await RemotingClient.connect(server.remoting) as stranger,
    ):
        await stranger.heartbeat("stranger-4x", producers=("strangers-4x",))
        await member.heartbeat(
            "member-4x", producers=("askers-4x", "CLIENT_INNER_PRODUCER"), consumers={"member-4x-group": ["asked-4x"]}
        )
        while not member.pushed.empty():
            member.pushed.get_nowait()
        half = await send_half(sender, "asked-4x", "A1", PGROUP="askers-4x", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        await sender.close()
        check = await asyncio.wait_for(member.pushed.get(), 30)
        assert (check.code, check.is_oneway) == (39, True)
        fields = {name: check.fields[name] for name in ("topic", "msgId", "transactionId", "commitLogOffset")}
        assert fields == {
            "topic": "asked-4x",
            "msgId": "A1",
            "transactionId": "A1",
            "commitLogOffset": str(half.number),
        }
        assert decode_offset_id(check.fields["offsetMsgId"])[1] == half.number
        [record] = decode_records(check.body)
        assert (record.topic, record.queue_id, record.body, record.system_flag) == ("asked-4x", 2, b"half", 0)
        assert (record.queue_offset, record.log_offset) == (half.queue_offset, half.number)
        assert pairs_of(record)["PGROUP"] == "askers-4x"
        answer = {
            "producerGroup": "askers-4x",
            "tranStateTableOffset": check.fields["tranStateTableOffset"],
            "commitLogOffset": check.fields["commitLogOffset"],
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": True,
            "msgId": check.fields["msgId"],
            "transactionId": check.fields["transactionId"],
            "bname": check.fields["bname"],
        }
        await member.send_oneway(37, **answer)
        assert (await member.call(37, **answer)).code == 0
        assert stranger.pushed.empty()
    async with await RemotingClient.connect(server.remoting) as reader:
        assert len(await pull_all(reader, "asked-4x")) == 1
