"""What is written by hand is what protobuf reads, and would have written."""

import gzip
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq import Message
from ternmq.connections.identity import host_name
from ternmq.connections.send_request import encode_request
from ternmq.hooks import Sending
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

if TYPE_CHECKING:
    from collections.abc import Mapping

LONG_AGO = datetime(1900, 1, 1)  # noqa: DTZ001 - as hypothesis wants it
BORN_NS = 1_700_000_000_123_456_789
printable = st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" ", exclude_characters="|")
texts = st.text(printable, min_size=1).filter(str.strip)
kinds = st.one_of(
    st.just({}),
    st.builds(lambda group: {"message_group": group}, texts.filter(lambda text: len(text.encode()) <= 63)),
    st.builds(lambda priority: {"priority": priority}, st.integers(0, 2**31 - 1)),
    # Before 1970 too, where protobuf writes ten bytes.
    st.builds(lambda ms: {"delivery_timestamp": ms}, st.integers(-(10**13), 10**13)),
    st.builds(lambda moment: {"delivery_timestamp": moment}, st.datetimes(LONG_AGO, timezones=st.just(UTC))),
    st.builds(lambda delay: {"delay": delay}, st.timedeltas(timedelta(days=-9), timedelta(days=9))),
    st.builds(lambda name: {"lite_topic": name}, st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)),
    st.builds(lambda level: {"delay_level": level}, st.integers(1, 2**40)),
)
messages = st.builds(
    lambda body, tag, keys, properties, kind: Message(
        "orders", body, tag=tag, keys=keys, properties=properties, **kind
    ),
    st.one_of(st.binary(min_size=1), st.binary(min_size=1, max_size=1).map(lambda one: one * 70_000)),
    st.none() | texts,
    st.lists(texts, max_size=3),
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), max_size=3),
    kinds,
)


def sending_of(*sent: Message, **more: Any) -> Sending:  # noqa: ANN401 - fields of different types
    ids = [f"01{number:032X}" for number in range(len(sent))]
    return Sending("client", "orders", sent, ids, started_ns=BORN_NS, **more)


def by_protobuf(sending: Sending, *, queue_id: int, compress_from_bytes: int | None) -> rpc.SendMessageRequest:
    """The same request, put together from protobuf's objects."""
    request = rpc.SendMessageRequest()
    for message, message_id in zip(sending.messages, sending.message_ids, strict=True):
        compressed = compress_from_bytes is not None and len(message.body) >= compress_from_bytes
        system = pb.SystemProperties(
            tag=message.tag,
            keys=message.keys,
            message_id=message_id,
            body_encoding=pb.GZIP if compressed else pb.IDENTITY,
            message_type=pb.TRANSACTION if sending.transactional else message.message_type,
            born_host=host_name(),
            queue_id=queue_id,
            message_group=message.message_group,
            trace_context=sending.trace_context,
            priority=message.priority,
            lite_topic=message.lite_topic,
        )
        system.born_timestamp.FromNanoseconds(BORN_NS)
        delivery_ms = message.delivery_timestamp_ms
        if message.delay is not None:
            micros = BORN_NS // 1000 + message.delay // timedelta(microseconds=1)
            delivery_ms = max(0, -(-(1000 * micros + BORN_NS % 1000) // 1_000_000))
        if delivery_ms is not None:
            system.delivery_timestamp.FromMilliseconds(delivery_ms)
        if sending.recovery is not None:
            system.orphaned_transaction_recovery_duration.FromTimedelta(sending.recovery)
        properties: Mapping[str, str] = message.properties
        if message.delay_level is not None:
            properties = {**properties, "DELAY": str(message.delay_level)}
        body = gzip.compress(message.body, mtime=0) if compressed else message.body
        request.messages.append(
            pb.Message(
                topic=pb.Resource(name=sending.topic), user_properties=properties, system_properties=system, body=body
            )
        )
    return request


@given(
    sent=st.lists(messages, min_size=1, max_size=3),
    queue_id=st.integers(-(2**31), 2**31 - 1),
    compress_from_bytes=st.sampled_from([None, 1, 60_000]),
    trace=st.sampled_from([None, "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]),
    recovery=st.none() | st.timedeltas(timedelta(0), timedelta(hours=1)),
    transactional=st.booleans(),
)
def test_it_is_the_request_of_protobuf(
    sent: list[Message],
    queue_id: int,
    compress_from_bytes: int | None,
    trace: str | None,
    recovery: timedelta | None,
    transactional: bool,
) -> None:
    sending = sending_of(*sent, trace_context=trace, recovery=recovery, transactional=transactional)
    written = encode_request(
        sending, queue_id=queue_id, born_ns=BORN_NS, compress_from_bytes=compress_from_bytes
    ).SerializeToString()
    expected = by_protobuf(sending, queue_id=queue_id, compress_from_bytes=compress_from_bytes)
    assert rpc.SendMessageRequest.FromString(written) == expected
    if all(len(message.properties) < 2 and message.delay_level is None for message in sent):
        assert written == expected.SerializeToString()  # byte for byte, but for the order of a map's entries


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("orders", b"x", priority=1 << 31), ValueError),
        (Message("orders", b"x", delivery_timestamp=1000 << 63), ValueError),
        (Message("orders", b"x", delivery_timestamp=-1000 << 64), ValueError),
    ],
    ids=["no int32", "too late", "too early"],
)
def test_what_protobuf_refuses_is_refused(message: Message, error: type[Exception]) -> None:
    sending = sending_of(message)
    with pytest.raises(error):
        by_protobuf(sending, queue_id=0, compress_from_bytes=None)
    with pytest.raises(error):
        encode_request(sending, queue_id=0, born_ns=BORN_NS, compress_from_bytes=None)
