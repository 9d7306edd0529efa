"""Delayed messages of remoting clients: levels, times, and recalls."""

import asyncio
import base64
import time

import pytest

from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
DAY_MS = 86_400_000


def now_ms() -> int:
    return int(time.time() * 1000)


def pairs_of(record: MessageRecord) -> dict[str, str]:
    return dict(pair.split("\x01", 1) for pair in record.properties.split("\x02") if pair)


async def reader_of(server: Embedded, topic: str) -> RemotingClient:
    client = await RemotingClient.connect(server.remoting)
    await client.heartbeat(f"{topic}-reader", consumers={f"{topic}-group": [topic]})
    return client


async def pull_next(client: RemotingClient, topic: str, offset: int = 0) -> list[MessageRecord]:
    answer = await client.pull(f"{topic}-group", topic, queue_id=1, offset=offset, suspend_ms=15_000)
    return decode_records(answer.body)


@pytest.mark.parametrize(
    ("delay", "wait_ms"),
    [
        ({"DELAY": "1"}, 1000),
        ({"DELAY": "1", "TIMER_DELAY_SEC": "3600"}, 1000),
        ({"DELAY": "0", "TIMER_DELAY_MS": "700"}, 700),
        ({"TIMER_DELAY_SEC": "1"}, 1000),
        ({"TIMER_DELIVER_MS": "+700"}, 700),
    ],
)
async def test_a_delayed_message_is_delivered_when_its_time_has_come(
    server: Embedded, delay: dict[str, str], wait_ms: int
) -> None:
    topic = f"delayed-4x-{'-'.join(delay)}"
    began_ms = now_ms()
    properties = {name: str(began_ms + int(value)) if value.startswith("+") else value for name, value in delay.items()}
    async with await RemotingClient.connect(server.remoting) as client:
        sent = await client.send(topic, b"later", queue_id=1, properties={"UNIQ_KEY": "D1", **properties}, g=1_234_567)
        assert (sent.code, sent.fields["queueId"]) == (0, "1")
        async with await reader_of(server, topic) as reader:
            [record] = await pull_next(reader, topic)
    assert now_ms() - began_ms >= wait_ms
    assert record.stored_ms - began_ms >= wait_ms
    assert (record.body, record.queue_id, record.born_ms, record.system_flag) == (b"later", 1, 1_234_567, 0)
    expected = {"UNIQ_KEY": "D1", "REAL_TOPIC": topic, "REAL_QID": "1", **properties}
    assert expected.items() <= pairs_of(record).items()


@pytest.mark.parametrize(
    "delay", [{"DELAY": "-1"}, {"DELAY": "0"}, {"TIMER_DELIVER_MS": "-5"}, {"TIMER_DELAY_MS": "0"}]
)
async def test_a_message_without_a_wait_is_delivered_at_once(server: Embedded, delay: dict[str, str]) -> None:
    topic = f"at-once-4x-{'-'.join([*delay, *delay.values()])}"
    async with await RemotingClient.connect(server.remoting) as client:
        assert (await client.send(topic, b"now", queue_id=1, properties=delay)).fields["queueOffset"] == "0"
        async with await reader_of(server, topic) as reader:
            [record] = decode_records((await reader.pull(f"{topic}-group", topic, queue_id=1)).body)
            assert record.body == b"now"


@pytest.mark.parametrize(
    "delay",
    [
        {"TIMER_DELAY_SEC": str(400 * DAY_MS // 1000)},
        {"TIMER_DELAY_MS": str(400 * DAY_MS)},
        {"TIMER_DELIVER_MS": "9" * 18},
        {"DELAY": "soon"},
    ],
)
async def test_a_time_that_is_too_far_or_no_number_is_refused(remoting: RemotingClient, delay: dict[str, str]) -> None:
    refused = await remoting.send("far-4x", b"never", properties=delay)
    assert (refused.code, refused.fields["MSG_REGION"]) == (13, "DefaultRegion")


async def test_a_recalled_message_is_never_delivered(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        due_ms = now_ms() + 1500
        wait = {"TIMER_DELIVER_MS": str(due_ms)}
        sent = await client.send("recalled-4x", b"recalled", queue_id=1, properties={"UNIQ_KEY": "X1", **wait})
        await client.send("recalled-4x", b"kept", queue_id=1, properties={"UNIQ_KEY": "X2", **wait})
        handle = sent.fields["recallHandle"]
        parts = base64.urlsafe_b64decode(handle).decode().split(" ")
        assert [*parts[:2], *parts[3:5]] == ["v1", "recalled-4x", str(due_ms), "X1"]  # what Java's client reads of it
        for _ in range(2):
            answer = await client.call(370, producerGroup="PG", topic="recalled-4x", recallHandle=handle)
            assert (answer.code, answer.fields) == (0, {"msgId": "X1", "MSG_REGION": "DefaultRegion"})
        async with await reader_of(server, "recalled-4x") as reader:
            assert [record.body for record in await pull_next(reader, "recalled-4x")] == [b"kept"]


async def test_a_handle_that_is_bad_foreign_or_expired_recalls_nothing(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        sent = await client.send("bad-recall-4x", b"x", queue_id=1, properties={"TIMER_DELAY_MS": "600"})
        await client.send("other-recall-4x", b"x")
        handle = sent.fields["recallHandle"]
        foreign = base64.urlsafe_b64encode(b"v1 bad-recall-4x broker 99999999999999 ID").decode()
        for topic, tried in (
            ("bad-recall-4x", "none"),
            ("bad-recall-4x", "%%%"),
            ("bad-recall-4x", foreign),
            ("other-recall-4x", handle),
        ):
            assert (await client.call(370, topic=topic, recallHandle=tried)).code == 604
        assert (await client.call(370, topic="missing-recall-4x", recallHandle=handle)).code == 17
        async with await reader_of(server, "bad-recall-4x") as reader:
            assert len(await pull_next(reader, "bad-recall-4x")) == 1
        assert (await client.call(370, topic="bad-recall-4x", recallHandle=handle)).code == 604


async def test_delayed_messages_wait_side_by_side(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as client:
        waits = (900, 300, 600)
        for wait in waits:
            await client.send("side-4x", b"%d" % wait, queue_id=1, properties={"TIMER_DELAY_MS": str(wait)})
        async with await reader_of(server, "side-4x") as reader:
            bodies: list[bytes] = []
            while len(bodies) < len(waits):
                bodies += [each.body for each in await asyncio.wait_for(pull_next(reader, "side-4x", len(bodies)), 20)]
    assert bodies == [b"300", b"600", b"900"]
