"""What a source answers is taken only if it fits the question: its messages in order, of that queue, and whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.calls.remoting_calls import RemotingUnreachable
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.pulling import Pulled, read_pulled
from ternmq_command.mirror.source import find_retried_topic, group_of_retries, read_offsets
from ternmq_rpc.remoting.commands import Command, InvalidField
from ternmq_rpc.remoting.message_records import InvalidRecord, MessageRecord, encode_record

QUEUE = Queue("a", "orders", 3)


def record(offset: int, *, topic: str = "orders", queue_id: int = 3) -> MessageRecord:
    return MessageRecord(topic, b"body", "UNIQ_KEY\x01A", queue_id, offset, 77)


def answer(*records: MessageRecord, following: object = None, code: int = 0, **fields: str) -> Command:
    at = records[-1].queue_offset + 1 if records else 0
    body = b"".join(map(encode_record, records))
    known = {"nextBeginOffset": str(at if following is None else following), "minOffset": "0", "maxOffset": "9"}
    return Command(code, fields=known | fields, body=body)


def test_messages_are_taken_in_order() -> None:
    pulled = read_pulled(answer(record(4), record(6)), QUEUE, 4)
    assert [each.queue_offset for each in pulled.records] == [4, 6]
    assert (pulled.next_offset, pulled.maximum, pulled.is_moved) == (7, 9, False)


@pytest.mark.parametrize(
    "wrong",
    [
        answer(record(3)),
        answer(record(5), record(5)),
        answer(record(5), record(4)),
        answer(record(5, topic="other")),
        answer(record(5, queue_id=2)),
        answer(record(5), following=5),
        answer(record(5), following=-1),
        answer(following=3),
        answer(record(5), following="x"),
        answer(record(5), minOffset="-1"),
        answer(record(5), maxOffset=str(2**64)),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(wrong: Command) -> None:
    with pytest.raises((InvalidField, InvalidRecord)):
        read_pulled(wrong, QUEUE, 4)


@given(data=st.data())
def test_damaged_bytes_are_refused_or_are_messages_in_order(data: st.DataObject) -> None:
    whole = bytearray(b"".join(encode_record(record(offset)) for offset in (4, 5, 6)))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    command = Command(0, fields={"nextBeginOffset": "7"}, body=bytes(whole[:cut]))
    try:
        pulled = read_pulled(command, QUEUE, 4)
    except (InvalidField, InvalidRecord):
        return
    assert isinstance(pulled, Pulled)
    offsets = [each.queue_offset for each in pulled.records]
    assert offsets == sorted(set(offsets))
    assert all(4 <= offset < pulled.next_offset for offset in offsets)


def test_a_table_of_offsets_has_numbers_without_quotes() -> None:
    body = b'{"dataVersion":{"counter":1},"offsetTable":{"orders@billing":{0:5,1:7},"%RETRY%b@b":{0:1}}}'
    assert read_offsets(body) == {"orders@billing": {0: 5, 1: 7}, "%RETRY%b@b": {0: 1}}
    assert read_offsets(b"{}") == {}


@pytest.mark.parametrize("body", [b"[1]", b"{", b'{"offsetTable":[1]}', b'{"offsetTable":{"a@b":{"x":1}}}', b"\xff"])
def test_a_table_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(RemotingUnreachable):
        read_offsets(body)


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("%RETRY%billing", "billing"),
        ("%RETRY%billing_orders", "billing"),
        ("%RETRY%billing+orders", "billing"),
        ("%RETRY%billing_eu", "billing_eu"),
        ("%RETRY%billings", None),
        ("orders", None),
    ],
)
def test_topics_with_retries_are_those_of_known_groups(topic: str, group: str | None) -> None:
    assert group_of_retries(topic, ["billing", "billing_eu"]) == group


def test_retries_of_groups_that_pop_are_those_of_one_topic() -> None:
    topics = ["%RETRY%billing", "%RETRY%billing_orders", "%RETRY%billing+orders_eu"]
    assert [find_retried_topic(topic, "billing") for topic in topics] == ["", "orders", "orders_eu"]
