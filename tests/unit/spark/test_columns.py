"""Messages as Arrow columns."""

import gzip

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_ternmq.schema import HEADERS, KAFKA_SCHEMA, SCHEMA
from pyspark_ternmq.source.columns import ColumnBuilder
from ternmq_common.pulled_rows import PulledRows, encode_rows
from ternmq_common.wire import encode_varint
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

TIME_COLUMNS = ("born_timestamp", "store_timestamp", "delivery_timestamp")
SCHEMAS = (
    SCHEMA,
    KAFKA_SCHEMA,
    StructType([SCHEMA["body"]]),
    StructType([SCHEMA["offset"], SCHEMA["store_timestamp"]]),
)
TEXT = st.text(max_size=8)
TIMES = st.builds(Timestamp, seconds=st.integers(0, 2**33), nanos=st.integers(0, 999_999_999))
MESSAGES = st.builds(
    lambda body, properties, system: pb.Message(body=body, user_properties=properties, system_properties=system),
    st.binary(max_size=20),
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.builds(
        pb.SystemProperties,
        message_id=TEXT,
        tag=st.none() | TEXT,
        keys=st.lists(TEXT, max_size=3),
        message_group=st.none() | TEXT,
        queue_offset=st.integers(0, 2**63 - 1),
        delivery_attempt=st.none() | st.integers(0, 20),
        born_timestamp=st.none() | TIMES,
        store_timestamp=st.none() | TIMES,
        delivery_timestamp=st.none() | TIMES,
        priority=st.none() | st.integers(0, 9),
    ),
)
# Fields that Message and SystemProperties have, and fields that they don't have, of all wire types.
PIECES = st.sampled_from(
    [
        pb.Message(system_properties=pb.SystemProperties(tag="t", queue_offset=3)).SerializeToString(),
        pb.Message(system_properties=pb.SystemProperties(keys=["a", "b"], priority=2)).SerializeToString(),
        pb.Message(system_properties=pb.SystemProperties(delivery_attempt=-1, queue_offset=-7)).SerializeToString(),
        pb.Message(system_properties=pb.SystemProperties(born_timestamp=Timestamp(seconds=5))).SerializeToString(),
        pb.Message(system_properties=pb.SystemProperties(born_timestamp=Timestamp(nanos=7000))).SerializeToString(),
        pb.Message(user_properties={"a": "1"}).SerializeToString(),
        pb.Message(user_properties={"a": "2"}).SerializeToString(),
        pb.Message(user_properties={"b": "3"}).SerializeToString(),
        b"\x12\x00",  # a property without name and value
        b"\x12\x06\x12\x01x\x0a\x01n",  # its value before its name
        pb.Message(body=b"one").SerializeToString(),
        pb.Message(body=b"other").SerializeToString(),
        b"\x98\x06\x05",  # field 99: a number,
        b"\x99\x0612345678",  # 64 bits,
        b"\x9a\x06\x02ab",  # bytes,
        b"\x9b\x06\x08\x01\x9c\x06",  # a group,
        b"\x9d\x061234",  # 32 bits
    ]
)


def batch_of(messages: list[pb.Message], schema: StructType = SCHEMA) -> pa.RecordBatch:
    columns = ColumnBuilder(schema, "orders", "broker-a/7")
    columns.add_responses([rpc.PullMessageResponse(message=message).SerializeToString() for message in messages])
    return columns.build_batch()


def micros(time: Timestamp) -> int:
    return time.seconds * 1_000_000 + time.nanos // 1000


@given(messages=st.lists(MESSAGES, max_size=5))
def test_a_row_is_its_message(messages: list[pb.Message]) -> None:
    batch = batch_of(messages)
    assert batch.schema.equals(to_arrow_schema(SCHEMA, timezone="UTC"))
    assert batch.num_rows == len(messages)
    integers = {name: batch.column(name).cast(pa.int64()).to_pylist() for name in TIME_COLUMNS}
    plain = batch.drop_columns(list(integers)).to_pylist()
    for row, (message, found) in enumerate(zip(messages, plain, strict=True)):
        system = message.system_properties
        found["properties"].sort()  # a map has no order
        for name, times in integers.items():
            assert times[row] == (micros(getattr(system, name)) if system.HasField(name) else None)
        assert found == {
            "topic": "orders",
            "broker": "broker-a",
            "queue_id": 7,
            "offset": system.queue_offset,
            "message_id": system.message_id,
            "keys": list(system.keys),
            "tag": system.tag or None,
            "message_group": system.message_group or None,
            "body": message.body,
            "properties": sorted(message.user_properties.items()),
            "delivery_attempt": system.delivery_attempt or 1,
            "corrupt": None,
            "priority": system.priority if system.HasField("priority") else None,
        }


@given(messages=st.lists(MESSAGES, max_size=5))
def test_a_row_of_kafka_s_columns_is_its_message(messages: list[pb.Message]) -> None:
    schema = StructType([*KAFKA_SCHEMA, HEADERS])
    batch = batch_of(messages, schema)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, (message, found) in enumerate(zip(messages, batch.drop_columns("timestamp").to_pylist(), strict=True)):
        system = message.system_properties
        found["headers"].sort(key=lambda header: header["key"])
        assert times[row] == (micros(system.store_timestamp) if system.HasField("store_timestamp") else None)
        key = system.message_group or (system.keys[0] if system.keys else None)
        assert found == {
            "key": None if key is None else key.encode(),
            "value": message.body,
            "topic": "orders",
            "partition": 7,
            "offset": system.queue_offset,
            "timestampType": 1,
            "headers": [
                {"key": key, "value": value.encode()} for key, value in sorted(message.user_properties.items())
            ],
        }


@pytest.mark.parametrize("name", SCHEMA.fieldNames())
def test_each_column_can_be_had_alone(name: str) -> None:
    message = pb.Message(body=b"x", system_properties=pb.SystemProperties(message_id="m"))
    [field] = (field for field in SCHEMA if field.name == name)
    batch = batch_of([message], StructType([field]))
    assert batch.schema.names == [name]
    assert batch.column(0).to_pylist() == batch_of([message]).column(name).to_pylist()


def test_columns_come_in_the_order_of_the_schema() -> None:
    fields: list[StructField] = list(reversed(SCHEMA.fields))
    message = pb.Message(body=b"x", system_properties=pb.SystemProperties(message_id="m"))
    assert batch_of([message], StructType(fields)).schema.names == [field.name for field in fields]


def test_a_packed_body_is_unpacked_and_a_broken_one_is_told() -> None:
    def packed(body: bytes) -> pb.Message:
        return pb.Message(body=body, system_properties=pb.SystemProperties(body_encoding=pb.GZIP))

    batch = batch_of([packed(gzip.compress(b"hello")), packed(b"no gzip"), pb.Message(body=b"plain")])
    assert batch.column("body").to_pylist() == [b"hello", b"no gzip", b"plain"]
    fine, broken, plain = batch.column("corrupt").to_pylist()
    assert (fine, plain) == (None, None)
    assert "gzip" in broken


def test_what_was_made_a_batch_waits_no_more() -> None:
    columns = ColumnBuilder(SCHEMA, "orders", "broker/0")
    columns.add_responses([rpc.PullMessageResponse(message=pb.Message(body=b"12345")).SerializeToString()])
    assert (columns.rows, columns.bytes) == (1, 9)  # with the tags and lengths of message and body
    columns.build_batch()
    assert (columns.rows, columns.bytes) == (0, 0)


# --- messages that come by column


def rows_form(messages: list[pb.Message]) -> PulledRows:
    """The messages as a server sends them by column, which has their offsets and times from its store."""
    offsets = [message.system_properties.queue_offset for message in messages]
    rests, systems = [], []
    for message in messages:
        system = pb.SystemProperties.FromString(message.system_properties.SerializeToString())
        for name in ("queue_offset", "store_timestamp", "delivery_attempt"):
            system.ClearField(name)
        systems.append(system.SerializeToString())
        rests.append(pb.Message(body=message.body, user_properties=message.user_properties).SerializeToString())
    return PulledRows.of_response(encode_rows(offsets, [1_764_000_000_123] * len(messages), rests, systems))


def forms_of(messages: list[pb.Message]) -> tuple[PulledRows, list[bytes]]:
    """The same messages by column, and as responses."""
    rows = rows_form(messages)
    return rows, list(rows.as_responses(pb.Resource(name="orders").SerializeToString(), 7))


@given(parts=st.lists(st.lists(MESSAGES, max_size=4), min_size=1, max_size=3), schema=st.sampled_from(SCHEMAS))
def test_messages_by_column_are_the_same_rows(parts: list[list[pb.Message]], schema: StructType) -> None:
    by_column, one_by_one = (ColumnBuilder(schema, "orders", "broker-a/7") for _ in range(2))
    for part in parts:
        rows, responses = forms_of(part)
        by_column.add_rows(rows)
        one_by_one.add_responses(responses)
    assert by_column.rows == one_by_one.rows == sum(map(len, parts))
    assert listed(by_column.build_batch()) == listed(one_by_one.build_batch())
    assert (by_column.rows, by_column.bytes) == (0, 0)


@given(parts=st.lists(st.tuples(st.booleans(), st.lists(MESSAGES, max_size=3)), max_size=4))
def test_both_forms_may_come_in_one_batch(parts: list[tuple[bool, list[pb.Message]]]) -> None:
    mixed, one_by_one = (ColumnBuilder(SCHEMA, "orders", "broker-a/7") for _ in range(2))
    for is_by_column, part in parts:
        rows, responses = forms_of(part)
        mixed.add_rows(rows) if is_by_column else mixed.add_responses(responses)
        one_by_one.add_responses(responses)
    assert listed(mixed.build_batch()) == listed(one_by_one.build_batch())


@given(encoded=st.lists(st.lists(PIECES, max_size=4).map(b"".join), min_size=1, max_size=4))
def test_what_stands_in_a_row_may_be_encoded_in_any_order(encoded: list[bytes]) -> None:
    count = len(encoded)
    system = pb.SystemProperties(message_id="m").SerializeToString()
    rests = [without_system(one) for one in encoded]
    rows = PulledRows.of_response(encode_rows(range(count), [5] * count, rests, [system] * count))
    by_column = ColumnBuilder(SCHEMA, "orders", "broker-a/7")
    by_column.add_rows(rows)
    assert [row["offset"] for row in listed(by_column.build_batch())] == list(range(count))
    one_by_one = ColumnBuilder(SCHEMA, "orders", "broker-a/7")
    one_by_one.add_responses(list(rows.as_responses(b"", 7)))
    by_column.add_rows(rows)
    assert listed(by_column.build_batch()) == listed(one_by_one.build_batch())


def without_system(encoded: bytes) -> bytes:
    message = pb.Message.FromString(encoded)
    message.ClearField("system_properties")
    return message.SerializeToString()


# --- messages that are encoded in another way than our servers do


@given(encoded=st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=5))
def test_a_message_may_be_encoded_in_any_order_with_repeated_and_unknown_fields(encoded: list[bytes]) -> None:
    assert rows_of(encoded) == rows_of([pb.Message.FromString(one).SerializeToString() for one in encoded])


@given(message=MESSAGES, cut=st.integers(0, 60), noise=st.binary(max_size=12))
def test_a_message_that_is_no_protobuf_is_an_error_and_never_another_message(
    message: pb.Message, cut: int, noise: bytes
) -> None:
    encoded = message.SerializeToString()[:cut] + noise
    try:
        expected = pb.Message.FromString(encoded)
    except DecodeError:
        with pytest.raises(DecodeError):
            # A column that is not wanted may hide what is wrong, and so may a field that no column has.
            batch_of_encoded([b"\xff", encoded])
    else:
        assert rows_of([encoded]) == rows_of([expected.SerializeToString()])


def batch_of_encoded(encoded: list[bytes]) -> pa.RecordBatch:
    columns = ColumnBuilder(SCHEMA, "orders", "broker-a/7")
    columns.add_responses([b"\x12" + encode_varint(len(one)) + one for one in encoded])
    return columns.build_batch()


def rows_of(encoded: list[bytes]) -> list[dict[str, object]]:
    return listed(batch_of_encoded(encoded))


def listed(batch: pa.RecordBatch) -> list[dict[str, object]]:
    rows = batch.schema.names
    columns = [
        batch.column(name).cast(pa.int64()).to_pylist()
        if pa.types.is_timestamp(batch.column(name).type)
        else batch.column(name).to_pylist()
        for name in rows
    ]
    found = [dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True)]
    for one in found:
        for name in one.keys() & {"properties", "headers"}:
            one[name] = sorted(one[name] or (), key=str)
    return found
