"""Why a body is no JSON of a schema: the field, and the kind of its value."""

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from pyspark_ternmq.decoding.columns import decoded_batch
from pyspark_ternmq.decoding.json_problem import PATH_CHARACTERS_MAX, UNKNOWN, json_problem


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ('{"a": "x"}', LongType(), "field a is a string, not bigint"),
        ('{"a": 1.5}', LongType(), "field a is a number with a fraction, not bigint"),
        ('{"a": 5000000000}', IntegerType(), "field a is an integer of 10 digits, not int"),
        ('{"a": true}', LongType(), "field a is a boolean, not bigint"),
        ('{"a": 1}', BooleanType(), "field a is an integer, not boolean"),
        ('{"a": "1,5"}', DoubleType(), "field a is a string, not double"),
        ('{"a": 12345}', DecimalType(4, 2), "field a is an integer of 5 digits, not decimal(4,2)"),
        ('{"a": []}', DateType(), "field a is an array, not date"),
        ('{"a": "today"}', DateType(), "field a is a string, not date"),
        ('{"a": {}}', ArrayType(LongType()), "field a is an object, not an array"),
        ('{"a": 1}', StructType().add("b", LongType()), "field a is an integer, not an object"),
        ('{"a": {"b": null}}', StructType().add("b", LongType()), UNKNOWN),
        ('{"a": [1, null, "x"]}', ArrayType(LongType()), "field a[2] is a string, not bigint"),
        ('{"a": {"k": "x"}}', MapType(StringType(), LongType()), "field a.k is a string, not bigint"),
        ('{"a": "NaN"}', DoubleType(), "field a is a string, not double"),
        ('{"a": {}}', StringType(), UNKNOWN),
        ("[1]", LongType(), "the body is an array, not an object"),
        ('{"a"', LongType(), "the body is not JSON: Expecting ':' delimiter at character 5"),
        ("[" * 100_000, LongType(), "too many levels"),
        ('{"a": ' + "1" * 5000 + "}", LongType(), "the body has a number of too many digits"),
        ("", LongType(), "the body is not JSON: Expecting value at character 1"),
    ],
)
def test_the_first_field_that_does_not_fit_is_named_with_the_kind_of_its_value(
    body: str, kind: DataType, expected: str
) -> None:
    assert json_problem(body.encode(), StructType().add("a", kind)) == expected


def test_what_can_not_fit_is_named_before_what_may_be_a_time() -> None:
    schema = StructType().add("at", DateType()).add("id", LongType())
    assert json_problem(b'{"at": "2026-08-01", "id": "x"}', schema) == "field id is a string, not bigint"


def test_the_names_of_a_sender_do_not_make_reasons_long() -> None:
    body = b'{"a": {"' + b"k" * 10_000 + b'": "x"}}'
    schema = StructType().add("a", MapType(StringType(), LongType()))
    assert len(json_problem(body, schema)) < PATH_CHARACTERS_MAX + 50


def test_values_that_columns_do_not_take_are_named_by_their_field() -> None:
    kind = pa.struct([("id", pa.int64()), ("lines", pa.list_(pa.struct([("count", pa.int32())])))])
    bodies = {b"1": {"id": 1, "lines": [{"count": 2**40}]}, b"2": {"id": 2, "lines": []}}
    values, problems = decoded_batch(pa.array(list(bodies)), bodies.__getitem__, kind)
    [first, second] = problems.to_pylist()
    assert first.startswith("field lines[0].count has int, which does not fit int32: ")
    assert (second, values.to_pylist()[1]) == (None, bodies[b"2"])
