"""A record is read as it was written, where it was written, and nothing else is taken for one."""

import dataclasses
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.log.record import (
    HEADER_BYTES,
    BadContent,
    BadRecord,
    NewerRecord,
    Record,
    RecordKind,
    RecordOrigin,
    RestReference,
    decode_head,
    decode_record,
)
from tests.support.encoded_records import encode_record, encode_records

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
ANY_RECORD = partial(
    st.builds,
    Record,
    topic=TEXT,
    queue_id=U32,
    queue_offset=U64,
    stored_ms=U64,
    tag_hash=U32,
    system=st.binary(max_size=60),
)
RECORDS = ANY_RECORD(
    kind=st.sampled_from(RecordKind),
    rest=st.binary(max_size=60),
    origin=st.none() | st.builds(RecordOrigin, U64, U64),
    sender=TEXT,
) | ANY_RECORD(
    kind=st.just(RecordKind.MESSAGE),
    rest=st.just(b""),
    reference=st.builds(RestReference, U64, U32),
)
PLAIN = Record(RecordKind.MESSAGE, "topic", 1, 2, 3, 4, b"sys", b"rest")
KEY = 0x1234ABCD


def encoded(record: Record, log_offset: int = 1000, key: int = KEY) -> bytes:
    return encode_record(record, log_offset, 900, key)


@given(RECORDS, U64, U64, U32)
def test_a_record_is_read_as_it_was_written(record: Record, log_offset: int, durable_to: int, key: int) -> None:
    data = encode_record(record, log_offset, durable_to, key)
    assert decode_record(data, log_offset, key) == record
    head = decode_head(data, log_offset, key)
    assert (head.size, head.durable_to, head.stored_ms) == (len(data), durable_to, record.stored_ms)


@given(st.lists(st.tuples(RECORDS, st.sampled_from([0, 0, 100, 8192, 8193, 40_000])), min_size=2, max_size=6))
def test_records_that_are_written_together_are_the_same_bytes(drawn: list[tuple[Record, int]]) -> None:
    records = [
        record if record.reference else dataclasses.replace(record, rest=record.rest + bytes(more))
        for record, more in drawn
    ]
    together, log_offset = b"".join(encode_records(records, 1000, 900, KEY)), 1000
    for record in records:
        alone = encoded(record, log_offset)
        assert together.startswith(alone)
        assert decode_record(alone, log_offset, KEY) == record
        together = together[len(alone) :]
        log_offset += len(alone)
    assert not together


@given(RECORDS, st.data())
def test_a_changed_byte_is_noticed(record: Record, data: st.DataObject) -> None:
    changed = bytearray(encoded(record))
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecord):
        decode_record(bytes(changed), 1000, KEY)


@given(RECORDS, st.data())
def test_a_record_that_is_cut_off_is_none(record: Record, data: st.DataObject) -> None:
    whole = encoded(record)
    with pytest.raises(BadRecord):
        decode_record(whole[: data.draw(st.integers(0, len(whole) - 1))], 1000, KEY)


@given(RECORDS, U64.filter(lambda place: place != 1000))
def test_bytes_that_were_written_for_another_place_are_no_record(record: Record, log_offset: int) -> None:
    with pytest.raises(BadRecord, match="was written at log offset 1000"):
        decode_record(encoded(record), log_offset, KEY)


@given(RECORDS, U32.filter(lambda key: key != KEY))
def test_a_record_of_another_log_is_none(record: Record, key: int) -> None:
    with pytest.raises(BadRecord, match="checksum does not fit"):
        decode_record(encoded(record), 1000, key)


def test_damage_behind_the_header_leaves_the_size_known() -> None:
    data = bytearray(encoded(PLAIN))
    data[-1] ^= 1
    with pytest.raises(BadContent) as error:
        decode_record(bytes(data), 1000, KEY)
    assert error.value.size == len(data)


def test_a_layout_that_is_not_known_is_told_from_damage() -> None:
    data = bytearray(encoded(PLAIN))
    data[2] = 3
    with pytest.raises(NewerRecord, match="layout 3"):
        decode_record(bytes(data), 1000, KEY)


def test_a_plain_message_costs_its_header_and_its_own_bytes() -> None:
    assert len(encoded(PLAIN)) == HEADER_BYTES + len(b"topic" + b"sys" + b"rest")
