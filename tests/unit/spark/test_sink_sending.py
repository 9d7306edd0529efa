"""How a task's requests are sent, against a scripted server: bounds, order, repetitions, the row that is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import grpc
import pyarrow as pa
import pytest

from pyspark_ternmq.sink.columns import RowColumns
from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.sink.ids import DerivedIds
from pyspark_ternmq.sink.plain_rows import PlainRequest, plain_requests
from pyspark_ternmq.sink.producers import RequestProducer
from pyspark_ternmq.sink.rows import RowReader, RowRequest
from pyspark_ternmq.sink.sending import RequestSender
from ternmq import Message
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer, sent


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@asynccontextmanager
async def sender_to(
    server: ScriptedServer, *, max_in_flight: int = 4, delivery_timeout_s: float = 60
) -> AsyncIterator[RequestSender]:
    async def producer_of(_queue: str) -> RequestProducer:
        return producer

    async with (
        RequestProducer(server.endpoint, max_attempts=1) as producer,
        RequestSender(
            producer_of, partition=3, max_in_flight=max_in_flight, delivery_timeout_s=delivery_timeout_s
        ) as sender,
    ):
        yield sender


def request_of(rows: Sequence[int], *, lane: int | None = None) -> RowRequest:
    group = None if lane is None else f"group-{lane}"
    messages = [Message(TOPIC, b"%d" % row, message_group=group) for row in rows]
    return RowRequest(TOPIC, "", lane, messages, [f"id-{row}" for row in rows], rows)


def bodies(server: ScriptedServer) -> list[list[int]]:
    return [[int(message.body) for message in request.messages] for request in server.requests["SendMessage"]]


def stored(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
    entries = [rpc.SendResultEntry(status=OK, offset=number) for number, _ in enumerate(request.messages)]
    return rpc.SendMessageResponse(status=OK, entries=entries)


async def test_all_that_was_put_is_stored_when_the_block_is_left(server: ScriptedServer) -> None:
    async with sender_to(server) as sender:
        for start in range(0, 100, 10):
            await sender.put(request_of(range(start, start + 10)))
    assert sorted(row for request in bodies(server) for row in request) == list(range(100))


@pytest.mark.parametrize("lane", [None, 0])
async def test_no_more_requests_are_in_flight_than_allowed(server: ScriptedServer, lane: int | None) -> None:
    now = most = 0
    meet = asyncio.Condition()
    wanted = 3 if lane is None else 1

    async def slowly(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        nonlocal now, most
        async with meet:
            now += 1
            most = max(most, now)
            meet.notify_all()
            await meet.wait_for(lambda: most >= wanted)  # nobody is answered before as many as can be are there
        now -= 1
        return stored(request)

    server.script("SendMessage", *[slowly] * 12)
    async with sender_to(server, max_in_flight=3) as sender:
        for row in range(12):
            await sender.put(request_of([row], lane=lane))
    assert most == wanted
    assert len(bodies(server)) == 12


async def test_a_lane_keeps_its_order_when_a_request_is_repeated(server: ScriptedServer) -> None:
    server.script("SendMessage", sent(pb.INTERNAL_SERVER_ERROR), grpc.StatusCode.UNAVAILABLE)
    async with sender_to(server) as sender:
        for row in range(5):
            await sender.put(request_of([row], lane=1))
    assert bodies(server) == [[0], [0], [0], [1], [2], [3], [4]]


def second_is_busy(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
    response = stored(request)
    response.entries[1].status.code = pb.TOO_MANY_REQUESTS
    response.status.code = pb.MULTIPLE_RESULTS
    return response


async def test_only_what_failed_is_repeated_under_its_id(server: ScriptedServer) -> None:
    server.script("SendMessage", second_is_busy)
    async with sender_to(server) as sender:
        await sender.put(request_of([7, 8, 9]))
    assert bodies(server) == [[7, 8, 9], [8]]
    [again] = server.requests["SendMessage"][1].messages
    assert again.system_properties.message_id == "id-8"


async def test_what_does_not_pass_in_time_fails_with_the_last_reason(server: ScriptedServer) -> None:
    server.script("SendMessage", *[sent(pb.TOO_MANY_REQUESTS)] * 100)
    with pytest.raises(WriteFailed) as failed:
        async with sender_to(server, delivery_timeout_s=0) as sender:
            await sender.put(request_of([5]))
    assert str(failed.value) == f"TOO_MANY_REQUESTS: scripted (topic {TOPIC}, row 5 of partition 3)"


async def test_what_is_about_the_topic_is_not_repeated(server: ScriptedServer) -> None:
    server.script("SendMessage", sent(pb.TOPIC_NOT_FOUND))
    with pytest.raises(WriteFailed) as failed:
        async with sender_to(server) as sender:
            await sender.put(request_of(range(20, 30)))
    assert str(failed.value) == f"TOPIC_NOT_FOUND: scripted (topic {TOPIC}, row 20 of partition 3)"
    assert len(bodies(server)) == 1


def refusing(row: int) -> Callable[[rpc.SendMessageRequest], rpc.SendMessageResponse]:
    """A server that refuses a request for one of its messages."""

    def answer(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        if any(int(message.body) == row for message in request.messages):
            return sent(pb.ILLEGAL_MESSAGE_PROPERTY_KEY)
        return stored(request)

    return answer


@pytest.mark.parametrize("row", [0, 1, 499, 500, 999])
async def test_the_row_for_which_a_request_is_refused_is_found(server: ScriptedServer, row: int) -> None:
    server.script("SendMessage", *[refusing(row)] * 50)
    with pytest.raises(WriteFailed) as failed:
        async with sender_to(server) as sender:
            await sender.put(request_of(range(1000)))
    expected = f"topic {TOPIC}, row {row} of partition 3, column properties"
    assert str(failed.value) == f"ILLEGAL_MESSAGE_PROPERTY_KEY: scripted ({expected})"
    assert len(bodies(server)) <= 22


async def test_nothing_of_a_lane_is_sent_after_a_failure(server: ScriptedServer) -> None:
    async def put_all() -> None:
        async with sender_to(server) as sender:
            for row in range(5):
                await sender.put(request_of([row], lane=0))

    server.script("SendMessage", *[refusing(2)] * 10)
    with pytest.raises(WriteFailed):
        await put_all()
    assert bodies(server) == [[0], [1], [2]]


async def test_an_error_of_the_caller_ends_what_is_in_flight(server: ScriptedServer) -> None:
    arrived = asyncio.Event()

    async def never(_: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def fail() -> None:
        async with sender_to(server) as sender:
            await sender.put(request_of([0]))
            await arrived.wait()
            raise ZeroDivisionError

    server.script("SendMessage", never)
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await fail()


# --- rows that are sent as encoded bytes


def plain_request(bodies: Sequence[bytes], *, first_row: int = 0) -> PlainRequest:
    batch = pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})
    ids = DerivedIds("seed", partition=3, epoch=0)
    reader = RowReader(columns=RowColumns({"body": 0}), topic=TOPIC, partition=3, ids=ids, lanes=4, request_rows=1000)
    [request] = plain_requests(reader, batch, first_row) or []
    return request


def ids_of(request: rpc.SendMessageRequest) -> list[str]:
    return [message.system_properties.message_id for message in request.messages]


async def test_encoded_rows_are_stored_with_one_request(server: ScriptedServer) -> None:
    async with sender_to(server) as sender:
        await sender.put(plain_request([b"7", b"8", b"9"], first_row=20))
    assert bodies(server) == [[7, 8, 9]]
    [request] = server.requests["SendMessage"]
    assert ids_of(request) == DerivedIds("seed", partition=3, epoch=0).of_rows(20, 3)


async def test_of_encoded_rows_only_what_failed_is_repeated_under_its_id(server: ScriptedServer) -> None:
    server.script("SendMessage", second_is_busy)
    async with sender_to(server) as sender:
        await sender.put(plain_request([b"7", b"8", b"9"]))
    assert bodies(server) == [[7, 8, 9], [8]]
    first, again = server.requests["SendMessage"]
    assert ids_of(again) == ids_of(first)[1:2]


@pytest.mark.parametrize("answer", [grpc.StatusCode.UNAVAILABLE, sent(pb.INTERNAL_SERVER_ERROR)])
async def test_encoded_rows_of_which_nothing_was_stored_are_all_repeated(
    server: ScriptedServer, answer: grpc.StatusCode | rpc.SendMessageResponse
) -> None:
    server.script("SendMessage", answer, answer)
    async with sender_to(server) as sender:
        await sender.put(plain_request([b"7", b"8"]))
    assert bodies(server) == [[7, 8]] * 3
    assert len({tuple(ids_of(request)) for request in server.requests["SendMessage"]}) == 1


async def test_of_encoded_rows_the_one_that_is_refused_is_named(server: ScriptedServer) -> None:
    server.script("SendMessage", *[refusing(8)] * 20)
    with pytest.raises(WriteFailed, match=r"ILLEGAL_MESSAGE_PROPERTY_KEY.*row 21 of partition 3, column properties"):
        async with sender_to(server) as sender:
            await sender.put(plain_request([b"7", b"8", b"9"], first_row=20))
