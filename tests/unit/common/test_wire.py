"""Framing by hand is what protobuf itself would write and read, for any message."""

from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from ternmq_common import wire
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

TEXT = st.text(max_size=20)
RESOURCES = st.builds(pb.Resource, name=TEXT, resource_namespace=TEXT)
PROPERTIES = st.builds(
    pb.SystemProperties,
    tag=st.none() | TEXT,
    keys=st.lists(TEXT, max_size=3),
    message_id=TEXT,
    body_digest=st.none() | st.builds(pb.Digest, type=st.sampled_from(pb.DigestType.values()), checksum=TEXT),
    body_encoding=st.sampled_from(pb.Encoding.values()),
    message_type=st.sampled_from(pb.MessageType.values()),
    born_timestamp=st.none() | st.builds(Timestamp, seconds=st.integers(0, 2**40), nanos=st.integers(0, 10**9 - 1)),
    born_host=TEXT,
    message_group=st.none() | TEXT,
    trace_context=st.none() | st.text(max_size=300),
    priority=st.none() | st.integers(-(2**31), 2**31 - 1),
)
RESTS = st.builds(pb.Message, user_properties=st.dictionaries(TEXT, TEXT, max_size=3), body=st.binary(max_size=300))
STORED_MS = st.integers(0, 253_402_300_799_999)
DELIVERY = st.fixed_dictionaries(
    {
        "stored_ms": STORED_MS,
        "store_host": TEXT.map(str.encode),
        "queue_id": st.integers(0, 2**31 - 1),
        "queue_offset": st.integers(0, 2**63 - 1),
        "attempt": st.integers(0, 2**31 - 1),
        "handle": st.none() | TEXT.map(str.encode),
    }
)


def delivered(properties: pb.SystemProperties, delivery: dict[str, object]) -> pb.SystemProperties:
    """The same by protobuf's own means."""
    full = pb.SystemProperties()
    full.CopyFrom(properties)
    stored_ms, store_host, handle = delivery["stored_ms"], delivery["store_host"], delivery["handle"]
    assert isinstance(stored_ms, int)
    assert isinstance(store_host, bytes)
    assert handle is None or isinstance(handle, bytes)
    full.store_timestamp.FromMilliseconds(stored_ms)
    full.store_host = store_host.decode()
    full.MergeFrom(
        pb.SystemProperties(
            queue_id=delivery["queue_id"],  # type: ignore[arg-type]
            queue_offset=delivery["queue_offset"],  # type: ignore[arg-type]
            delivery_attempt=delivery["attempt"],  # type: ignore[arg-type]
            receipt_handle=None if handle is None else handle.decode(),
        )
    )
    return full


def written(
    topic: pb.Resource, rest: pb.Message, properties: pb.SystemProperties, *deliveries: dict[str, object]
) -> bytes:
    """As its last delivery writes it, in an answer with the others."""
    frames = wire.DeliveredFrames(topic=topic.SerializeToString(), store_host=deliveries[-1]["store_host"])  # type: ignore[arg-type]
    for delivery in deliveries:
        rests = {name: value for name, value in delivery.items() if name != "store_host"}
        framed = frames.encode_message(rest=rest.SerializeToString(), system=properties.SerializeToString(), **rests)  # type: ignore[arg-type]
    return framed


@given(topic=RESOURCES, rest=RESTS, properties=PROPERTIES, delivery=DELIVERY)
def test_a_framed_message_is_parsed_as_the_message_that_it_is(
    topic: pb.Resource, rest: pb.Message, properties: pb.SystemProperties, delivery: dict[str, object]
) -> None:
    framed = written(topic, rest, properties, delivery)
    expected = pb.Message(topic=topic, system_properties=delivered(properties, delivery))
    expected.MergeFrom(rest)
    assert rpc.ReceiveMessageResponse.FromString(framed) == rpc.ReceiveMessageResponse(message=expected)
    assert rpc.PullMessageResponse.FromString(framed) == rpc.PullMessageResponse(message=expected)


@given(topic=RESOURCES, rest=RESTS, properties=PROPERTIES, delivery=DELIVERY, data=st.data())
def test_a_framed_message_is_the_same_whatever_was_framed_before_it(
    topic: pb.Resource,
    rest: pb.Message,
    properties: pb.SystemProperties,
    delivery: dict[str, object],
    data: st.DataObject,
) -> None:
    """Of a message like it some of what delivery adds was kept."""
    other = data.draw(DELIVERY)
    before = {name: data.draw(st.sampled_from((value, other[name]))) for name, value in delivery.items()}
    assert written(topic, rest, properties, before, delivery) == written(topic, rest, properties, delivery)


@given(topic=RESOURCES, rest=RESTS, properties=PROPERTIES, delivery=DELIVERY)
def test_no_sub_message_appears_twice(
    topic: pb.Resource, rest: pb.Message, properties: pb.SystemProperties, delivery: dict[str, object]
) -> None:
    """Decoders in JavaScript keep only the last of a sub-message that appears twice."""
    framed = written(topic, rest, properties, delivery)
    [(number, content)] = fields(framed)
    assert number == 2
    numbers = [number for number, _ in fields(content)]
    assert (numbers.count(1), numbers.count(3)) == (1, 1)


def fields(data: bytes) -> list[tuple[int, bytes]]:
    """The fields as they stand in the bytes, by number; a message without fields of its own keeps all it reads."""
    unknown = UnknownFieldSet(admin_pb2.GetProxyRuntimeStatsRequest.FromString(data))
    return [(unknown[place].field_number, unknown[place].data) for place in range(len(unknown))]


@given(milliseconds=STORED_MS)
def test_a_timestamp_is_written_as_protobuf_writes_it(milliseconds: int) -> None:
    expected = Timestamp()
    expected.FromMilliseconds(milliseconds)
    assert Timestamp.FromString(wire.encode_timestamp(milliseconds)) == expected


@given(bits=st.integers(0, 63), data=st.data())
def test_a_number_is_written_as_protobuf_writes_it(bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers((1 << bits) >> 1, (1 << bits) - 1))
    written = pb.SystemProperties(queue_offset=value).SerializeToString()
    assert (written or b"\x70\x00") == b"\x70" + wire.encode_varint(value)
    writer = BytesWriter()
    wire.write_varint(writer, value)
    assert writer.getvalue() == wire.encode_varint(value)


@given(size=st.sampled_from([0, 1, 127, 128, 16_383, 16_384]) | st.integers(0, 40_000))
def test_a_field_is_written_as_protobuf_writes_it(size: int) -> None:
    writer = BytesWriter()
    wire.write_field(writer, 0x22, bytes(size))
    assert pb.Message.FromString(writer.getvalue()) == pb.Message(body=bytes(size))
