"""Bodies with an id of a schema registry: what is asked and how often, what breaks a body, and what breaks a batch.

The registry is a stand-in (`tests/support/schema_registry.py`); bodies named official were written by Confluent's own
serializers (confluent-kafka 2.16) against it.
"""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from pyspark_ternmq.decoding.avro_schema import AvroSchema
from pyspark_ternmq.decoding.limits import BrokenBody, WrongSchema
from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema
from pyspark_ternmq.decoding.schema_registry.by_id import UNKNOWN_FOR_S, ById
from pyspark_ternmq.decoding.schema_registry.framing import message_indexes, schema_id
from pyspark_ternmq.decoding.schema_registry.registered_avro import RegisteredAvro
from pyspark_ternmq.decoding.schema_registry.registered_protobuf import RegisteredProtobuf
from pyspark_ternmq.decoding.schema_registry.registry import (
    ANSWER_BYTES_MAX,
    NoSuchSchema,
    RegistryAddress,
    RegistryClient,
    RegistryFailed,
)
from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject
from pyspark_ternmq.pipelines.lake.commits import LakeBroken
from pyspark_ternmq.pipelines.lake.subject_schema import settle_format
from tests.support.certificates import Certificates
from tests.support.schema_registry import SchemaRegistry, schema_registry
from tests.unit.spark.lake_folder import ROOT, MemoryFiles

OFFICIAL_AVRO = bytes.fromhex("000000000754020468690404e2")
OFFICIAL_FIRST_MESSAGE = bytes.fromhex("0000000009000803")
OFFICIAL_SECOND_MESSAGE = bytes.fromhex("00000000090202082a")
NESTED_MESSAGE = bytes.fromhex("00000000090402000a0161")
WRITTEN = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
READ = AvroSchema(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "namespace": "shop",
            "fields": [{"name": "id", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"}],
        }
    )
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        running.add(7, json.dumps(WRITTEN), subject="orders-value")
        yield running


def at(registry: SchemaRegistry, **more: Any) -> RegistryAddress:  # noqa: ANN401
    """Its address. The port is another one for each test, so that nothing of another one is kept."""
    return RegistryAddress(registry.url, **{"retry_s": 5.0, **more})


def avro(registry: SchemaRegistry, schema: AvroSchema = READ, **more: Any) -> Callable[[bytes], Any]:  # noqa: ANN401
    return RegisteredAvro(schema, at(registry, **more)).make_decoder()


def test_a_body_is_read_with_its_own_schema_which_is_asked_for_once(registry: SchemaRegistry) -> None:
    assert avro(registry)(OFFICIAL_AVRO) == {"id": 42, "currency": "EUR"}
    for _ in range(3):
        assert avro(registry)(OFFICIAL_AVRO)["id"] == 42
    assert registry.asked == {"/schemas/ids/7": 1}


def test_the_readers_own_schema_needs_no_resolution(registry: SchemaRegistry) -> None:
    assert avro(registry, AvroSchema(json.dumps(WRITTEN)))(OFFICIAL_AVRO)["note"] == "hi"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no schema id"),
        (b"\x00\x00\x00\x07", "no schema id"),
        (b'{"id": 1}', "no schema id"),
        (b"\x00\x00\x00\x00\x07", "ends too early"),
        (b"\x00\x00\x00\x00\x08", "the schema registry has no schema 8"),
        (b"\x00\xff\xff\xff\xff\x54", "the schema registry has no schema 4294967295"),
        (b"\x00\x00\x00\x00\x0a\x54", "schema 10: R.next: R contains itself|schema 10: .*R contains itself"),
        (b"\x00\x00\x00\x00\x0b\x54", "schema 11: it is of JSON, not of AVRO"),
        (b"\x00\x00\x00\x00\x0c\x54", "schema 12: no Avro schema"),
        (b"\x00\x00\x00\x00\x0d\x54", "SchemaResolutionError"),
        (b"\x00\x00\x00\x00\x0e\x54", "schema 14: it has more than 1,048,576 bytes"),
    ],
)
def test_broken_bodies_say_why(registry: SchemaRegistry, body: bytes, said: str) -> None:
    registry.add(10, '{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}')
    registry.add(11, "{}", kind="JSON")
    registry.add(12, '{"type": "nonsense"}')
    registry.add(13, '"long"')
    registry.add(14, json.dumps({"type": "string", "doc": "x" * ANSWER_BYTES_MAX}))
    for _ in range(2):
        with pytest.raises(BrokenBody, match=said):
            avro(registry)(body)
    assert max(registry.asked.values(), default=0) <= 1


def test_a_schema_may_refer_to_others(registry: SchemaRegistry) -> None:
    money = {
        "type": "record",
        "name": "Money",
        "fields": [{"name": "in", "type": "Currency"}, {"name": "n", "type": "int"}],
    }
    registry.add(1, '{"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]}', subject="currency/v")
    registry.add(2, json.dumps(money), subject="money", references=[reference("Currency", "currency/v")])
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": "Money"}, {"name": "in", "type": "Currency"}]
    order = {"type": "record", "name": "Order", "fields": fields}
    registry.add(3, json.dumps(order), references=[reference("Money", "money"), reference("Currency", "currency/v")])
    body = b"\x00\x00\x00\x00\x03" + b"\x02" + b"\x02\x0e" + b"\x00"
    assert avro(registry)(body) == {"id": 1, "currency": "EUR"}
    whole = AvroSchema(json.dumps(order), (registry.schemas[1]["schema"], registry.schemas[2]["schema"]))
    assert avro(registry, whole)(body) == {"id": 1, "price": {"in": "USD", "n": 7}, "in": "EUR"}
    assert registry.asked["/subjects/currency%2Fv/versions/1"] == 2


def reference(name: str, subject: str) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": 1}


def test_schemas_that_refer_to_each_other_are_no_schema(registry: SchemaRegistry) -> None:
    registry.add(1, '{"type": "record", "name": "A", "fields": []}', subject="a", references=[reference("B", "b")])
    registry.add(2, '{"type": "record", "name": "B", "fields": []}', subject="b", references=[reference("A", "a")])
    found = RegistryClient(at(registry)).schema(1)
    assert len(found.references) == 2


def test_protobuf_says_which_message_it_is(registry: SchemaRegistry) -> None:
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other").field.add(name="x", number=1, type=5, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.nested_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    registry.add(9, "syntax = ...", kind="PROTOBUF", serialized=file.SerializeToString())
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()

    def read(message: str, body: bytes) -> Any:  # noqa: ANN401
        return RegisteredProtobuf(ProtobufSchema(descriptors, f"shop.{message}"), at(registry)).make_decoder()(body)

    assert read("Order", OFFICIAL_SECOND_MESSAGE) == {"id": 42}
    assert read("Other", OFFICIAL_FIRST_MESSAGE) == {"x": 3}
    assert read("Order.Line", NESTED_MESSAGE) == {"sku": "a"}
    assert set(registry.asked) == {"/schemas/ids/9?format=serialized"}
    head = OFFICIAL_AVRO[:4]
    for body, said in {
        OFFICIAL_FIRST_MESSAGE: "it is a shop.Other, not a shop.Order",
        head + b"\x09\x02\x08": r"its schema has no message \[4\]",
        head + b"\x09\x02\x01": r"its schema has no message \[-1\]",
        head + b"\x09\xfe\xff\x7f": "message indexes",
        head + b"\x09": "ends too early",
        head + b"\x07\x00": "schema 7: it is of AVRO, not of PROTOBUF",
        head + b"\x63\x00": "the schema registry has no schema 99",
    }.items():
        with pytest.raises(BrokenBody, match=said):
            read("Order", body)


def test_a_registry_that_gives_no_descriptors_is_an_error(registry: SchemaRegistry) -> None:
    registry.answers.append((200, b'{"schemaType": "PROTOBUF", "schema": "syntax = \\"proto3\\";"}'))
    with pytest.raises(RegistryFailed, match="format=serialized"):
        RegistryClient(at(registry)).protobuf_file(9)


@given(body=st.binary(max_size=30) | st.binary(max_size=30).map(lambda rest: b"\x00\x00\x00\x00\x07" + rest))
def test_any_bytes_have_a_header_or_none(body: bytes) -> None:
    try:
        assert 0 <= schema_id(body) < 2**32
        indexes, start = message_indexes(body)
    except BrokenBody:
        return
    assert indexes
    assert 5 < start <= len(body)


def test_a_registry_that_is_away_for_a_moment_is_asked_again(registry: SchemaRegistry) -> None:
    registry.answers += [(503, b""), (429, b"{}"), (500, b'{"error_code": 50001, "message": "store"}')]
    assert avro(registry)(OFFICIAL_AVRO)["id"] == 42
    assert registry.asked == {"/schemas/ids/7": 4}


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (503, b"", "is away: it answers 503"),
        (404, b"<html>nothing here</html>", "answers 404"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', "answers 404 HTTP 404 Not Found"),
        (200, b"<html>please log in</html>", "answers 200"),
        (200, b"{}", "without its schema"),
        (200, b'{"schema": 7}', "without its schema"),
        (200, b'{"schema": "", "references": [7]}', "without its subject"),
        (200, b"[" * 100_000, "answers 200"),
        (302, b"", "answers 302"),
        (401, b'{"error_code": 401, "message": "Unauthorized"}', "answers 401 Unauthorized"),
    ],
)
def test_no_other_answer_makes_a_body_malformed(
    registry: SchemaRegistry, status: int, content: bytes, said: str
) -> None:
    registry.answers += [(status, content)] * 3
    decode = avro(registry, retry_s=0.2)
    with pytest.raises(RegistryFailed, match=said):
        decode(OFFICIAL_AVRO)
    registry.answers.clear()
    assert decode(OFFICIAL_AVRO)["id"] == 42


def test_a_registry_that_is_not_there_is_an_error_after_a_while() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(RegistryFailed, match="is away"):
            RegistryClient(RegistryAddress(url, retry_s=0.2)).schema(1)


def test_a_registry_that_does_not_answer_is_an_error_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryFailed, match="is away: timed out"):
            RegistryClient(RegistryAddress(url, timeout_s=0.1, retry_s=0.3)).schema(1)


def test_keys_are_sent_and_appear_nowhere(registry: SchemaRegistry) -> None:
    registry.keys = "who:hush"
    known = at(registry, user="who", password="hush")
    assert RegistryClient(known).schema(7).kind == "AVRO"
    assert "hush" not in repr(known)
    with pytest.raises(RegistryFailed, match="answers 401 Unauthorized"):
        RegistryClient(at(registry, user="who", password="wrong")).schema(7)


def test_tls_believes_the_authorities_that_were_named(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.issue("server"))
    with schema_registry(context) as registry:
        registry.add(7, json.dumps(WRITTEN))
        assert RegistryClient(at(registry, ca_pem=certificates.ca.read_text())).schema(7).id == 7
        with pytest.raises(RegistryFailed, match=r"certificate|issuer"):
            # At once: a wrong certificate does not become right.
            RegistryClient(at(registry, retry_s=3600)).schema(7)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"url": "registry:8081"}, "http://host:port"),
        ({"url": "ftp://registry"}, "http://host:port"),
        ({"url": "http://who:hush@registry"}, "don't belong into its address"),
        ({"url": "who:hush@registry"}, "not registry"),
        ({"url": "http://registry?x=1"}, "http://host:port"),
        ({"url": "https://registry", "user": "who"}, "go together"),
        ({"url": "http://registry", "user": "who", "password": "hush"}, "needs https"),
        ({"url": "http://registry", "ca_pem": "x"}, "https"),
    ],
)
def test_addresses_that_can_not_be_asked(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        RegistryAddress(**wanted)
    assert "hush" not in str(refused.value)


def test_an_unknown_id_is_asked_for_again_after_a_minute() -> None:
    asked, now_s = list[int](), [0.0]

    def make(number: int) -> str:
        asked.append(number)
        if len(asked) < 2:
            raise NoSuchSchema
        return "there"

    found = ById(make, now_s=lambda: now_s[0])
    for now_s[0] in (0.0, UNKNOWN_FOR_S - 1):
        with pytest.raises(BrokenBody):
            found.get(1)
    now_s[0] = UNKNOWN_FOR_S
    assert [found.get(1), found.get(1)] == ["there", "there"]
    assert asked == [1, 1]


def test_ids_are_kept_up_to_a_limit() -> None:
    asked = list[int]()

    def make(number: int) -> str:
        asked.append(number)
        return str(number)

    found = ById(make, schemas_max=3)
    for number in (1, 2, 3, 4, 4, 2, 1):
        found.get(number)
    assert asked == [1, 2, 3, 4, 1]


def test_a_lake_keeps_the_schema_that_a_subject_had_when_it_began(registry: SchemaRegistry) -> None:
    files, wanted = MemoryFiles(), AvroOfSubject("orders-value", at(registry))
    first = settle_format(files, ROOT, wanted)
    assert first == RegisteredAvro(AvroSchema(json.dumps(WRITTEN)), wanted.registry)
    registry.add(8, READ.text, subject="orders-value")
    assert settle_format(files, ROOT, wanted) == first
    assert registry.asked == {"/subjects/orders-value/versions/latest": 1}
    assert [path for path in files.content if path.startswith(f"{ROOT}/_schemas")] == [
        f"{ROOT}/_schemas/orders-value.json"
    ]
    assert settle_format(MemoryFiles(), ROOT, wanted) == RegisteredAvro(READ, wanted.registry)


def test_a_subject_that_can_be_no_columns_leaves_nothing_behind(registry: SchemaRegistry) -> None:
    registry.add(1, '"string"', subject="plain")
    registry.add(2, "{}", kind="JSON", subject="json")
    files = MemoryFiles()
    for subject, said in {"plain": "a record is needed", "json": "not of AVRO", "none/such": "has no subject"}.items():
        with pytest.raises(ValueError, match=said):
            settle_format(files, ROOT, AvroOfSubject(subject, at(registry)))
    assert files.content == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "text": "", "references": []}'])
def test_a_kept_schema_that_is_damaged_ends_the_run(registry: SchemaRegistry, text: str) -> None:
    files = MemoryFiles()
    files.create(f"{ROOT}/_schemas/orders-value.json", text)
    with pytest.raises(LakeBroken, match=r"damaged|later program"):
        settle_format(files, ROOT, AvroOfSubject("orders-value", at(registry)))


def test_too_many_references_are_no_schema(registry: SchemaRegistry) -> None:
    for number in range(1, 150):
        registry.add(number, '"int"', subject=f"s{number}", references=[reference("x", f"s{number + 1}")])
    with pytest.raises(WrongSchema, match="more than 100 others"):
        RegistryClient(at(registry)).schema(1)
