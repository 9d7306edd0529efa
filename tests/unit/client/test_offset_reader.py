"""Reading by offset without a group."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import grpc
import pytest

from ternmq import (
    BadRequest,
    ConnectionFailed,
    Credentials,
    InternalError,
    MessageQueue,
    NotFound,
    TagFilter,
    TlsFailed,
    TlsOptions,
)
from ternmq.pull.offset_reader import OffsetReader
from ternmq_common.pulled_rows import ROWS_TAG, encode_rows
from ternmq_common.wire import encode_field
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.authority import Authority
from tests.unit.client.queue_model import pulled
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

ResultT = TypeVar("ResultT")
QUEUE = MessageQueue(TOPIC, "broker-a", 1)


async def used(server: ScriptedServer, use: Callable[[OffsetReader], ResultT]) -> ResultT:
    """What comes of using a reader in a thread of its own."""

    def work() -> ResultT:
        with OffsetReader(server.endpoint, patience=10.0) as reader:
            return use(reader)

    return await asyncio.to_thread(work)


def bodies(reader: OffsetReader, start: int, stop: int, passing: TagFilter | None = None) -> list[bytes]:
    queue = reader.queues(TOPIC)[1]
    return [one.body for part in reader.read(queue, start, stop, passing=passing) for one in part.messages]


async def test_the_places_of_a_queue(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1", b"2")
    server.model.remove_before(QUEUE, 1)

    def places(reader: OffsetReader) -> list[int]:
        queues = reader.queues(TOPIC)
        assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]
        assert reader.offsets(queues, "latest") == [0, 3, 0, 0]
        return [reader.offset(queues[1], place) for place in ("earliest", datetime(1970, 1, 1, 0, 0, 15, tzinfo=UTC))]

    assert await used(server, places) == [1, 2]


async def test_messages_of_a_range_and_no_others(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(str(number).encode() for number in range(10)))
    assert await used(server, lambda reader: bodies(reader, 2, 5)) == [b"2", b"3", b"4"]
    assert [request.batch_size for request in server.requests["PullMessage"]] == [3]
    assert await used(server, lambda reader: bodies(reader, 4, 4)) == []


async def test_a_server_may_give_more_or_less_than_was_asked_for(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(str(number).encode() for number in range(10)))

    def message(offset: int) -> pb.Message:
        return pb.Message(body=str(offset).encode(), system_properties=pb.SystemProperties(queue_offset=offset))

    server.script(
        "PullMessage",
        pulled(pb.OK, message(0), next_offset=1),
        pulled(pb.OK, *map(message, range(1, 7)), next_offset=7),
    )
    assert await used(server, lambda reader: bodies(reader, 0, 3)) == [b"0", b"1", b"2"]


async def test_a_server_that_knows_no_rows_gives_messages(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(str(number).encode() for number in range(10)))
    with OffsetReader(server.endpoint, patience=10.0, rows=True) as reader:
        assert await asyncio.to_thread(bodies, reader, 2, 5) == [b"2", b"3", b"4"]


async def test_rows_beyond_what_was_asked_for_are_left_out(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(b"" for _ in range(10)))
    rests = [pb.Message(body=str(offset).encode()).SerializeToString() for offset in range(7)]
    rows = rpc.PullMessageResponse.FromString(encode_rows(range(7), [0] * 7, rests, [b""] * 7))
    ok, end = pulled(pb.OK, next_offset=7)
    server.script("PullMessage", [ok, rows, end])
    with OffsetReader(server.endpoint, patience=10.0, rows=True) as reader:
        assert await asyncio.to_thread(bodies, reader, 0, 3) == [b"0", b"1", b"2"]


async def test_rows_that_are_none_are_an_error(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(b"" for _ in range(10)))
    rows = rpc.PullMessageResponse.FromString(encode_field(ROWS_TAG, b"\xff\xff\xff\xff"))
    ok, end = pulled(pb.OK, next_offset=7)
    server.script("PullMessage", [ok, rows, end])
    with (
        OffsetReader(server.endpoint, patience=0.0, rows=True) as reader,
        pytest.raises(InternalError, match="a pull was answered with 4294967295 rows"),
    ):
        await asyncio.to_thread(bodies, reader, 0, 3)


async def test_what_is_not_there_any_more_is_passed_over(server: ScriptedServer) -> None:
    server.model.append(QUEUE, *(str(number).encode() for number in range(5)))
    server.model.remove_before(QUEUE, 3)
    assert await used(server, lambda reader: bodies(reader, 0, 5)) == [b"3", b"4"]


async def test_the_filter_is_the_servers_work(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1")
    await used(server, lambda reader: bodies(reader, 0, 2, TagFilter("paid")))
    [request] = server.requests["PullMessage"]
    assert request.filter_expression == pb.FilterExpression(type=pb.TAG, expression="paid")


async def test_an_offset_behind_the_end_is_an_error(server: ScriptedServer) -> None:
    with pytest.raises(BadRequest) as refused:
        await used(server, lambda reader: bodies(reader, 7, 9))
    assert refused.value.code == pb.ILLEGAL_OFFSET


async def test_a_server_that_does_not_get_on_is_an_error(server: ScriptedServer) -> None:
    server.script("PullMessage", pulled(pb.MESSAGE_NOT_FOUND, next_offset=0))
    with pytest.raises(InternalError, match="has nothing at offset 0"):
        await used(server, lambda reader: bodies(reader, 0, 1))


async def test_what_fails_for_a_moment_is_asked_again(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1")
    moment = pb.Status(code=pb.HA_NOT_AVAILABLE, message="the broker is away")
    server.script("QueryRoute", grpc.StatusCode.UNAVAILABLE, rpc.QueryRouteResponse(status=moment))
    server.script("QueryOffset", grpc.StatusCode.UNAVAILABLE, rpc.QueryOffsetResponse(status=moment))
    server.script("PullMessage", grpc.StatusCode.UNAVAILABLE, [rpc.PullMessageResponse(status=moment)])

    def read(reader: OffsetReader) -> list[bytes]:
        [end, *_] = reader.offsets(reader.queues(TOPIC)[1:2], "latest")
        return bodies(reader, 0, end)

    assert await used(server, read) == [b"0", b"1"]


async def test_a_pull_that_breaks_is_made_again_from_its_beginning(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1")
    first = pb.Message(body=b"0", system_properties=pb.SystemProperties(queue_offset=0))
    server.script("PullMessage", [rpc.PullMessageResponse(message=first), grpc.StatusCode.UNAVAILABLE])
    assert await used(server, lambda reader: bodies(reader, 0, 2)) == [b"0", b"1"]


async def test_what_is_refused_for_good_is_raised_at_once(server: ScriptedServer) -> None:
    refusal = rpc.QueryRouteResponse(status=pb.Status(code=pb.TOPIC_NOT_FOUND, message="no topic 'orders'"))
    server.script("QueryRoute", refusal)
    with pytest.raises(NotFound, match="TOPIC_NOT_FOUND: no topic 'orders'"):
        await used(server, lambda reader: reader.queues(TOPIC))
    assert len(server.requests["QueryRoute"]) == 1


async def test_patience_has_an_end() -> None:
    with OffsetReader("127.0.0.1:1", patience=0.0) as reader, pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
        await asyncio.to_thread(reader.queues, TOPIC)


async def test_a_group_is_told_how_far_it_is(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1")

    def commit(reader: OffsetReader) -> list[int | None]:
        queues = reader.queues(TOPIC)
        reader.commit("billing", [(queues[1], 2)])
        return [reader.committed("billing", queue) for queue in queues]

    assert await used(server, commit) == [None, 2, None, None]


async def test_calls_are_encrypted_and_signed() -> None:
    authority = Authority()
    async with ScriptedServer(tls=authority.server()) as server:
        server.model.append(QUEUE, b"0")

        def work(root: bytes) -> list[bytes]:
            credentials = Credentials("me", "hush-hush")
            with OffsetReader(
                server.endpoint, patience=0.0, tls=TlsOptions(ca=root), credentials=credentials
            ) as reader:
                return bodies(reader, 0, 1)

        assert await asyncio.to_thread(work, authority.ca) == [b"0"]
        for name in ("QueryRoute", "PullMessage"):
            [metadata] = server.metadata[name]
            assert "Credential=me" in metadata["authorization"]
            assert "hush-hush" not in str(metadata)
        with pytest.raises(TlsFailed, match="of no authority that the client trusts"):
            await asyncio.to_thread(work, Authority().ca)
