"""Bodies in Protobuf: which messages are columns, what comes out, and that no body does harm."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc_tools
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from pyspark_ternmq.decoding.columns import decoded_batch
from pyspark_ternmq.decoding.limits import VALUES_MAX, WrongSchema
from pyspark_ternmq.decoding.protobuf_body import ProtobufFormat
from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema, descriptor_of

ORDER = """
    import "google/protobuf/timestamp.proto";
    message Order {
      int64 id = 1;
      string name = 2;
      optional int32 n = 3;
      repeated Line lines = 4;
      map<string, Line> by = 5;
      Kind kind = 6;
      google.protobuf.Timestamp at = 7;
      oneof x { string a = 8; uint64 b = 9; }
      bytes raw = 10;
      repeated fixed32 small = 11;
      map<int32, Kind> kinds = 12;
      Line first = 13;
      repeated google.protobuf.Timestamp times = 14;
      double d = 15;
      float f = 16;
      bool yes = 17;
      message Line { string sku = 1; double price = 2; }
      enum Kind { NONE = 0; BIG = 1; }
    }
"""
EMPTY: dict[str, Any] = {
    "id": 0,
    "name": "",
    "n": None,
    "lines": [],
    "by": {},
    "kind": "NONE",
    "at": None,
    "a": None,
    "b": None,
    "raw": b"",
    "small": [],
    "kinds": {},
    "first": None,
    "times": [],
    "d": 0.0,
    "f": 0.0,
    "yes": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("protos")


@pytest.fixture(scope="module")
def order(folder: Path) -> ProtobufFormat:
    return ProtobufFormat(compiled(folder, ORDER, "Order"))


def compiled(folder: Path, text: str, message: str, *, syntax: str = "proto3") -> ProtobufSchema:
    """What protoc makes of messages in the package shop."""
    (folder / "x.proto").write_text(f'syntax = "{syntax}"; package shop; {text}')
    known = Path(grpc_tools.__file__).parent / "_proto"
    words = ["--include_imports", f"--descriptor_set_out={folder}/x.set"]
    assert protoc.main(["protoc", f"-I{folder}", f"-I{known}", *words, "x.proto"]) == 0
    return ProtobufSchema((folder / "x.set").read_bytes(), f"shop.{message}")


def made(wanted: ProtobufFormat, **values: Any) -> Message:  # noqa: ANN401
    message: Message = GetMessageClass(descriptor_of(wanted.schema))(**values)
    return message


def decoded(wanted: ProtobufFormat, *bodies: bytes | None) -> tuple[list[Any], list[str | None]]:
    kind = to_arrow_type(wanted.column_type(), timezone="UTC")
    values, problems = decoded_batch(pa.array(bodies, pa.binary()), wanted.make_decoder(), kind)
    return values.to_pylist(maps_as_pydicts="strict"), problems.to_pylist()


def test_types(order: ProtobufFormat) -> None:
    line = "struct<sku:string,price:double>"
    assert order.column_type().simpleString() == (
        f"struct<id:bigint,name:string,n:int,lines:array<{line}>,by:map<string,{line}>,kind:string,at:timestamp,"
        "a:string,b:decimal(20,0),raw:binary,small:array<bigint>,kinds:map<int,string>,"
        f"first:{line},times:array<timestamp>,d:double,f:float,yes:boolean>"
    )


def test_what_was_written_is_read(order: ProtobufFormat) -> None:
    line = {"sku": "s", "price": 1.5}
    at = datetime(2026, 8, 1, 7, tzinfo=UTC)
    message = made(
        order, id=-5, name="é", n=0, lines=[line], kind=1, at=at, b=2**64 - 1, raw=b"\xff", small=[2**32 - 1]
    )
    more = made(order, by={"k": line}, kinds={-1: 1, 2: 9}, first={}, times=[at], d=0.1, f=0.5, yes=True)
    assert decoded(order, message.SerializeToString(), more.SerializeToString(), b"", None) == (
        [
            EMPTY
            | {"id": -5, "name": "é", "n": 0, "lines": [line], "kind": "BIG", "at": at, "b": Decimal(2**64 - 1)}
            | {"raw": b"\xff", "small": [2**32 - 1]},
            EMPTY
            | {"by": {"k": line}, "kinds": {-1: "BIG", 2: "9"}, "first": {"sku": "", "price": 0.0}, "times": [at]}
            | {"d": 0.1, "f": 0.5, "yes": True},
            EMPTY,
            None,
        ],
        [None] * 4,
    )


def test_a_message_of_before_proto3(folder: Path) -> None:
    text = (
        "message Old { required int32 id = 1; optional string s = 2; repeated group G = 3 { optional int32 n = 4; } }"
    )
    wanted = ProtobufFormat(compiled(folder, text, "Old", syntax="proto2"))
    good = made(wanted, id=1, g=[{"n": 2}]).SerializeToString()
    values, problems = decoded(wanted, good, b"", b"\x08\x01\x12\x01\xff")
    assert "was not a utf8 string" in str(problems[2])
    assert (values, problems) == (
        [{"id": 1, "s": None, "g": [{"n": 2}]}, None, None],
        [None, "it lacks id", problems[2]],
    )


@pytest.mark.parametrize(
    ("text", "message", "said"),
    [
        ("message A { int32 x = 1; }", "B", "no message shop.B; it has shop.A"),
        ("message A { A next = 1; }", "A", "shop.A.next: shop.A contains itself"),
        (
            "message A { map<string, B> m = 1; } message B { repeated A back = 1; }",
            "A",
            "m.back: shop.A contains itself",
        ),
        ('import "google/protobuf/struct.proto"; message A { google.protobuf.Struct s = 1; }', "A", "contains itself"),
        ("message A { B b = 1; } message B {}", "A", "shop.A.b: shop.B has no fields"),
        ("message A { int32 x = 1; int32 X = 2; }", "A", "shop.A.X: to Spark it is the same name as x"),
    ],
)
def test_messages_that_can_be_no_columns_are_refused(folder: Path, text: str, message: str, said: str) -> None:
    with pytest.raises(WrongSchema, match=said):
        ProtobufFormat(compiled(folder, text, message)).column_type()


def test_messages_that_use_each_other_again_and_again_are_refused(folder: Path) -> None:
    text = " ".join(
        f"message M{level} {{ {' '.join(f'M{level - 1} f{n} = {n + 1};' for n in range(9))} }}" for level in range(1, 9)
    )
    with pytest.raises(WrongSchema, match="more than 5,000 fields"):
        ProtobufFormat(compiled(folder, "message M0 { int32 x = 1; } " + text, "M8")).column_type()


def test_what_is_no_descriptor_set_is_refused(folder: Path) -> None:
    whole = compiled(folder, ORDER, "Order")
    parts = FileDescriptorSet.FromString(whole.descriptor_set)
    del parts.file[0]  # as without --include_imports
    for content in (b"\xff", parts.SerializeToString(), bytes(1024 * 1024 + 1)):
        with pytest.raises(WrongSchema, match=r"descriptor set has more|no FileDescriptorSet"):
            ProtobufFormat(ProtobufSchema(content, "shop.Order")).column_type()


def test_files_of_a_set_may_stand_in_any_order(folder: Path) -> None:
    whole = compiled(folder, ORDER, "Order")
    parts = FileDescriptorSet.FromString(whole.descriptor_set)
    turned = FileDescriptorSet(file=list(reversed(parts.file))).SerializeToString()
    assert ProtobufFormat(ProtobufSchema(turned, "shop.Order")).column_type() == ProtobufFormat(whole).column_type()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff", "it is no shop.Order"),
        (b"\x12\x01\xff", "it is no shop.Order"),
        (b"\x3a\x0b\x10" + b"\xff" * 9 + b"\x01", "0 s and -1 ns is none"),
        (b"\x3a\x08\x08\x80\x80\x80\x80\x80\x80\x10", "a timestamp of"),
        (b"\x22\x00" * (VALUES_MAX // 2 + 1), "more than 1,000,000 values"),
        (b"\x5a\x84\x92\xf4\x01" + bytes(4_000_004), "more than 1,000,000 values"),
    ],
)
def test_broken_bodies_say_why(order: ProtobufFormat, body: bytes, said: str) -> None:
    values, (problem,) = decoded(order, body)
    assert values == [None]
    assert said in str(problem)


def test_times_before_1970_are_times(order: ProtobufFormat) -> None:
    (value,), _ = decoded(order, b"\x3a\x0b\x08" + b"\xff" * 9 + b"\x01")
    assert value["at"] == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)


@given(body=st.binary(max_size=60))
@example(body=b"\x0b" * 1000)  # groups in groups
def test_any_bytes_are_a_value_or_a_problem(order: ProtobufFormat, body: bytes) -> None:
    (value,), (problem,) = decoded(order, body)
    assert (value is None) == (problem is not None)


@given(
    body=st.builds(
        b"".join,
        st.lists(
            st.sampled_from([bytes([n << 3 | wire]) for n in range(1, 18) for wire in range(6)]) | st.binary(max_size=4)
        ),
    )
)
def test_fields_of_any_kind_are_a_value_or_a_problem(order: ProtobufFormat, body: bytes) -> None:
    (value,), (problem,) = decoded(order, body)
    assert (value is None) == (problem is not None)


def test_protobuf_needs_no_library_of_avro() -> None:
    program = "import sys; sys.modules['fastavro'] = None; import "
    protobuf = "pyspark_ternmq.decoding.schema_registry.registered_protobuf, "
    lake = "pyspark_ternmq.pipelines.lake, pyspark_ternmq.decoding.columns"
    subprocess.run([sys.executable, "-c", program + protobuf + lake], check=True, timeout=100)
