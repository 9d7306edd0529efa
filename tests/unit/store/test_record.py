"""A record is read as it was written, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.record import BadRecord, Kind, Origin, Record, announced_size, decode, encode, stored_ms_of

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
RECORDS = st.builds(
    Record,
    kind=st.sampled_from(Kind),
    topic=TEXT,
    queue_id=U32,
    queue_offset=U64,
    stored_ms=U64,
    tag_hash=U32,
    system=st.binary(max_size=60),
    rest=st.binary(max_size=60),
    origin=st.none() | st.builds(Origin, U64, U64),
    sender=TEXT,
)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    data = b"".join(encode(record))
    assert decode(data) == record
    assert announced_size(data) == len(data)
    assert stored_ms_of(data) == record.stored_ms


@given(RECORDS, st.data())
def test_a_changed_byte_is_noticed(record: Record, data: st.DataObject) -> None:
    encoded = bytearray(b"".join(encode(record)))
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecord):
        decode(bytes(encoded))


@given(RECORDS, st.data())
def test_a_record_that_is_cut_off_is_none(record: Record, data: st.DataObject) -> None:
    encoded = b"".join(encode(record))
    with pytest.raises(BadRecord):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_a_plain_message_is_as_long_as_before_there_were_origins() -> None:
    plain = Record(Kind.MESSAGE, "topic", 1, 2, 3, 4, b"sys", b"rest")
    assert len(b"".join(encode(plain))) == 44 + len(b"topic" + b"sys" + b"rest")
