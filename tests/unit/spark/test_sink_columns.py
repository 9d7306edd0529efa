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
from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.sink.columns import checked_columns

TEXTS = ArrayType(StringType())
PAIRS = MapType(StringType(), StringType())


def schema(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


def test_what_the_source_gives_can_be_written() -> None:
    places = checked_columns(SCHEMA, topic=None).places
    assert sorted(places) == ["body", "keys", "message_group", "message_id", "properties", "tag", "topic"]
    assert all(SCHEMA[place].name == name for name, place in places.items())


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
        (schema(topic=StringType(), body=BinaryType(), priority=LongType()), ["no column 'priority'"]),
        (schema(topic=StringType(), body=BinaryType(), Body=BinaryType()), ["two columns have the name body"]),
    ],
)
def test_other_schemas_are_refused_with_the_reason(rows: StructType, words: list[str]) -> None:
    with pytest.raises(WrongOption) as refused:
        checked_columns(rows, topic=None)
    for word in words:
        assert word in str(refused.value)
