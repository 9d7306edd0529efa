"""Bodies in Avro: which schemas are columns, what comes out, and that nothing which anybody can send does harm."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from pyspark_ternmq.decoding.avro_body import avro_body
from pyspark_ternmq.decoding.avro_check import checked_by
from pyspark_ternmq.decoding.avro_format import AvroFormat, reader_of
from pyspark_ternmq.decoding.avro_schema import AvroSchema, column_type, parse_avro_schema
from pyspark_ternmq.decoding.columns import SLICE_BYTES, decoded_batch
from pyspark_ternmq.decoding.limits import VALUES_MAX, BrokenBody, WrongSchema


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """A record whose fields are `(name, type)` or `(name, type, default)`."""
    made = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def schema(value: Any) -> AvroSchema:  # noqa: ANN401
    return AvroSchema(json.dumps(value))


def written(wanted: Any, value: Any) -> bytes:  # noqa: ANN401
    out = io.BytesIO()
    fastavro.schemaless_writer(out, wanted, value)
    return out.getvalue()


def decoded(wanted: Any, *bodies: bytes | None) -> tuple[list[Any], list[str | None]]:  # noqa: ANN401
    """Values as they come out of Arrow, and problems."""
    made = AvroFormat(schema(wanted))
    kind = to_arrow_type(made.column_type(), timezone="UTC")
    values, problems = decoded_batch(pa.array(bodies, pa.binary()), made.make_decoder(), kind)
    assert values.type == kind
    return values.to_pylist(maps_as_pydicts="strict"), problems.to_pylist()


def resolved(writer: Any, reader: Any, body: bytes) -> Any:  # noqa: ANN401
    return avro_body(parse_avro_schema(schema(writer)), reader_of(schema(reader)))(body)


LOGICAL: dict[str, Any] = {
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    "fixed": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 6},
    "date": {"type": "int", "logicalType": "date"},
    "millis": {"type": "long", "logicalType": "timestamp-millis"},
    "micros": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "nanos": {"type": "long", "logicalType": "timestamp-nanos"},
}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": {"type": "array", "items": "long"}}, "map<string,array<bigint>>"),
        (["null", "string"], "string"),
        (["string", "null"], "string"),
        (["long"], "bigint"),
        (record(("x", "int"), name="Inner"), "struct<x:int>"),
        (LOGICAL["decimal"], "decimal(6,2)"),
        (LOGICAL["fixed"], "decimal(6,0)"),
        (LOGICAL["date"], "date"),
        (LOGICAL["millis"], "timestamp"),
        (LOGICAL["micros"], "timestamp"),
        (LOGICAL["local"], "timestamp_ntz"),
        (LOGICAL["uuid"], "string"),
        (LOGICAL["time"], "int"),
        (LOGICAL["nanos"], "bigint"),
    ],
)
def test_types(kind: Any, said: str) -> None:  # noqa: ANN401
    assert AvroFormat(schema(record(("a", kind)))).column_type().simpleString() == f"struct<a:{said}>"


def test_logical_types_come_as_what_they_mean() -> None:
    wanted = record(*LOGICAL.items())
    at, local = datetime(2026, 8, 1, 7, 0, 0, 123_000, tzinfo=UTC), datetime(2026, 8, 1, 9)  # noqa: DTZ001
    row = {
        "decimal": Decimal("-12.34"),
        "fixed": Decimal(17),
        "date": date(2026, 8, 1),
        "millis": at,
        "micros": at,
        "local": local,
        "uuid": "any text",
        "time": 5,
        "nanos": 9,
    }
    plain = {
        **wanted,
        "fields": [field for field in wanted["fields"] if field["name"] not in ("uuid", "time", "nanos")],
    }
    body = written(plain, row) + written("string", "any text") + written("int", 5) + written("long", 9)
    assert decoded(wanted, body) == ([row], [None])


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("{", "no Avro schema"),
        ('"nonsense"', "no Avro schema"),
        ("17", "no Avro schema"),
        ('{"type": "record"}', "no Avro schema"),
        ('"string"', "the schema is string, and a record is needed"),
        ("[" * 100_000, "deep|no Avro schema"),
        ('{"type": "array", "items": ' * 60 + '"int"' + "}" * 60, "more than 40 deep"),
        (json.dumps(record(("a", "null"))), "a: null has no column type"),
        (json.dumps(record(("a", ["null", "int", "string"]))), "a: a union of null, int, string has no column type"),
        (json.dumps(record(("a", {"type": "array", "items": ["int", "long"]}))), r"a\[\]: a union of int, long"),
        (json.dumps(record(("a", ["null", "R"]))), "a: R contains itself"),
        (json.dumps(record(("a", record(name="E")))), "a: a record without fields"),
        (json.dumps(record(("a", "int"), ("A", "int"))), "A: to Spark it is the same name as a"),
        (json.dumps(record(("a", {**LOGICAL["decimal"], "precision": 39}))), "38 digits, not 39"),
        (json.dumps(record(("a", "bytes", 5))), "must match"),
        (json.dumps(record(("a", LOGICAL["date"], 10**9))), "a: 1000000000 is no default"),
        (json.dumps(record(("a", "int"), note="x" * 1_100_000)), "more than 1,048,576 characters"),
    ],
)
def test_schemas_that_can_be_no_columns_are_refused(wanted: str, said: str) -> None:
    with pytest.raises(WrongSchema, match=said):
        AvroFormat(AvroSchema(wanted)).column_type()


def test_a_schema_whose_types_use_each_other_again_and_again_is_refused() -> None:
    kind: Any = record(*((f"f{n}", "int") for n in range(10)), name="R0")
    for level in range(1, 8):
        name = kind["name"]
        kind = record(("first", kind), *((f"f{n}", name) for n in range(9)), name=f"R{level}")
    with pytest.raises(WrongSchema, match="more than 5,000 fields"):
        AvroFormat(schema(kind)).column_type()


def test_types_that_are_used_twice_have_their_defaults_once() -> None:
    inner = record(("b", "bytes", "\u00ff"), ("n", LOGICAL["millis"], 1000), name="Inner")
    reader = record(("x", inner), ("y", "Inner", {}), ("d", LOGICAL["decimal"], "\u0001\u0000"))
    writer = record(("x", record(name="Inner")))
    found = resolved(writer, reader, b"")
    default = {"b": b"\xff", "n": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    assert found == {"x": default, "y": default, "d": Decimal("2.56")}


def test_a_body_is_resolved_to_the_readers_schema() -> None:
    writer = record(
        ("id", "int"), ("old", "string"), ("gone", {"type": "array", "items": "null"}), ("at", LOGICAL["millis"])
    )
    reader = record(
        {"name": "x"}, ("id", "long"), ("note", ["null", "string"], None), ("at", LOGICAL["micros"]), ("n", "int", 7)
    )
    reader["fields"][0] = {"name": "name", "type": "string", "aliases": ["old"]}
    body = written(writer, {"id": 1, "old": "a", "gone": [None], "at": datetime(2026, 1, 1, tzinfo=UTC)})
    assert resolved(writer, reader, body) == {
        "name": "a",
        "id": 1,
        "note": None,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "n": 7,
    }


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (record(("a", "long")), record(("a", LOGICAL["micros"]))),
        (record(("a", LOGICAL["micros"])), record(("a", ["null", "long"]))),
        (record(("a", {"type": "array", "items": "int"})), record(("a", {"type": "array", "items": LOGICAL["date"]}))),
    ],
)
def test_numbers_are_not_taken_for_times(writer: Any, reader: Any) -> None:  # noqa: ANN401
    with pytest.raises(WrongSchema, match=r"a(\[\])? is .*, and the reader's is "):
        resolved(writer, reader, b"\x02")


def test_a_recursive_schema_of_a_writer_is_refused() -> None:
    with pytest.raises(WrongSchema, match="R contains itself"):
        resolved(record(("a", "int"), ("next", ["null", "R"])), record(("a", "int")), b"\x02\x00")


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("string", b"\x05abc", "longer than the body"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "longer than the body"),
        ("string", b"\x02\xff", "UnicodeDecodeError"),
        ("long", b"\xff" * 20 + b"\x01", "more than 64 bits"),
        ("long", b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        ("int", b"\xff\xff\xff\xff\x7f", "more than 32 bits"),
        ("long", b"\xff", "ends too early"),
        ("double", b"1234567", "ends too early"),
        ("boolean", b"\x02", "a boolean is 2"),
        ("int", b"\x02\x02", "1 bytes follow"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01", "no symbol -1"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04", "no symbol 2"),
        (["null", "int"], b"\x01", "no type -1"),
        ({"type": "array", "items": "int"}, b"\x03\x7e\x02\x02\x00", "longer than the body"),
        (LOGICAL["decimal"], b"\x06\x0f\x42\x40", "more digits"),
        (LOGICAL["fixed"], b"\x00\x0f\x42\x40", "more digits"),
        (LOGICAL["date"], b"\xfe\xff\xff\xff\x0f", "OverflowError"),
        (LOGICAL["millis"], b"\xfe" + b"\xff" * 8 + b"\x01", "OverflowError"),
    ],
)
def test_broken_bodies_say_why(kind: Any, body: bytes, said: str) -> None:  # noqa: ANN401
    values, (problem,) = decoded(record(("a", kind)), body)
    assert values == [None]
    assert said in str(problem)


@pytest.mark.parametrize("items", ["null", record(name="E"), {"type": "fixed", "name": "F", "size": 0}])
def test_a_list_of_2_to_the_60_items_of_nothing_is_no_work(items: Any) -> None:  # noqa: ANN401
    writer = record(("a", "int"), ("skipped", {"type": "array", "items": items}))
    body = b"\x02" + written("long", 2**60) + b"\x00"
    with pytest.raises(BrokenBody, match="more than 1,000,000 values"):
        resolved(writer, record(("a", "int")), body)


@pytest.mark.slow
@pytest.mark.parametrize("items", ["boolean", record(("a", {"type": "array", "items": "int"}), name="E")])
def test_a_body_has_a_limited_number_of_values(items: Any) -> None:  # noqa: ANN401
    kind = record(("many", {"type": "array", "items": items}))
    many = VALUES_MAX + 1
    _, (problem,) = decoded(kind, written("long", many) + bytes(many) + b"\x00")
    assert problem == "it has more than 1,000,000 values"
    fair = VALUES_MAX // 4
    (value,), (problem,) = decoded(kind, written("long", fair) + bytes(fair) + b"\x00")
    assert (len(value["many"]), problem) == (fair, None)


def test_what_does_not_fit_into_a_column_is_that_rows_problem_alone() -> None:
    wanted = AvroFormat(schema(record(("a", "long"))))
    kind = pa.struct([("a", pa.int8())])
    bodies = [written("long", number) for number in (1, 300, 2)]
    values, problems = decoded_batch(pa.array(bodies, pa.binary()), wanted.make_decoder(), kind)
    assert values.to_pylist() == [{"a": 1}, None, {"a": 2}]
    assert [problem is None for problem in problems.to_pylist()] == [True, False, True]


def test_batches_are_cut_by_bytes_and_stay_in_order() -> None:
    wanted = record(("n", "int"), ("pad", "bytes"))
    bodies: list[bytes | None] = [
        written(wanted, {"n": number, "pad": bytes(SLICE_BYTES // 3)}) for number in range(10)
    ]
    bodies[4:4] = [b"", None]
    values, problems = decoded(wanted, *bodies)
    assert [value and value["n"] for value in values] == [0, 1, 2, 3, None, None, 4, 5, 6, 7, 8, 9]
    assert [row for row, problem in enumerate(problems) if problem] == [4]


INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, width=32)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=5),
    "string": st.text(max_size=5),
}


@st.composite
def kinds(draw: st.DrawFn, depth: int, path: str) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type, and its values."""
    choices = [*SIMPLE, "enum", "date", "micros"] + ["array", "map", "union", "record"] * (depth > 0)
    kind = draw(st.sampled_from(choices))
    if kind in SIMPLE:
        return kind, SIMPLE[kind]
    if kind == "enum":
        return {"type": "enum", "name": f"E{path}", "symbols": ["A", "B"]}, st.sampled_from("AB")
    if kind == "date":
        return LOGICAL["date"], st.dates()
    if kind == "micros":
        return LOGICAL["micros"], st.datetimes(timezones=st.just(UTC))
    if kind == "record":
        return draw(records(depth - 1, path))
    inner, values = draw(kinds(depth - 1, path))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    return (inner, values) if isinstance(inner, list) else (["null", inner], st.none() | values)


@st.composite
def records(draw: st.DrawFn, depth: int = 2, path: str = "") -> tuple[Any, st.SearchStrategy[Any]]:
    fields = [(f"f{number}", *draw(kinds(depth, f"{path}_{number}"))) for number in range(draw(st.integers(1, 4)))]
    made = record(*((name, kind) for name, kind, _ in fields), name=f"R{path}")
    return made, st.fixed_dictionaries({name: values for name, _, values in fields})


@given(made=records(), data=st.data())
def test_what_was_written_is_read(made: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    wanted, values = made
    row = data.draw(values)
    assert decoded(wanted, written(wanted, row)) == ([row], [None])


@given(made=records(), data=st.data())
def test_any_bytes_are_a_value_or_a_problem(made: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    wanted, values = made
    body = bytearray(written(wanted, data.draw(values)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=10))
    (value,), (problem,) = decoded(wanted, bytes(body))
    assert (value is None) == (problem is not None)


@given(body=st.binary(max_size=40))
@example(body=written("long", 2**60))
def test_what_is_checked_fastavro_reads_as_far(body: bytes) -> None:
    """The check and fastavro agree on where a value ends: what is gone over is what is read."""
    wanted = record(
        ("a", {"type": "array", "items": ["null", "string", {"type": "map", "values": "int"}]}), ("b", "double")
    )
    made = parse_avro_schema(schema(wanted))
    try:
        checked_by(made)(body)
    except BrokenBody:
        return
    source = io.BytesIO(body)
    try:
        fastavro.schemaless_reader(source, made.root, None)
    except UnicodeDecodeError:
        return
    assert source.tell() == len(body)


def test_columns_are_asked_for_more_than_once() -> None:
    made = parse_avro_schema(schema(record(("a", "bytes", "x"))))
    assert column_type(made) == AvroFormat(schema(record(("a", "bytes", "x")))).column_type()
