"""Pulled messages by column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.pulled_rows import ROWS_TAG, MalformedRows, PulledRows, encode_rows
from ternmq_common.wire import DeliveredFrames
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

TOPIC = pb.Resource(name="orders").SerializeToString()
TEXT = st.text(max_size=8)
MESSAGES = st.tuples(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**42),
    st.builds(
        lambda body, properties: pb.Message(body=body, user_properties=properties).SerializeToString(),
        st.binary(max_size=300),
        st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.builds(lambda name: pb.SystemProperties(message_id=name).SerializeToString(), TEXT),
)


def encoded(messages: list[tuple[int, int, bytes, bytes]]) -> bytes:
    offsets, times, rests, systems = zip(*messages, strict=True) if messages else ((), (), (), ())
    return encode_rows(offsets, times, rests, systems)


@given(messages=st.lists(MESSAGES, max_size=5))
def test_rows_are_the_messages_that_the_other_form_has(messages: list[tuple[int, int, bytes, bytes]]) -> None:
    rows = PulledRows.of_response(encoded(messages))
    frames = DeliveredFrames(topic=TOPIC, store_host=b"")
    assert rows.count == len(messages)
    assert list(rows.as_responses(TOPIC, 7)) == [
        frames.encode_message(
            rest=rest, system=system, stored_ms=ms, queue_id=7, queue_offset=offset, attempt=1, handle=None
        )
        for offset, ms, rest, system in messages
    ]


def test_a_decoder_that_does_not_know_rows_passes_them_over() -> None:
    response = rpc.PullMessageResponse.FromString(encoded([(1, 2, b"rest", b"system")]))
    assert response.WhichOneof("content") is None


@given(messages=st.lists(MESSAGES, min_size=1, max_size=3), cut=st.integers(1, 40))
def test_rows_that_are_cut_are_refused(messages: list[tuple[int, int, bytes, bytes]], cut: int) -> None:
    response = encoded(messages)
    rows = PulledRows.of_response(response).data
    with pytest.raises(MalformedRows):
        PulledRows.of_response(response[: max(len(ROWS_TAG), len(response) - cut)])
    with pytest.raises(MalformedRows):
        PulledRows.of_response(response + b"x")
    with pytest.raises(MalformedRows):
        PulledRows(rows[: max(0, len(rows) - cut)])


@pytest.mark.parametrize("data", [b"", b"\x01\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00\x00"])
def test_what_is_no_rows_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRows):
        PulledRows(memoryview(data))
