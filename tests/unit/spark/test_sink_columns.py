"""Which schemas can be written, and what is said of the others."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.schema import HEADERS, KAFKA_SCHEMA, SCHEMA
from pyspark_ternmq.sink.columns import checked_columns

TEXTS = ArrayType(StringType())
PAIRS = MapType(StringType(), StringType())


def schema(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


@pytest.mark.parametrize("kafka_names", [False, True])
def test_what_the_source_gives_can_be_written_where_an_option_says_so(*, kafka_names: bool) -> None:
    read = StructType([*KAFKA_SCHEMA, HEADERS]) if kafka_names else SCHEMA
    places = checked_columns(read, topic=None, kafka_names=kafka_names, ignores_source=True).places
    ours = {
        "body",
        "delivery_timestamp",
        "keys",
        "message_group",
        "message_id",
        "priority",
        "properties",
        "tag",
        "topic",
    }
    assert set(places) == ({"key", "body", "topic", "headers"} if kafka_names else ours)
    assert all(read[place].name in (name, "value") for name, place in places.items())


@pytest.mark.parametrize("name", ["offset", "born_timestamp", "store_timestamp", "delivery_attempt", "corrupt"])
def test_nothing_is_passed_over_without_a_word(name: str) -> None:
    rows = schema(body=BinaryType(), **{name: SCHEMA[name].dataType})
    with pytest.raises(WrongOption, match=rf"column {name} can't be written.* ignoreSourceColumns"):
        checked_columns(rows, topic="orders")


@pytest.mark.parametrize("name", ["offset", "timestamp", "timestampType"])
def test_what_kafka_s_source_alone_gives_is_refused_too(name: str) -> None:
    rows = schema(value=BinaryType(), **{name: KAFKA_SCHEMA[name].dataType})
    with pytest.raises(WrongOption, match=rf"column {name} can't be written"):
        checked_columns(rows, topic="orders", kafka_names=True)


def test_kafka_s_names_are_those_of_parts() -> None:
    rows = schema(Key=StringType(), Value=StringType(), partition=IntegerType(), tag=StringType())
    places = checked_columns(rows, topic="orders", kafka_names=True).places
    assert places == {"key": 0, "body": 1, "queue_id": 2, "tag": 3}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (schema(key=BinaryType()), "no column value"),
        (schema(value=BinaryType(), body=BinaryType()), "two columns have the name value"),
        (schema(value=BinaryType(), key=BinaryType(), keys=TEXTS), "columns key and keys say the same"),
        (schema(value=BinaryType(), headers=PAIRS), "column headers is map<string,string>; it must be array<struct<"),
        (schema(value=BinaryType(), headers=HEADERS.dataType, properties=PAIRS), "headers and properties say the same"),
        (schema(value=BinaryType(), partition=StringType()), "column partition is string; it must be int"),
        (schema(valeu=BinaryType()), "'valeu'"),
    ],
)
def test_other_schemas_of_kafka_are_refused_with_the_reason(rows: StructType, words: str) -> None:
    with pytest.raises(WrongOption) as refused:
        checked_columns(rows, topic="orders", kafka_names=True)
    assert words in str(refused.value)


def test_kafka_s_names_need_the_option() -> None:
    with pytest.raises(WrongOption, match="no column 'value'"):
        checked_columns(schema(value=BinaryType()), topic="orders")


def test_the_option_counts_more_than_the_column() -> None:
    assert checked_columns(schema(topic=StringType(), body=BinaryType()), topic="orders").places == {"body": 1}


def test_names_have_no_case() -> None:
    assert checked_columns(schema(Body=StringType(), TAG=StringType()), topic="orders").places == {"body": 0, "tag": 1}


@pytest.mark.parametrize("kind", [StringType(), TEXTS])
def test_keys_are_a_text_or_several(kind: DataType) -> None:
    assert checked_columns(schema(body=BinaryType(), keys=kind), topic="orders").places == {"body": 0, "keys": 1}


def test_a_column_of_nulls_is_as_good_as_none() -> None:
    rows = schema(body=BinaryType(), tag=NullType(), delivery_timestamp=NullType())
    assert checked_columns(rows, topic="orders").places == {"body": 0}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (schema(topic=StringType()), ["no column body", "binary or string"]),
        (schema(body=NullType()), ["no column body"]),
        (schema(body=StringType()), ["which topic?", "option topic"]),
        (schema(topic=NullType(), body=StringType()), ["which topic?"]),
        (schema(topic=IntegerType(), body=StringType()), ["column topic is int", "must be string"]),
        (schema(topic=StringType(), body=LongType()), ["column body is bigint", "binary or string"]),
        (schema(topic=StringType(), body=BinaryType(), keys=ArrayType(IntegerType())), ["column keys is array<int>"]),
        (schema(topic=StringType(), body=BinaryType(), tag=BinaryType()), ["column tag is binary", "must be string"]),
        (
            schema(topic=StringType(), body=BinaryType(), delivery_timestamp=TimestampNTZType()),
            ["column delivery_timestamp is timestamp_ntz", "must be timestamp"],
        ),
        (
            schema(topic=StringType(), body=BinaryType(), delivery_timestamp=LongType()),
            ["column delivery_timestamp is bigint"],
        ),
        (
            schema(topic=StringType(), body=BinaryType(), properties=MapType(StringType(), TimestampType())),
            ["column properties is map<string,timestamp>", "must be map<string,string>"],
        ),
        (schema(topic=StringType(), body=BinaryType(), propertys=PAIRS), ["'propertys'", "did you mean 'properties'?"]),
        (schema(topic=StringType(), body=BinaryType(), priority=StringType()), ["column priority is string"]),
        (schema(topic=StringType(), body=BinaryType(), broker=StringType()), ["means nothing without queue_id"]),
        (schema(topic=StringType(), body=BinaryType(), Body=BinaryType()), ["two columns have the name body"]),
    ],
)
def test_other_schemas_are_refused_with_the_reason(rows: StructType, words: list[str]) -> None:
    with pytest.raises(WrongOption) as refused:
        checked_columns(rows, topic=None)
    for word in words:
        assert word in str(refused.value)
