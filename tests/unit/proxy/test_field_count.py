"""Counting fields before parsing: it is what a walk over the parsed message counts, and no bytes lead astray."""

import asyncio
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.grpc.field_count import has_more_fields
from ternmq_proxy.fronts.grpc.parsing import parse_in_pieces


def walked(message: Message) -> int:
    """All fields of a message, and of those in it."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            count += 3 * len(value)  # an entry has a key and a value, always
        elif field.message_type is not None:
            entries = value if field.is_repeated else [value]
            count += sum(1 + walked(entry) for entry in entries)
        else:
            count += len(value) if field.is_repeated else 1
    return count


def more_fields(data: bytes, kind: Any, fields_max: int) -> bool:  # noqa: ANN401 - a message class
    return asyncio.run(has_more_fields(data, kind.DESCRIPTOR, fields_max))


TEXT = st.text(max_size=200)
RESOURCES = st.builds(pb.Resource, name=TEXT, resource_namespace=TEXT)
SYSTEM = st.builds(
    pb.SystemProperties,
    message_id=TEXT,
    keys=st.lists(TEXT, max_size=5),
    message_type=st.sampled_from([pb.NORMAL, pb.FIFO]),
    priority=st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    delivery_attempt=st.none() | st.integers(0, 1000),
    body_digest=st.none() | st.builds(pb.Digest, checksum=TEXT),
)
MESSAGES = st.builds(
    pb.Message,
    topic=st.none() | RESOURCES,
    user_properties=st.dictionaries(TEXT, TEXT, max_size=5),
    system_properties=st.none() | SYSTEM,
    body=st.binary(max_size=300),
)
SENDS = st.builds(rpc.SendMessageRequest, messages=st.lists(MESSAGES, max_size=8))
ENTRIES = st.builds(rpc.AckMessageEntry, message_id=TEXT, receipt_handle=TEXT)
ACKS = st.builds(rpc.AckMessageRequest, group=RESOURCES, topic=RESOURCES, entries=st.lists(ENTRIES, max_size=8))


@given(request=SENDS | ACKS)
def test_the_count_is_that_of_the_parsed_message(request: Message) -> None:
    data, count = request.SerializeToString(), walked(request)
    assert not more_fields(data, type(request), count)
    assert not count or more_fields(data, type(request), count - 1)


@given(data=st.binary(max_size=300), fields_max=st.integers(0, 20))
@example(data=b"\x0a", fields_max=0)
@example(data=b"\xff" * 20, fields_max=0)
@example(data=b"\x0a\xff\xff\xff\xff\x0f" + b"x" * 40, fields_max=3)
def test_bytes_that_are_no_message_are_looked_at_without_harm(data: bytes, fields_max: int) -> None:
    more_fields(data, rpc.SendMessageRequest, fields_max)


def test_a_part_that_is_broken_hides_no_other() -> None:
    bomb = b"\x0a\x00" * 5000
    assert more_fields(bomb + b"\x0a\xff\xff\x03", rpc.SendMessageRequest, 4999)
    assert more_fields(b"\x0a\x02\x0a\x7f" + bomb, rpc.SendMessageRequest, 4999)


def test_packed_numbers_count_by_their_bytes() -> None:
    request = admin_pb2.ResendDeadLettersRequest(offsets=range(100))
    data = request.SerializeToString()
    assert not more_fields(data, type(request), 51)
    assert more_fields(data, type(request), 50)


@pytest.mark.parametrize("bytes_", [b"\x0b" * 100_000, b"\x0b" * 1000 + b"\x0c" * 1000], ids=["open", "closed"])
def test_deep_nesting_is_the_parsers_to_refuse(bytes_: bytes) -> None:
    with pytest.raises(DecodeError):
        rpc.SendMessageRequest.FromString(bytes_)


@given(request=SENDS, piece_bytes=st.integers(1, 200))
def test_what_is_parsed_in_pieces_is_the_whole(request: Message, piece_bytes: int) -> None:
    data = request.SerializeToString()
    assert asyncio.run(parse_in_pieces(rpc.SendMessageRequest, data, piece_bytes)) == request


@given(data=st.binary(max_size=100))
@example(data=b"\x0b\x0a\x00\x0c" * 3)
@example(data=b"\x0a\x00\x0a\x7f")
def test_pieces_are_refused_when_the_whole_is(data: bytes) -> None:
    try:
        whole = rpc.SendMessageRequest.FromString(data)
    except DecodeError:
        whole = None
    if whole is None:
        with pytest.raises(DecodeError):
            asyncio.run(parse_in_pieces(rpc.SendMessageRequest, data, 1))
    else:
        assert asyncio.run(parse_in_pieces(rpc.SendMessageRequest, data, 1)) == whole


def test_others_get_the_event_loop_meanwhile() -> None:
    async def run() -> int:
        turns = 0
        kind: Any = rpc.SendMessageRequest
        counting = asyncio.create_task(has_more_fields(b"\x0a\x00" * 50_000, kind.DESCRIPTOR, 40_000))
        while not counting.done():
            turns += 1
            await asyncio.sleep(0)
        assert counting.result()
        return turns

    assert asyncio.run(run()) > 15
