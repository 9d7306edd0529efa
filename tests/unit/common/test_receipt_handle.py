"""Receipt handles: what was written is read, and nothing else is."""

import base64
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.handle_keys import HandleKey, HandleKeys
from ternmq_common.errors import MessagingError
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.handle_form import HandleForm, lite_name_in
from tests.support.handle_keys import FIRST, KEYS, NEXT, flipped, handle_form

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
HANDLE = ReceiptHandle("broker-0", 3, 4711, 17, 1_790_000_000_000)
FORGED = 10_000


def code_of(text: str, form: HandleForm) -> int:
    """The code with which the handle is refused, OK if it is not."""
    try:
        form.decode_handle(text)
    except MessagingError as refusal:
        return refusal.code
    return pb.OK


def is_refused(text: str, form: HandleForm) -> bool:
    return code_of(text, form) == pb.INVALID_RECEIPT_HANDLE


@given(handle=HANDLES, group=NAMES, topic=NAMES)
def test_a_handle_is_read_as_it_was_written(handle: ReceiptHandle, group: str, topic: str) -> None:
    text = handle_form(group, topic).encode_handle(handle).decode()
    assert text.isascii()
    assert handle_form(group, topic).decode_handle(text) == handle


@given(handle=HANDLES, group=NAMES, topic=NAMES)
def test_the_handle_of_a_lite_topics_message_names_the_lite_topic(
    handle: ReceiptHandle, group: str, topic: str
) -> None:
    form = handle_form(group, lite_queue_topic(topic, "some-lite_1"))
    text = form.encode_handle(handle).decode()
    assert lite_name_in(text) == "some-lite_1"
    assert form.decode_handle(text) == handle
    for other in ("some-lite_2", "lite_1", ""):
        assert is_refused(text, handle_form(group, lite_queue_topic(topic, other)))
        assert is_refused(text.replace("some-lite_1", other), form)
    assert is_refused(text, handle_form(group, topic))
    assert is_refused(text.removesuffix(".some-lite_1"), handle_form(group, topic))
    assert lite_name_in(handle_form(group, topic).encode_handle(handle).decode()) == ""


@given(handles=st.lists(HANDLES, min_size=1, max_size=8), data=st.data())
def test_one_form_reads_and_writes_those_of_several_brokers(handles: list[ReceiptHandle], data: st.DataObject) -> None:
    form = handle_form("group", "topic")
    texts = [form.encode_handle(handle).decode() for handle in handles]
    for number in data.draw(st.permutations(range(len(handles)))):
        assert form.decode_handle(texts[number]) == handles[number]
        assert form.encode_handle(handles[number]).decode() == texts[number]


@given(handle=HANDLES, group=NAMES, topic=NAMES, data=st.data())
def test_a_handle_with_any_character_changed_is_refused(
    handle: ReceiptHandle, group: str, topic: str, data: st.DataObject
) -> None:
    text = handle_form(group, topic).encode_handle(handle).decode()
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters().filter(lambda drawn: drawn != text[place]))
    assert is_refused(text[:place] + character + text[place + 1 :], handle_form(group, topic))


@pytest.mark.parametrize("broker", ["", "b", "b1", "b-1", "broker-0", "größer"])
def test_a_handle_with_any_bit_flipped_is_refused(broker: str) -> None:
    # The broker of the form is that of the last handle, or another one.
    for known in (HANDLE, ReceiptHandle(broker, 0, 0, 0, 0)):
        form = handle_form("group", "topic")
        text = form.encode_handle(ReceiptHandle(broker, 3, 4711, 17, 1_790_000_000_000)).decode()
        form.encode_handle(known)
        for forged in flipped(text):
            assert is_refused(forged, form), forged


@given(handle=HANDLES, group=NAMES, topic=NAMES, cut=st.integers(1, 60), more=st.text("aA0-_=", min_size=1, max_size=8))
def test_a_handle_that_was_cut_or_made_longer_is_refused(
    handle: ReceiptHandle, group: str, topic: str, cut: int, more: str
) -> None:
    text = handle_form(group, topic).encode_handle(handle).decode()
    assert is_refused(text[: max(0, len(text) - cut)], handle_form(group, topic))
    assert is_refused(text + more, handle_form(group, topic))


@given(handle=HANDLES, group=NAMES, topic=NAMES, other=NAMES)
def test_a_handle_of_another_group_or_topic_is_refused(
    handle: ReceiptHandle, group: str, topic: str, other: str
) -> None:
    text = handle_form(group, topic).encode_handle(handle).decode()
    if other != group:
        assert is_refused(text, handle_form(other, topic))
    if other != topic:
        assert is_refused(text, handle_form(group, other))


@given(handle=HANDLES, broker=st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_handle_is_good_for_its_broker_only(handle: ReceiptHandle, broker: str) -> None:
    form = handle_form("group", "topic")
    text = form.encode_handle(handle)
    other = form.encode_handle(ReceiptHandle(broker, 0, 0, 0, 0))
    assert (text[:49] + other[49:] == text) == (broker == handle.broker)
    if broker != handle.broker:
        assert is_refused((text[:49] + other[49:]).decode(), form)


@given(text=st.text(max_size=100) | st.text(max_size=100).map(lambda drawn: "2" + drawn))
def test_any_other_text_is_refused(text: str) -> None:
    assert is_refused(text, handle_form("group", "topic"))


def test_none_of_ten_thousand_forged_handles_is_accepted() -> None:
    rng, form = random.Random(17), handle_form("group", "topic")
    text = form.encode_handle(HANDLE).decode()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    strangers = [
        handle_form("another", "topic"),
        handle_form("group", "another"),
        HandleForm("group", "topic", HandleKeys((HandleKey(1, bytes(32), 0), HandleKey(2, bytes(32), 0)))),
    ]
    codes = set()
    for number in range(FORGED):
        guess = ReceiptHandle("broker-0", 3, number, 17, 1_790_000_000_000)
        by_stranger = strangers[number % 3].encode_handle(guess).decode()
        random_tag = text[:35] + "".join(rng.choices(alphabet, k=14)) + text[49:]
        for forged in (by_stranger, random_tag, "2" + "".join(rng.choices(alphabet, k=48)) + text[49:]):
            codes.add(code_of(forged, form))
    assert codes == {pb.INVALID_RECEIPT_HANDLE}


def test_a_handle_of_version_1_is_refused() -> None:
    fields = struct.pack("<HQQQ", 3, 4711, 17, 1_790_000_000_000)
    check = zlib.crc32(b"broker-0group\ntopic\n", zlib.crc32(fields))
    text = "1" + base64.urlsafe_b64encode(fields + struct.pack("<I", check) + b"broker-0").rstrip(b"=").decode()
    with pytest.raises(MessagingError, match=r"INVALID_RECEIPT_HANDLE: .* of another version"):
        handle_form("group", "topic").decode_handle(text)
    assert is_refused("2" + text[1:], handle_form("group", "topic"))


def test_a_key_signs_when_all_know_it_and_is_accepted_until_the_next_rotation() -> None:
    third, fourth = HandleKey(3, bytes(range(64, 96)), 0), HandleKey(4, bytes(range(96, 128)), 0)
    forms = [
        HandleForm("group", "topic", HandleKeys(keys))
        for keys in ((FIRST, NEXT), (FIRST, NEXT, third), (NEXT, third, fourth))
    ]
    texts = [form.encode_handle(HANDLE).decode() for form in forms]
    assert len(set(texts)) == 3
    assert [forms[0].decode_handle(text) for text in texts[:2]] == [
        HANDLE
    ] * 2  # it knows the next key before that signs
    assert [forms[1].decode_handle(text) for text in texts] == [HANDLE] * 3
    assert is_refused(texts[0], forms[2])
    assert [forms[2].decode_handle(text) for text in texts[1:]] == [HANDLE, HANDLE]
    assert is_refused(texts[2], forms[0])


def test_keys_are_not_in_what_is_printed_of_them() -> None:
    for shown in (repr(FIRST), str(FIRST), repr(KEYS)):
        assert FIRST.secret.hex() not in shown
        assert repr(FIRST.secret) not in shown
