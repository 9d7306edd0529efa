"""GetOffset, UpdateOffset, QueryOffset and PullMessage: consumption by offset (`pulling.md, Offsets`)."""

import time
from dataclasses import dataclass, field

import pytest

from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, code, duration
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


def queue(topic: str, queue_id: int = 0) -> pb.MessageQueue:
    return pb.MessageQueue(topic={"name": topic}, id=queue_id)


async def get(client: RawClient, topic: str, group: str) -> rpc.GetOffsetResponse:
    answer = await client.call("GetOffset", group={"name": group}, message_queue=queue(topic))
    assert isinstance(answer, rpc.GetOffsetResponse)
    return answer


async def update(client: RawClient, topic: str, group: str, offset: int) -> str:
    return code(await client.call("UpdateOffset", group={"name": group}, message_queue=queue(topic), offset=offset))


async def query(
    client: RawClient, topic: str, policy: "pb.QueryOffsetPolicy", timestamp: Timestamp | None = None
) -> rpc.QueryOffsetResponse:
    request = rpc.QueryOffsetRequest(message_queue=queue(topic), query_offset_policy=policy, timestamp=timestamp)
    answer = await client.call("QueryOffset", request)
    assert isinstance(answer, rpc.QueryOffsetResponse)
    return answer


@dataclass
class Pulled:
    """All items of one answer to PullMessage."""

    code: str = ""
    messages: list[pb.Message] = field(default_factory=list)
    next_offset: int | None = None
    kinds: list[str] = field(default_factory=list)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


async def pull(client: RawClient, topic: str, offset: int, *, poll_s: float = 0.0, **fields: Proto) -> Pulled:
    usual = {"group": {"name": "pullers"}, "message_queue": queue(topic), "batch_size": 32}
    request = rpc.PullMessageRequest(offset=offset, long_polling_timeout=duration(poll_s), **{**usual, **fields})
    pulled = Pulled()
    async for item in client.stream("PullMessage", request):
        kind = item.WhichOneof("content")
        pulled.kinds.append(kind)
        if kind == "status":
            pulled.code = code(item)
        elif kind == "message":
            pulled.messages.append(item.message)
        else:
            pulled.next_offset = item.next_offset
    return pulled


async def test_a_group_that_never_was_in_a_queue_has_no_offset(client: RawClient, topic: str, group: str) -> None:
    assert code(await get(client, topic, group)) == "OFFSET_NOT_FOUND"


async def test_a_group_goes_on_where_it_is_told_to(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0", b"1", b"2")
    assert await update(client, topic, group, 2) == "OK"
    assert (await get(client, topic, group)).offset == 2
    assert (await client.receive(topic, group)).bodies == [b"2"]
    assert await update(client, topic, group, 0) == "OK"
    assert (await client.receive(topic, group)).bodies == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("offset", "expected"), [(-1, "ILLEGAL_OFFSET"), (0, "OK"), (3, "OK"), (4, "ILLEGAL_OFFSET")])
async def test_an_update_stays_within_the_queue(
    client: RawClient, topic: str, group: str, offset: int, expected: str
) -> None:
    await client.send(topic, b"0", b"1", b"2")
    assert await update(client, topic, group, offset) == expected


async def test_the_beginning_the_end_and_a_time_are_found(client: RawClient, topic: str) -> None:
    assert (await query(client, topic, pb.BEGINNING)).offset == 0
    assert (await query(client, topic, pb.END)).offset == 0
    await client.send(topic, b"0", b"1", b"2")
    stored = (await pull(client, topic, 0)).messages[0].system_properties.store_timestamp
    assert (await query(client, topic, pb.BEGINNING)).offset == 0
    assert (await query(client, topic, pb.END)).offset == 3
    assert (await query(client, topic, pb.TIMESTAMP, stored)).offset == 0
    later = Timestamp(seconds=stored.seconds + 3600)
    assert (await query(client, topic, pb.TIMESTAMP, later)).offset == 3
    assert (await query(client, topic, pb.TIMESTAMP, Timestamp(seconds=1))).offset == 0


@pytest.mark.parametrize(("seconds", "expected"), [(2**62, 1), (-(2**62), 0)])
async def test_a_time_that_no_calendar_has_is_before_or_after_everything(
    client: RawClient, topic: str, seconds: int, expected: int
) -> None:
    await client.send(topic, b"0")
    answer = await query(client, topic, pb.TIMESTAMP, Timestamp(seconds=seconds))
    assert (code(answer), answer.offset) == ("OK", expected)


async def test_a_time_must_be_named(client: RawClient, topic: str) -> None:
    assert code(await query(client, topic, pb.TIMESTAMP)) == "BAD_REQUEST"


async def test_a_pull_is_status_messages_and_the_next_offset(client: RawClient, topic: str, server: Embedded) -> None:
    await client.send(topic, b"0", b"1", b"2", tag="tag")
    pulled = await pull(client, topic, 1)
    assert pulled.kinds == ["status", "message", "message", "next_offset"]
    assert (pulled.code, pulled.bodies, pulled.next_offset) == ("OK", [b"1", b"2"], 3)
    properties = pulled.messages[0].system_properties
    assert (pulled.messages[0].topic.name, properties.tag) == (topic, "tag")
    assert (properties.queue_id, properties.queue_offset, properties.delivery_attempt) == (0, 1, 1)
    assert (properties.store_host, properties.body_encoding) == (server.grpc, pb.IDENTITY)
    assert not properties.HasField("receipt_handle")


async def test_a_pull_makes_no_group(strict: RawClient, new_topic: str) -> None:
    await strict.create_topic(new_topic)
    await strict.send(new_topic, b"0")
    assert (await pull(strict, new_topic, 0)).bodies == [b"0"]


async def test_a_pull_at_the_end_waits_for_its_poll_time(client: RawClient, topic: str) -> None:
    began = time.monotonic()
    pulled = await pull(client, topic, 0, poll_s=0.3)
    assert (pulled.code, pulled.next_offset) == ("MESSAGE_NOT_FOUND", 0)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(("offset", "next_offset"), [(-1, 1), (2, 1), (2**62, 1)])
async def test_a_pull_outside_of_the_queue_is_told_its_end(
    client: RawClient, topic: str, offset: int, next_offset: int
) -> None:
    await client.send(topic, b"0")
    pulled = await pull(client, topic, offset)
    assert (pulled.code, pulled.next_offset) == ("ILLEGAL_OFFSET", next_offset)


async def test_a_pull_of_what_was_removed_is_told_the_first_offset_that_is_left(client: RawClient, topic: str) -> None:
    await client.send(topic, b"old", b"old")
    await client.admin("DeleteTopic", name=topic)
    await client.create_topic(topic)
    await client.send(topic, b"new")
    pulled = await pull(client, topic, 0)
    assert (pulled.code, pulled.next_offset) == ("MESSAGE_NOT_FOUND", 2)
    assert (await pull(client, topic, 2)).bodies == [b"new"]
    assert (await query(client, topic, pb.BEGINNING)).offset == 2


@pytest.mark.parametrize("name", ["GetOffset", "UpdateOffset", "QueryOffset"])
async def test_a_missing_topic_or_queue_is_refused(client: RawClient, topic: str, new_topic: str, name: str) -> None:
    request = getattr(rpc, f"{name}Request")
    fields = {} if name == "QueryOffset" else {"group": {"name": "g"}}
    for asked, expected in (
        (queue(new_topic), "TOPIC_NOT_FOUND"),
        (queue("a b"), "ILLEGAL_TOPIC"),
        (queue(topic, 1), "BAD_REQUEST"),
        (queue(topic, -1), "BAD_REQUEST"),
    ):
        assert code(await client.call(name, request(message_queue=asked, **fields))) == expected


async def test_a_pull_from_a_missing_topic_or_queue_is_refused(client: RawClient, topic: str, new_topic: str) -> None:
    assert (await pull(client, new_topic, 0)).code == "TOPIC_NOT_FOUND"
    assert (await pull(client, "a b", 0)).code == "ILLEGAL_TOPIC"
    assert (await pull(client, topic, 0, message_queue=queue(topic, 1))).code == "BAD_REQUEST"


async def test_an_illegal_group_is_refused(client: RawClient, topic: str) -> None:
    assert code(await get(client, topic, "a b")) == "ILLEGAL_CONSUMER_GROUP"
    assert await update(client, topic, "a b", 0) == "ILLEGAL_CONSUMER_GROUP"
    assert (await pull(client, topic, 0, group={"name": "a b"})).code == "ILLEGAL_CONSUMER_GROUP"


async def test_an_update_for_a_missing_group_is_refused_without_auto_create(
    strict: RawClient, new_topic: str, group: str
) -> None:
    await strict.create_topic(new_topic)
    assert await update(strict, new_topic, group, 0) == "CONSUMER_GROUP_NOT_FOUND"


async def test_a_pull_brings_up_to_256_messages(client: RawClient, topic: str) -> None:
    for _ in range(2):
        await client.send(topic, *[b"x"] * 150)
    pulled = await pull(client, topic, 0, batch_size=1000)
    assert (len(pulled.messages), pulled.next_offset) == (256, 256)
    pulled = await pull(client, topic, 256, batch_size=1000)
    assert (len(pulled.messages), pulled.next_offset) == (44, 300)


async def test_a_pull_brings_no_more_than_four_mebibytes_unless_it_is_one_message(
    client: RawClient, topic: str
) -> None:
    for _ in range(3):
        await client.send(topic, bytes(3 << 20))
    pulled = await pull(client, topic, 0, batch_size=3)
    assert (len(pulled.messages), pulled.next_offset) == (1, 1)
    await client.send(topic, *[bytes(1 << 20)] * 3)
    assert len((await pull(client, topic, 3, batch_size=3)).messages) == 3
