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
from ternmq_common.wire import encode_varint
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

TIME_COLUMNS = ("born_timestamp", "store_timestamp", "delivery_timestamp")
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


# --- messages that are encoded in another way than our servers do

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
    batch = batch_of_encoded(encoded)
    rows = batch.schema.names
    columns = [
        batch.column(name).cast(pa.int64()).to_pylist() if name in TIME_COLUMNS else batch.column(name).to_pylist()
        for name in rows
    ]
    found = [dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True)]
    for one in found:
        one["properties"] = sorted(one["properties"])
    return found
