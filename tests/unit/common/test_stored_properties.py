"""What an SQL92 filter reads of a stored message, against protobuf itself."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_common.filters.sql_filter.stored_properties import (
    DECODED_WHOLE_BYTES_MAX,
    only_user_properties,
    system_properties,
    user_properties,
)
from ternmq_common.wire import encode_field, encode_varint
from ternmq_protos.v2 import definition_pb2 as pb

texts = st.sampled_from(["", "a", "b", "ä" * 70])


def unknown(wire_type: int) -> bytes:
    """The tag of a field that `Message` doesn't have."""
    return encode_varint(99 << 3 | wire_type)


keys = texts.map(lambda key: encode_field(b"\x0a", key.encode()))
values = texts.map(lambda value: encode_field(b"\x12", value.encode()))
# A key or a value may be missing, and come twice or in either order: the last counts.
entries = st.lists(keys | values, max_size=3).map(lambda parts: encode_field(b"\x12", b"".join(parts)))
others = st.one_of(
    st.binary(max_size=300).map(lambda body: encode_field(b"\x22", body)),
    texts.map(lambda text: encode_field(unknown(2), text.encode())),
    st.integers(0, 2**64 - 1).map(lambda number: unknown(0) + encode_varint(number)),
    st.binary(min_size=8, max_size=8).map(lambda content: unknown(1) + content),
    st.binary(min_size=4, max_size=4).map(lambda content: unknown(5) + content),
    entries.map(lambda content: unknown(3) + content + unknown(4)),
)


@given(fields=st.lists(entries | others, max_size=8))
@example(fields=[b"\x92\x00\x02\x0a\x00"])
def test_user_properties_are_found_among_all_other_fields(fields: list[bytes]) -> None:
    rest = b"".join(fields)
    expected = dict(pb.Message.FromString(rest).user_properties)
    assert dict(pb.Message.FromString(only_user_properties(rest)).user_properties) == expected
    assert dict(user_properties(rest)) == expected


@pytest.mark.parametrize("body_bytes", [0, 1, DECODED_WHOLE_BYTES_MAX, DECODED_WHOLE_BYTES_MAX * 3])
def test_user_properties_are_the_same_whatever_the_body_s_size(body_bytes: int) -> None:
    rest = pb.Message(user_properties={"a": "1", "": "empty", "b": ""}, body=b"\x12" * body_bytes).SerializeToString()
    assert user_properties(rest) == {"a": "1", "": "empty", "b": ""}


def test_a_large_body_is_stepped_over() -> None:
    message = pb.Message(user_properties={"a": "1"}, body=bytes(DECODED_WHOLE_BYTES_MAX * 3))
    assert (
        only_user_properties(message.SerializeToString()) == pb.Message(user_properties={"a": "1"}).SerializeToString()
    )


def test_only_system_properties_that_are_asked_for_and_present_are_told() -> None:
    system = pb.SystemProperties(tag="t", keys=["k", "", "l"], message_id="id").SerializeToString()
    assert system_properties(system, ["TAGS", "KEYS", "__SHARDINGKEY"]) == {"TAGS": "t", "KEYS": "k  l"}
    assert system_properties(b"", ["TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY"]) == {}
