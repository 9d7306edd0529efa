"""Messages as bytes of the remoting protocol come back as they were, and as Apache's broker wrote them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_rpc.remoting.frames import FrameReader
from ternmq_rpc.remoting.message_ids import (
    UNKNOWN_HOST,
    Host,
    InvalidMessageId,
    decode_offset_id,
    encode_offset_id,
    parse_host,
    render_host,
)
from ternmq_rpc.remoting.message_records import (
    PROPERTIES_BYTES_MAX,
    BatchPart,
    InvalidRecord,
    MessageRecord,
    decode_batch,
    decode_records,
    encode_batch,
    encode_record,
)
from tests.unit.rpc.remoting.captured import read_captured

CAPTURED = read_captured()
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535))
RECORDS = st.builds(
    MessageRecord,
    topic=TEXT | st.just("%RETRY%" + "g" * 121),
    body=st.binary(max_size=60),
    properties=TEXT,
    queue_id=INT32,
    queue_offset=INT64,
    log_offset=INT64,
    flag=INT32,
    system_flag=st.sampled_from([0, 1, 8, 0x301]),
    born_ms=INT64,
    born_host=HOSTS,
    stored_ms=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    half_offset=INT64,
)
PARTS = st.builds(BatchPart, INT32, st.binary(max_size=40), TEXT)


def body_of(name: str) -> bytes:
    [(_, _, body)] = FrameReader().read_frames(CAPTURED[name])
    return body


@given(records=st.lists(RECORDS, max_size=4))
def test_records_come_back_as_they_were(records: list[MessageRecord]) -> None:
    assert decode_records(b"".join(map(encode_record, records))) == records


@pytest.mark.parametrize(
    "data",
    [body_of("pull response"), CAPTURED["stored message v1, sysFlag 16"], CAPTURED["stored message v2"]],
    ids=["pulled", "IPv6", "long topic"],
)
def test_captured_records_are_read_and_written_as_they_were(data: bytes) -> None:
    records = decode_records(data)
    assert b"".join(map(encode_record, records)) == data


def test_a_captured_record_has_its_fields() -> None:
    [record] = decode_records(body_of("pull response"))
    assert (record.topic, record.body, record.queue_id, record.log_offset) == ("VT", b"hello", 0, 0x104537BE)
    assert (record.born_ms, record.stored_ms) == (1795200000001, 1795222335132)
    assert (render_host(record.born_host), render_host(record.store_host)) == ("127.0.0.1:45736", "127.0.0.1:10911")
    pairs = read_properties(record.properties)
    assert (pairs["TAGS"], pairs["KEYS"], pairs["WAIT"]) == ("TagA", "k1", "true")


@given(data=st.binary(max_size=200), at=st.integers(0, 228), byte=st.integers(0, 255))
def test_damaged_records_are_records_or_an_error(data: bytes, at: int, byte: int) -> None:
    whole = bytearray(body_of("pull response"))
    whole[at] = byte
    for each in (data, bytes(whole), bytes(whole[:at])):
        try:
            decode_records(each)
        except InvalidRecord:
            continue


@given(parts=st.lists(PARTS, max_size=5))
def test_a_batch_comes_back_as_it_was(parts: list[BatchPart]) -> None:
    assert decode_batch(encode_batch(parts), parts_max=5) == parts


def test_a_captured_batch_is_read_and_written_as_it_was() -> None:
    data = body_of("batch request, binary header")
    parts = decode_batch(data, parts_max=1024)
    assert [body for _, body, _ in parts] == [b"b0", b"b1"]
    assert [read_properties(properties)["TAGS"] for _, _, properties in parts] == ["TagA", "TagA"]
    assert encode_batch(parts) == data


@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_batch_or_an_error(data: bytes) -> None:
    try:
        parts = decode_batch(data, parts_max=8)
    except InvalidRecord:
        return
    assert len(encode_batch(parts)) == len(data)


def test_a_batch_of_too_many_messages_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="more than 2"):
        decode_batch(encode_batch([BatchPart(0, b"x", "")] * 3), parts_max=2)


def test_a_part_that_says_a_negative_length_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        decode_batch(struct.pack(">iiiii", 22, 0, 0, 0, -1) + b"\0\0", parts_max=2)


def test_properties_that_are_too_long_are_refused() -> None:
    record = MessageRecord("T", b"b", "x" * (PROPERTIES_BYTES_MAX + 1), 0, 0, 0)
    with pytest.raises(InvalidRecord, match="32768"):
        encode_record(record)


@given(pairs=st.dictionaries(TEXT.filter(bool), TEXT.filter(lambda text: len(text) > 1), max_size=5))
def test_properties_come_back_as_they_were(pairs: dict[str, str]) -> None:
    text = write_properties(pairs)
    assert read_properties(text) == pairs
    assert read_properties(text.removesuffix("\x02")) == pairs


@pytest.mark.parametrize("text", ["", "\x02\x02", "a\x01", "\x01b\x02", "ab", "a\x02b"])
def test_pairs_without_name_or_value_are_left_out(text: str) -> None:
    assert read_properties(text) == {}


@given(host=HOSTS, number=INT64)
def test_an_offset_id_comes_back_as_it_was(host: Host, number: int) -> None:
    text = encode_offset_id(host, number)
    assert text == text.upper()
    assert decode_offset_id(text) == (host, number)
    assert decode_offset_id(text.lower()) == (host, number)
    assert parse_host(render_host(host)) == host


def test_the_captured_offset_id_is_that_of_its_place() -> None:
    text = "7F00000100002A9F00000000104537BE"
    assert decode_offset_id(text) == (parse_host("127.0.0.1:10911"), 0x104537BE)


@pytest.mark.parametrize(
    "text", ["", "00", "7F00000100002A9F00000000104537B", "x" * 32, "7F 00000100002A9F00000000104537B"]
)
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageId):
        decode_offset_id(text)


@pytest.mark.parametrize("text", ["", "laptop", "laptop:80", "1.2.3", ":", "[::1", "1.2.3.4.5:1"])
def test_a_name_is_an_unknown_host(text: str) -> None:
    assert parse_host(text) in (UNKNOWN_HOST, parse_host("[::1]:0"))


@pytest.mark.parametrize("port", ["", "x", "65536", "-1", "٣", "9" * 30])
def test_a_port_that_is_none_is_left_out(port: str) -> None:
    assert parse_host(f"1.2.3.4:{port}") == Host(bytes((1, 2, 3, 4)), 0)
