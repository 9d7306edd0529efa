"""Receipt handles: what was written is read, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.handle_form import handle_form
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_protos.v2 import definition_pb2 as pb

U64 = st.integers(0, 2**64 - 1)
HANDLES = st.builds(
    ReceiptHandle,
    broker=st.text(st.characters(codec="utf-8"), max_size=20),
    queue_id=st.integers(0, 2**16 - 1),
    queue_offset=U64,
    generation=U64,
    deadline_ms=U64,
)
NAMES = st.text(st.sampled_from("abcXYZ019_-%|"), min_size=1, max_size=20)


def refused(text: str, group: str, topic: str) -> bool:
    with pytest.raises(MessagingError) as refusal:
        handle_form(group, topic).decode(text)
    return refusal.value.code == pb.INVALID_RECEIPT_HANDLE


def read_or_code(text: str, group: str, topic: str) -> ReceiptHandle | int:
    try:
        return handle_form(group, topic).decode(text)
    except MessagingError as error:
        return error.code


@given(handle=HANDLES, group=NAMES, topic=NAMES)
def test_a_handle_is_read_as_it_was_written(handle: ReceiptHandle, group: str, topic: str) -> None:
    text = handle_form(group, topic).encode(handle).decode()
    assert text.isascii()
    assert handle_form(group, topic).decode(text) == handle


@given(handle=HANDLES, group=NAMES, topic=NAMES, data=st.data())
def test_a_handle_with_any_character_changed_is_refused_or_means_the_same(
    handle: ReceiptHandle, group: str, topic: str, data: st.DataObject
) -> None:
    text = handle_form(group, topic).encode(handle).decode()
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters().filter(lambda drawn: drawn != text[place]))
    changed = text[:place] + character + text[place + 1 :]
    # The last character of base64 may hold bits that mean nothing.
    assert read_or_code(changed, group, topic) in (handle, pb.INVALID_RECEIPT_HANDLE)


@given(handle=HANDLES, group=NAMES, topic=NAMES, cut=st.integers(1, 60))
def test_a_handle_that_was_cut_is_refused(handle: ReceiptHandle, group: str, topic: str, cut: int) -> None:
    text = handle_form(group, topic).encode(handle).decode()
    assert refused(text[: max(0, len(text) - cut)], group, topic)


@given(handle=HANDLES, group=NAMES, topic=NAMES, other=NAMES)
def test_a_handle_of_another_group_or_topic_is_refused(
    handle: ReceiptHandle, group: str, topic: str, other: str
) -> None:
    text = handle_form(group, topic).encode(handle).decode()
    if other != group:
        assert refused(text, other, topic)
    if other != topic:
        assert refused(text, group, other)


@given(text=st.text(max_size=100) | st.text(max_size=100).map(lambda drawn: "1" + drawn))
def test_any_other_text_is_refused(text: str) -> None:
    assert refused(text, "group", "topic")
